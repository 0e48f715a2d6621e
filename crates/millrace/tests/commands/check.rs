// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace check` as a user runs it: its output and its exit status.

use serde_json::Value;
use std::process::{Command, Output};
use testkit::scratch::ScratchFile;

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).arg("check").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes a file that is removed when the test ends.
fn write_config(name: &str, text: impl AsRef<[u8]>) -> ScratchFile {
    ScratchFile::new(std::env::temp_dir(), &format!("{name}.toml"), text)
}

#[test]
fn a_good_file_prints_a_plan_that_is_a_good_file() {
    let pair = "[[pair]]\na = \"net_null0\"\nb = \"net_pcap0,rx_pcap=a.pcap,infinite_rx=1\"\n";
    let config = write_config("good", pair);
    let output = check(&[config.path()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let plan = text(&output.stdout);
    assert!(plan.contains("capacity = 1_048_576                    # default\n"), "{plan}");
    assert!(plan.contains("\nb = \"net_pcap0,rx_pcap=a.pcap,infinite_rx=1\"\n"), "{plan}");

    let again = write_config("again", plan);
    let output = check(&[again.path(), "--json"]);
    let json = json(&output);
    assert_eq!(json["ok"], true);
    assert_eq!(json["plan"]["table"]["capacity"]["value"], 1_048_576);
    assert_eq!(json["plan"]["table"]["capacity"]["from"], "file");
    assert_eq!(json["eal"]["ports"][1], "net_pcap0,rx_pcap=a.pcap,infinite_rx=1");
    assert!(json["memory"]["engine_bytes_per_worker"].as_u64().unwrap() > 1_048_576 * 64);
}

#[test]
fn a_bad_file_names_every_fault_with_its_place() {
    let config = write_config("bad", "[table]\ncapcity = 1\n[[pair]]\na = \"net_null0\"\n");
    let output = check(&[config.path()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    let path = config.path();
    let expected = format!(
        "{path}:2:1: table.capcity: no such key; nearest: capacity (of capacity, capacity_ipv6, \
         labels, when_full, zone)\n\
         {path}:3:1: pair[0].b: missing; a pair needs both ports, a and b\n"
    );
    assert_eq!(text(&output.stderr), expected);

    let output = check(&[path, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json = json(&output);
    assert_eq!(json["ok"], false);
    assert_eq!(json["file"], path);
    assert_eq!(json["problems"][0]["line"], 2);
    assert_eq!(json["problems"][0]["column"], 1);
    assert_eq!(json["problems"][0]["key"], "table.capcity");
    assert_eq!(json["problems"][1]["key"], "pair[0].b");
}

#[test]
fn flags_make_a_plan_without_a_file() {
    let pair = "net_pcap0,rx_pcap=f.pcap,infinite_rx=1,net_null0,no-rx=1";
    let output = check(&["--pair", pair, "--json"]);
    let json = json(&output);
    assert_eq!(json["plan"]["pair"][0]["a"]["value"], "net_pcap0,rx_pcap=f.pcap,infinite_rx=1");
    assert_eq!(json["plan"]["pair"][0]["b"]["value"], "net_null0,no-rx=1");
    assert_eq!(json["plan"]["pair"][0]["b"]["from"], "flag");

    for (pair, message) in [
        ("net_null0", "pair[0]: \"net_null0\" names only one device; write a pair as A,B"),
        (
            "18:00.2,18:00.2",
            "pair[0].b: 0000:18:00.2 is already a port of this configuration (--pair); name \
             it once",
        ),
    ] {
        let output = check(&["--pair", pair]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr), format!("--pair: {message}\n"));
    }
}

#[test]
fn flags_come_before_the_file() {
    let config = write_config(
        "flags",
        "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\nworkers = [0]\n[table]\ncapacity = 5\n",
    );
    let output = check(&[config.path(), "--pair", "net_null2,net_null3", "--json"]);
    let plan = &json(&output)["plan"];
    assert_eq!(plan["pair"].as_array().unwrap().len(), 1);
    assert_eq!(plan["pair"][0]["a"]["value"], "net_null2");
    assert_eq!(plan["table"]["capacity"]["value"], 5);
    let output = check(&[config.path(), "--workers", "1", "--json"]);
    let plan = &json(&output)["plan"];
    assert_eq!(plan["pair"][0]["a"]["value"], "net_null0");
    assert_eq!(plan["pair"][0]["workers"]["from"], "computed");
}

/// Returns the cpus that this process may use.
fn usable_cpus() -> Vec<u32> {
    let plan = "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\nworkers = [1023]\n";
    let config = write_config("usable", plan);
    let message = text(&check(&[config.path()]).stderr).to_owned();
    let (_, list) = message.trim().rsplit_once("it has ").or(message.rsplit_once("use ")).unwrap();
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        first.parse::<u32>().unwrap()..=last.trim().parse::<u32>().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

#[test]
fn cpus_of_the_command_line_are_dealt_out_to_the_pairs() {
    let usable = usable_cpus();
    let two = ["--pair", "net_null0,net_null1", "--pair", "net_null2,net_null3"];
    let config = write_config("cpus", "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n");
    let workers =
        |output: &Output, pair: usize| json(output)["plan"]["pair"][pair]["workers"].clone();
    let last = usable.last().unwrap().to_string();
    for also in [&[][..], &["--workers", "1"]] {
        let output = check(&[&[config.path(), "--json", "--cpus", &last], also].concat());
        let expected = serde_json::json!({ "value": [usable.last()], "from": "flag" });
        assert_eq!(workers(&output, 0), expected);
    }
    if let [first, second, ..] = usable[..] {
        let list = format!("{second},{first}");
        let output = check(&[&two[..], &["--json", "--cpus", &list]].concat());
        assert_eq!(workers(&output, 0)["value"], serde_json::json!([second]));
        assert_eq!(workers(&output, 1)["value"], serde_json::json!([first]));
    }
    let refused = |arguments: &[&str], message: &str| {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = text(&output.stderr);
        assert!(told.contains(message), "{message:?} not in {told:?}");
    };
    let uneven = "--cpus: 1 cpus cannot be divided evenly among 2 pairs; name a multiple of 2";
    refused(&[&two[..], &["--cpus", &last]].concat(), uneven);
    let both = "--cpus: 2 workers per pair need 2 cpus, but --cpus names 1; leave out one of";
    refused(&[config.path(), "--workers", "2", "--cpus", &last], both);
    let twice = format!("--cpus: pair[0].workers[1]: cpu {last} already has a worker (--cpus)");
    refused(&[config.path(), "--cpus", &format!("{last},{last}")], &twice);
    refused(&[config.path(), "--cpus", "1023"], "cpu 1023; it ");
    refused(&[config.path(), "--cpus", "2-1"], "must be cpus from 0 to 1023 and ranges of them");
}

#[test]
fn what_is_no_text_is_refused_where_it_ends_to_be_one() {
    let config = write_config("binary", b"[table]\ncapacity = 5 # \xc3\xbc\xfc\n");
    let output = check(&[config.path()]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("{}:2:17: not TOML: the byte 0xfc is not UTF-8\n", config.path());
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn a_wrong_command_line_is_wrong_use() {
    let output = check(&["/nonexistent/millrace.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.starts_with("/nonexistent/millrace.toml: cannot be read: "), "{message}");

    // A file that never ends.
    let output = check(&["/dev/zero"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "/dev/zero: cannot be read: it is larger than 16 MiB\n");

    let output = check(&[]);
    assert_eq!(output.status.code(), Some(2));
    let message = "pair: no pair of ports: write [[pair]] with a and b, or give --pair A,B\n";
    assert_eq!(text(&output.stderr), message);

    let output = check(&["--pair", "18:00,net_null0", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["problems"][0]["flag"], "--pair");

    assert_eq!(check(&["--workers", "0"]).status.code(), Some(2));
    assert_eq!(check(&["--wrokers", "1"]).status.code(), Some(2));
}

#[test]
fn a_file_without_a_pair_does_not_hold() {
    let config = write_config("no-pair", "[table]\ncapacity = 5\n");
    let output = check(&[config.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no pair of ports"), "{}", text(&output.stderr));
}
