// SPDX-License-Identifier: BSD-3-Clause
//! Compiles a template as written: two programs, or the sessions of a capture.

use super::action::{ActionText, ReadFile};
use super::share::Share;
use super::{DATAGRAM_MAX, ProfileError, Template, Transport};
use crate::program::{Action, Program};
use crate::recorded::{CLIENT, Choice, Pauses, Recording, SERVER, Session};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The templates of a profile, and what of them concerns the whole profile.
#[derive(Default)]
pub(super) struct Templates {
    pub(super) templates: Vec<Template>,
    pub(super) notes: Vec<String>,
    /// Longest pause of the captures.
    pub(super) longest_pause_ms: u32,
    /// True if all templates are sessions over IPv6.
    pub(super) is_ipv6: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TemplateText {
    name: Option<String>,
    proto: Option<Transport>,
    port: Option<u16>,
    cps: f64,
    limit: Option<u64>,
    #[serde(default)]
    continuous: bool,
    client: Option<Vec<ActionText>>,
    server: Option<Vec<ActionText>>,
    capture: Option<PathBuf>,
    sessions: Option<String>,
    pauses: Option<Pauses>,
}

impl TemplateText {
    /// Returns a template of the sessions of a capture.
    pub(super) fn of_capture(path: &Path, sessions: Option<&str>, pauses: Pauses) -> Self {
        Self {
            name: None,
            proto: None,
            port: None,
            cps: 1.0,
            limit: None,
            continuous: false,
            client: None,
            server: None,
            capture: Some(path.to_owned()),
            sessions: sessions.map(str::to_owned),
            pauses: Some(pauses),
        }
    }

    /// Adds what template `number`, counted from 1, describes.
    pub(super) fn compile(
        mut self,
        number: usize,
        read: ReadFile<'_>,
        all: &mut Templates,
    ) -> Result<(), ProfileError> {
        let name = self.name.take().unwrap_or_else(|| number.to_string());
        let refuse = |fault: String| ProfileError::Template { name: name.clone(), fault };
        if !(self.cps.is_finite() && self.cps > 0.0) {
            return Err(refuse("cps: connections per second must be more than 0".to_owned()));
        }
        if self.port == Some(0) {
            return Err(refuse("port: must be 1 to 65535".to_owned()));
        }
        if self.limit == Some(0) {
            return Err(refuse("limit: must be at least 1, or left out".to_owned()));
        }
        if self.capture.is_some() {
            return self.compile_capture(&name, read, all);
        }
        if self.sessions.is_some() || self.pauses.is_some() {
            return Err(refuse(
                "sessions, pauses: they are for a template with capture".to_owned(),
            ));
        }
        let template = self.compile_programs(name, read)?;
        all.templates.push(template);
        all.is_ipv6 = false;
        Ok(())
    }

    fn compile_programs(self, name: String, read: ReadFile<'_>) -> Result<Template, ProfileError> {
        let Self { proto, port, cps, limit, continuous, client, server, .. } = self;
        let refuse = |fault: String| ProfileError::Template { name: name.clone(), fault };
        let (Some(client), Some(server)) = (client, server) else {
            return Err(refuse("needs client and server, or capture".to_owned()));
        };
        let port = port.ok_or_else(|| refuse("needs a port".to_owned()))?;
        let transport = proto.unwrap_or_default();
        let compile = |end, text: Vec<ActionText>| {
            let actions = text.into_iter().map(|it| it.resolve(read));
            let actions = actions.collect::<Result<Vec<_>, _>>();
            let actions = actions.map_err(|fault| refuse(format!("{end}: {fault}")))?;
            compile(&name, end, &actions, transport)
        };
        let (client, server) = (compile("client", client)?, compile("server", server)?);
        for (end, receives, sends) in [
            ("client", client.received(), server.sent().len()),
            ("server", server.received(), client.sent().len()),
        ] {
            if receives > sends {
                return Err(refuse(format!(
                    "the {end} receives {receives} bytes, but the other end sends {sends}"
                )));
            }
        }
        let (is_continuous, share) = (continuous, Share::ALL);
        Ok(Template { name, transport, port, cps, limit, is_continuous, share, client, server })
    }

    fn compile_capture(
        self,
        name: &str,
        read: ReadFile<'_>,
        all: &mut Templates,
    ) -> Result<(), ProfileError> {
        let refuse = |fault: String| ProfileError::Template { name: name.to_owned(), fault };
        if self.client.is_some() || self.server.is_some() || self.proto.is_some() {
            return Err(refuse("client, server, proto: they are in the capture".to_owned()));
        }
        let path = self.capture.as_deref().unwrap_or(Path::new(""));
        let file = path.display();
        let bytes = read(path);
        let bytes = bytes.map_err(|fault| refuse(format!("cannot read {file}: {fault}")))?;
        let recording = Recording::read(&file.to_string(), bytes).map_err(refuse)?;
        let chosen = self.choose(&recording, all).map_err(refuse)?;
        let pauses = self.pauses.unwrap_or_default();
        let count = chosen.len() as u64;
        let is_first = all.templates.is_empty();
        let is_ipv6 = chosen.iter().all(|(_, session)| session.is_ipv6());
        all.is_ipv6 = is_ipv6 && (is_first || all.is_ipv6);
        for (place, (number, session)) in (0..).zip(chosen) {
            let name = format!("{name}/{number}");
            let compile = |end, label| {
                let (actions, pause_ms) = session.actions(end, pauses);
                compile(&name, label, &actions, session.transport).map(|it| (it, pause_ms))
            };
            let (client, pause_ms) = compile(CLIENT, "client")?;
            let (server, _) = compile(SERVER, "server")?;
            all.longest_pause_ms = all.longest_pause_ms.max(pause_ms);
            all.templates.push(Template {
                name,
                transport: session.transport,
                port: self.port.unwrap_or(session.port()),
                cps: self.cps / count as f64,
                // The first ones take what does not divide.
                limit: self.limit.map(|limit| (limit + count - 1 - place) / count),
                is_continuous: self.continuous,
                share: Share::ALL,
                client,
                server,
            });
        }
        Ok(())
    }

    /// Returns the sessions to replay, with their numbers. Notes those that are left out.
    fn choose<'a>(
        &self,
        recording: &'a Recording,
        all: &mut Templates,
    ) -> Result<Vec<(usize, &'a Session)>, String> {
        let file = self.capture.as_deref().unwrap_or(Path::new("")).display();
        let choice = self.sessions.as_deref().map(Choice::parse).transpose()?;
        let is_chosen = |(number, session): &(usize, &Session)| {
            choice.as_ref().is_none_or(|choice| choice.has(*number, session))
        };
        let mut chosen: Vec<_> = (1..).zip(&recording.sessions).filter(is_chosen).collect();
        let count = chosen.len();
        let incomplete = chosen.iter().find_map(|(number, session)| {
            Some(format!("session {number} ({session}) {}", session.incomplete()?))
        });
        chosen.retain(|(_, session)| session.incomplete().is_none());
        for (number, session) in &chosen {
            if let Some(fault) = &session.fault {
                let way_out = "capture it whole, or choose other sessions";
                return Err(format!("{file}: session {number} ({session}): {fault}: {way_out}"));
            }
        }
        if chosen.is_empty() {
            let reason = match (incomplete, recording.sessions.len()) {
                (Some(incomplete), _) => incomplete,
                (None, 0) => "there is neither TCP nor UDP in it".to_owned(),
                (None, all) => {
                    let first = recording.sessions.iter().take(3).map(ToString::to_string);
                    let more = if all > 3 { ", ..." } else { "" };
                    let some = first.collect::<Vec<_>>().join(", ");
                    format!("none of its {all} sessions is chosen: {some}{more}")
                }
            };
            return Err(format!("{file} has no session to replay: {reason}"));
        }
        if let Some(first) = incomplete {
            let left = count - chosen.len();
            all.notes.push(format!("{file}: {left} sessions are left out: {first}"));
        }
        if recording.others > 0 {
            let others = recording.others;
            all.notes.push(format!("{file}: {others} packets are left out: no TCP, no UDP"));
        }
        Ok(chosen)
    }
}

fn compile(
    name: &str,
    end: &'static str,
    actions: &[Action],
    transport: Transport,
) -> Result<Program, ProfileError> {
    let refuse = |fault: String| {
        let fault = format!("{end}: {fault}");
        ProfileError::Template { name: name.to_owned(), fault }
    };
    if transport == Transport::Udp && actions.contains(&Action::WaitForClose) {
        return Err(refuse("wait_for_close: UDP has no end that the peer can see".to_owned()));
    }
    if end == "server" && actions.contains(&Action::Hold) {
        return Err(refuse(
            "hold: only clients hold: let the server \"wait_for_close\"".to_owned(),
        ));
    }
    let fault = |fault| ProfileError::Program { name: name.to_owned(), end, fault };
    let program = Program::new(actions).map_err(fault)?;
    if transport == Transport::Udp && program.longest > DATAGRAM_MAX {
        return Err(refuse(format!(
            "send: {} bytes do not fit into a datagram; the most are {DATAGRAM_MAX}",
            program.longest
        )));
    }
    Ok(program)
}
