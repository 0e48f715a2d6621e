// SPDX-License-Identifier: BSD-3-Clause
//! Every frame of this crate, read by an independent parser.

mod alike;
mod article;
mod neighbour;
mod payloads;
mod reflect;
mod scenario;
mod seen;
mod streams;
mod tunnels;
mod workload;
