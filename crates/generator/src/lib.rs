// SPDX-License-Identifier: BSD-3-Clause
//! Traffic on ports: sends what a [`traffic::Source`] makes, receives and verifies it, reflects it.
//!
//! A [`Sender`], a [`Receiver`] and a [`Reflector`] are tasks that workers run in turn, each task
//! with its own queues and counters. They take no lock and allocate nothing while they run. Every
//! interval they hand a report to the control thread, where a [`Ledger`] adds the reports up.
#![forbid(unsafe_code)]

mod clock;
mod impair;
mod ledger;
mod receiver;
mod reflector;
mod reports;
mod sender;
mod task;

pub use clock::Clock;
pub use impair::{Impaired, Impairer, Impairments};
pub use ledger::{Interval, Ledger, StreamTotals, Totals};
pub use receiver::{LaneReport, Receiver, ReceiverReport};
pub use reflector::{Reflection, Reflector, ReflectorReport};
pub use reports::{Inbox, Outbox, Report, mailbox};
pub use sender::{Sender, SenderReport};
pub use task::{Phase, Stage, Task, run_tasks};
