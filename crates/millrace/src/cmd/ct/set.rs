// SPDX-License-Identifier: BSD-3-Clause
//! `millrace ct set`: writes to the marks and labels of connections.

use super::which::{FilterArgs, bits};
use super::{count_matches, print};
use anyhow::Context;
use control::{Bits, InstanceArgs, Request, RequestKind};
use serde_json::json;

/// Write the marks or labels of matching connections
///
/// A mark has 32 bits, a label 128. Both are 0 when a connection begins, and Millrace does not
/// interpret them. With /MASK only those bits are written. Labels need `labels = true` in [table]
/// of the configuration.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(super) struct SetArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Value to write to the marks
    #[arg(long, value_name = "BITS[/MASK]", group = "what", value_parser = bits::<32>)]
    to_mark: Option<Bits<32>>,
    /// Value to write to the labels
    #[arg(long, value_name = "BITS[/MASK]", group = "what", value_parser = bits::<128>)]
    to_label: Option<Bits<128>>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Write to every connection
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace ct set --to-mark 7 --src 10.0.0.0/8
      Set mark 7 on connections whose originator is one of these hosts.
  millrace ct set --to-mark 0x100/0xff00 --mark 7 --dport 443
      Write 8 bits of the marks of connections with mark 7 to this port.
  millrace ct set --to-label 0/0 --all
      Write nothing, only print the number of connections.

Exit status: 0 good; 1 no instance answers, or its connections have no labels; 2 wrong use.";

pub(super) fn set(args: &SetArgs) -> anyhow::Result<()> {
    let request = args.filter.request(RequestKind::Set);
    let (set_mark, set_label) = (args.to_mark, args.to_label);
    let request = Request { all: args.all, set_mark, set_label, ..request };
    args.filter.require_filter_or_all(args.all);
    let words = "interrupted: the instance still completes it";
    let set = count_matches(&args.instance, &request, &mut |_| Ok(()))?.context(words)?;
    print(args.json, &format!("set: {set}"), &json!({ "set": set }))
}
