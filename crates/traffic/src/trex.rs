// SPDX-License-Identifier: BSD-3-Clause
//! Makes the traffic of TRex "cap" profiles: YAML files that replay captures as flows, with
//! addresses from pools. A flow is TRex's word for a connection.
//!
//! 1. [`Profile::parse`] reads a profile; [`Profile::built_in`] returns one of ours.
//! 2. [`Profile::bind`] joins it with captures, which the caller reads.
//! 3. [`Traffic::load`] computes the packets and bits per second.
//! 4. [`Traffic::replay`] makes the frames, in the order of their times.
//!
//! [`Config`] is the file of ports, cpus and MAC addresses that TRex calls `trex_cfg.yaml`.
//!
//! Times and tuples are functions of a flow's number. So a replay does not drift, and its parts on
//! several threads send together what one thread would send.

mod built_in;
mod capture;
mod config;
mod decimal;
mod error;
mod fields;
mod frame;
mod keys;
mod load;
mod pace;
mod packet;
mod pool;
mod profile;
mod replay;
mod script;
mod traffic;
mod yaml;

pub use capture::{Capture, CapturedFrame};
pub use config::{Config, DualIf, Interface, Platform, PortInfo, Thread};
pub use decimal::{Decimal, DecimalError};
pub use error::{CaptureProblem, MissingCapture, Note, Place, ProfileError};
pub use frame::MAX_FRAME;
pub use load::{Load, PortLoad, WIRE_OVERHEAD, wire_bits};
pub use pace::MULTIPLIER_MAX;
pub use profile::Profile;
pub use replay::{MAX_ACTIVE_FLOWS, Options, Replay, ReplayError, Split};
pub use traffic::{Missing, Traffic};

#[cfg(test)]
mod tests;
