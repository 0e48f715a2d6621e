// SPDX-License-Identifier: BSD-3-Clause
//! Listens to what becomes of the connections of a running bump: for a thread that serves somebody
//! who wants to know. It ends with the value.

use super::desk::{Ask, Caller, Told};
use super::inquiry::{Ending, Inquiry, NAP};
use super::listeners::{Heard, Listener};
use engine::Filter;
use rtrb::Consumer;
use std::sync::atomic::Ordering;

/// Events of one worker that are taken in one go.
const AT_ONCE: usize = 1024;

/// One who listens to all workers.
pub(crate) struct Hearing<'a> {
    inquiry: &'a Inquiry,
    id: u64,
    /// Of each worker, by its lcore.
    ears: Vec<(u32, Consumer<Heard>)>,
}

impl Inquiry {
    /// Hears of the connections that are meant, from now on.
    pub(crate) fn listen(&self, filter: Filter) -> Result<Hearing<'_>, Ending> {
        let id = self.listeners.fetch_add(1, Ordering::Relaxed);
        let mut hearing = Hearing { inquiry: self, id, ears: Vec::new() };
        for asked in self.lock().iter_mut() {
            let (listener, ear) = Listener::new(id, filter);
            // There are as many places as clients: nobody is refused.
            let Told::Listens = answer(&mut asked.caller, Ask::Listen(listener))? else {
                return Err(Ending);
            };
            hearing.ears.push((asked.lcore, ear));
        }
        Ok(hearing)
    }
}

impl Hearing<'_> {
    /// Gives what there is to hear to `heard`, with the lcore of the worker; returns how much.
    pub(crate) fn hear(&mut self, heard: &mut impl FnMut(u32, Heard)) -> Result<usize, Ending> {
        let mut taken = 0;
        for (lcore, ear) in &mut self.ears {
            let is_over = ear.is_abandoned();
            let before = taken;
            while taken - before < AT_ONCE {
                let Ok(next) = ear.pop() else { break };
                heard(*lcore, next);
                taken += 1;
            }
            if is_over && taken == before {
                return Err(Ending);
            }
        }
        Ok(taken)
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        for asked in self.inquiry.lock().iter_mut() {
            // Given back, so that no worker frees its ring; of a run that is over nothing is.
            if let Ok(Told::Left(Some(listener))) = answer(&mut asked.caller, Ask::Leave(self.id)) {
                drop(listener);
            }
        }
    }
}

/// Asks for something that has one answer.
fn answer(caller: &mut Caller, ask: Ask) -> Result<Told, Ending> {
    caller.asks.push(ask).map_err(|_| Ending)?;
    loop {
        match caller.told.pop() {
            Ok(told) => return Ok(told),
            Err(_) if caller.told.is_abandoned() => return Err(Ending),
            Err(_) => std::thread::sleep(NAP),
        }
    }
}
