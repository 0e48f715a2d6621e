// SPDX-License-Identifier: BSD-3-Clause
//! Tests commands as a user runs them: their output, their files and their exit status. Those that
//! forward packets have the live tests.

mod access_lists;
mod bench_conntrack;
mod bench_cps;
mod bench_rfc9693;
mod check;
mod doctor;
mod generator_outputs;
mod loopback;
mod nic;
mod words;
