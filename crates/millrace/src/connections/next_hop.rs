// SPDX-License-Identifier: BSD-3-Clause
//! Finds the MAC address that each end sends to.

use crate::ports::OpenPorts;
use anyhow::bail;
use generator::Clock;
use stateful::{Profile, Role};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use traffic::neighbour::Neighbour;

/// What the user says of the next hops of ports A and B.
pub(super) struct NextHops<'a> {
    /// MAC addresses.
    pub(super) named: [Option<[u8; 6]>; 2],
    /// Gateways, whose MAC addresses are resolved.
    pub(super) gateways: &'a [IpAddr],
    pub(super) profile: &'a Profile,
}

impl NextHops<'_> {
    /// Returns the MAC address that each port sends to: the one that the user names, that of its
    /// gateway, that of the other port, or that of the first server.
    pub(super) fn find(
        &self,
        open: &mut OpenPorts,
        roles: &[Role],
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Vec<[u8; 6]>> {
        if self.gateways.len() > roles.len() {
            bail!("--gateway names {} gateways for {} port(s)", self.gateways.len(), roles.len());
        }
        let clock = Clock::measured();
        let macs: Vec<_> = open.ports.iter().map(|port| port.info().mac).collect();
        let mut found = Vec::new();
        for (port, role) in roles.iter().enumerate() {
            let other = macs.get(1 - port).copied();
            let gateway = self.gateways.get(port).copied();
            let target = match (self.named[port], gateway, other, role) {
                (None, Some(gateway), _, _) => gateway,
                (None, None, None, Role::Client) => self.profile.servers.first(),
                // Servers answer to where the first packet of a connection came from.
                (named, _, other, _) => {
                    found.push(named.or(other).unwrap_or([0xff; 6]));
                    continue;
                }
            };
            found.push(self.resolve(open, (port, *role), target, (clock, interrupted))?);
        }
        Ok(found)
    }

    fn resolve(
        &self,
        open: &mut OpenPorts,
        (port, role): (usize, Role),
        target: IpAddr,
        (clock, interrupted): (Clock, &AtomicBool),
    ) -> anyhow::Result<[u8; 6]> {
        let info = open.ports[port].info();
        let (name, mac) = (info.devargs.clone(), info.mac);
        let addresses = match role {
            Role::Client => self.profile.clients,
            Role::Server => self.profile.servers,
        };
        let from = Neighbour { address: addresses.first(), mac };
        if from.address.is_ipv4() != target.is_ipv4() {
            bail!("--gateway {target}: the profile sends from {} at port {name}", from.address);
        }
        let found = open.resolve(port, (from, &[]), target, (clock, interrupted))?;
        let Some(found) = found else {
            let what = if self.gateways.is_empty() { "server" } else { "gateway" };
            bail!(
                "{what} {target} does not answer {} at port {name}: check the address; if servers \
                 are behind a router, name the router with --gateway",
                from.address
            );
        };
        Ok(found)
    }
}
