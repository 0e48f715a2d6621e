// SPDX-License-Identifier: BSD-3-Clause
//! Sends the frames of a [`traffic::Source`] on ports, receives and verifies frames, and reflects
//! them.
//!
//! A [`Sender`], a [`Receiver`] and a [`Reflector`] are tasks that workers run in turn, each task
//! with its own queues and counters. They take no lock and allocate nothing while they run. They
//! hand reports to the control thread, where a [`Ledger`] adds up those of senders and receivers. A
//! [`Session`] makes the senders and receivers of a run. Senders and receivers use their queues
//! through the traits [`Transmit`] and [`Receive`], which [`PortTx`] and [`PortRx`] implement for
//! DPDK ports.
#![forbid(unsafe_code)]

mod bad_link;
mod clock;
mod connections;
mod cycles;
mod hand_off;
mod impair;
mod interval;
mod lane;
mod ledger;
mod link;
mod lottery;
mod many_queues;
mod mirror;
mod neighbours;
mod port;
mod port_clock;
mod receiver;
mod recent;
mod reflector;
mod reflector_client;
mod reports;
mod sender;
mod session;
mod span;
mod task;

pub use bad_link::{BadLink, BadLinkCounters, BadRx, BadTx};
pub use clock::Clock;
pub use connections::{Connections, ConnectionsCommand, ConnectionsReport, commands};
pub use cycles::{Laps, Work, WorkerCycles};
pub use hand_off::{HandOff, hand_offs};
pub use impair::{Impaired, Impairer};
pub use interval::Interval;
pub use lane::LaneReport;
pub use ledger::{Ledger, QueueTotals, SenderTotals, StreamTotals, Totals};
pub use link::{Receive, TakenFrames, Transmit, WaitingFrame};
pub use lottery::Impairments;
pub use many_queues::{RxQueues, TxQueues};
pub use mirror::{Tap, TapFeed, Tapped, tap};
pub use neighbours::{NO_STREAM, Replies, Responder, resolve};
pub use port::{BurstSizes, PortRx, PortTx};
pub use port_clock::{PortReading, SendTimes};
pub use receiver::{Checks, ForeignFrameHandler, PortQueue, QueueReport, Receiver, ReceiverReport};
pub use recent::RecentIntervals;
pub use reflector::{
    Addresses, PublishedCounters, Reflection, Reflector, ReflectorQueue, ReflectorReport,
};
pub use reflector_client::{Answers, ReflectorClient};
pub use reports::{Inbox, Outbox, Report, mailbox};
pub use sender::{Sender, SenderReport};
pub use session::{Lanes, Session};
pub use span::Span;
pub use task::{Phase, Stage, Task, run_tasks};
