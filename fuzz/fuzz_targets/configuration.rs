// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a configuration: no panic; what is accepted is, printed, a configuration of the
//! same plan; what is refused is refused at a place in the file, in one line for each problem.
//!
//! Input: edits of a configuration with every key.
#![no_main]

mod edits;

use config::plan::Plan;
use config::{Config, Place, Problem, Problems};
use doctor::host::Cpus;
use edits::edited;
use libfuzzer_sys::fuzz_target;

const EVERY_KEY: &str = include_str!("../../crates/config/src/every_key.toml");

/// Why a configuration is refused.
#[derive(Debug)]
struct Refusal {
    /// Line and column of each problem, where it has a place in the file.
    places: Vec<Option<(usize, usize)>>,
    /// What the user is told.
    message: String,
}

/// The plan of a configuration file on a host with cpus 0 to 3, as `millrace check` prints it.
fn plan(file: &[u8]) -> Result<String, Refusal> {
    let cpus: Vec<u32> = (0..4).collect();
    let cpus = Cpus { online: cpus.clone(), allowed: cpus, ..Cpus::default() };
    let place = |problem: &Problem| match problem.place {
        Place::File { line, column } => Some((line, column)),
        Place::Flag { .. } | Place::Whole {} => None,
    };
    match Plan::new(Config::read_bytes(file), &cpus) {
        Ok(plan) => Ok(plan.settings.to_string()),
        Err(list) => {
            let places = list.iter().map(place).collect();
            let message = Problems { file: "file".to_owned(), list }.to_string();
            Err(Refusal { places, message })
        }
    }
}

/// A plan as it is printed once every value stands in a file.
fn without_origins(shown: &str) -> String {
    let value = |line: &str| {
        let origins = [" # default", " # computed"];
        let value = origins.iter().find_map(|origin| line.strip_suffix(origin));
        value.unwrap_or(line).trim_end().to_owned() + "\n"
    };
    shown.lines().map(value).collect()
}

fn assert_within(file: &[u8], refusal: &Refusal) {
    let lines: Vec<_> = file.split(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect();
    assert_eq!(refusal.message.split('\n').count(), refusal.places.len(), "{refusal:?}");
    let is_control = |character: char| character.is_control() && character != '\n';
    assert!(!refusal.message.contains(is_control), "{refusal:?}");
    for (line, column) in refusal.places.iter().flatten() {
        let length = lines[line - 1].chars().count();
        assert!((1..=length + 1).contains(column), "{refusal:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let file = edited(EVERY_KEY.as_bytes().to_vec(), data);
    match plan(&file) {
        Ok(shown) => match plan(shown.as_bytes()) {
            Ok(again) => assert_eq!(again, without_origins(&shown)),
            Err(refusal) => panic!("what is printed is refused: {shown}\n{refusal:?}"),
        },
        Err(refusal) => assert_within(&file, &refusal),
    }
});
