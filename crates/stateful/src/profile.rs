// SPDX-License-Identifier: BSD-3-Clause
//! The profile of stateful traffic: who talks to whom, how often, and what both ends do.

mod action;
mod range;
mod share;
mod target;
mod template;

pub use range::AddressRange;
pub(crate) use range::{is_ipv4, number_of, number_of_v4};
pub(crate) use share::Share;
pub use target::{ROUNDS_MAX, Target};

use crate::program::{Program, ProgramError, Step};
use crate::recorded::Pauses;
use action::ReadFile;
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use template::{TemplateText, Templates};

/// Largest number of templates.
const TEMPLATES_MAX: usize = 256;
/// Longest payloads of UDP that fit into a packet of 1500 bytes, of IPv4 and of IPv6.
pub(crate) const DATAGRAM_MAX: u32 = 1472;
const DATAGRAM_MAX_V6: u32 = 1452;

/// A profile. The same templates serve clients and servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Addresses of clients, and of servers.
    pub clients: AddressRange,
    /// Addresses of servers: of the same family.
    pub servers: AddressRange,
    /// Source ports of clients.
    pub client_ports: RangeInclusive<u16>,
    /// Times that ends wait.
    pub timeouts: Timeouts,
    /// Kinds of connections.
    pub templates: Vec<Template>,
    /// Held connections that are released each second, the oldest first, once all are open. If
    /// none, they are held until the end.
    pub churn: Option<f64>,
    /// What users should know of captures: which sessions are left out.
    pub notes: Vec<String>,
}

/// One kind of connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Name in results.
    pub name: String,
    /// Protocol.
    pub transport: Transport,
    /// Port of the server.
    pub port: u16,
    /// Connections that are opened each second, more than 0.
    pub cps: f64,
    /// Connections: that are open at most if `is_continuous`, otherwise in total.
    pub limit: Option<u64>,
    /// True if a new connection follows one that has ended, while `limit` allows it.
    pub is_continuous: bool,
    /// The servers that it has, among the templates of the same protocol and port.
    pub(crate) share: Share,
    pub(crate) client: Program,
    pub(crate) server: Program,
}

/// Protocol of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP: each message is one datagram.
    Udp,
}

impl Transport {
    /// Returns the name in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Times that ends of connections wait, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// An end gives up when it has waited this long for data, or a UDP server for a datagram.
    pub idle_ms: u32,
    /// A UDP client gives up when it has waited this long for an answer.
    pub answer_ms: u32,
    /// An acknowledgement waits this long for data that it can travel with.
    pub delayed_ack_ms: u32,
    /// A tuple of addresses and ports is not used again before this time.
    pub reuse_ms: u32,
    /// Times that a SYN is sent again.
    pub syn_retries: u8,
    /// Times that data is sent again.
    pub retries: u8,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            idle_ms: 30_000,
            answer_ms: 1000,
            delayed_ack_ms: 40,
            reuse_ms: 1000,
            syn_retries: 4,
            retries: 8,
        }
    }
}

impl Timeouts {
    /// Makes ends wait for longer than the other end delays its data.
    fn wait_for_delays(&mut self, longest_ms: u32) {
        for timeout in [&mut self.idle_ms, &mut self.answer_ms] {
            if *timeout <= longest_ms {
                *timeout = longest_ms.saturating_add(Self::default().answer_ms);
            }
        }
    }

    /// Makes ends wait for a second longer than the other end pauses in a capture: its pauses are
    /// not exact.
    fn wait_for_pauses(&mut self, longest_ms: u32) {
        for timeout in [&mut self.idle_ms, &mut self.answer_ms] {
            if longest_ms > 0 {
                *timeout = (*timeout).max(longest_ms.saturating_add(Self::default().answer_ms));
            }
        }
    }

    /// Lets servers wait for the next of rounds, of which two take this long.
    fn wait_for_rounds(&mut self, two_rounds_ms: u32) {
        self.idle_ms = self.idle_ms.max(two_rounds_ms.saturating_add(1000));
    }
}

/// A profile as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    clients: Option<AddressRange>,
    servers: Option<AddressRange>,
    #[serde(default = "default_ports", deserialize_with = "range::ports")]
    client_ports: RangeInclusive<u16>,
    #[serde(default)]
    timeouts: Timeouts,
    template: Vec<TemplateText>,
}

/// Returns the addresses of clients and servers of profiles that name none: those for measurements
/// (RFC 2544 appendix C.2.2, RFC 5180 section 8).
fn default_ranges(is_ipv6: bool) -> [AddressRange; 2] {
    let range = |first: IpAddr, count| AddressRange::new(first, count);
    match is_ipv6 {
        false => [range([198, 18, 0, 1].into(), 65_534), range([198, 19, 0, 1].into(), 254)],
        true => [
            range([0x2001, 2, 0, 0, 0, 0, 0, 1].into(), 65_534),
            range([0x2001, 2, 0, 1, 0, 0, 0, 1].into(), 254),
        ],
    }
}

fn default_ports() -> RangeInclusive<u16> {
    1024..=65_535
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No TOML, or not these keys.
    #[error(transparent)]
    Text(#[from] toml::de::Error),
    /// No JSON, or not these members.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Values that contradict each other.
    #[error("{0}")]
    Whole(String),
    /// A template that cannot be used.
    #[error("template {name}: {fault}")]
    Template {
        /// Its name.
        name: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A program that cannot be used.
    #[error("template {name}: {end}: {fault}")]
    Program {
        /// Name of the template.
        name: String,
        /// The end: client or server.
        end: &'static str,
        /// What is wrong with it.
        fault: ProgramError,
    },
}

impl Profile {
    /// Reads a profile in TOML. `read` returns the contents of the files that it names.
    pub fn from_toml(
        text: &str,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, ProfileError> {
        Self::compile(toml::from_str(text)?, read)
    }

    /// Reads a profile that has the keys and values of the TOML form as JSON.
    pub fn from_json(
        text: &str,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, ProfileError> {
        Self::compile(serde_json::from_str(text)?, read)
    }

    /// Makes a profile of the sessions of a capture, each of which is opened once a second.
    /// `sessions` chooses some of them, as in a template.
    pub fn from_capture(
        path: &Path,
        (sessions, pauses): (Option<&str>, Pauses),
        read: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, ProfileError> {
        let template = vec![TemplateText::of_capture(path, sessions, pauses)];
        let timeouts = Timeouts::default();
        let client_ports = default_ports();
        let text = ProfileText { clients: None, servers: None, client_ports, timeouts, template };
        let mut profile = Self::compile(text, read)?;
        profile.templates.iter_mut().for_each(|template| template.cps = 1.0);
        Ok(profile)
    }

    fn compile(text: ProfileText, read: ReadFile<'_>) -> Result<Self, ProfileError> {
        let ProfileText { clients, servers, client_ports, mut timeouts, template } = text;
        if template.is_empty() {
            let fault = "[[template]]: a profile has at least one";
            return Err(ProfileError::Whole(fault.to_owned()));
        }
        let mut all = Templates::default();
        for (number, template) in (1..).zip(template) {
            template.compile(number, read, &mut all)?;
        }
        let Templates { mut templates, notes, longest_pause_ms, is_ipv6 } = all;
        if templates.len() > TEMPLATES_MAX {
            let fault = format!(
                "there are {} kinds of connections; the most are {TEMPLATES_MAX}: choose fewer \
                 sessions of a capture, such as sessions = \"1-{TEMPLATES_MAX}\"",
                templates.len()
            );
            return Err(ProfileError::Whole(fault));
        }
        let [default_clients, default_servers] = default_ranges(is_ipv6);
        let clients = clients.unwrap_or(default_clients);
        let servers = servers.unwrap_or(default_servers);
        if clients.is_ipv4() != servers.is_ipv4() {
            let fault = "clients and servers: one range is IPv4, the other IPv6";
            return Err(ProfileError::Whole(fault.to_owned()));
        }
        if clients.overlaps(&servers) {
            let fault = "clients and servers: the ranges have an address in common";
            return Err(ProfileError::Whole(fault.to_owned()));
        }
        let longest = |it: &Template| match it.transport {
            Transport::Udp => it.client.longest.max(it.server.longest),
            Transport::Tcp => 0,
        };
        let longest = templates.iter().map(longest).max().unwrap_or(0);
        if longest > DATAGRAM_MAX_V6 && !clients.is_ipv4() {
            return Err(ProfileError::Whole(format!(
                "{longest} bytes do not fit into a datagram of IPv6; the most are {DATAGRAM_MAX_V6}"
            )));
        }
        Share::assign(&mut templates, servers.count())?;
        timeouts.wait_for_pauses(longest_pause_ms);
        let programs = templates.iter().flat_map(|it| [&it.client, &it.server]);
        timeouts.wait_for_delays(programs.map(Program::longest_delay_ms).max().unwrap_or(0));
        Ok(Self { clients, servers, client_ports, timeouts, templates, churn: None, notes })
    }

    /// Has `count` connections open at a time: each template its share, by connections per second.
    /// A new one follows each that ends.
    pub fn keep_open(&mut self, count: u64) {
        let (mut left, mut rest) = (count, self.cps());
        for template in &mut self.templates {
            // What is left is shared among the rest, so that no connection is lost by rounding.
            let limit = (left as f64 * template.cps / rest).round() as u64;
            (template.limit, template.is_continuous) = (Some(limit), true);
            left -= limit.min(left);
            rest = (rest - template.cps).max(f64::MIN_POSITIVE);
        }
    }

    /// Closes `rate` connections a second, the oldest first, when as many are open as should be.
    /// All clients hold their connections after their last action.
    pub fn release_oldest(&mut self, rate: f64) {
        self.churn = Some(rate);
        for template in &mut self.templates {
            template.client.hold_instead_of_waiting();
            template.client.wait_before_close(Step::Hold);
            if template.transport == Transport::Tcp {
                template.server.wait_before_close(Step::WaitForClose);
            }
        }
    }

    /// Returns the number of the template that the server at a place of its range has at a port.
    #[inline(always)]
    pub(crate) fn template_at(&self, proto: Transport, port: u16, server: u32) -> Option<usize> {
        let listens = |it: &Template| (it.transport, it.port) == (proto, port);
        self.templates.iter().position(|it| listens(it) && it.share.has(server))
    }

    /// Returns the connections that all templates open each second.
    pub fn cps(&self) -> f64 {
        self.templates.iter().map(|template| template.cps).sum()
    }
}

#[cfg(test)]
mod tests;
