// SPDX-License-Identifier: BSD-3-Clause
//! Joins a profile with its captures, and divides address pairs and ports between its templates.

use super::capture::Capture;
use super::decimal::Decimal;
use super::error::{MissingCapture, Note, ProfileError};
use super::pool::{FIRST_PORT, PORTS, Pool, TupleMaker};
use super::profile::{Profile, Settings, Template, Timing};
use super::script::Script;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Treatment of captures that the caller does not have and that no formula makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Refuse the profile. The error names each missing capture and its line.
    #[default]
    Refuse,
    /// Send one UDP frame of 64 bytes for each flow instead, at the rate of the template.
    Synthesise,
}

/// One of several equal parts of a profile's traffic, each for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) index: u32,
    pub(super) count: u32,
}

/// The traffic of a profile: its templates with their captures and tuples.
///
/// [`Traffic::load`](Self::load) computes its rates, [`Traffic::replay`](Self::replay) makes its
/// frames.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub(super) notes: Vec<Note>,
    pub(super) settings: Settings,
    pub(super) dual_port_mask: u32,
    pub(super) streams: Vec<BoundTemplate>,
    pub(super) share: Share,
    aging_s: [u64; 2],
}

/// A template with its capture and its tuples.
#[derive(Clone, Debug)]
pub(super) struct BoundTemplate {
    pub(super) template: Template,
    pub(super) script: Arc<Script>,
    pub(super) tuples: TupleMaker,
}

impl Profile {
    /// Joins the profile with its captures. `capture` returns the capture of a name in the profile.
    ///
    /// If `capture` returns `None`, a formula makes the captures of TRex's IMIX
    /// ([`Capture::by_formula`]), and `missing` decides about others. A note names each replaced
    /// capture.
    ///
    /// # Errors
    /// A capture is missing or cannot be replayed, or a template has more flows than tuples.
    pub fn bind(
        &self,
        mut capture: impl FnMut(&str) -> Option<Capture>,
        missing: Missing,
    ) -> Result<Traffic, ProfileError> {
        let mut notes = self.notes.clone();
        let mut absent = Vec::new();
        let mut captures = HashMap::new();
        for template in &self.templates {
            if captures.contains_key(template.name.as_str()) {
                continue;
            }
            if let Some(found) = capture(&template.name) {
                captures.insert(template.name.as_str(), found);
                continue;
            }
            let place = template.place.clone();
            let (made, text) = match (Capture::by_formula(&template.name), missing) {
                (Some(made), _) => (made, "is made by formula"),
                (None, Missing::Synthesise) => {
                    (Capture::stand_in(), "is missing: a UDP frame of 64 bytes is sent instead")
                }
                (None, Missing::Refuse) => {
                    absent.push(MissingCapture { place, name: template.name.clone() });
                    continue;
                }
            };
            notes.push(Note { place, text: format!("{} {text}", template.name) });
            captures.insert(template.name.as_str(), made);
        }
        if !absent.is_empty() {
            return Err(ProfileError::MissingCaptures(absent));
        }
        let streams = self.bind_templates(&captures)?;
        notes.sort_by_key(|note| note.place.line);
        Ok(Traffic {
            notes,
            settings: self.settings.clone(),
            dual_port_mask: self.dual_port_mask,
            streams,
            share: Share { index: 0, count: 1 },
            aging_s: [self.udp_aging_s, self.tcp_aging_s],
        })
    }

    fn bind_templates(
        &self,
        captures: &HashMap<&str, Capture>,
    ) -> Result<Vec<BoundTemplate>, ProfileError> {
        let mut scripts: HashMap<ScriptKey<'_>, Arc<Script>> = HashMap::new();
        let mut streams = Vec::with_capacity(self.templates.len());
        for (template, tuples) in self.templates.iter().zip(make_tuples(self)?) {
            let key = script_key(template);
            let script = match scripts.get(&key) {
                Some(script) => Arc::clone(script),
                None => {
                    let script = self.make_script(&captures[key.0], template)?;
                    scripts.insert(key, Arc::clone(&script));
                    script
                }
            };
            check_limit(template, &tuples, &script)?;
            streams.push(BoundTemplate { template: template.clone(), script, tuples });
        }
        Ok(streams)
    }

    fn make_script(
        &self,
        capture: &Capture,
        template: &Template,
    ) -> Result<Arc<Script>, ProfileError> {
        let script = Script::new(capture, template, &self.settings);
        script.map(Arc::new).map_err(|(frame, reason)| ProfileError::Capture {
            place: template.place.clone(),
            name: template.name.clone(),
            frame,
            reason,
        })
    }
}

/// Name, timing and flags on which a script depends. Templates with the same key share a script.
type ScriptKey<'a> = (&'a str, Timing, [bool; 3]);

fn script_key(template: &Template) -> ScriptKey<'_> {
    let flags = [template.keeps_src_port, template.has_side_flows, template.starts_at_server];
    (&template.name, template.timing, flags)
}

/// Refuses a limit above the number of different tuples.
fn check_limit(
    template: &Template,
    tuples: &TupleMaker,
    script: &Script,
) -> Result<(), ProfileError> {
    let (Some(limit), Some(place)) = (template.limit, &template.limit_place) else {
        return Ok(());
    };
    let distinct = tuples.distinct(script.varies_port);
    if u128::from(limit) <= distinct {
        return Ok(());
    }
    let reason = format!(
        "{limit} flows are more than the {distinct} different tuples of its pools; lower it or \
         widen the pools"
    );
    Err(ProfileError::Conflict { place: place.clone(), key: "limit", reason })
}

/// Divides the address pairs and client ports of each pool of clients between its templates, so
/// that no two templates make the same tuple.
///
/// Templates with a limit get consecutive pairs, and the ports that these need. The others divide
/// the remaining ports. If the limits need more ports than there are, all templates of the pool get
/// the same number.
fn make_tuples(profile: &Profile) -> Result<Vec<TupleMaker>, ProfileError> {
    let mut makers: Vec<TupleMaker> = Vec::with_capacity(profile.templates.len());
    let mut next_pair = vec![0; profile.clients.len()];
    for (index, template) in profile.templates.iter().enumerate() {
        let (clients, burst) = (&profile.clients[template.client_pool], template.burst.into());
        let first_pair = next_pair[template.client_pool];
        let flows = template.limit.unwrap_or(0).into();
        next_pair[template.client_pool] += u64::div_ceil(flows, burst);
        makers.push(TupleMaker {
            clients: clients.clone(),
            servers: servers_of(profile, template),
            burst,
            first_pair,
            first_port: 0,
            ports: TupleMaker::ports_for(clients, first_pair, flows, burst),
            salt: (index as u64) << 32,
        });
    }
    for pool in 0..profile.clients.len() {
        let of_pool = |template: &Template| template.client_pool == pool;
        let members = profile.templates.iter().zip(&mut makers).filter(|(it, _)| of_pool(it));
        assign_ports(members.collect())?;
    }
    Ok(makers)
}

fn servers_of(profile: &Profile, template: &Template) -> Pool {
    let pool = profile.servers[template.server_pool].clone();
    match template.server {
        Some(server) => Pool { first: server, last: server, ..pool },
        None => pool,
    }
}

fn assign_ports(mut members: Vec<(&Template, &mut TupleMaker)>) -> Result<(), ProfileError> {
    let endless = members.iter().filter(|(template, _)| template.limit.is_none());
    let widest = endless.clone().map(|(_, maker)| maker.burst).max().unwrap_or(0);
    let endless = endless.count() as u64;
    let limited = members.iter().fold(0u64, |sum, (_, maker)| sum.saturating_add(maker.ports));
    let fits = limited.saturating_add(widest * endless) <= PORTS;
    let each = if fits {
        (PORTS - limited) / endless.max(1)
    } else {
        PORTS / (members.len() as u64).max(1)
    };
    let mut next = FIRST_PORT;
    for (template, maker) in &mut members {
        let ports = if fits && template.limit.is_some() { maker.ports } else { each };
        maker.ports = ports - ports % maker.burst;
        if maker.ports == 0 {
            let (burst, place) = (maker.burst, template.place.clone());
            let reason = format!(
                "bursts of {burst} flows need {burst} client ports, and {ports} are left for this \
                 template; lower w, or give it a pool of clients of its own"
            );
            return Err(ProfileError::Conflict { place, key: "w", reason });
        }
        maker.first_port = next as u16;
        next += maker.ports;
    }
    Ok(())
}

impl Traffic {
    /// Returns part `index` of `count` equal parts of the profile, each for one thread. The result
    /// is always a part of the whole profile, even if `self` is a part.
    ///
    /// As in TRex, the flows of a `limit` are divided equally, and the first part also has the
    /// remainder. Rates are divided in the same proportion. So each flow repeats at the same rate,
    /// and the traffic does not depend on `count`. TRex divides rates equally: with a remainder,
    /// the flows of its first thread repeat more slowly.
    ///
    /// # Panics
    /// If `index` is not less than `count`.
    #[must_use]
    pub fn share(&self, index: u32, count: u32) -> Self {
        assert!(index < count, "there are {count} parts, and none has the number {index}");
        Self { share: Share { index, count }, ..self.clone() }
    }

    /// Returns the remarks on the profile and its captures, in the order of the file.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns remarks on templates whose five-tuples repeat sooner than `tcp_aging` or `udp_aging`
    /// permits, with `multiplier` times the profile's rates.
    #[must_use]
    pub fn aging_notes(&self, multiplier: Decimal) -> Vec<Note> {
        let mut notes = Vec::new();
        for stream in self.streams.iter().filter(|stream| stream.template.limit.is_none()) {
            let aging_s = self.aging_s[usize::from(stream.script.is_tcp)];
            let rate = stream.template.cps.to_f64() * multiplier.to_f64();
            let again_s = stream.tuples.distinct(stream.script.varies_port) as f64 / rate;
            if again_s < aging_s as f64 {
                let text = format!(
                    "five-tuples repeat after {again_s:.3} s, sooner than the aging of \
                     {aging_s} s; widen the pools"
                );
                notes.push(Note { place: stream.template.place.clone(), text });
            }
        }
        notes
    }

    /// Returns the first address of the clients and of the servers. TRex sends its probes between
    /// them.
    #[must_use]
    pub fn first_addresses(&self) -> [Ipv4Addr; 2] {
        let first = self.streams.first().map(|stream| stream.tuples.first_addresses());
        first.unwrap_or([Ipv4Addr::UNSPECIFIED; 2])
    }

    /// True if a client or server has this address.
    #[must_use]
    pub fn has_address(&self, address: Ipv4Addr) -> bool {
        let tuples = self.streams.iter().map(|stream| &stream.tuples);
        tuples.flat_map(|it| [&it.clients, &it.servers]).any(|pool| pool.contains(address))
    }

    /// Returns the length of the longest frame, without FCS.
    #[must_use]
    pub fn longest_frame(&self) -> usize {
        let steps = self.streams.iter().flat_map(|stream| &stream.script.steps);
        steps.map(|step| step.frame.len()).max().unwrap_or(0)
    }
}
