// SPDX-License-Identifier: BSD-3-Clause
//! Checks the words of the tree: names and comments use the field's terms (docs/glossary.md), and
//! doc comments begin with what an item does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that were pictures for things that have a name in the field, with that name. They are
/// written in two halves here, so that this file keeps the rule too.
const PICTURES: [(&str, &str); 10] = [
    (concat!("err", "and"), "hand-off, or kind of walk"),
    (concat!("err", "ands"), "hand-offs"),
    (concat!("wa", "nderer"), "fragment or ICMP error without a connection"),
    (concat!("wa", "nderers"), "fragments and ICMP errors without a connection"),
    (concat!("wi", "sh"), "rule request"),
    (concat!("wi", "shes"), "rule requests"),
    (concat!("de", "sk"), "command queue"),
    (concat!("bor", "rower"), "queue lease"),
    (concat!("len", "der"), "queue owner"),
    (concat!("tra", "veller"), "packet of a hand-off"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Rust sources of all crates, with their paths from the root.
fn sources() -> Vec<(String, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    collect(&root().join("crates"), &mut paths);
    assert!(paths.len() > 300, "the sources are not where they were");
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    paths.into_iter().map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

/// Returns the words of a line in lower case. Identifiers are split at `_` and before capitals.
fn words(line: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in line.chars().chain([' ']) {
        let begins_anew = c.is_ascii_uppercase() && was_lower;
        if (!c.is_ascii_alphabetic() || begins_anew) && !word.is_empty() {
            words.insert(std::mem::take(&mut word));
        }
        if c.is_ascii_alphabetic() {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn names_and_comments_use_the_words_of_the_field() {
    let mut complaints = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let words = words(line);
            for (picture, name) in PICTURES.iter().filter(|(picture, _)| words.contains(*picture)) {
                complaints.push(format!("{path}:{}: {picture}: say {name}", number + 1));
            }
        }
    }
    assert_none(complaints);
}

/// Doc comments stand alone: a reader may not have read the one before.
#[test]
fn no_doc_comment_leans_on_the_one_before() {
    let mut complaints = Vec::new();
    let is_product = |path: &str| path.contains("/src/") && !path.contains("tests");
    for (path, text) in sources().into_iter().filter(|(path, _)| is_product(path)) {
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let begins = line.starts_with("/// ") && !before.starts_with("///");
            let sentence = line.trim_start_matches("/// ");
            if begins
                && ["The same ", "The same,", "The same."].iter().any(|it| sentence.starts_with(it))
            {
                complaints.push(format!("{path}:{}: {line}", number + 1));
            }
            before = line;
        }
    }
    assert_none(complaints);
}

#[test]
fn identifiers_are_cut_into_words() {
    let found = words("let HandOff { tx_queue, .. } = give_itBack(3);");
    let expected = ["back", "give", "hand", "it", "let", "off", "queue", "tx"];
    assert_eq!(found, expected.map(str::to_owned).into());
}
