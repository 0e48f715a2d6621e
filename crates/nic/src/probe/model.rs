// SPDX-License-Identifier: BSD-3-Clause
//! Plays a personality as a subject of the prober, without DPDK and with a clock that only calls
//! advance.
//!
//! With it, the prober checks whether its draft already implies an answer of the NIC.

mod queue;

use super::subject::{Age, Answer, Delivery, Refused, RuleId, RuleProbe, Subject, Tally};
use queue::Queue;
use std::collections::HashMap;
#[cfg(test)]
use twin::rss;
use twin::{Action, Faults, Handle, Item, Nic, Personality, Proto, Refusal, Rule};

/// A started port of the software NIC, by default without a switch.
pub(crate) struct Model {
    nic: Nic,
    queues: u16,
    now_us: u64,
    handles: HashMap<RuleId, Handle>,
    next: u64,
    queue: Queue,
}

/// Time from sending a packet to its delivery.
const DELIVERY_US: u64 = 1;

impl Model {
    pub(crate) fn new(personality: Personality, queues: u16) -> Self {
        Self::with_faults(personality, queues, Faults::none())
    }

    /// Returns a model with faults.
    pub(crate) fn with_faults(personality: Personality, queues: u16, faults: Faults) -> Self {
        let mut nic = Nic::with_faults(personality, 1, faults);
        nic.set_queues(queues);
        nic.set_started(true);
        let (handles, queue) = (HashMap::new(), Queue::default());
        Self { nic, queues, now_us: 0, handles, next: 0, queue }
    }

    /// Returns a model whose port is part of a switch, so that only the personality decides which
    /// rules it accepts. Used for drafts.
    pub(crate) fn member(personality: Personality, queues: u16) -> Self {
        let mut model = Self::new(personality, queues);
        model.nic.set_switch(true);
        model
    }

    /// Spreads packets over all queues, by their addresses and ports.
    #[cfg(test)]
    pub(crate) fn spread(mut self) -> Self {
        let types = rss::IP | rss::TCP | rss::UDP | rss::SCTP;
        let types = rss::RssTypes(types | types << rss::IPV6_SHIFT);
        let key = std::array::from_fn(|place| (place * 131 + 7) as u8);
        self.nic.set_rss(rss::Rss::new(types, &key, (0..self.queues).collect()));
        self
    }

    /// Returns the number of rules.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nic.len()
    }
}

impl Subject for Model {
    fn queues(&self) -> u16 {
        self.queues
    }

    fn has_wire(&self) -> bool {
        true
    }

    fn has_link(&mut self) -> bool {
        true
    }

    fn validate(&mut self, question: &RuleProbe) -> Answer {
        let items = with_usual_masks(&question.items);
        let rule = Rule { items: &items, ..question.rule() };
        self.nic.validate(rule).map_err(refused)
    }

    fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused> {
        let items = with_usual_masks(&question.items);
        let mut actions = question.actions.clone();
        for action in &mut actions {
            if let Action::Age(age) = action {
                age.context = self.next + 1;
            }
        }
        let rule = Rule { items: &items, actions: &actions, ..question.rule() };
        let answer = self.nic.create(rule, self.now_us).map_err(refused)?;
        self.now_us += u64::from(answer.wait_us);
        self.next += 1;
        let id = RuleId(self.next);
        self.handles.insert(id, answer.value);
        Ok(id)
    }

    fn destroy(&mut self, rule: RuleId) -> Answer {
        let handle = self.handles[&rule];
        let answer = self.nic.destroy(handle, self.now_us).map_err(refused)?;
        self.now_us += u64::from(answer.wait_us);
        self.handles.remove(&rule);
        Ok(())
    }

    fn flush(&mut self) -> Answer {
        self.queue.forget_rules();
        self.nic.flush().map_err(refused)
    }

    fn dump_lines(&mut self) -> Result<usize, Refused> {
        let text = self.nic.dump(None, self.now_us).map_err(refused)?;
        Ok(text.lines().count())
    }

    fn lists_only_rules(&self) -> bool {
        true
    }

    fn query(&mut self, rule: RuleId) -> Result<Tally, Refused> {
        let tally = self.nic.query(self.handles[&rule], false, self.now_us).map_err(refused)?;
        Ok(Tally { hits: Some(tally.hits), bytes: tally.bytes })
    }

    fn query_age(&mut self, rule: RuleId) -> Result<Age, Refused> {
        let idle = self.nic.idle(self.handles[&rule], self.now_us).map_err(refused)?;
        Ok(Age { is_over: idle.is_aged })
    }

    fn aged(&mut self) -> Result<Vec<RuleId>, Refused> {
        Ok(self.nic.aged(self.now_us).map(RuleId).collect())
    }

    fn isolate(&mut self, _: bool) -> Answer {
        let operations = &self.nic.personality().operations;
        let there = !operations.none && !operations.no_isolate;
        let no_call =
            Refused { errno: Some(twin::Errno::ENOSYS), kind: twin::Kind::Unspecified, ..SILENT };
        if there { Ok(()) } else { Err(no_call) }
    }

    fn knows_dead_rules(&self) -> bool {
        true
    }

    fn set_started(&mut self, is_started: bool) -> bool {
        self.nic.set_started(is_started);
        true
    }

    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery> {
        let verdict = self.nic.classify(frame, frame.len() as u32, self.now_us);
        self.now_us += DELIVERY_US;
        let twin::Verdict { mark, flag, queue, .. } = verdict;
        // The model reports a missed packet by a queue that does not exist.
        (!verdict.drop && queue < self.queues).then_some(Delivery { mark, flag, queue })
    }

    fn now_us(&self) -> u64 {
        self.now_us
    }

    fn wait_us(&mut self, us: u64) {
        self.now_us += us;
    }
}

const SILENT: Refused = Refused { errno: None, kind: twin::Kind::None, place: None, message: None };

fn refused(refusal: Refusal) -> Refused {
    let Refusal { errno, kind, place, message } = refusal;
    let message = message.map(|message| message.to_string_lossy().into_owned());
    Refused { errno: Some(errno), kind, place: Some(place), message }
}

/// Returns the items; those without a mask get the default mask of `rte_flow.h`, as in drivers.
fn with_usual_masks(items: &[Item]) -> Vec<Item> {
    let usual = |item: &Item| {
        let mut item = *item;
        if item.given.spec && !item.given.mask {
            let fields = usual_fields(item.proto).iter().filter_map(|name| item.proto.field(name));
            let bits = fields.flat_map(|field| field.bit..field.bit + field.len);
            bits.for_each(|bit| item.mask[bit / 8] |= 0x80 >> (bit % 8));
            if item.proto == Proto::Vlan {
                item.mask[0] &= 0x0f;
            }
        }
        item
    };
    items.iter().map(usual).collect()
}

/// Returns the fields of the default mask that `rte_flow.h` has for an item. For a tag, that is
/// only the VLAN identifier.
fn usual_fields(proto: Proto) -> &'static [&'static str] {
    match proto {
        Proto::Vlan => &["tci"],
        Proto::Eth | Proto::Ipv4 | Proto::Ipv6 | Proto::Tcp | Proto::Udp | Proto::Sctp => {
            &["src", "dst"]
        }
        Proto::Icmp | Proto::Icmp6 => &["type", "code"],
        Proto::Ipv6Frag => &["next_hdr"],
        Proto::Vxlan => &["vni"],
        Proto::Gtpu => &["teid"],
        Proto::Gre => &["protocol"],
    }
}
