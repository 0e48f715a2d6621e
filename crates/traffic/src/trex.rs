// SPDX-License-Identifier: BSD-3-Clause
//! Traffic of TRex "cap" profiles: YAML that replays captures as flows, from pools of addresses.
//!
//! [`Profile::parse`] reads a profile, [`Profile::built_in`] has some. [`Profile::bind`] joins it
//! with captures, which the caller reads. [`Traffic::load`] says how much traffic that is, and
//! [`Traffic::replay`] makes it, frame by frame in the order of time.
//!
//! [`Config`] is the file of ports, cpus and MAC addresses that TRex calls `trex_cfg.yaml`.
//!
//! Times and tuples are functions of a flow's number. So a replay does not drift, and its parts
//! on several threads send what one thread would.

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
