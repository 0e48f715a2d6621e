// SPDX-License-Identifier: BSD-3-Clause
//! Makes two hosts with a bump between them, each in a network namespace of its own. A namespace
//! and its interfaces exist as long as the process that holds it.

use crate::bump::{Bump, Setup};
use serde_json::Value;
use std::time::Duration;
use testkit::host::skip;
use testkit::namespace::Namespace;
use testkit::process::wait_until;

/// Packets and frame bytes, without FCS, that the kernel has counted at an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) sent: (u64, u64),
    pub(crate) received: (u64, u64),
}

/// A host at one end of the bump.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    /// The host's interface to the bump.
    pub(crate) interface: &'static str,
    pub(crate) v4: &'static str,
    pub(crate) v6: &'static str,
}

/// Host A, the bump, and host B.
pub(crate) struct Lan {
    pub(crate) a: Host,
    pub(crate) bump: Namespace,
    pub(crate) b: Host,
}

/// Interfaces of the veth pairs in the namespace of the bump.
pub(crate) const ENDS: [&str; 2] = ["end-a", "end-b"];

impl Lan {
    /// Makes the three namespaces, without veth pairs.
    pub(crate) fn new() -> Option<Self> {
        let host = |interface, v4, v6| {
            let namespace = Namespace::new()?;
            Some(Host { namespace, interface, v4, v6 })
        };
        Some(Self {
            a: host("host-a", "10.9.0.1", "2001:db8:a::1")?,
            bump: Namespace::new()?,
            b: host("host-b", "10.9.0.2", "2001:db8:a::2")?,
        })
    }

    /// Makes a veth pair from each host to the bump; both ends are down. Offloads are off, so
    /// packets have checksums and are no longer than the MTU, as on a wire. `None` if no veth can
    /// be made.
    pub(crate) fn with_cables() -> Option<Self> {
        let lan = Self::with_plain_cables()?;
        for (host, end) in [&lan.a, &lan.b].into_iter().zip(ENDS) {
            for (namespace, interface) in [(&host.namespace, host.interface), (&lan.bump, end)] {
                let off = "tx off tso off gso off gro off txvlan off";
                namespace.run(&format!("ethtool -K {interface} {off}"));
            }
        }
        Some(lan)
    }

    /// Makes veth pairs as [`Lan::with_cables`] does, but leaves the kernel's default offloads on.
    pub(crate) fn with_plain_cables() -> Option<Self> {
        let lan = Self::new()?;
        for (host, end) in [&lan.a, &lan.b].into_iter().zip(ENDS) {
            let Host { namespace, interface, .. } = host;
            let peer = format!("peer name {end} netns {}", lan.bump.holder());
            if !namespace.succeeds(&format!("ip link add dev {interface} type veth {peer}")) {
                skip("no veth interface can be made here");
                return None;
            }
            for (namespace, interface) in [(namespace, *interface), (&lan.bump, end)] {
                namespace.run(&format!("ip link set dev {interface} addrgenmode none"));
            }
        }
        Some(lan)
    }

    /// Returns the devargs of the bump's ports on the veth pairs.
    pub(crate) fn ports() -> [String; 2] {
        [0, 1].map(|end| format!("net_af_packet{end},iface={}", ENDS[end]))
    }

    /// Starts a bump between the hosts, sets all interfaces up, and assigns addresses. Returns the
    /// bump and its control socket.
    pub(crate) fn start_bump(&self, setup: Setup) -> (Bump, String) {
        let ([a, b], socket) = (Self::ports(), setup.path("control.sock"));
        self.set_up();
        let setup = setup.launcher(self.bump.command("env")).args(&["--socket", &socket]);
        let bump = setup.pair(&a, &b).start();
        self.assign_addresses();
        (bump, socket)
    }

    /// Moves the interfaces of two tap ports from the bump to the hosts.
    pub(crate) fn hand_out_taps(&self) {
        for Host { namespace, interface, .. } in [&self.a, &self.b] {
            let holder = namespace.holder();
            self.bump.run(&format!("ip link set dev {interface} netns {holder}"));
            namespace.run(&format!("ip link set dev {interface} addrgenmode none"));
        }
    }

    /// Sets all interfaces up. Without addresses, the kernels send nothing yet.
    pub(crate) fn set_up(&self) {
        for end in ENDS {
            if self.bump.succeeds(&format!("ip link show dev {end}")) {
                self.bump.run(&format!("ip link set dev {end} up"));
            }
        }
        for Host { namespace, interface, .. } in [&self.a, &self.b] {
            namespace.run(&format!("ip link set dev {interface} up"));
            let link = format!("ip link show dev {interface}");
            wait_until("a carrier", || namespace.run(&link).contains("LOWER_UP"));
        }
    }

    /// Assigns the hosts' addresses. The first one is link-local, the source of multicast reports.
    pub(crate) fn assign_addresses(&self) {
        for (host, local) in [(&self.a, "fe80::1"), (&self.b, "fe80::2")] {
            for address in [local, host.v4, host.v6] {
                host.assign(host.interface, address);
            }
        }
    }

    /// Adds each host to the other's neighbour table, so that they send no ARP requests.
    pub(crate) fn introduce(&self) {
        for (host, other) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let mac = other.mac();
            for address in [other.v4, other.v6] {
                host.namespace.run(&format!(
                    "ip neigh replace {address} lladdr {mac} dev {} nud permanent",
                    host.interface
                ));
            }
        }
    }

    /// Waits until both hosts are silent and `is_complete` holds. Returns their counters.
    pub(crate) fn settle(&self, is_complete: impl Fn([Traffic; 2]) -> bool) -> [Traffic; 2] {
        let traffic = || [&self.a, &self.b].map(Host::traffic);
        let mut last = traffic();
        wait_until("all packets have arrived", || {
            std::thread::sleep(Duration::from_millis(300));
            let before = std::mem::replace(&mut last, traffic());
            before == last && is_complete(last)
        });
        last
    }
}

/// True if all packets that either host sent have arrived at the other.
pub(crate) fn nothing_is_under_way([a, b]: [Traffic; 2]) -> bool {
    a.sent == b.received && b.sent == a.received
}

impl Host {
    /// What the kernel counted at its interface.
    pub(crate) fn traffic(&self) -> Traffic {
        let text = self.namespace.run(&format!("ip -s -j link show dev {}", self.interface));
        let value: Value = serde_json::from_str(&text).expect("ip prints JSON");
        let of = |side: &str| {
            let counter = |member: &str| value[0]["stats64"][side][member].as_u64().unwrap();
            (counter("packets"), counter("bytes"))
        };
        Traffic { sent: of("tx"), received: of("rx") }
    }

    /// Assigns an address that is usable at once, without duplicate address detection.
    pub(crate) fn assign(&self, interface: &str, address: &str) {
        let rest = if address.contains(':') { "/64 nodad" } else { "/24" };
        self.namespace.run(&format!("ip address add dev {interface} {address}{rest}"));
    }

    pub(crate) fn mac(&self) -> String {
        let text = self.namespace.run(&format!("ip -j link show dev {}", self.interface));
        let value: Value = serde_json::from_str(&text).expect("ip prints JSON");
        value[0]["address"].as_str().expect("an Ethernet interface has an address").to_owned()
    }
}
