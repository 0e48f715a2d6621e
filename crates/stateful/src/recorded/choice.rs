// SPDX-License-Identifier: BSD-3-Clause
//! Chooses sessions of a capture, and what becomes of their pauses.

use super::Session;
use crate::profile::Transport;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Which pauses of a capture become delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pauses {
    /// All of a millisecond or more.
    #[default]
    All,
    /// Those of UDP: TCP sends as fast as the other end takes it.
    Udp,
    /// None.
    None,
}

impl Pauses {
    pub(super) fn are_kept(self, transport: Transport) -> bool {
        self == Self::All || self == Self::Udp && transport == Transport::Udp
    }
}

/// Sessions of a capture, written as a list such as `tcp/80,udp,3-5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Transport(Transport, Option<u16>),
    /// Numbers of sessions, from 1.
    Numbers(RangeInclusive<usize>),
}

impl Choice {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(|part| Part::parse(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// True for session `number` of the capture.
    pub(crate) fn has(&self, number: usize, session: &Session) -> bool {
        self.0.iter().any(|part| match part {
            Part::Transport(transport, port) => {
                *transport == session.transport && port.is_none_or(|it| it == session.port())
            }
            Part::Numbers(numbers) => numbers.contains(&number),
        })
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        let fault =
            || format!("sessions: {text:?} is none of tcp, udp, tcp/PORT, udp/PORT, N and N-M");
        let (name, port) = text.split_once('/').map_or((text, None), |(it, port)| (it, Some(port)));
        let transport = match name {
            "tcp" => Some(Transport::Tcp),
            "udp" => Some(Transport::Udp),
            _ => None,
        };
        if let Some(transport) = transport {
            let port = port.map(|port| port.parse().map_err(|_| fault())).transpose()?;
            return Ok(Self::Transport(transport, port));
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok(Self::Numbers(first..=last)),
            _ => Err(fault()),
        }
    }
}
