// SPDX-License-Identifier: BSD-3-Clause
//! Tests the frames of this crate with an independent parser.

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
