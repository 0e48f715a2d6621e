// SPDX-License-Identifier: BSD-3-Clause
//! Stores the queues and types of rss actions; rules with equal ones share them.

use crate::action::Spread;

/// Sets of queues over which rules spread; equal sets are stored once.
#[derive(Default)]
pub(super) struct Spreads {
    list: Vec<(Spread, u32)>,
}

impl Spreads {
    pub(super) fn get(&self, place: u32) -> &Spread {
        &self.list[place as usize].0
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    pub(super) fn take(&mut self, spread: Spread) -> u32 {
        let list = &mut self.list;
        let place = list.iter().position(|(other, users)| *users > 0 && *other == spread);
        if let Some(place) = place {
            list[place].1 += 1;
            return place as u32;
        }
        let place = list.iter().position(|(_, users)| *users == 0).unwrap_or(list.len());
        match list.get_mut(place) {
            Some(free) => *free = (spread, 1),
            None => list.push((spread, 1)),
        }
        place as u32
    }

    pub(super) fn give_back(&mut self, place: u32) {
        self.list[place as usize].1 -= 1;
    }
}
