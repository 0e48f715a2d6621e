// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace run`, `demo`, `gen` and `reflect` as users run them: the real program on DPDK
//! ports, with real packets and signals. Outputs are compared with the packets sent and with the
//! kernel's counters.
//!
//! Tests take turns, because a worker uses a whole cpu. The processes and namespaces that a test
//! starts end with it, also if it fails. A test that lacks something (root, a tool, a second cpu)
//! prints what is missing on standard error, and does nothing.

mod access;
mod access_log;
mod acl_change;
mod acl_explain;
mod af_xdp;
mod associations;
mod astf;
mod backends;
mod bench_conntrack;
mod bench_search;
mod bump;
mod bypass;
mod bypass_kernel;
mod captures;
mod compat;
mod conntrack;
mod conntrack_list;
mod control;
mod ct;
mod cycles;
mod datagrams;
mod demo;
mod endings;
mod equivalence;
mod fragments;
mod generator;
mod generator_daemon;
mod handover;
mod hostile;
mod hugepages;
mod instance;
mod interfaces;
mod kernel;
mod lan;
mod links;
mod list_drop;
mod list_offload;
mod members;
mod memif;
mod memory;
mod metrics;
mod offload;
mod on_time;
mod outputs;
mod ovs;
mod pairs;
mod peer;
mod pressure;
mod privileges;
mod probe;
mod recall;
mod records;
mod refusals;
mod rejects;
mod reload;
mod reorder;
mod replays;
mod resets;
mod secret;
mod sessions;
mod snapshot;
mod start_up;
mod stateful;
mod summary;
mod testpmd_rules;
mod twin;
mod twin_async;
mod twin_sources;
mod twin_switch;

use testkit::scratch::Scratch;

/// Returns a size from the environment, or `usual`. `make prove-...` sets large ones.
fn scaled(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// True if tests run all their cases, for `make prove-cases`. Otherwise they run some, to be short.
fn runs_all_cases() -> bool {
    std::env::var_os("MILLRACE_ALL_CASES").is_some()
}

/// True if this test is to run now. The long ones whose parts other tests have too run only in
/// `make prove-cases`.
fn is_run_now() -> bool {
    if !runs_all_cases() {
        testkit::host::skip("only `make prove-cases` runs it");
    }
    runs_all_cases()
}

/// Makes a directory that is removed when the test ends.
fn new_scratch(test: &str) -> Scratch {
    Scratch::new(env!("CARGO_TARGET_TMPDIR"), &format!("live-{test}"))
}
