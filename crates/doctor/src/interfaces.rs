// SPDX-License-Identifier: BSD-3-Clause
//! Judges Linux interfaces: MTU and GRO of those that can be ports.

use super::{Finding, Status};
use crate::host::{Host, Interface};

/// Interfaces with a finding of their own; hosts of containers have hundreds.
const SHOWN: usize = 8;
/// Largest MTU with which Millrace reads an interface by `net_tap`.
const TAP_MTU: u64 = 1500;

pub(super) fn diagnose(host: &Host) -> Vec<Finding> {
    let mut all: Vec<_> = host.interfaces.iter().flatten().collect();
    // Those that can be ports first, and devices before veth and the like.
    all.sort_by_key(|it| (it.usage().is_some(), !it.is_device));
    let mut findings: Vec<_> = all.iter().take(SHOWN).map(|it| diagnose_one(it)).collect();
    if all.len() > SHOWN {
        let found = format!("{} more are not listed", all.len() - SHOWN);
        findings.push(Finding::new("interfaces", Status::Ok, found));
    }
    findings
}

fn diagnose_one(interface: &Interface) -> Finding {
    let topic = format!("interface {}", interface.name);
    let mtu = interface.mtu.map_or_else(|| "of unknown length".to_owned(), |mtu| mtu.to_string());
    let gro = match interface.gro {
        Some(true) => ", GRO on",
        Some(false) => ", GRO off",
        None => "",
    };
    let found = format!("MTU {mtu}{gro}");
    if let Some(usage) = interface.usage() {
        return Finding::new(&topic, Status::Ok, format!("{found}; {usage}"));
    }
    let found = format!("{found}; this host does not use it");
    if interface.mtu.is_some_and(|mtu| mtu > TAP_MTU) {
        return Finding::new(&topic, Status::Note, found).advise(format!(
            "above MTU {TAP_MTU} the driver is net_af_packet; ports of a pair need the same MTU"
        ));
    }
    Finding::new(&topic, Status::Ok, found)
}
