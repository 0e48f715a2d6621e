// SPDX-License-Identifier: BSD-3-Clause
//! Plans the marks and labels that connections get when they begin.

use super::Settings;
use crate::{Fault, Mark, Place, Problem};
use engine::{EndpointMatch, Filter, MarkChange, MarkRule};
use wire::proto_names;

/// Returns the rules of a configuration, or all problems.
pub(super) fn plan_marks(
    marks: Vec<Mark>,
    has_labels: bool,
    settings: &mut Settings,
) -> Result<Vec<MarkRule>, Vec<Problem>> {
    let (found, most) = (marks.len(), MarkRule::MAX);
    if found > most {
        let (key, fault) = ("mark".to_owned(), Fault::TooManyMarks { found, most });
        return Err(vec![Problem { place: Place::Whole {}, key, fault }]);
    }
    let unkept = |(index, mark): (usize, &Mark)| {
        let label = mark.set_label.as_ref().filter(|_| !has_labels)?;
        let key = format!("mark[{index}].set_label");
        Some(Problem { place: label.place, key, fault: Fault::NoLabels })
    };
    let problems: Vec<_> = marks.iter().enumerate().filter_map(unkept).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(marks.into_iter().map(|mark| plan_mark(mark, settings)).collect())
}

fn plan_mark(mark: Mark, settings: &mut Settings) -> MarkRule {
    settings.open_element("mark");
    let filter = Filter {
        zone: mark.zone.map(|zone| settings.require("zone", zone)),
        proto: settings.take_text("proto", mark.proto, |proto| proto_names::name(*proto)),
        src: EndpointMatch {
            address: settings.take_text("src", mark.src, ToString::to_string),
            port: mark.sport.map(|port| settings.require("sport", port)),
        },
        dst: EndpointMatch {
            address: settings.take_text("dst", mark.dst, ToString::to_string),
            port: mark.dport.map(|port| settings.require("dport", port)),
        },
        either: EndpointMatch {
            address: settings.take_text("address", mark.address, ToString::to_string),
            port: mark.port.map(|port| settings.require("port", port)),
        },
        ..Filter::default()
    };
    let change = MarkChange {
        mark: settings.take_text("set_mark", mark.set_mark, ToString::to_string),
        label: settings.take_text("set_label", mark.set_label, ToString::to_string),
    };
    MarkRule { filter, change }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::{Config, Problem};
    use doctor::host::Cpus;
    use engine::{EndpointMatch, Filter, MarkChange, MarkRule, MaskedBits};

    fn plan(rest: &str) -> Result<Plan, String> {
        let cpus = Cpus { online: vec![0, 1], allowed: vec![0, 1], ..Cpus::default() };
        let text = format!("[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n{rest}");
        let line = |Problem { key, fault, .. }: &Problem| format!("{key}: {fault}");
        Plan::new(Config::read(&text), &cpus)
            .map_err(|problems| problems.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn each_section_is_a_rule() {
        let sections = "[table]\nlabels = true\n\
             [[mark]]\nset_mark = \"0x10/0xf0\"\n\
             [[mark]]\nzone = 7\nproto = \"udp\"\nsrc = \"10.0.0.0/8\"\nsport = 1\ndst = \"::1\"\n\
             dport = 2\naddress = \"10.0.0.1\"\nport = 3\nset_label = \"5\"\n";
        let planned = plan(sections).unwrap();
        let bits = |text, len| Some(MaskedBits::read(text, len).unwrap());
        let end = |net: &str, port| EndpointMatch { address: net.parse().ok(), port: Some(port) };
        let all = MarkRule {
            filter: Filter::default(),
            change: MarkChange { mark: bits("0x10/0xf0", 32), label: None },
        };
        let some = MarkRule {
            filter: Filter {
                zone: Some(7),
                proto: Some(17),
                src: end("10.0.0.0/8", 1),
                dst: end("::1", 2),
                either: end("10.0.0.1", 3),
                ..Filter::default()
            },
            change: MarkChange { mark: None, label: bits("5", 128) },
        };
        assert_eq!(planned.engine.mark_rules, [all, some]);
        let shown = planned.settings.to_string();
        let again = Plan::new(
            Config::read(&shown),
            &Cpus { online: vec![0, 1], allowed: vec![0, 1], ..Cpus::default() },
        );
        assert_eq!(again.unwrap().engine.mark_rules, [all, some]);
    }

    #[test]
    fn what_is_no_rule_is_reported() {
        let told = |rest: &str| plan(rest).err().unwrap();
        assert_eq!(
            told("[[mark]]\nproto = \"udp\"\n"),
            "mark[0].set_mark: missing; write set_mark, set_label, or both"
        );
        assert_eq!(
            told("[[mark]]\nset_mark = \"1\"\n[[mark]]\nset_label = \"1\"\n"),
            "mark[1].set_label: connections have no labels; write labels = true in [table]"
        );
        assert_eq!(
            told(&"[[mark]]\nset_mark = \"1\"\n".repeat(MarkRule::MAX + 1)),
            "mark: there are 257 sections [[mark]]; at most 256 are allowed"
        );
        let both = told("[[zone]]\nids = [1]\ntimeouts = \"no\"\n[[mark]]\nset_label = \"1\"\n");
        assert!(both.contains("zone[0].timeouts") && both.contains("mark[0].set_label"), "{both}");
        for (key, value, says) in [
            ("proto", "\"ip\"", "write tcp, udp,"),
            ("src", "\"10/8\"", "write ADDRESS or ADDRESS/LENGTH"),
            ("address", "\"10.0.0.0/33\"", "write ADDRESS or ADDRESS/LENGTH"),
            ("sport", "65536", "0 to 65535"),
            ("set_mark", "\"0x1ffffffff\"", "of 32 bits"),
            ("set_mark", "\"3/1\"", "bits that are not in the mask"),
            ("state", "\"new\"", "no such key"),
        ] {
            let found = told(&format!("[[mark]]\n{key} = {value}\n"));
            assert!(found.contains(&format!("mark[0].{key}: ")) && found.contains(says), "{found}");
        }
    }
}
