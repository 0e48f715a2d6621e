// SPDX-License-Identifier: BSD-3-Clause
//! Gives safe Rust access to DPDK. No other Rust of the project names `rte_*`.
//!
//! [`Eal`] starts the runtime, once per process and until its end. [`Port`]s are opened by devargs
//! and return [`RxQueue`]s and [`TxQueue`]s. A queue has one owner; its port stays open as long as
//! any queue lives. [`Burst`]s own their [`Mbuf`]s. Memory from DPDK ([`Mempool`]s) is allocated at
//! start and never freed, so no mbuf can outlive it.
//!
//! No code here calls C per packet. Bursts are received, sent and freed in bulk; fields of mbufs
//! are read at offsets from the installed header.

mod burst;
mod cable;
mod cause;
mod clock;
mod eal;
mod error;
mod ethdev;
pub mod flow;
mod lcore;
mod length_errors;
pub mod linux;
mod log;
mod mbuf;
mod memif;
mod mempool;
mod parameters;
mod port;
mod probe;
mod queue;
mod return_request;
mod rss;
mod send_time;
mod spread;
mod stock;
mod sys;
mod vmbus;

pub use burst::{BURST_MAX, Burst};
pub use cable::ring_cable;
pub use clock::{tsc, tsc_after_loads, tsc_hz, tsc_reading_cycles};
pub use eal::{Eal, EalConfig, asks_for_help, version};
pub use error::{EalError, Errno, MempoolError, PortError, Step};
pub use lcore::{Job, Lcore};
pub use log::{Log, LogLevel};
pub use mbuf::{FrameTooLong, Mbuf};
pub use mempool::Mempool;
pub use port::{Link, LossCounter, Losses, Port, PortConfig, PortInfo, PortStats, Queues, Resets};
pub use queue::{RxQueue, TxQueue};
pub use rss::{RSS_SECRET_LEN, SymmetricRss, rss_secret, use_rss_secret};
pub use send_time::SendTime;
pub use spread::PortSpread;
pub use stock::Stock;
pub use vmbus::is_vmbus;
