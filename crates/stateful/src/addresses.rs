// SPDX-License-Identifier: BSD-3-Clause
//! Numbers of addresses, which records store instead of the addresses themselves. The addresses of
//! a profile have theirs by arithmetic; those of unknown peers are learned.

use crate::profile::AddressRange;
use std::collections::HashMap;

/// Most addresses that are learned.
const LEARNED_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Addresses {
    clients: AddressRange,
    servers: AddressRange,
    by_address: HashMap<u128, u32>,
    learned: Vec<u128>,
}

impl Addresses {
    pub(crate) fn new(clients: AddressRange, servers: AddressRange) -> Self {
        Self { clients, servers, by_address: HashMap::new(), learned: Vec::new() }
    }

    /// Returns the number of the client at a place of its range.
    pub(crate) fn client(&self, place: u32) -> u32 {
        place
    }

    /// Returns the number of the server at a place of its range.
    pub(crate) fn server(&self, place: u32) -> u32 {
        self.clients.count() + place
    }

    /// Returns the place of a client in its range.
    pub(crate) fn place_of_client(&self, number: u32) -> u32 {
        number
    }

    /// Returns the place of a server in its range.
    pub(crate) fn place_of_server(&self, number: u32) -> u32 {
        number - self.clients.count()
    }

    /// Returns the number of an address; `None` if it is unknown.
    #[inline(always)]
    pub(crate) fn number(&self, address: u128) -> Option<u32> {
        self.number_of_client(address)
            .or_else(|| self.number_of_server(address))
            .or_else(|| self.by_address.get(&address).copied())
    }

    /// Returns the number of an address, which is learned if it is unknown; `None` if too many
    /// were.
    pub(crate) fn learn(&mut self, address: u128) -> Option<u32> {
        if let Some(number) = self.number(address) {
            return Some(number);
        }
        if self.learned.len() == LEARNED_MAX {
            return None;
        }
        let number = self.clients.count() + self.servers.count() + self.learned.len() as u32;
        self.learned.push(address);
        self.by_address.insert(address, number);
        Some(number)
    }

    /// Returns the address of a number.
    #[inline(always)]
    pub(crate) fn address(&self, number: u32) -> u128 {
        if number < self.clients.count() {
            return self.clients.at(number);
        }
        let place = number - self.clients.count();
        match place < self.servers.count() {
            true => self.servers.at(place),
            false => self.learned[(place - self.servers.count()) as usize],
        }
    }

    /// Returns the number of an address of clients; `None` if it is another.
    #[inline(always)]
    pub(crate) fn number_of_client(&self, address: u128) -> Option<u32> {
        self.clients.place(address)
    }

    /// Returns the number of an address of servers; `None` if it is another.
    #[inline(always)]
    pub(crate) fn number_of_server(&self, address: u128) -> Option<u32> {
        self.servers.place(address).map(|place| self.server(place))
    }
}
