// SPDX-License-Identifier: BSD-3-Clause
//! Implements a subject with a DPDK port, and a peer port that sends it packets, if there is one.

mod queue;

use super::subject::{Age, Answer, Delivery, Refused, RuleId, RuleProbe, Subject, Tally};
use dpdk::flow::{self, Cause, ErrorKind, FlowError, FlowRule, ItemKind, Value};
use dpdk::{Burst, Mempool, Port, RxQueue, TxQueue};
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};
use twin::{Action, Errno, Item, Kind, Place, Proto};
use wire::Packet;

/// A started port, its queues, and a pool of packets.
pub struct Side {
    /// The started port.
    pub port: Port,
    /// All its receive queues.
    pub rx: Vec<RxQueue>,
    /// All its transmit queues.
    pub tx: Vec<TxQueue>,
    /// Pool of the packets to send.
    pub mempool: Mempool,
}

/// The port that is probed.
pub struct PortSubject {
    side: Side,
    /// The port that sends packets to it.
    peer: Option<Side>,
    rules: HashMap<RuleId, FlowRule>,
    next: u64,
    start: Instant,
    frames: u64,
}

/// Longest time that a packet takes from the peer through the NIC.
const PATIENCE: Duration = Duration::from_millis(20);

impl PortSubject {
    /// Returns a subject without rules. If there is a `peer`, it sends packets to the port.
    pub fn new(side: Side, peer: Option<Side>) -> Self {
        let start = Instant::now();
        Self { side, peer, rules: HashMap::new(), next: 0, start, frames: 0 }
    }

    /// Returns the number of packets that arrive within `time` although the prober sends none.
    pub fn overhear(&mut self, time: Duration) -> usize {
        let until = Instant::now() + time;
        let mut received = 0;
        while Instant::now() < until {
            let mut burst = Burst::new();
            received += self.side.rx.iter_mut().map(|queue| queue.burst(&mut burst)).sum::<usize>();
        }
        received
    }

    /// Sends a frame, with a number appended that no header includes in its length.
    fn send(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let peer = self.peer.as_mut()?;
        self.frames += 1;
        let frame = [frame, &self.frames.to_be_bytes()].concat();
        let mut burst = Burst::new();
        if !peer.mempool.alloc_bulk(&mut burst, 1) || burst[0].write(&frame).is_err() {
            return None;
        }
        let sent = peer.tx[0].burst(&mut burst);
        // Packets that others send to the peer must not fill its queues.
        let mut burst = Burst::new();
        for queue in &mut peer.rx {
            queue.burst(&mut burst);
        }
        (sent == 1).then_some(frame)
    }

    fn receive(&mut self, frame: &[u8]) -> Option<Delivery> {
        let until = Instant::now() + PATIENCE;
        loop {
            for (number, queue) in (0..).zip(&mut self.side.rx) {
                let mut burst = Burst::new();
                queue.burst(&mut burst);
                let is_ours = |mbuf: &&dpdk::Mbuf| mbuf.head() == frame;
                if let Some(mbuf) = burst.iter().find(is_ours) {
                    let (mark, flag) = (mbuf.mark(), mbuf.is_flagged());
                    return Some(Delivery { mark, flag, queue: number });
                }
            }
            if Instant::now() > until {
                return None;
            }
        }
    }
}

impl Subject for PortSubject {
    fn queues(&self) -> u16 {
        self.side.rx.len() as u16
    }

    fn has_wire(&self) -> bool {
        self.peer.is_some()
    }

    fn has_link(&mut self) -> bool {
        let is_up = |side: &Side| side.port.link().up;
        is_up(&self.side) && self.peer.as_ref().is_none_or(is_up)
    }

    fn validate(&mut self, question: &RuleProbe) -> Answer {
        self.side.port.flow_validate(&rule_of(question)).map_err(refused)
    }

    fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused> {
        let rule = self.side.port.flow_create(&rule_of(question)).map_err(refused)?;
        self.next += 1;
        self.rules.insert(RuleId(self.next), rule);
        Ok(RuleId(self.next))
    }

    fn destroy(&mut self, rule: RuleId) -> Answer {
        let Some(known) = self.rules.remove(&rule) else { return Err(gone()) };
        self.side.port.flow_destroy(known).map_err(|(known, error)| {
            self.rules.insert(rule, known);
            refused(error)
        })
    }

    fn flush(&mut self) -> Answer {
        self.rules.clear();
        self.side.port.flow_flush().map_err(refused)
    }

    fn dump_lines(&mut self) -> Result<usize, Refused> {
        let text = self.side.port.flow_dump(None).map_err(refused)?;
        Ok(text.lines().count())
    }

    fn lists_only_rules(&self) -> bool {
        // The dump of mlx5 also lists the driver's own tables and pools.
        !self.side.port.info().driver.starts_with("mlx5")
    }

    fn query(&mut self, rule: RuleId) -> Result<Tally, Refused> {
        let rule = self.rules.get(&rule).ok_or_else(gone)?;
        let count = self.side.port.flow_query_count(rule, false).map_err(refused)?;
        Ok(Tally { hits: count.hits, bytes: count.bytes })
    }

    fn query_age(&mut self, rule: RuleId) -> Result<Age, Refused> {
        let rule = self.rules.get(&rule).ok_or_else(gone)?;
        let age = self.side.port.flow_query_age(rule).map_err(refused)?;
        Ok(Age { is_over: age.aged })
    }

    fn aged(&mut self) -> Result<Vec<RuleId>, Refused> {
        let aged = self.side.port.flow_aged().map_err(refused)?;
        let is_aged = |rule: &FlowRule| aged.contains(&rule.handle());
        let known = self.rules.iter().filter(|(_, rule)| is_aged(rule));
        Ok(known.map(|(&id, _)| id).collect())
    }

    fn isolate(&mut self, isolate: bool) -> Answer {
        self.side.port.flow_isolate(isolate).map_err(refused)
    }

    fn knows_dead_rules(&self) -> bool {
        self.side.port.info().driver == "net_twin"
    }

    fn set_started(&mut self, is_started: bool) -> bool {
        let Side { port, rx, tx, .. } = &mut self.side;
        port.set_started(is_started, (rx, tx)).is_ok()
    }

    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery> {
        let frame = self.send(frame)?;
        self.receive(&frame)
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn wait_us(&mut self, us: u64) {
        thread::sleep(Duration::from_micros(us));
    }
}

/// Returns the rule in the types of the crate `dpdk`.
fn rule_of(question: &RuleProbe) -> flow::Rule {
    let twin::Attributes { group, priority, ingress, egress, transfer, .. } = question.attributes;
    flow::Rule {
        attributes: flow::Attributes { group, priority, ingress, egress, transfer },
        pattern: question.items.iter().map(item_of).collect(),
        actions: question.actions.iter().map(action_of).collect(),
    }
}

fn item_of(item: &Item) -> flow::Item {
    let len = item.proto.header_len();
    let value = |is_given: bool, bytes: &[u8], followed: bool| {
        is_given.then(|| {
            let mut value = Value::new(&bytes[..len]);
            if followed {
                // has_vlan and the like: the lowest bit of the byte behind the header.
                value.set_bits(8 * len + 7, 1, 1);
            }
            value
        })
    };
    let twin::ItemSpec { spec, last, mask } = item.given;
    flow::Item {
        kind: kind_of(item.proto),
        spec: value(spec, &item.spec, item.followed == Some(true)),
        last: value(last, &item.last, item.followed == Some(true)),
        mask: value(mask, &item.mask, item.followed.is_some()),
        long: None,
    }
}

fn kind_of(proto: Proto) -> ItemKind {
    match proto {
        Proto::Eth => ItemKind::Eth,
        Proto::Vlan => ItemKind::Vlan,
        Proto::Ipv4 => ItemKind::Ipv4,
        Proto::Ipv6 => ItemKind::Ipv6,
        Proto::Tcp => ItemKind::Tcp,
        Proto::Udp => ItemKind::Udp,
        Proto::Sctp => ItemKind::Sctp,
        Proto::Icmp => ItemKind::Icmp,
        Proto::Icmp6 => ItemKind::Icmp6,
        Proto::Ipv6Frag => ItemKind::Ipv6FragExt,
        Proto::Vxlan => ItemKind::Vxlan,
        Proto::Gtpu => ItemKind::Gtpu,
        Proto::Gre => ItemKind::Gre,
    }
}

fn action_of(action: &Action) -> flow::Action {
    match action {
        Action::Mark(mark) => flow::Action::Mark(*mark),
        Action::Flag => flow::Action::Flag,
        Action::Queue(queue) => flow::Action::Queue(*queue),
        Action::Rss(spread) => {
            flow::Action::Rss(flow::Rss { queues: spread.queues.to_vec(), ..Default::default() })
        }
        Action::Drop => flow::Action::Drop,
        Action::Passthru => flow::Action::Passthru,
        Action::Count => flow::Action::Count(0),
        Action::Jump(group) => flow::Action::Jump(*group),
        Action::Age(age) => flow::Action::Age(age.timeout_s),
        Action::PortId(port) => flow::Action::PortId(Some(u32::from(*port))),
        Action::RepresentedPort(port) => flow::Action::RepresentedPort(*port),
        Action::PortRepresentor(port) => flow::Action::PortRepresentor(port.unwrap_or(0)),
    }
}

fn refused(error: FlowError) -> Refused {
    let kind = match error.kind {
        ErrorKind::Other(_) => Kind::Unspecified,
        kind => Kind::of_number(kind.number()).unwrap_or(Kind::Unspecified),
    };
    let place = error.cause.map(|cause| match cause {
        Cause::Attributes => Place::Rule,
        Cause::Item(place) => Place::Item(place),
        Cause::Action(place) => Place::Action(place),
    });
    Refused { errno: Errno::of_number(error.errno), kind, place, message: error.message }
}

fn gone() -> Refused {
    let message = Some("the rule is gone".to_owned());
    Refused { errno: Some(Errno::ENOENT), kind: Kind::Handle, place: None, message }
}
