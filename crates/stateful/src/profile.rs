// SPDX-License-Identifier: BSD-3-Clause
//! The profile of stateful traffic: who talks to whom, how often, and what both ends do.

mod action;
mod range;

pub use range::AddressRange;
pub(crate) use range::{is_ipv4, number_of, number_of_v4};

use crate::program::{Action, Program, ProgramError};
use action::{ActionText, ReadFile};
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;

/// Largest number of templates.
const TEMPLATES_MAX: usize = 64;
/// Longest UDP datagram: what fits into a frame of 1500 bytes of IPv6.
const DATAGRAM_MAX: u32 = 1452;

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
    pub(crate) client: Program,
    pub(crate) server: Program,
}

/// Protocol of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP: each message is one datagram.
    Udp,
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

/// A profile as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    #[serde(default = "default_clients")]
    clients: AddressRange,
    #[serde(default = "default_servers")]
    servers: AddressRange,
    #[serde(default = "default_ports", deserialize_with = "range::ports")]
    client_ports: RangeInclusive<u16>,
    #[serde(default)]
    timeouts: Timeouts,
    template: Vec<TemplateText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateText {
    name: Option<String>,
    #[serde(default)]
    proto: Transport,
    port: u16,
    cps: f64,
    limit: Option<u64>,
    #[serde(default)]
    continuous: bool,
    client: Vec<ActionText>,
    server: Vec<ActionText>,
}

fn default_clients() -> AddressRange {
    AddressRange::new(IpAddr::from([198, 18, 0, 1]), 65_534)
}

fn default_servers() -> AddressRange {
    AddressRange::new(IpAddr::from([198, 19, 0, 1]), 254)
}

fn default_ports() -> RangeInclusive<u16> {
    1024..=65_535
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No TOML, or not these keys.
    #[error("{0}")]
    Text(#[from] toml::de::Error),
    /// No JSON, or not these members.
    #[error("{0}")]
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

    fn compile(text: ProfileText, read: ReadFile<'_>) -> Result<Self, ProfileError> {
        let ProfileText { clients, servers, client_ports, timeouts, template } = text;
        if clients.is_ipv4() != servers.is_ipv4() {
            let fault = "clients and servers: one range is IPv4, the other IPv6";
            return Err(ProfileError::Whole(fault.to_owned()));
        }
        if clients.overlaps(&servers) {
            let fault = "clients and servers: the ranges have an address in common";
            return Err(ProfileError::Whole(fault.to_owned()));
        }
        if template.is_empty() || template.len() > TEMPLATES_MAX {
            let fault = format!("[[template]]: a profile has 1 to {TEMPLATES_MAX} of them");
            return Err(ProfileError::Whole(fault));
        }
        let templates = (0..).zip(template).map(|(number, it)| it.compile(number, read));
        let templates = templates.collect::<Result<Vec<_>, _>>()?;
        refuse_shared_ports(&templates)?;
        Ok(Self { clients, servers, client_ports, timeouts, templates })
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

    /// Returns the connections that all templates open each second.
    pub fn cps(&self) -> f64 {
        self.templates.iter().map(|template| template.cps).sum()
    }
}

fn refuse_shared_ports(templates: &[Template]) -> Result<(), ProfileError> {
    for (number, template) in templates.iter().enumerate() {
        let key = (template.transport, template.port);
        let before = &templates[..number];
        if let Some(other) = before.iter().find(|other| (other.transport, other.port) == key) {
            let fault = format!("template {} has the same proto and port", other.name);
            return Err(ProfileError::Template { name: template.name.clone(), fault });
        }
    }
    Ok(())
}

impl TemplateText {
    fn compile(self, number: usize, read: ReadFile<'_>) -> Result<Template, ProfileError> {
        let Self { name, proto, port, cps, limit, continuous, client, server } = self;
        let name = name.unwrap_or_else(|| format!("{}", number + 1));
        let refuse = |fault: &str| {
            Err(ProfileError::Template { name: name.clone(), fault: fault.to_owned() })
        };
        if !(cps.is_finite() && cps > 0.0) {
            return refuse("cps: connections per second must be more than 0");
        }
        if port == 0 {
            return refuse("port: must be 1 to 65535");
        }
        if limit == Some(0) {
            return refuse("limit: must be at least 1, or left out");
        }
        let compile = |end, text: Vec<ActionText>| compile(&name, end, text, (proto, read));
        let (client, server) = (compile("client", client)?, compile("server", server)?);
        for (end, receives, sends) in [
            ("client", client.received(), server.sent().len()),
            ("server", server.received(), client.sent().len()),
        ] {
            if receives > sends {
                return refuse(&format!(
                    "the {end} receives {receives} bytes, but the other end sends {sends}"
                ));
            }
        }
        let is_continuous = continuous;
        let transport = proto;
        Ok(Template { name, transport, port, cps, limit, is_continuous, client, server })
    }
}

fn compile(
    name: &str,
    end: &'static str,
    text: Vec<ActionText>,
    (transport, read): (Transport, ReadFile<'_>),
) -> Result<Program, ProfileError> {
    let refuse = |fault: String| {
        let fault = format!("{end}: {fault}");
        ProfileError::Template { name: name.to_owned(), fault }
    };
    let actions = text.into_iter().map(|it| it.resolve(read));
    let actions: Vec<Action> = actions.collect::<Result<_, _>>().map_err(refuse)?;
    if transport == Transport::Udp && actions.contains(&Action::WaitForClose) {
        return Err(refuse("wait_for_close: UDP has no end that the peer can see".to_owned()));
    }
    let fault = |fault| ProfileError::Program { name: name.to_owned(), end, fault };
    let program = Program::new(&actions).map_err(fault)?;
    if transport == Transport::Udp && program.longest > DATAGRAM_MAX {
        return Err(refuse(format!(
            "send: {} bytes do not fit into a datagram; the most are {DATAGRAM_MAX}",
            program.longest
        )));
    }
    Ok(program)
}

#[cfg(test)]
mod tests;
