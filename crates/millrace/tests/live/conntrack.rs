// SPDX-License-Identifier: BSD-3-Clause
//! Compares the engine with the kernel's connection tracking. The same packets, in the same order,
//! pass the engine and a router that writes the state of each packet into its DSCP.

use crate::sessions::{Segment, session};
use crate::{new_scratch, scaled};
use engine::{Config, CtState, Engine, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use testkit::host::{has_root_and, skip};
use testkit::namespace::Namespace;
use testkit::process::{run, wait_until};
use testkit::scratch::Scratch;
use wire::tcp::{ACK, FIN, RST, SYN};
use wire::{BytesPacket, FrameBuilder};

pub(crate) const TOOLS: [&str; 7] =
    ["ip", "nft", "unshare", "nsenter", "setpriv", "python3", "ethtool"];
const ENDS: [&str; 2] = ["a", "b"];
/// Number of attempts if the router loses packets.
const TRIES: u32 = 3;

/// nftables states, and the DSCP that stands for each.
const RULES: [(&str, u8); 5] = [
    ("ct state invalid", 1),
    ("ct state new", 2),
    ("ct state established ct direction original", 3),
    ("ct state established ct direction reply", 4),
    ("ct state related", 5),
];

/// State of a packet according to a tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    Invalid,
    New,
    Established,
    Reply,
    Related,
    /// The packet did not leave the tracker.
    Lost,
}

/// Two end points in one namespace, and a router between them in another.
pub(crate) struct Router {
    outer: Namespace,
    router: Namespace,
}

impl Router {
    pub(crate) fn new() -> Option<Self> {
        let (outer, router) = (Namespace::new()?, Namespace::new()?);
        for (number, end) in ENDS.into_iter().enumerate() {
            let peer = format!("peer name {end} netns {}", router.holder());
            if !outer.succeeds(&format!("ip link add dev outer-{end} type veth {peer}")) {
                skip("no veth interface can be made here");
                return None;
            }
            for (namespace, interface) in [(&outer, &*format!("outer-{end}")), (&router, end)] {
                namespace.run(&format!("ip link set dev {interface} addrgenmode none"));
                namespace.run(&format!("ethtool -K {interface} tx off gro off"));
                namespace
                    .run(&format!("ip link set dev {interface} address 02:00:00:00:00:0{number}"));
                namespace.run(&format!("ip link set dev {interface} up"));
            }
            let versions = [
                ("10.255", ".1/24", ".2", format!("10.{number}.0.0/16")),
                ("fd00:255:", "::1/64 nodad", "::2", format!("fd00:{number}::/32")),
            ];
            for (prefix, own, next, route) in versions {
                let separator = if prefix.ends_with(':') { "" } else { "." };
                let network = format!("{prefix}{separator}{number}");
                let next = format!("{network}{next}");
                router.run(&format!("ip address add {network}{own} dev {end}"));
                let mac = format!("02:00:00:00:00:0{number}");
                router.run(&format!("ip neigh add {next} lladdr {mac} dev {end}"));
                router.run(&format!("ip route add {route} via {next}"));
            }
        }
        let router = Self { outer, router };
        router.wait_for_links();
        router.set("net/ipv4/ip_forward", 1);
        router.set("net/ipv6/conf/all/forwarding", 1);
        for place in ["all", "a", "b"] {
            router.set(&format!("net/ipv4/conf/{place}/rp_filter"), 0);
        }
        router.track().then_some(router)
    }

    /// Waits until all links are up. Before, the kernel drops packets without an error.
    fn wait_for_links(&self) {
        for end in ENDS {
            for (namespace, interface) in
                [(&self.outer, &*format!("outer-{end}")), (&self.router, end)]
            {
                let show = format!("ip -o link show dev {interface}");
                wait_until("a link of the router", || namespace.run(&show).contains("state UP"));
            }
        }
    }

    fn set(&self, name: &str, value: u32) {
        let script = format!("echo {value} > /proc/sys/{name}");
        run(self.router.command("sh").args(["-c", &script]));
    }

    /// Installs rules that track and mark all packets. False if the kernel does not accept them.
    fn track(&self) -> bool {
        let mut rules = "table inet millrace { chain words {\n\
                         type filter hook forward priority 0; policy accept;\n"
            .to_owned();
        for (state, dscp) in RULES {
            for (version, header) in [("ipv4", "ip"), ("ipv6", "ip6")] {
                let rule =
                    format!("meta nfproto {version} {state} {header} dscp set {dscp} accept");
                writeln!(rules, "{rule}").expect("a string takes all");
            }
        }
        let made = self.router.command("nft").args([&format!("{rules}}}\n}}\n")]).output();
        let is_made = made.is_ok_and(|made| made.status.success());
        if !is_made {
            skip("the kernel takes no nftables rules with connection tracking");
        }
        is_made
    }

    /// Returns the kernel's state of each packet. If packets were lost, it starts over with another
    /// router. All interfaces of a cpu share a queue of the kernel, which another test may have
    /// filled.
    pub(crate) fn words_of_all(&self, scratch: &Scratch, frames: &[(usize, Vec<u8>)]) -> Vec<Word> {
        let lost = |words: &[Word]| words.iter().filter(|word| **word == Word::Lost).count();
        let (mut words, mut tries) = (self.words(scratch, frames), 1);
        while lost(&words) > 0 && tries < TRIES {
            let router = Self::new().expect("there is one already");
            (words, tries) = (router.words(scratch, frames), tries + 1);
        }
        assert_eq!(lost(&words), 0, "the router loses packets, in each of {tries} tries");
        assert_eq!(words.len(), frames.len());
        words
    }

    /// Has the kernel count packets and bytes of connections from now on.
    pub(crate) fn count_bytes(&self) {
        self.set("net/netfilter/nf_conntrack_acct", 1);
    }

    /// Returns the command of the tool that lists the kernel's connections.
    pub(crate) fn conntrack(&self) -> Command {
        self.router.command("conntrack")
    }

    /// Returns the kernel's list of connections of both IP versions.
    pub(crate) fn list(&self) -> String {
        let list = |family| run(self.conntrack().args(["-L", "-o", "extended", "-f", family]));
        list("ipv4") + &list("ipv6")
    }

    /// Waits until a process listens to events of the kernel's connections. In `/proc/net/netlink`,
    /// the second word is the protocol, 12 for netfilter, and the fourth the groups of events.
    pub(crate) fn wait_for_listener(&self) {
        wait_until("the kernel has a listener", || {
            let sockets = self.router.run("cat /proc/net/netlink");
            sockets.lines().any(|socket| {
                let words: Vec<_> = socket.split_whitespace().collect();
                words[1] == "12" && words[3] != "00000000"
            })
        });
    }

    /// Returns the kernel's state of each packet.
    pub(crate) fn words(&self, scratch: &Scratch, frames: &[(usize, Vec<u8>)]) -> Vec<Word> {
        let [script, input, output] = ["script.py", "in", "out"].map(|name| scratch.path(name));
        std::fs::write(&script, include_str!("conntrack.py")).unwrap();
        let mut bytes = Vec::new();
        for (from, frame) in frames {
            bytes.push(*from as u8);
            bytes.extend((frame.len() as u16).to_le_bytes());
            bytes.extend(frame);
        }
        std::fs::write(&input, bytes).unwrap();
        run(self.outer.command("python3").args([&script, &input, &output]));
        let word = |dscp: u8| match dscp {
            1 => Word::Invalid,
            2 => Word::New,
            3 => Word::Established,
            4 => Word::Reply,
            5 => Word::Related,
            _ => Word::Lost,
        };
        std::fs::read(&output).unwrap().into_iter().map(word).collect()
    }
}

impl Router {
    /// Compares the kernel's states of these sessions with the engine's, and prints the number of
    /// differences by reason. Returns the share of equal states. `why` returns the reason for a
    /// packet of a session, or panics with both states.
    pub(crate) fn compare(
        &self,
        what: &str,
        sessions: &[Vec<(usize, Vec<u8>)>],
        why: impl Fn(usize, usize, &str) -> &'static str,
    ) -> f64 {
        let frames = sessions.concat();
        let kernel = self.words_of_all(&new_scratch(what), &frames);
        let (mut kernel, mut same) = (&kernel[..], 0);
        let mut reasons = BTreeMap::<_, u32>::new();
        for (session, frames) in sessions.iter().enumerate() {
            let (here, rest) = kernel.split_at(frames.len());
            let own = own_words(frames);
            for packet in 0..own.len() {
                if own[packet] == here[packet] {
                    same += 1;
                    continue;
                }
                let told = format!("{own:?}, kernel {here:?}");
                *reasons.entry(why(session, packet, &told)).or_default() += 1;
            }
            kernel = rest;
        }
        let (all, count) = (frames.len(), sessions.len());
        println!("{what}: {same} of {all} packets of {count} sessions are the same to both");
        for (reason, packets) in reasons {
            println!("{packets} packets: {reason}");
        }
        f64::from(same) / all as f64
    }
}

/// Returns the number of sessions of a test, at most `most`.
pub(crate) fn sessions(most: usize) -> usize {
    scaled("MILLRACE_SESSIONS", 1000).min(most as u64) as usize
}

/// Returns the seed of the sessions.
pub(crate) fn seed() -> u64 {
    scaled("MILLRACE_SEED", 1)
}

/// Returns the engine's state of each packet of one session.
pub(crate) fn own_words(frames: &[(usize, Vec<u8>)]) -> Vec<Word> {
    let config = Config { capacity_ipv4: 16, capacity_ipv6: 16, ..Config::default() };
    let mut engine = Engine::new(&config);
    let word = |(now, (_, frame)): (u64, &(usize, Vec<u8>))| {
        let (mut verdict, mut state) = ([Verdict::Forward], [CtState::UNTRACKED]);
        let packets = [BytesPacket::new(frame)];
        engine.process_with_states(now * 1_000_000, &packets, &mut verdict, &mut state);
        while engine.next_record().is_some() {}
        match state {
            [CtState::INVALID] => Word::Invalid,
            [CtState::NEW] => Word::New,
            [CtState::ESTABLISHED] => Word::Established,
            [state] if state == CtState::ESTABLISHED | CtState::REPLY => Word::Reply,
            [state] if state.contains(CtState::RELATED) => Word::Related,
            _ => Word::Lost,
        }
    };
    (0..).zip(frames).map(word).collect()
}

/// Returns the known reason why the kernel's state of the last segment differs.
pub(crate) fn explanation(segments: &[Segment]) -> Option<&'static str> {
    let is = |segment: &Segment, flags: u8| segment.flags & (SYN | FIN | RST | ACK) == flags;
    let (last, before) = segments.split_last()?;
    let first_syn = before.iter().position(|segment| is(segment, SYN));
    let was_answered = before.iter().position(|segment| is(segment, SYN | ACK));
    let is_syn_again = |segment: &Segment| segment.from == 0 && is(segment, SYN);
    let fins = before.iter().filter(|segment| is(segment, FIN | ACK)).count();
    if is_syn_again(last) && fins >= 2 {
        return Some("any two FINs and an ACK are the end there; here, one of each, acknowledged");
    }
    let reset = before.iter().position(|segment| segment.flags & RST != 0);
    let is_one_sided = |until: usize| before[..until].iter().all(|s| s.from == before[0].from);
    if reset.is_some_and(is_one_sided) {
        return Some("an RST where one side is known takes the entry away there at once");
    }
    let answered = was_answered.filter(|_| first_syn.is_some())?;
    let is_synced_anew = before[answered..].iter().any(is_syn_again);
    is_synced_anew.then_some("a repeated SYN and its answer set the windows anew there, too low")
}

/// Returns the packets of all sessions, one session after the other.
pub(crate) fn frames_of(sessions: &[Vec<Segment>]) -> Vec<(usize, Vec<u8>)> {
    let mut frames = Vec::new();
    for (number, segments) in sessions.iter().enumerate() {
        let [high, low] = (number as u16).to_be_bytes();
        let sport = 1024 + (number >> 16) as u16;
        let ends = FrameBuilder::ipv4([10, 0, high, low], [10, 1, high, low]).tcp(sport, 80);
        for segment in segments {
            let to = [2, 0, 0, 0, 0, segment.from as u8];
            let frame = segment.frame(&ends).macs([2, 0, 0, 0, 0, 0x10], to);
            frames.push((segment.from, frame.ip_id(frames.len() as u32).build()));
        }
    }
    frames
}

/// Formats the segments of a session, with both states of each.
pub(crate) fn told(segments: &[Segment], own: &[Word], kernel: &[Word]) -> String {
    let mut text = String::new();
    for (segment, (own, kernel)) in segments.iter().zip(own.iter().zip(kernel)) {
        writeln!(text, "  {segment:?}: {own:?}, kernel {kernel:?}").expect("a string takes all");
    }
    text
}

/// `make prove-conntrack` runs it with a million packets.
#[test]
fn the_kernel_says_the_same_of_tcp() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(router) = Router::new() else { return };
    let (count, seed) = (sessions(usize::MAX), seed());
    let scratch = new_scratch("conntrack");
    // In the kernel, a FIN begins no connection; the engine picks it up. Then all later states
    // differ.
    let begins = |segments: &Vec<Segment>| segments.first().is_some_and(|s| s.flags & FIN == 0);
    let all = (0..).map(|i| session(seed << 32 | i)).filter(begins).take(count);
    let sessions: Vec<_> = all.collect();
    let frames = frames_of(&sessions);
    let kernel = router.words_of_all(&scratch, &frames);

    let (mut at, mut same) = (0, 0);
    let mut reasons = BTreeMap::<_, u32>::new();
    for segments in &sessions {
        let here = at..at + segments.len();
        let (own, kernel) = (own_words(&frames[here.clone()]), &kernel[here.clone()]);
        let is_same = |i: &usize| own[*i] == kernel[*i];
        same += (0..segments.len()).filter(is_same).count();
        // Later differences may follow from the first one.
        if let Some(first) = (0..segments.len()).find(|i| !is_same(i)) {
            let so_far = &segments[..=first];
            let reason = explanation(so_far);
            let reason = reason.unwrap_or_else(|| panic!("{}", told(so_far, &own, kernel)));
            *reasons.entry(reason).or_default() += 1;
        }
        at = here.end;
    }
    println!("{same} of {} packets of {count} sessions are the same to both", frames.len());
    for (reason, sessions) in reasons {
        println!("{sessions} sessions: {reason}");
    }
    // With few sessions, one different session is a large share.
    let least = if count < 10_000 { 995 } else { 999 };
    assert!(1000 * same >= least * frames.len());
}
