// SPDX-License-Identifier: BSD-3-Clause
//! Handles the neighbours of a run: resolves MAC addresses of gateways before it, and answers
//! requests for the run's addresses during it.

use super::profile::LoadedProfile;
use crate::ports::OpenPorts;
use anyhow::bail;
use generator::{Clock, ReflectorClient, Replies, Responder};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use traffic::Side;
use traffic::neighbour::Neighbour;
use traffic::stream::StreamSpec;

/// The traffic of a run, from which the addresses of its ports follow.
pub(super) struct Senders<'a> {
    pub(super) specs: &'a [StreamSpec],
    pub(super) profile: Option<&'a LoadedProfile>,
}

impl Senders<'_> {
    fn of_port(&self, port: usize) -> impl Iterator<Item = &StreamSpec> {
        self.specs.iter().filter(move |spec| spec.side as usize == port)
    }

    /// Returns the address that requests for a gateway come from at this port, and their VLAN tags.
    /// `None` if the port does not send.
    fn asker(&self, port: usize, mac: [u8; 6]) -> Option<(Neighbour, Vec<u8>)> {
        if let Some(profile) = self.profile {
            return Some((Neighbour { address: profile.first_address(port), mac }, Vec::new()));
        }
        let spec = self.of_port(port).next()?;
        Some((Neighbour { address: spec.first_source(), mac }, spec.first_tags()))
    }

    /// Makes a client for the reflector at the far end of this port, whose MAC address is `mac`,
    /// through `next_hop`. `None` if no plain stream sends from the port.
    pub(super) fn reflector_client(
        &self,
        port: usize,
        mac: [u8; 6],
        next_hop: [u8; 6],
    ) -> Option<(ReflectorClient, Replies)> {
        let spec = self.of_port(port).find(|spec| spec.is_plain())?;
        let [from, to] = spec.first_ends();
        let end = |it: SocketAddr, mac| (Neighbour { address: it.ip(), mac }, it.port());
        Some(ReflectorClient::new(end(from, mac), end(to, next_hop), spec.first_tags()))
    }

    /// Makes a responder to requests for addresses that send from this port.
    pub(super) fn responder(&self, port: usize, mac: [u8; 6]) -> (Responder, Replies) {
        let specs: Vec<_> = self.of_port(port).cloned().collect();
        let is_of_profile = self.profile.map(LoadedProfile::addresses);
        let is_ours = move |address| {
            specs.iter().any(|spec| spec.sends_from(address))
                || is_of_profile.as_ref().is_some_and(|is_ours| is_ours(address))
        };
        Responder::new(mac, Box::new(is_ours))
    }
}

/// Resolves the gateway of each port that has one; returns their MAC addresses.
pub(super) fn resolve_all(
    gateways: &[IpAddr],
    senders: &Senders<'_>,
    open: &mut OpenPorts,
    clock: Clock,
    interrupted: &AtomicBool,
) -> anyhow::Result<[Option<[u8; 6]>; 2]> {
    let mut found = [None; 2];
    if gateways.len() > open.ports.len() {
        bail!("--gateway names {} gateways for {} ports", gateways.len(), open.ports.len());
    }
    for (port, gateway) in gateways.iter().enumerate() {
        let info = open.ports[port].info();
        let (name, mac) = (info.devargs.clone(), info.mac);
        let Some((from, tags)) = senders.asker(port, mac) else { continue };
        if from.address.is_ipv4() != gateway.is_ipv4() {
            bail!("--gateway {gateway}: the streams of port {name} send from {}", from.address);
        }
        found[port] = open.resolve(port, (from, &tags), *gateway, (clock, interrupted))?;
        if found[port].is_none() {
            bail!(
                "gateway {gateway} does not answer {} at port {name}: check the address, or name \
                 its MAC address with dst_mac=",
                from.address
            );
        }
    }
    Ok(found)
}

/// Returns the MAC addresses of the ports for a sender at `side`. If the side has a gateway, its
/// address replaces that of the other port.
pub(super) fn macs(macs: [[u8; 6]; 2], gateways: [Option<[u8; 6]>; 2], side: Side) -> [[u8; 6]; 2] {
    let mut seen = macs;
    if let Some(gateway) = gateways[side as usize] {
        seen[side.other() as usize] = gateway;
    }
    seen
}
