// SPDX-License-Identifier: BSD-3-Clause
//! All tests of the engine's public interface but one in one program: each program has a copy of
//! the packet path of its own to compile. `alloc_free` has its own allocator, so it stays apart.

mod access;
mod access_explain;
mod access_invalid;
mod access_log;
mod access_offload;
mod access_preview;
mod access_stories;
mod access_workers;

mod attacks;
mod ethernet;
mod fixtures;
mod floods;
mod layers;
mod listing;
mod marks;
mod model;
mod network;
mod snapshot;
mod zone_rules;
mod zones;

use testkit::sized;
