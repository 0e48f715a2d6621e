// SPDX-License-Identifier: BSD-3-Clause
//! Prints the rules of a NIC for users.

use super::{At, Entry, Handle, Rules};
use crate::action::{Destination, Effect};
use crate::refusal::Refusal;
use crate::table::Stage;
use std::fmt::Write;

impl Rules {
    /// Returns a text of one rule, or of all in the order of their places, a line each. Destroyed
    /// rules are included as long as they are in effect.
    pub(crate) fn dump(&self, handle: Option<Handle>, now_us: u64) -> Result<String, Refusal> {
        let mut text = String::new();
        if let Some(handle) = handle {
            self.line(&mut text, self.place_of(handle)?);
            return Ok(text);
        }
        let places = (0..).zip(&self.entries).filter(|(_, entry)| entry.at != At::Nowhere);
        let places = places.filter(|(_, entry)| entry.until_us > now_us);
        places.for_each(|(place, _)| self.line(&mut text, place));
        Ok(text)
    }

    fn line(&self, text: &mut String, place: u32) {
        let entry = &self.entries[place as usize];
        let handle = Handle::new(place, entry.generation).0;
        let what = match entry.at {
            At::Nowhere => return,
            At::Behind(first) => format!("waits behind {:#x}", self.handle_of(first)),
            At::Row(table, row) => {
                let table = &self.tables[table as usize];
                let (group, priority) = (table.group, table.priority);
                let stage = match table.stage {
                    Stage::Switch => "transfer ",
                    Stage::Ahead => "ahead ",
                    Stage::Port => "",
                };
                format!("{stage}group {group} priority {priority} {}", table.describe(row))
            }
        };
        let state = match entry {
            Entry { until_us, .. } if *until_us != u64::MAX => " (destroyed, still in effect)",
            Entry { from_us: u64::MAX, .. } => " (out of effect)",
            _ => "",
        };
        let _ = write!(text, "{handle:#x}: {what} => {}", self.words(&entry.effect));
        if let Some(tally) = self.counters.read(entry.counter, false, u64::MAX) {
            let _ = write!(text, ", {} hits", tally.hits);
        }
        text.push_str(state);
        text.push('\n');
    }

    fn handle_of(&self, place: u32) -> u64 {
        Handle::new(place, self.entries[place as usize].generation).0
    }

    fn words(&self, effect: &Effect) -> String {
        let mut words = Vec::new();
        words.extend(effect.mark.map(|mark| format!("mark {mark}")));
        words.extend(effect.flag.then(|| "flag".to_owned()));
        words.push(match effect.destination {
            Destination::Default => "as without it".to_owned(),
            Destination::Queue(queue) => format!("queue {queue}"),
            Destination::Spread(place) => format!("rss over {:?}", self.spread(place).queues),
            Destination::Drop => "drop".to_owned(),
            Destination::Jump(group) => format!("jump to group {group}"),
            Destination::Wire(port) => format!("to the wire of port {port}"),
            Destination::Port(port) => format!("to port {port}"),
        });
        words.join(", ")
    }
}
