// SPDX-License-Identifier: BSD-3-Clause
//! Owns access lists: their rules, the text form of a rule, and the search for the rule that
//! decides about a packet.
//!
//! A list is an ordered sequence of rules and a default. The first rule that matches a packet
//! decides, as in VPP, Open vSwitch and nftables. [`AccessList::decide`] compares a packet with one
//! rule after the other: it is the definition. [`Search`] finds the same rule in a few steps,
//! however many rules there are.
//!
//! There is no I/O, no clock and no packet here: the caller fills in a [`Packet`] from its headers.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod compare;
mod criteria;
mod diff;
mod ethernet;
mod linear;
mod packet;
mod ranges;
mod rule;
mod search;
mod stateless;
mod text;

pub use compare::{Overlap, Overlaps, find_overlaps};
pub use criteria::{AddressSet, Addresses, Criteria, Family, MaskedValue};
pub use diff::ListDiff;
pub use ethernet::{EthernetCriteria, EthernetList, EthernetRule, EthernetSearch, Frame};
pub use ipnet::IpNet;
pub use linear::Decision;
pub use packet::{CtStates, Fragment, Packet};
pub use ranges::Ranges;
pub use rule::{AccessList, Action, Rule, RuleOptions};
pub use search::{Found, Search, SearchError, SearchSize};
pub use stateless::{NotDropped, NotStateless, StatelessRule, stateless_rules};
pub use text::{
    RuleError, parse_addresses, parse_ethernet_action, parse_ethernet_rule, parse_field,
    parse_rule, rule_lines,
};
