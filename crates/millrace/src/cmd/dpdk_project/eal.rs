// SPDX-License-Identifier: BSD-3-Clause
//! Reads the EAL options before `--`. Takes cpus and devices from them; for each other option,
//! makes a note that it has no effect.
//!
//! Names and meanings are those of DPDK's `eal_common_options.c`.

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use doctor::host::CpuList;

/// An option without effect: its long name, its letter, whether it takes a value, and why it has no
/// effect.
type IgnoredOption = (&'static str, Option<char>, bool, &'static str);

const MEMORY: &str = "Millrace takes the memory that it needs, from hugepages if there are enough";
const OWN: &str = "every process of Millrace has its own";

const IGNORED_OPTIONS: [IgnoredOption; 21] = [
    ("memory-channels", Some('n'), true, "Millrace has no such setting"),
    ("memory", Some('m'), true, MEMORY),
    ("socket-mem", None, true, MEMORY),
    ("socket-limit", None, true, MEMORY),
    ("huge-dir", None, true, MEMORY),
    ("huge-unlink", None, false, MEMORY),
    ("no-huge", None, false, MEMORY),
    ("in-memory", None, false, MEMORY),
    ("legacy-mem", None, false, MEMORY),
    ("single-file-segments", None, false, MEMORY),
    ("file-prefix", None, true, OWN),
    ("main-lcore", None, true, "the control thread runs on cpus without workers"),
    ("block", Some('b'), true, "DPDK gets only the ports that are named"),
    ("driver", Some('d'), true, "DPDK finds its own drivers"),
    ("log-level", None, true, "DPDK's errors are printed"),
    ("syslog", None, true, "messages go to standard error"),
    ("no-telemetry", None, false, "there is no telemetry"),
    ("no-pci", None, false, "DPDK gets only the ports that are named"),
    ("no-shconf", None, false, OWN),
    ("iova-mode", None, true, "DPDK chooses it"),
    ("no-hpet", None, false, "the clock is the TSC"),
];

/// Settings from EAL options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Eal {
    /// Cpus in the order of the option; empty if no option names cpus.
    cpus: Vec<u32>,
    /// Devargs of `--vdev` and `-a`.
    pub(super) devices: Vec<String>,
    pub(super) notes: Vec<String>,
}

fn command() -> Command {
    let value =
        |id: &'static str| Arg::new(id).long(id).value_parser(NonEmptyStringValueParser::new());
    let mut command = Command::new("millrace gen dpdk-project")
        .disable_help_flag(true)
        .override_usage("millrace gen dpdk-project [EAL OPTIONS] -- <sendrecv|reflect> [OPTIONS]")
        .arg(value("lcores").short('l').help("Cpus, as 0-3,8"))
        .arg(value("coremask").short('c').conflicts_with("lcores"))
        .arg(value("vdev").action(ArgAction::Append))
        .arg(value("allow").short('a').action(ArgAction::Append))
        .arg(value("proc-type").value_parser(["primary", "auto"]));
    for (name, letter, takes_value, _) in IGNORED_OPTIONS {
        let arg = if takes_value {
            value(name).action(ArgAction::Append)
        } else {
            Arg::new(name).long(name).action(ArgAction::SetTrue)
        };
        command = command.arg(match letter {
            Some(letter) => arg.short(letter),
            None => arg,
        });
    }
    command
}

impl Eal {
    /// Reads EAL options.
    pub(super) fn parse(words: &[String]) -> Result<Self, clap::Error> {
        let name = std::iter::once(String::new());
        let found = command().try_get_matches_from(name.chain(words.iter().cloned()))?;
        let refuse = |message: &str| command().error(ErrorKind::ValueValidation, message);
        let text = |id: &str| found.get_one::<String>(id).map(String::as_str);
        let cpus = match (text("lcores"), text("coremask")) {
            (Some(list), _) => {
                let CpuList(cpus) = list.parse().map_err(|error| {
                    refuse(&format!("-l {list}: {error}; maps of lcores are not supported"))
                })?;
                cpus
            }
            (None, Some(mask)) => cpus_of_mask(mask)
                .ok_or_else(|| refuse(&format!("-c {mask}: write a mask of cpus, such as 0x3")))?,
            (None, None) => Vec::new(),
        };
        let all = |id: &str| found.get_many::<String>(id).into_iter().flatten().cloned();
        let devices = all("vdev").chain(all("allow")).collect();
        let is_given = |(name, _, takes_value, _): &&IgnoredOption| match takes_value {
            true => found.contains_id(name),
            false => found.get_flag(name),
        };
        let notes = IGNORED_OPTIONS.iter().filter(is_given).map(|(name, letter, _, reason)| {
            let option = letter.map_or_else(|| format!("--{name}"), |letter| format!("-{letter}"));
            format!("{option} has no effect: {reason}")
        });
        Ok(Self { cpus, devices, notes: notes.collect() })
    }

    /// Returns the cpus of the workers for `--cpus`, senders first. dpdk-project gives the first
    /// cpus to receive queues, and the next to transmit queues.
    pub(super) fn cpus_of(&self, rx: usize, tx: usize, notes: &mut Vec<String>) -> Vec<u32> {
        let cpus = &self.cpus;
        if cpus.len() < rx + tx {
            return cpus.clone();
        }
        if cpus.len() > rx + tx {
            let left = doctor::host::format_cpus(&cpus[rx + tx..]);
            notes.push(format!("-l: no worker is left for cpus {left}"));
        }
        [&cpus[rx..rx + tx], &cpus[..rx]].concat()
    }
}

/// Returns the cpus of a hexadecimal mask, ascending; `None` if the mask is wrong or empty.
fn cpus_of_mask(mask: &str) -> Option<Vec<u32>> {
    let digits = mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X")).unwrap_or(mask);
    let mut cpus = Vec::new();
    for (place, digit) in (0..).zip(digits.chars().rev()) {
        let bits = digit.to_digit(16).filter(|_| place < 256)?;
        cpus.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| 4 * place + bit));
    }
    (!cpus.is_empty()).then_some(cpus)
}
