// SPDX-License-Identifier: BSD-3-Clause
//! Compares `millrace nic flow` with `dpdk-testpmd` on the software NIC: both read the rules of
//! testpmd's guide, and the NIC answers both alike.

use crate::new_scratch;
use crate::peer::Testpmd;
use crate::twin::driver;
use serde_json::Value;
use std::fs;
use std::process::Command;

const GUIDE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../nic/src/flow/testpmd/guide-22.11.flow");

/// Answer to a command: done, or the type of the error in `enum rte_flow_error_type`. `None`: the
/// command was not read.
type Answer = Option<Result<(), u64>>;

/// Returns the rules of the guide, each to be validated, and the settings that they use.
fn commands() -> Vec<String> {
    let guide = fs::read_to_string(GUIDE).unwrap();
    let is_one = |line: &&str| {
        let begins = ["flow validate 0 ", "flow create 0 ", "set "];
        begins.iter().any(|begin| line.starts_with(begin)) && !line.ends_with("[...]")
    };
    guide
        .lines()
        .filter(is_one)
        .map(|line| line.replace("flow create ", "flow validate "))
        .collect()
}

fn of_millrace(script: &str) -> Vec<Answer> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["nic", "flow", "-f", script, "--keep-going", "--json", "net_twin0"]);
    let output = command.output().unwrap();
    let answer = |line: &str| {
        let json: Value = serde_json::from_str(line).expect("a line of JSON for each command");
        match json["ok"].as_bool()? {
            true => Some(Ok(())),
            false => Some(Err(json["error"]["type"].as_u64()?)),
        }
    };
    String::from_utf8(output.stdout).unwrap().lines().map(answer).collect()
}

fn of_testpmd(commands: &[String]) -> Vec<Answer> {
    let eal = ["-d".to_owned(), driver().unwrap(), "--vdev=net_twin0".to_owned()];
    let mut testpmd = Testpmd::with(&eal, &["--rxq=4", "--txq=4"]);
    let answers = commands.iter().map(|command| {
        let printed = testpmd.output().len();
        // The next prompt comes once the command is done.
        testpmd.enter(command, "testpmd> ");
        let text = testpmd.output()[printed..].to_owned();
        if text.contains("Bad ") {
            return None;
        }
        match text.split_once("Caught PMD error type ") {
            None => Some(Ok(())),
            Some((_, rest)) => {
                Some(Err(rest.split(' ').next().and_then(|number| number.parse().ok())?))
            }
        }
    });
    answers.collect()
}

#[test]
fn rules_of_the_guide_get_the_answers_that_testpmd_gets() {
    if driver().is_none() {
        return;
    }
    let commands = commands();
    let scratch = new_scratch("testpmd-rules");
    let script = scratch.path("guide.flow");
    fs::write(&script, commands.join("\n")).unwrap();
    let (ours, theirs) = (of_millrace(&script), of_testpmd(&commands));
    assert_eq!(ours.len(), commands.len());
    let (mut refused, mut unread) = (0, vec![]);
    for ((command, ours), theirs) in commands.iter().zip(ours).zip(theirs) {
        match theirs {
            None => unread.push(command),
            theirs => assert_eq!(ours, theirs, "{command}"),
        }
        refused += usize::from(matches!(ours, Some(Err(_))));
    }
    // Those name what was never set, or are not as testpmd has them: the guide is not quite right.
    assert!(unread.len() <= 5, "{unread:#?}");
    assert!(commands.len() > 100 && refused > 50, "{refused} of {}", commands.len());
}
