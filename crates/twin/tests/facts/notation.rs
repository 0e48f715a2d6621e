// SPDX-License-Identifier: BSD-3-Clause
//! Parses rules from one line of text, for the tests of facts.

use twin::rss::RssTypes;
use twin::{
    Action, Age, Answer, Attributes, Cover, Handle, Item, ItemSpec, Nic, Personality, Proto,
    Refusal, Rule, Spread,
};

/// Returns a started NIC with four queues and without a switch.
pub(super) fn nic(personality: &str) -> Nic {
    let mut nic = Nic::new(Personality::named(personality).unwrap(), 1);
    nic.set_queues(4);
    nic.set_started(true);
    nic
}

pub(super) fn items(pattern: &str) -> Vec<Item> {
    pattern.split(" / ").map(item).collect()
}

fn item(text: &str) -> Item {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap();
    let mut item = Item::any(Proto::of_name(name).unwrap_or_else(|| panic!("header {name}")));
    for word in words {
        item.given = ItemSpec { spec: true, last: false, mask: !word.starts_with('?') };
        let word = word.trim_start_matches('?');
        let (field, is_part) = match word.strip_suffix(":part") {
            Some(field) => (field, true),
            None => (word, false),
        };
        if field == "0" {
            continue;
        }
        let field = item.proto.field(field).unwrap_or_else(|| panic!("field {field}"));
        let bits = field.bit..field.bit + field.len - usize::from(is_part);
        for bit in bits {
            item.mask[bit / 8] |= 0x80 >> (bit % 8);
            item.spec[bit / 8] |= 0x40 & 0x80 >> (bit % 8);
        }
        let cover = if is_part { Cover::Part } else { Cover::Full };
        assert_eq!(field.cover(&item.mask), cover);
    }
    item
}

pub(super) fn actions(list: &str) -> Vec<Action> {
    list.split(" / ").filter(|text| !text.is_empty()).map(action).collect()
}

fn action(text: &str) -> Action {
    let (name, value) = text.split_once(' ').unwrap_or((text, "1"));
    let number = || value.parse().unwrap();
    match name {
        "mark" => Action::Mark(number()),
        "flag" => Action::Flag,
        "queue" => Action::Queue(value.parse().unwrap()),
        "drop" => Action::Drop,
        "passthru" => Action::Passthru,
        "count" => Action::Count,
        "jump" => Action::Jump(number()),
        "port_id" => Action::PortId(number() as u16),
        "represented_port" => Action::RepresentedPort(number() as u16),
        "port_representor" => Action::PortRepresentor(value.parse().ok()),
        "age" => Action::Age(Age { timeout_s: number(), context: 0 }),
        "rss" => {
            let queues = value.split(' ').map(|queue| queue.parse().unwrap()).collect();
            Action::Rss(Spread { types: RssTypes::default(), queues })
        }
        _ => panic!("action {name}"),
    }
}

pub(super) const INGRESS: Attributes = Attributes::INGRESS;

pub(super) fn create(nic: &mut Nic, pattern: &str, list: &str) -> Result<Answer<Handle>, Refusal> {
    create_with(nic, INGRESS, pattern, list)
}

pub(super) fn create_with(
    nic: &mut Nic,
    attributes: Attributes,
    pattern: &str,
    list: &str,
) -> Result<Answer<Handle>, Refusal> {
    let (items, actions) = (items(pattern), actions(list));
    nic.create(Rule { attributes, items: &items, actions: &actions }, 0)
}

/// Returns the text of a refusal: errno, type, message.
pub(super) fn told(refusal: Refusal) -> String {
    let message = refusal.message.map_or("".into(), |message| message.to_string_lossy());
    format!("{:?} {:?} {message}", refusal.errno, refusal.kind)
}

/// Creates a rule on an empty NIC; returns `taken` or the text of the refusal.
pub(super) fn answer(personality: &str, pattern: &str, list: &str) -> String {
    match create(&mut nic(personality), pattern, list) {
        Ok(_) => "taken".to_owned(),
        Err(refusal) => told(refusal),
    }
}
