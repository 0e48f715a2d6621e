// SPDX-License-Identifier: BSD-3-Clause
//! Tests the tables of rules against a model. The model compares every rule, one after the other,
//! with the description of a packet, and never reads a byte of the frame.

use proptest::prelude::*;
use twin::{Action, Attributes, HEADER_MAX, Handle, Item, Nic, Personality, Proto, Verdict};
use wire::FrameBuilder;
use wire::ethernet::ether_type;

/// The description from which a frame is built.
#[derive(Clone, Debug)]
struct Packet {
    vlan: Option<u16>,
    is_v6: bool,
    src: u8,
    dst: u8,
    is_tcp: bool,
    sport: u16,
    dport: u16,
}

impl Packet {
    fn frame(&self) -> Vec<u8> {
        let (src, dst) = (self.src, self.dst);
        let builder = match self.is_v6 {
            true => FrameBuilder::ipv6(v6(src), v6(dst)),
            false => FrameBuilder::ipv4([10, 0, 0, src], [10, 0, 0, dst]),
        };
        let builder = match self.vlan {
            Some(id) => builder.vlan(id),
            None => builder,
        };
        match self.is_tcp {
            true => builder.tcp(self.sport, self.dport).build(),
            false => builder.udp(self.sport, self.dport).build(),
        }
    }
}

fn v6(last: u8) -> [u8; 16] {
    let mut address = [0x20; 16];
    address[15] = last;
    address
}

/// The conditions of a rule: value and mask; `None` if the rule does not match the field.
#[derive(Clone, Debug)]
struct Rule {
    priority: u32,
    ether_type: bool,
    /// Whether the Ethernet item requires a tag behind it, or none.
    has_vlan: Option<bool>,
    vlan: Option<Option<(u16, u16)>>,
    is_v6: bool,
    src: Option<(u8, u8)>,
    dst: Option<(u8, u8)>,
    /// True for TCP, false for UDP; and the ports.
    transport: Option<(bool, Masked, Masked)>,
}

/// A value and its mask.
type Masked = Option<(u16, u16)>;

fn same<T>(wanted: Option<(T, T)>, value: T) -> bool
where
    T: Copy + PartialEq + std::ops::BitAnd<Output = T>,
{
    wanted.is_none_or(|(wanted, mask)| wanted & mask == value & mask)
}

impl Rule {
    /// True if the packet matches the rule, according to the model.
    fn matches(&self, packet: &Packet) -> bool {
        let is_ip = !self.ether_type || packet.vlan.is_none();
        let vlan = match (self.vlan, packet.vlan) {
            (None, _) => true,
            (Some(wanted), Some(id)) => same(wanted, id),
            (Some(_), None) => false,
        };
        let transport = self.transport.is_none_or(|(is_tcp, sport, dport)| {
            is_tcp == packet.is_tcp && same(sport, packet.sport) && same(dport, packet.dport)
        });
        let addresses = same(self.src, packet.src) && same(self.dst, packet.dst);
        let vlan = vlan && self.has_vlan.is_none_or(|has| has == packet.vlan.is_some());
        is_ip && vlan && self.is_v6 == packet.is_v6 && addresses && transport
    }

    /// Returns the items of the rule.
    fn items(&self) -> Vec<Item> {
        let mut eth = empty(Proto::Eth);
        if self.ether_type {
            let number = if self.is_v6 { ether_type::IPV6 } else { ether_type::IPV4 };
            put(&mut eth, 12, Some((number.to_be_bytes(), [0xff; 2])));
        }
        eth.followed = self.has_vlan;
        let mut items = vec![eth];
        if let Some(id) = self.vlan {
            let mut vlan = empty(Proto::Vlan);
            put(&mut vlan, 0, id.map(|(id, mask)| (id.to_be_bytes(), mask.to_be_bytes())));
            items.push(vlan);
        }
        let (proto, src, dst) =
            if self.is_v6 { (Proto::Ipv6, 23, 39) } else { (Proto::Ipv4, 15, 19) };
        let mut ip = empty(proto);
        put(&mut ip, src, self.src.map(|(value, mask)| ([value], [mask])));
        put(&mut ip, dst, self.dst.map(|(value, mask)| ([value], [mask])));
        items.push(ip);
        if let Some((is_tcp, sport, dport)) = self.transport {
            let mut ports = empty(if is_tcp { Proto::Tcp } else { Proto::Udp });
            let bytes = |port: (u16, u16)| (port.0.to_be_bytes(), port.1.to_be_bytes());
            put(&mut ports, 0, sport.map(bytes));
            put(&mut ports, 2, dport.map(bytes));
            items.push(ports);
        }
        items
    }

    /// Returns a value that is equal for duplicates: priority, tags, and masked bytes.
    fn identity(&self) -> impl PartialEq + use<> {
        let tags =
            [self.has_vlan == Some(true) || self.vlan.is_some(), self.has_vlan == Some(false)];
        let mut items: Vec<_> = self.items().iter().map(masked).collect();
        // A tag without masked bytes only requires a tag, which `tags` has already.
        items.retain(|(proto, bytes)| *proto != Proto::Vlan || bytes.iter().any(|b| b.1 != 0));
        (self.priority, tags, items)
    }

    fn attributes(&self) -> Attributes {
        Attributes { priority: self.priority, ingress: true, ..Attributes::default() }
    }
}

fn empty(proto: Proto) -> Item {
    Item::masked(proto, [0; HEADER_MAX], [0; HEADER_MAX])
}

fn put<const N: usize>(item: &mut Item, at: usize, value: Option<([u8; N], [u8; N])>) {
    if let Some((value, mask)) = value {
        item.spec[at..at + N].copy_from_slice(&value);
        item.mask[at..at + N].copy_from_slice(&mask);
    }
}

/// Draws a packet from few values, so that packets match rules.
fn packet() -> impl Strategy<Value = Packet> {
    let vlan = proptest::option::of(0..4_u16);
    (vlan, any::<bool>(), 0..4_u8, 0..4_u8, any::<bool>(), 0..4_u16, 0..4_u16).prop_map(
        |(vlan, is_v6, src, dst, is_tcp, sport, dport)| Packet {
            vlan,
            is_v6,
            src,
            dst,
            is_tcp,
            sport,
            dport,
        },
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let byte = || proptest::option::of((0..4_u8, prop_oneof![Just(0xff), 0..4_u8]));
    let word = || proptest::option::of((0..4_u16, prop_oneof![Just(0xffff), 0..4_u16]));
    let transport = proptest::option::of((any::<bool>(), word(), word()));
    let vlan = proptest::option::of(word());
    let has_vlan = any::<Option<bool>>();
    (0..3_u32, any::<bool>(), (has_vlan, vlan), any::<bool>(), byte(), byte(), transport).prop_map(
        |(priority, ether_type, (has_vlan, vlan), is_v6, src, dst, transport)| Rule {
            priority,
            ether_type,
            // A rule with a tag must not require that there is none.
            has_vlan: has_vlan.filter(|has| *has || vlan.is_none()),
            vlan,
            is_v6,
            src,
            dst,
            transport,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Create(Rule),
    /// Destroys an existing rule.
    Destroy(prop::sample::Index),
    Flush,
    Receive(Packet),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => rule().prop_map(Step::Create),
        3 => any::<prop::sample::Index>().prop_map(Step::Destroy),
        1 => Just(Step::Flush),
        20 => packet().prop_map(Step::Receive),
    ]
}

/// A rule of the NIC, and its mark.
struct Live {
    rule: Rule,
    mark: u32,
    handle: Handle,
    hits: u64,
}

/// Checks a verdict. If several rules of the best priority match, the NIC may choose any of them.
fn check(live: &mut [Live], packet: &Packet, verdict: Verdict) -> Result<(), TestCaseError> {
    let matching = live.iter().filter(|live| live.rule.matches(packet));
    let best = matching.map(|live| live.rule.priority).min();
    let Some(mark) = verdict.mark else {
        prop_assert_eq!(best, None, "no rule was hit");
        return Ok(());
    };
    let hit = live.iter_mut().find(|live| live.mark == mark).expect("a mark that was given");
    prop_assert!(hit.rule.matches(packet), "{:?} was hit", hit.rule);
    prop_assert_eq!(Some(hit.rule.priority), best);
    hit.hits += 1;
    Ok(())
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut nic = Nic::new(Personality::default(), 1);
    let mut live: Vec<Live> = Vec::new();
    let mut gone: Vec<Handle> = Vec::new();
    for (mark, step) in (1..).zip(steps) {
        match step {
            Step::Create(rule) => {
                let (attributes, items) = (rule.attributes(), rule.items());
                let actions = [Action::Mark(mark), Action::Count];
                let ask = twin::Rule { attributes, items: &items, actions: &actions };
                let good = nic.validate(ask);
                let created = nic.create(ask, 0).map(|answer| answer.value);
                prop_assert_eq!(good, created.map(|_| ()));
                // Refused if and only if a duplicate exists.
                let is_there = live.iter().any(|other| other.rule.identity() == rule.identity());
                prop_assert_eq!(created.is_err(), is_there);
                live.extend(created.ok().map(|handle| Live { rule, mark, handle, hits: 0 }));
            }
            Step::Destroy(index) if !live.is_empty() => {
                let one = live.swap_remove(index.index(live.len()));
                prop_assert_eq!(nic.query(one.handle, false, 0).unwrap().hits, one.hits);
                prop_assert!(nic.destroy(one.handle, 0).is_ok());
                gone.push(one.handle);
            }
            Step::Destroy(_) => {}
            Step::Flush => {
                nic.flush().unwrap();
                gone.extend(live.drain(..).map(|live| live.handle));
            }
            Step::Receive(packet) => {
                let frame = packet.frame();
                let verdict = nic.classify(&frame, frame.len() as u32, 0);
                check(&mut live, &packet, verdict)?;
            }
        }
        prop_assert_eq!(nic.len(), live.len());
    }
    for handle in gone {
        prop_assert!(nic.destroy(handle, 0).is_err(), "{handle:?} was gone");
    }
    Ok(())
}

/// Returns the protocol of an item, and value and mask of its masked bytes.
fn masked(item: &Item) -> (Proto, Vec<(u8, u8)>) {
    let bytes = item.spec.iter().zip(&item.mask).map(|(spec, mask)| (spec & mask, *mask));
    (item.proto, bytes.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rules_match_as_a_scan_of_all_of_them(steps in prop::collection::vec(step(), 1..120)) {
        run(steps)?;
    }

    #[test]
    fn any_bytes_are_a_frame(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut nic = Nic::new(Personality::default(), 1);
        let attributes = Attributes { ingress: true, ..Attributes::default() };
        for proto in [Proto::Tcp, Proto::Udp, Proto::Sctp, Proto::Icmp, Proto::Icmp6] {
            let mut item = empty(proto);
            item.mask = [0xff; HEADER_MAX];
            let rule = twin::Rule { attributes, items: &[item], actions: &[Action::Drop] };
            nic.create(rule, 0).unwrap();
        }
        nic.classify(&bytes, bytes.len() as u32, 0);
    }
}
