// SPDX-License-Identifier: BSD-3-Clause
//! Shares the addresses of servers among the templates of one protocol and port, so that a server
//! knows from its address which program to follow.

use super::{ProfileError, Template};

/// Every `of`th address of servers, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    first: u32,
    of: u32,
}

impl Share {
    /// All servers.
    pub(super) const ALL: Self = Self { first: 0, of: 1 };

    /// Gives each template its share of `servers` addresses.
    pub(super) fn assign(templates: &mut [Template], servers: u32) -> Result<(), ProfileError> {
        for number in 0..templates.len() {
            let Template { transport, port, .. } = templates[number];
            let is_same = |it: &&Template| (it.transport, it.port) == (transport, port);
            let of = templates.iter().filter(is_same).count() as u32;
            let first = templates[..number].iter().filter(is_same).count() as u32;
            if of > servers {
                let protocol = transport.name();
                return Err(ProfileError::Whole(format!(
                    "servers: {of} templates have {protocol} port {port}, so that each needs an \
                     address of its own; there are {servers}"
                )));
            }
            templates[number].share = Self { first, of };
        }
        Ok(())
    }

    /// Returns how many of `servers` addresses are in the share.
    pub(crate) fn count(self, servers: u32) -> u32 {
        (servers - self.first).div_ceil(self.of)
    }

    /// Returns the place among all servers of the one at `place` in the share.
    #[inline(always)]
    pub(crate) fn place(self, place: u32) -> u32 {
        place * self.of + self.first
    }

    /// True if the server at this place is in the share.
    #[inline(always)]
    pub(crate) fn has(self, place: u32) -> bool {
        place % self.of == self.first
    }
}
