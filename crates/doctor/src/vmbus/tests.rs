// SPDX-License-Identifier: BSD-3-Clause
//! Hosts of Azure, as their sysfs is documented. No such host was at hand.

use super::*;
use crate::fix_script;
use crate::tests::{Machine, PMDS};

const PORT: &str = "000d3a7c-dfac-000d-3a7c-dfac000d3a7c";
const UPLINK: &str = "000d3a11-2233-000d-3a11-2233000d3a11";
const CLASS: &str = "{f8615163-df3e-46c5-913f-f2d2f965ed0e}\n";

/// Adds a netvsc device with an interface.
fn netvsc(machine: Machine, uuid: &str, interface: &str, mac: &str) -> Machine {
    let device = format!("sys/bus/vmbus/devices/{uuid}");
    machine
        .with(&format!("{device}/class_id"), CLASS)
        .with(&format!("{device}/net/{interface}/mtu"), "1500\n")
        .linked(&format!("{device}/driver"), "../../drivers/hv_netvsc")
        .with(&format!("sys/class/net/{interface}/address"), mac)
        .with(&format!("sys/class/net/{interface}/mtu"), "1500\n")
}

fn azure(name: &str) -> Machine {
    let other = "sys/bus/vmbus/devices/f8b3781b-1e82-4818-a1c3-63d806ec15bb/class_id";
    let machine = Machine::plain(name)
        .with(other, "{ba6163d9-04a1-4d29-b605-72e2ffb1dc7f}\n")
        .with(&format!("{PMDS}/librte_net_netvsc.so.23"), "")
        .with("proc/net/route", "Iface\tDestination\neth0\t00000000\t0100A8C0\n");
    netvsc(machine, UPLINK, "eth0", "00:0d:3a:11:22:33\n")
}

/// Adds a second NIC with a VF.
fn with_vf(name: &str) -> Machine {
    netvsc(azure(name), PORT, "eth1", "00:0d:3a:7c:df:ac\n")
        .nic("0002:00:02.0", "enP2s2", "mlx5_core")
        .with("sys/class/net/enP2s2/address", "00:0d:3a:7c:df:ac\n")
        .with("sys/class/net/enP2s2/mtu", "1500\n")
        .linked("sys/class/net/enP2s2/master", "../eth1")
}

#[test]
fn two_devices_with_one_mac_are_one_nic() {
    let machine = with_vf("azure-vf");
    let (status, found) = machine.finding(&format!("nic {PORT}"));
    assert_eq!(status, Status::Note);
    assert_eq!(
        found,
        "netvsc on hv_netvsc, eth1, 00:0d:3a:7c:df:ac; one NIC with its VF 0002:00:02.0 (enP2s2, \
         mlx5_core); idle"
    );
    let vf = machine.finding("nic 0002:00:02.0");
    assert_eq!(vf.0, Status::Ok);
    assert!(vf.1.ends_with(&format!("the VF of nic {PORT}: both are one NIC")), "{}", vf.1);
    let findings = machine.findings();
    let advice = |topic: &str| {
        let finding = findings.iter().find(|finding| finding.topic == topic).unwrap();
        finding.advice.clone().unwrap_or_default()
    };
    let command = format!("driverctl -b vmbus set-override {PORT} uio_hv_generic");
    assert!(advice(&format!("nic {PORT}")).contains(&command));
    assert!(advice("vmbus drivers").starts_with("the port will not come up: its VF needs mlx5"));
    let missing = machine.finding("vmbus drivers");
    assert_eq!(missing, (Status::Warn, "missing: librte_net_mlx5, libibverbs.so.1".to_owned()));
    let machine = machine
        .with(&format!("{PMDS}/librte_net_mlx5.so.23"), "")
        .with("usr/lib/x86_64-linux-gnu/libibverbs.so.1", "");
    assert_eq!(machine.finding("vmbus drivers").0, Status::Ok);
    let script = fix_script(&Host::read(&machine.0));
    assert!(script.contains(&format!("VMBUS_PORTS=${{VMBUS_PORTS-{PORT}}}\n")), "{script}");
}

#[test]
fn a_nic_without_a_vf_is_slow() {
    let machine = netvsc(azure("azure-alone"), PORT, "eth1", "00:0d:3a:7c:df:ac\n");
    let (status, found) = machine.finding(&format!("nic {PORT}"));
    assert!(status == Status::Note && found.ends_with("without a VF; idle"), "{found}");
    let missing = machine.finding("vmbus drivers");
    let expected = "missing: librte_net_mlx5 or librte_net_mana, libibverbs.so.1";
    assert_eq!(missing, (Status::Warn, expected.to_owned()));
}

#[test]
fn a_nic_in_use_is_never_taken() {
    let machine = azure("azure-used");
    let (status, found) = machine.finding(&format!("nic {UPLINK}"));
    assert!(status == Status::Note && found.ends_with("carries the default route"), "{found}");
    let script = fix_script(&Host::read(&machine.0));
    assert!(script.contains("VMBUS_PORTS=${VMBUS_PORTS-}\n"), "{script}");
    // Once user space has a device, its interface is gone.
    let device = format!("sys/bus/vmbus/devices/{PORT}");
    let machine = machine
        .with(&format!("{device}/class_id"), CLASS)
        .linked(&format!("{device}/driver"), "../../drivers/uio_hv_generic");
    let (status, found) = machine.finding(&format!("nic {PORT}"));
    let ready = format!("netvsc on uio_hv_generic; ready as port {PORT}");
    assert_eq!((status, found), (Status::Ok, ready));
}
