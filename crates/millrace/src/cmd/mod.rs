// SPDX-License-Identifier: BSD-3-Clause
//! Owns the subcommands: one file each, with its arguments and its function `run`.

pub(crate) mod acl;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod ct;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod dpdk_project;
pub(crate) mod flows;
pub(crate) mod generate;
mod in_process_tester;
mod list_preview;
pub(crate) mod man;
pub(crate) mod nic;
pub(crate) mod offload;
mod origin;
mod problems;
mod query_args;
pub(crate) mod reflect;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod stats;
