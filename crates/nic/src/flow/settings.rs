// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the data of `set` commands and the indirect actions of a port, and puts them into rules.

use super::grammar::{Command, DEFAULTS, Setting, parse};
use super::headers::bytes_of;
use dpdk::flow::{
    Action, ActionData, IndirectAction, Item, OtherAction, OtherActionKind, Rule, set_bits_of,
};
use std::collections::BTreeMap;

/// Data that actions refer to by name and number.
pub(super) struct Settings {
    headers: BTreeMap<(&'static str, u16), Vec<Item>>,
    samples: BTreeMap<u16, Vec<Action>>,
    extensions: BTreeMap<(&'static str, u16), (u8, Vec<Item>)>,
    /// The configuration of `conntrack`.
    conntrack: Vec<u8>,
}

impl Settings {
    /// Returns the settings that testpmd begins with.
    pub(super) fn new() -> Self {
        let conntrack = OtherActionKind::all().find(|kind| kind.name() == "conntrack");
        let mut settings = Self {
            headers: BTreeMap::new(),
            samples: BTreeMap::new(),
            extensions: BTreeMap::new(),
            conntrack: vec![0; conntrack.map_or(0, OtherActionKind::conf_len)],
        };
        for line in DEFAULTS {
            match parse(line, 1) {
                Ok(Some(Command::Set(setting))) => settings.set(&setting),
                other => unreachable!("{line}: {other:?}"),
            }
        }
        settings
    }

    /// Keeps the data of a command.
    pub(super) fn set(&mut self, setting: &Setting) {
        match setting {
            Setting::Headers { action, index, headers } => {
                self.headers.insert((action, *index), headers.clone());
            }
            Setting::Sample { index, actions } => {
                self.samples.insert(*index, actions.clone());
            }
            Setting::Ipv6Ext { action, index, protocol, headers } => {
                self.extensions.insert((action, *index), (*protocol, headers.clone()));
            }
            Setting::Conntrack(values) => {
                for (first, width, value) in values {
                    set_bits_of(&mut self.conntrack, *first, *width, *value);
                }
            }
        }
    }

    /// Returns `rule` with the data that its actions refer to; the reason if some is missing.
    pub(super) fn applied(
        &self,
        rule: &Rule,
        indirect: &BTreeMap<u32, (IndirectAction, Action)>,
    ) -> Result<Rule, String> {
        Ok(Rule { actions: self.actions(&rule.actions, indirect)?, ..rule.clone() })
    }

    fn actions(
        &self,
        actions: &[Action],
        indirect: &BTreeMap<u32, (IndirectAction, Action)>,
    ) -> Result<Vec<Action>, String> {
        let applied = actions.iter().map(|action| match action {
            Action::Other(other) => {
                self.other(other, indirect).map(|other| Action::Other(Box::new(other)))
            }
            action => Ok(action.clone()),
        });
        applied.collect()
    }

    fn other(
        &self,
        action: &OtherAction,
        indirect: &BTreeMap<u32, (IndirectAction, Action)>,
    ) -> Result<OtherAction, String> {
        let ActionData::Kept(number) = action.data else { return Ok(action.clone()) };
        let name = action.kind.name();
        let missing = || match name {
            "indirect" => format!("there is no indirect action #{number} on this port"),
            "sample" => format!(
                "nothing was set for `sample index {number}`: `set \
                                 sample_actions {number} ACTION / end`"
            ),
            _ => format!("nothing was set for `{name} index {number}`: see `help set`"),
        };
        let mut action = action.clone();
        if name == "indirect" {
            action.data = ActionData::Indirect(indirect.get(&number).ok_or_else(missing)?.0);
            return Ok(action);
        }
        let index = u16::try_from(number).map_err(|_| missing())?;
        action.data = match name {
            "sample" => {
                let actions = self.samples.get(&index).ok_or_else(missing)?;
                ActionData::Actions(self.actions(actions, indirect)?)
            }
            "conntrack" => {
                action.conf.clone_from(&self.conntrack);
                ActionData::None
            }
            "conntrack_update" => {
                action.conf[..self.conntrack.len()].copy_from_slice(&self.conntrack);
                ActionData::None
            }
            "ipv6_ext_push" | "ipv6_ext_remove" => {
                let (protocol, headers) =
                    self.extensions.get(&(name, index)).ok_or_else(missing)?;
                action.conf = vec![*protocol];
                match name {
                    "ipv6_ext_push" => ActionData::Bytes(bytes_of(headers)?),
                    _ => ActionData::None,
                }
            }
            "vxlan_encap" | "nvgre_encap" => {
                ActionData::Items(self.headers.get(&(name, index)).ok_or_else(missing)?.clone())
            }
            _ => {
                let headers = self.headers.get(&(name, index)).ok_or_else(missing)?;
                ActionData::Bytes(bytes_of(headers)?)
            }
        };
        Ok(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(lines: &[&str]) -> Settings {
        let mut settings = Settings::new();
        for line in lines {
            match parse(line, 1) {
                Ok(Some(Command::Set(setting))) => settings.set(&setting),
                other => panic!("{line}: {other:?}"),
            }
        }
        settings
    }

    fn applied(settings: &Settings, actions: &str) -> Result<OtherAction, String> {
        let line = format!("flow create 0 pattern end actions {actions} / end");
        let Ok(Some(Command::Create { rule, .. })) = parse(&line, 1) else { panic!("{line}") };
        let rule = settings.applied(&rule, &BTreeMap::new())?;
        match &rule.actions[0] {
            Action::Other(other) => Ok((**other).clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn headers_become_bytes_with_the_types_between_them() {
        let settings = settings(&["set raw_encap 4 eth src is 10:11:22:33:44:55 / vlan tci is 1 \
                                   inner_type is 0x0800 / ipv4 / udp dst is 4789 / vxlan vni is \
                                   2 / end_set"]);
        let action = applied(&settings, "raw_encap index 4").unwrap();
        let ActionData::Bytes(bytes) = action.data else { panic!("{action:?}") };
        assert_eq!(bytes.len(), 14 + 4 + 20 + 8 + 8);
        assert_eq!(bytes[6..18], [0x10, 0x11, 0x22, 0x33, 0x44, 0x55, 0x81, 0, 0, 1, 8, 0]);
        assert_eq!((bytes[18], bytes[18 + 9]), (0x45, 17));
        assert_eq!(bytes[38..42], [0, 0, 0x12, 0xb5]);
        assert_eq!(bytes[46..], [8, 0, 0, 0, 0, 0, 2, 0]);
        let missing = applied(&settings, "raw_encap index 5").unwrap_err();
        assert!(missing.contains("nothing was set for `raw_encap index 5`"), "{missing}");
    }

    #[test]
    fn a_tunnel_becomes_items() {
        let line = "set vxlan-with-vlan ip-version ipv6 vni 4 udp-src 4 udp-dst 5 ip-src ::1 \
                    ip-dst ::2222 vlan-tci 34 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22";
        for (settings, names) in [
            (settings(&[line]), &["eth", "vlan", "ipv6", "udp", "vxlan"][..]),
            (settings(&[]), &["eth", "ipv4", "udp", "vxlan"]),
        ] {
            let action = applied(&settings, "vxlan_encap").unwrap();
            let ActionData::Items(items) = action.data else { panic!("{action:?}") };
            let found: Vec<_> = items.iter().map(|item| item.kind.name()).collect();
            assert_eq!(found, names);
        }
    }

    /// The label of MPLS is the last of its stack.
    #[test]
    fn mpls_in_udp_is_put_before_packets() {
        let line = "set mplsoudp_encap ip-version ipv4 label 4 udp-src 5 udp-dst 10 ip-src \
                    127.0.0.1 ip-dst 128.0.0.1 eth-src 11:11:11:11:11:11 eth-dst \
                    22:22:22:22:22:22";
        let action = applied(&settings(&[line]), "mplsoudp_encap").unwrap();
        let ActionData::Bytes(bytes) = action.data else { panic!("{action:?}") };
        assert_eq!(bytes[12..15], [8, 0, 0x45]);
        assert_eq!(bytes[34..], [0, 5, 0, 10, 0, 0, 0, 0, 0, 0, 0x41, 0]);
    }

    #[test]
    fn samples_and_conntrack_are_kept() {
        let settings = settings(&[
            "set sample_actions 0 mark id 0x1234 / queue index 0 / end",
            "set conntrack com peer 1 is_orig 1 state 2",
            "set conntrack rply scale 7 sent_end 9",
        ]);
        let sample = applied(&settings, "sample ratio 2 index 0").unwrap();
        let expected = ActionData::Actions(vec![Action::Mark(0x1234), Action::Queue(0)]);
        assert_eq!((sample.conf, sample.data), (vec![0, 0, 0, 2], expected));
        let conntrack = applied(&settings, "conntrack").unwrap();
        assert_eq!(conntrack.conf[..8], [0, 1, 0, 1, 0, 0, 0, 2]);
        assert_eq!(conntrack.conf[32..40], [0, 0, 0, 7, 0, 0, 0, 9]);
    }
}
