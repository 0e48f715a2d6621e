// SPDX-License-Identifier: BSD-3-Clause
//! Ends of TCP connections and UDP exchanges for the generator: clients that open connections by a
//! profile, and servers that answer them. Both follow a program of messages and delays.
#![forbid(unsafe_code)]

mod addresses;
mod context;
mod counters;
mod endpoint;
mod ends;
mod frame;
mod icmp_error;
mod pace;
mod packet;
mod profile;
mod program;
mod recorded;
mod script;
mod sharing;
mod stack;
mod table;
mod tcp;
mod tuples;
mod udp;
mod wheel;

pub use counters::{Counter, Counters, Latencies};
pub use frame::Output;
pub use profile::{
    AddressRange, Profile, ProfileError, ROUNDS_MAX, Target, Template, Timeouts, Transport,
};
pub use program::{Action, ProgramError};
pub use recorded::Pauses;
pub use sharing::Sharing;
pub use stack::{BURST_MAX, Note, Role, Stack, StackConfig};
pub use table::CAPACITY_MAX;
