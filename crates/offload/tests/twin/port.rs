// SPDX-License-Identifier: BSD-3-Clause
//! A port of the twin's model as the one who takes rules.

use engine::Tuple;
use offload::{Refusal, RefusalClass, RulePort};
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use twin::{Action, Attributes, Handle, Item, Nic, Proto, Rule};

/// A port of the model; calls take as long as they say.
pub(crate) struct Port {
    pub(crate) nic: Nic,
    pub(crate) now_ns: Rc<Cell<u64>>,
}

impl Port {
    fn pass(&self, wait_us: u32) {
        self.now_ns.set(self.now_ns.get() + 1000 * u64::from(wait_us));
    }

    fn now_us(&self) -> u64 {
        self.now_ns.get() / 1000
    }
}

/// An item with these fields wholly masked.
fn item(proto: Proto, fields: &[(&str, &[u8])]) -> Item {
    let mut item = Item::any(proto);
    (item.given.spec, item.given.mask) = (true, true);
    for (name, bytes) in fields {
        let at = proto.field(name).expect("a field of it").bit / 8;
        item.spec[at..at + bytes.len()].copy_from_slice(bytes);
        item.mask[at..at + bytes.len()].fill(0xff);
    }
    item
}

fn pattern(tuple: &Tuple) -> Vec<Item> {
    let (sport, dport) = (tuple.sport.to_be_bytes(), tuple.dport.to_be_bytes());
    let mut tag = item(Proto::Vlan, &[("tci", &tuple.zone.to_be_bytes())]);
    // Of the control information, the identifier.
    tag.mask[0] = 0x0f;
    let network = match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            item(Proto::Ipv4, &[("src", &src.octets()), ("dst", &dst.octets())])
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            item(Proto::Ipv6, &[("src", &src.octets()), ("dst", &dst.octets())])
        }
        _ => unreachable!("both ends are of one version"),
    };
    let transport = if tuple.proto == wire::proto::TCP { Proto::Tcp } else { Proto::Udp };
    let ports = item(transport, &[("src", &sport), ("dst", &dport)]);
    let tag = (tuple.zone != 0).then_some(tag);
    [Item::any(Proto::Eth)].into_iter().chain(tag).chain([network, ports]).collect()
}

fn refusal(refusal: twin::Refusal) -> Refusal {
    let class = RefusalClass::of_errno(refusal.errno as i32);
    let words = refusal.message.map_or(String::new(), |words| words.to_string_lossy().into());
    Refusal { class, words }
}

impl RulePort for Port {
    type Rule = Handle;

    fn create(&mut self, tuple: &Tuple, mark: u32, queue: u16) -> Result<Handle, Refusal> {
        let actions = [Action::Queue(queue), Action::Mark(mark)];
        let items = pattern(tuple);
        let rule = Rule { attributes: Attributes::INGRESS, items: &items, actions: &actions };
        let now_us = self.now_us();
        let answer = self.nic.create(rule, now_us).map_err(refusal)?;
        self.pass(answer.wait_us);
        Ok(answer.value)
    }

    fn destroy(&mut self, rule: Handle) -> Result<(), Refusal> {
        let now_us = self.now_us();
        let answer = self.nic.destroy(rule, now_us).map_err(refusal)?;
        self.pass(answer.wait_us);
        Ok(())
    }
}
