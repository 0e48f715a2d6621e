// SPDX-License-Identifier: BSD-3-Clause
//! Finds which lists of headers are accepted, each with the masks that it needs.

use super::bench::{Bench, Stopped};
use super::pattern::{Bits, Pattern, words};
use super::steps::lines_of;
use super::subject::{Refused, RuleProbe};
use std::collections::BTreeMap;
use twin::personality::{Chain, INNER, RefusalFacts, Structure};
use twin::{Field, Place, Proto};

/// An accepted list of headers.
#[derive(Clone, Debug)]
pub(super) struct AcceptedChain {
    pub(super) headers: Vec<Proto>,
    /// Fields that must be fully masked: place of the header, field.
    pub(super) fields: Vec<(usize, Field)>,
    /// True if other sets of fields are refused.
    pub(super) is_exact: bool,
    /// True if errors in attributes or actions have no message of their own.
    pub(super) is_deaf: bool,
    /// True if packets with TCP, UDP and SCTP do not hit its rules.
    pub(super) other_transports_only: bool,
    /// Names of the fields that may be masked; `None` if its headers set the only limits.
    pub(super) only: Option<Vec<String>>,
}

impl AcceptedChain {
    /// Returns the pattern of the chain, with the required masks.
    pub(super) fn pattern(&self) -> Pattern {
        let pattern = Pattern::of(&self.headers);
        self.fields
            .iter()
            .fold(pattern, |pattern, &(at, field)| pattern.masked(at, field, Bits::Full))
    }

    /// Returns `HEADER.FIELD` of each field.
    fn names(&self) -> Vec<String> {
        self.fields.iter().map(|&(at, field)| self.name(at, field)).collect()
    }

    /// Returns a field's name in files: `HEADER.FIELD`, with a prefix behind a tunnel's header.
    pub(super) fn name(&self, at: usize, field: Field) -> String {
        let is_inner = self.headers[..at].iter().any(|proto| proto.is_tunnel());
        let behind = if is_inner { INNER } else { "" };
        format!("{behind}{}.{}", self.headers[at].name(), field.name)
    }
}

/// Returns the lists of headers to try.
pub(super) fn sensible() -> Vec<Vec<Proto>> {
    use Proto::{Eth, Gre, Gtpu, Icmp, Icmp6, Ipv4, Ipv6, Ipv6Frag, Sctp, Tcp, Udp, Vlan, Vxlan};
    let join = |parts: &[&[Proto]]| parts.concat();
    let transports: [&[Proto]; 6] = [&[], &[Tcp], &[Udp], &[Sctp], &[Icmp], &[Icmp6]];
    let mut chains = Vec::new();
    for link in [&[Eth][..], &[], &[Eth, Vlan], &[Vlan], &[Eth, Vlan, Vlan]] {
        for network in [&[][..], &[Ipv4], &[Ipv6], &[Ipv6, Ipv6Frag]] {
            for transport in transports {
                chains.push(join(&[link, network, transport]));
            }
        }
    }
    let tunnels: [&[Proto]; 3] = [&[Udp, Vxlan], &[Udp, Gtpu], &[Gre]];
    let inside: [&[Proto]; 6] = [&[], &[Eth], &[Ipv4], &[Ipv6], &[Eth, Ipv4], &[Eth, Ipv6]];
    for link in [&[Eth][..], &[]] {
        for (network, tunnel) in
            [Ipv4, Ipv6].into_iter().flat_map(|ip| tunnels.map(|tunnel| (ip, tunnel)))
        {
            for inner in inside {
                let has_network = inner.contains(&Ipv4) || inner.contains(&Ipv6);
                for transport in &transports[..if has_network { 4 } else { 1 }] {
                    chains.push(join(&[link, &[network], tunnel, inner, transport]));
                }
            }
        }
    }
    chains.extend([vec![Vxlan], vec![Gtpu], vec![Gre], vec![Ipv6Frag]]);
    chains.retain(|chain| !chain.is_empty());
    chains
}

/// Returns the sets of fields to try, the smallest first.
pub(super) fn sets(headers: &[Proto]) -> Vec<Vec<(usize, Field)>> {
    let of = |protos: &[Proto], names: &[&str]| {
        let at = headers.iter().position(|proto| protos.contains(proto));
        let fields = at.into_iter().flat_map(|at| {
            let field = move |name: &&str| headers[at].field(name);
            let fields: Vec<_> = names.iter().filter_map(field).collect();
            fields.into_iter().map(move |field| (at, field))
        });
        fields.collect::<Vec<_>>()
    };
    let ip = of(&[Proto::Ipv4, Proto::Ipv6], &["src", "dst"]);
    let ports = of(&[Proto::Tcp, Proto::Udp, Proto::Sctp], &["src", "dst"]);
    let tag = of(&[Proto::Sctp], &["tag"]);
    let mut sets = vec![
        Vec::new(),
        ip.clone(),
        [ip.clone(), ports.clone()].concat(),
        [ip, ports.clone(), tag].concat(),
        ports,
        of(&[Proto::Eth], &["src", "dst"]),
        of(&[Proto::Vlan], &["tci"]),
        of(&[Proto::Eth], &["type"]),
        of(&[Proto::Vxlan], &["vni"]),
        of(&[Proto::Gtpu], &["teid"]),
        of(&[Proto::Icmp, Proto::Icmp6], &["type", "code"]),
        of(&[Proto::Ipv6Frag], &["packet_id"]),
        of(&[Proto::Gre], &["protocol"]),
    ];
    let mut seen: Vec<Vec<(usize, Field)>> = Vec::new();
    sets.retain(|set| {
        !seen.contains(set) && {
            seen.push(set.clone());
            true
        }
    });
    sets
}

/// Finds the chains, and writes them, or which headers may follow which, into the draft.
///
/// Returns the accepted chains, and whether every list of known headers is accepted.
pub(super) fn probe(bench: &mut Bench<'_>) -> Result<(Vec<AcceptedChain>, bool), Stopped> {
    bench.stage("lists of headers")?;
    let chains = sensible();
    let silly = bench.ask_pattern(&Pattern::of(&[Proto::Tcp, Proto::Eth]))?.err();
    let mut taken = Vec::new();
    let mut refused = Vec::new();
    for (done, headers) in chains.iter().enumerate() {
        bench.step(done as u64, chains.len() as u64);
        match find(bench, headers, silly.as_ref())? {
            Ok(fields) => taken.push(AcceptedChain {
                headers: headers.clone(),
                fields,
                is_exact: false,
                is_deaf: false,
                other_transports_only: false,
                only: None,
            }),
            Err(words) => refused.push((headers.clone(), words)),
        }
    }
    for chain in &mut taken {
        exactness(bench, chain)?;
    }
    let is_free = are_free(bench, &taken, &refused)?;
    if !is_free {
        bench.draft.pattern.headers.clear();
        bench.draft.pattern.structure = Structure::default();
        bench.draft.pattern.unknown = usual_words(&refused);
    }
    Ok((taken, is_free))
}

/// Returns the chain with the fields that must be masked, or the first refusal if no set of fields
/// is accepted.
fn find(
    bench: &mut Bench<'_>,
    headers: &[Proto],
    silly: Option<&Refused>,
) -> Result<Result<Vec<(usize, Field)>, Refused>, Stopped> {
    let mut first = None;
    for set in sets(headers) {
        let pattern = set.iter().fold(Pattern::of(headers), |pattern, &(at, field)| {
            pattern.masked(at, field, Bits::Full)
        });
        let Err(refused) = bench.ask_pattern(&pattern)? else { return Ok(Ok(set)) };
        let is_hopeless = silly.is_some_and(|silly| silly.is_same_refusal(&refused));
        let refused = first.get_or_insert(refused);
        if is_hopeless {
            return Ok(Err(refused.clone()));
        }
    }
    Ok(Err(first.unwrap_or_else(|| unreachable!("the empty set is tried"))))
}

/// Finds whether every other set of fields is refused, and with which refusal.
fn exactness(bench: &mut Bench<'_>, chain: &mut AcceptedChain) -> Result<(), Stopped> {
    if chain.fields.len() < 2 {
        return Ok(());
    }
    let mut words = None;
    for &(at, field) in &chain.fields {
        let without = chain.pattern().masked(at, field, Bits::None);
        match bench.ask_pattern(&without)? {
            Ok(()) => return Ok(()),
            Err(refused) if is_whole(&refused, &chain.headers) => words = Some(refused.to_facts()),
            Err(_) => {}
        }
    }
    chain.is_exact = true;
    if bench.draft.pattern.not_exactly.is_none() {
        bench.draft.pattern.not_exactly = words;
    }
    Ok(())
}

/// True if a refusal is about the pattern as a whole, because it points at its end.
pub(super) fn is_whole(refused: &Refused, headers: &[Proto]) -> bool {
    refused.place == Some(Place::Item(headers.len()))
}

/// True if all lists of known headers are accepted, except those that no NIC could match or that
/// are refused for their order. If so, the draft lists the known headers instead of chains.
fn are_free(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    refused: &[(Vec<Proto>, Refused)],
) -> Result<bool, Stopped> {
    let is_known = |proto: &Proto| taken.iter().any(|chain| chain.headers.contains(proto));
    let known: Vec<_> = Proto::ALL.into_iter().filter(is_known).collect();
    let pattern = &mut bench.draft.pattern;
    if known.len() < Proto::ALL.len() {
        pattern.headers = known.iter().map(|proto| proto.name().to_owned()).collect();
        let strange = |(headers, _): &&(Vec<Proto>, Refused)| {
            headers.iter().filter(|proto| !known.contains(proto)).count() == 1
        };
        let (headers, words) = refused.iter().find(strange).unwrap_or(&refused[0]);
        let question = bench.about(&Pattern::of(headers));
        bench.draft.pattern.unknown = bench.new_refusal(&question, &Err(words.clone()));
    }
    structure(bench)?;
    let agrees = |headers: &Vec<Proto>, is_taken: bool| {
        bench.drafted(&bench.about(&Pattern::of(headers))).is_ok() == is_taken
    };
    Ok(taken.iter().all(|chain| !chain.is_exact && agrees(&chain.headers, true))
        && refused.iter().all(|(headers, _)| agrees(headers, false)))
}

/// Finds the refusals of headers that cannot follow each other.
fn structure(bench: &mut Bench<'_>) -> Result<(), Stopped> {
    use Proto::{Eth, Ipv4, Ipv6, Tcp, Udp, Vlan, Vxlan};
    type Slot = fn(&mut Structure) -> &mut Option<RefusalFacts>;
    let cases: [(&[Proto], Slot); 7] = [
        (&[Eth, Tcp], |structure| &mut structure.l4_without_l3),
        (&[Eth, Ipv4, Udp, Ipv4], |structure| &mut structure.l3_after_l4),
        (&[Ipv4, Eth], |structure| &mut structure.l2_after_l3),
        (&[Eth, Ipv4, Ipv6], |structure| &mut structure.two_l3),
        (&[Eth, Ipv4, Tcp, Udp], |structure| &mut structure.two_l4),
        (&[Eth, Vlan, Vlan], |structure| &mut structure.two_tags),
        (&[Eth, Ipv4, Vxlan], |structure| &mut structure.tunnel_without_udp),
    ];
    for (headers, slot) in cases {
        let question = bench.about(&Pattern::of(headers));
        let answer = bench.ask(&question)?;
        let refusal = bench.new_refusal(&question, &answer);
        *slot(&mut bench.draft.pattern.structure) = refusal;
    }
    Ok(())
}

/// Returns the most frequent refusal.
fn usual_words(refused: &[(Vec<Proto>, Refused)]) -> Option<RefusalFacts> {
    let mut counts: Vec<(&Refused, usize)> = Vec::new();
    for (_, words) in refused {
        match counts.iter_mut().find(|(known, _)| known.is_same_refusal(words)) {
            Some((_, count)) => *count += 1,
            None => counts.push((words, 1)),
        }
    }
    // Reversed, so that of equally frequent ones the first wins.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map(|(words, _)| words.to_facts())
}

/// Writes the chains into the draft.
pub(super) fn write(bench: &mut Bench<'_>, taken: &[AcceptedChain]) {
    type Kind = (Option<Vec<String>>, Option<Vec<String>>, bool);
    let mut kinds: BTreeMap<Kind, Vec<Vec<&'static str>>> = BTreeMap::new();
    for chain in taken {
        let exactly = chain.is_exact.then(|| chain.names());
        let kind = (exactly, chain.only.clone(), chain.other_transports_only);
        let names = chain.headers.iter().map(|proto| proto.name()).collect();
        kinds.entry(kind).or_default().push(names);
    }
    bench.draft.chains.clear();
    for ((exactly, only, other_transports_only), lists) in kinds {
        for items in lines_of(&lists) {
            let (exactly, only) = (exactly.clone(), only.clone());
            bench.draft.chains.push(Chain { items, exactly, only, other_transports_only });
        }
    }
}

/// Returns the text of a rule's pattern, for notes.
pub(super) fn in_words(question: &RuleProbe) -> String {
    let protos: Vec<_> = question.items.iter().map(|item| item.proto).collect();
    words(&protos)
}
