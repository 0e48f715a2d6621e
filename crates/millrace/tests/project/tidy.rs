// SPDX-License-Identifier: BSD-3-Clause
//! Checks house rules that neither the compiler nor clippy checks, over the whole tree.
//!
//! Each rule checks one thing and lists all places that break it. Forbidden words are written in
//! two halves here, so that this file keeps the rules too.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::de::{DeTable, DeValue};

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 500;
const MODULE_DOC_LINES_MAX: usize = 15;
const MAKEFILE_LINES_MAX: usize = 100;
const SHIM_LINES_MAX: usize = 150;

/// Crates with their allowed dependencies on other crates of the workspace, and the largest number
/// of external ones.
const CRATES: [(&str, &[&str], usize); 22] = [
    ("wire", &[], 0),
    ("acl", &["wire"], 1),
    ("engine", &["acl", "wire"], 1),
    ("traffic", &["wire"], 5),
    ("generator", &["dpdk", "stateful", "traffic", "wire"], 2),
    ("sockets", &["generator", "traffic", "wire"], 3),
    ("twin", &["wire"], 5),
    ("offload", &["engine", "wire"], 0),
    ("dpdk", &["wire"], 4),
    ("capture", &[], 3),
    ("checkpoint", &["engine"], 3),
    ("config", &["acl", "capture", "doctor", "dpdk", "engine", "wire"], 6),
    ("control", &["engine", "results"], 5),
    ("report", &["engine", "results", "wire"], 8),
    ("doctor", &["results"], 2),
    ("nic", &["dpdk", "twin", "wire"], 4),
    ("results", &[], 7),
    ("search", &[], 0),
    ("stateful", &["capture", "wire"], 5),
    ("testkit", &["dpdk", "traffic", "wire"], 1),
    ("millrace", &MILLRACE, 23),
    ("sidebyside", &["dpdk", "engine", "traffic", "twin", "wire"], 6),
];

/// Crates that `millrace` may depend on.
const MILLRACE: [&str; 19] = [
    "acl",
    "capture",
    "checkpoint",
    "config",
    "control",
    "doctor",
    "dpdk",
    "engine",
    "generator",
    "nic",
    "offload",
    "report",
    "results",
    "search",
    "sockets",
    "stateful",
    "traffic",
    "twin",
    "wire",
];

/// The only places with unsafe Rust.
const UNSAFE: [&str; 13] = [
    "crates/dpdk/src/",
    "crates/engine/src/conn/side_by_side/avx2.rs",
    "crates/engine/src/packet/parse/avx2.rs",
    "crates/engine/src/packet/parse/avx2/",
    "crates/engine/src/packet/parse/avx512.rs",
    "crates/engine/src/packet/parse/avx512/",
    "crates/engine/src/base/memory.rs",
    "crates/engine/src/base/keyed_hash.rs",
    "crates/engine/src/base/keyed_hash/",
    "crates/sockets/src/sys.rs",
    "crates/sockets/src/sys/",
    "crates/twin/src/ffi.rs",
    "crates/twin/src/ffi/",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A text file of the tree.
struct File {
    /// Path relative to the root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is(&self, extensions: &[&str]) -> bool {
        extensions.iter().any(|extension| self.path.ends_with(extension))
    }

    /// True for files of tests, benchmarks and fuzz targets.
    fn is_test(&self) -> bool {
        let folders = ["tests/", "benches/", "fuzz/"];
        self.path.ends_with("tests.rs") || folders.iter().any(|folder| self.path.contains(folder))
    }

    /// Returns the lines before the test module, with their numbers; none for test files.
    fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.is_test();
        let mut lines = self.text.lines().peekable();
        let mut number = 0;
        std::iter::from_fn(move || {
            let line = lines.next().filter(|_| !is_test)?;
            number += 1;
            let tests_follow = lines.peek().is_some_and(|next| next.starts_with("mod tests {"));
            (line != "#[cfg(test)]" || !tests_follow).then_some((number, line))
        })
    }
}

/// Returns all text files of the tree, without build outputs.
fn files() -> Vec<File> {
    fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_built = ["target", "corpus", "artifacts", "coverage"].contains(&name);
            if path.is_symlink() || is_built || name.starts_with('.') && name != ".ci" {
                continue;
            }
            if path.is_dir() {
                collect(root, &path, files);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push(File { path, text });
            }
        }
    }
    let root = root();
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    assert!(files.len() > 50, "the tree is not where it was: {}", root.display());
    files
}

fn read_if_there(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// Fails if there are complaints; prints one per line.
fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn files_begin_with_their_licence() {
    let mut complaints = Vec::new();
    for file in files() {
        let script = file.text.starts_with("#!");
        let named = ["Makefile", ".ci/run"].contains(&file.path.as_str());
        if !script && !named && !file.is(&[".rs", ".c", ".h", ".py", ".sh"]) {
            continue;
        }
        let head = file.text.lines().nth(usize::from(script)).unwrap_or_default();
        let mark =
            head.trim_start_matches("/* ").trim_start_matches("// ").trim_start_matches("# ");
        if !mark.starts_with("SPDX-License-Identifier: BSD-3-Clause") {
            complaints.push(format!("{}: no SPDX line at the top", file.path));
        }
    }
    assert_none(complaints);
}

#[test]
fn modules_say_what_they_are() {
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.is(&[".rs"]) && !file.is_test()) {
        let doc = file.text.lines().skip(1).take_while(|line| line.starts_with("//!")).count();
        if !(1..=MODULE_DOC_LINES_MAX).contains(&doc) {
            complaints.push(format!("{}: {doc} lines of module documentation", file.path));
        }
    }
    assert_none(complaints);
}

#[test]
fn lines_and_files_have_a_size_to_read() {
    let mut complaints = Vec::new();
    for file in files() {
        if file.is(&[".rs", ".c", ".h", ".py", ".sh", "Makefile", "install-deps"]) {
            for (number, line) in file.text.lines().enumerate() {
                if line.chars().count() > COLUMNS_MAX {
                    let number = number + 1;
                    complaints.push(format!("{}:{number}: over {COLUMNS_MAX} columns", file.path));
                }
            }
        }
        let (lines, most) = match file.path.as_str() {
            "Makefile" => (file.text.lines().count(), MAKEFILE_LINES_MAX),
            path if path.starts_with("crates/dpdk/src/") && path.ends_with(".c") => {
                (file.text.lines().count(), SHIM_LINES_MAX)
            }
            _ if file.is(&[".rs"]) => (file.product_lines().count(), LINES_MAX),
            _ => continue,
        };
        if lines > most {
            complaints.push(format!("{}: {lines} lines, at most {most}", file.path));
        }
    }
    assert_none(complaints);
}

#[test]
fn nothing_is_left_for_later() {
    let everywhere =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X "), concat!("XX", "X:")];
    let in_rust = [
        concat!("to", "do!("),
        concat!("un", "implemented!("),
        concat!("db", "g!("),
        concat!("macro_", "rules!"),
        concat!("allow(", "dead_code"),
        concat!("allow(", "unused)"),
    ];
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| !file.is(&["Cargo.lock"])) {
        let words = everywhere.iter().chain(in_rust.iter().filter(|_| file.is(&[".rs"])));
        for word in words {
            for (number, line) in file.text.lines().enumerate() {
                if line.contains(word) {
                    complaints.push(format!("{}:{}: {word}", file.path, number + 1));
                }
            }
        }
    }
    assert_none(complaints);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let marks = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("replace-", "with"),
        concat!("index-", "url"),
        concat!("snapshot.", "debian"),
    ];
    let mut complaints = Vec::new();
    for file in files() {
        for mark in marks.iter().filter(|mark| file.text.contains(**mark)) {
            complaints.push(format!("{}: names {mark}", file.path));
        }
    }
    assert_none(complaints);
}

#[test]
fn unsafe_stays_behind_its_fence() {
    let words = ["{", "fn ", "impl ", "extern ", "trait "].map(|word| format!("unsafe {word}"));
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.is(&[".rs"]) && !file.is_test()) {
        let fenced = UNSAFE.iter().any(|place| file.path.starts_with(place));
        let found = |line: &str| words.iter().any(|word| line.contains(word.as_str()));
        for (number, _) in file.product_lines().filter(|(_, line)| !fenced && found(line)) {
            complaints.push(format!("{}:{number}: unsafe code", file.path));
        }
    }
    let heads = [
        ("crates/wire/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/traffic/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/results/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/capture/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/checkpoint/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/config/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/control/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/report/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/doctor/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/nic/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/sidebyside/src/main.rs", "#![forbid(unsafe_code)]"),
        ("crates/testkit/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/millrace/src/main.rs", "#![forbid(unsafe_code)]"),
        ("crates/millrace/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("crates/engine/src/lib.rs", "#![deny(unsafe_code)]"),
    ];
    for (path, head) in heads {
        if !read_if_there(path).is_some_and(|text| text.lines().any(|line| line == head)) {
            complaints.push(format!("{path}: lacks {head}"));
        }
    }
    assert_none(complaints);
}

/// `wire`, `engine`, `traffic` and `results` are functions of their input. So they behave the same
/// in a run, a replay, a test and a fuzzer.
#[test]
fn pure_crates_touch_nothing() {
    let words = [
        "Instant::now",
        "SystemTime::now",
        "std::thread",
        "std::fs",
        "std::env::",
        "UdpSocket",
        "TcpStream",
        "TcpListener",
        "println!",
        "eprintln!",
        "print!(",
        "static mut ",
        "Mutex<",
        "RwLock<",
    ];
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.is(&[".rs"])) {
        let pure = ["wire", "acl", "engine", "traffic", "results", "search", "stateful"];
        let is_in = |name: &&str| file.path.starts_with(&format!("crates/{name}/src/"));
        if pure.iter().any(is_in) {
            for (number, line) in file.product_lines() {
                let code = line.split("//").next().unwrap_or_default();
                for word in words.iter().filter(|word| code.contains(**word)) {
                    complaints.push(format!("{}:{number}: {word}", file.path));
                }
            }
        }
    }
    assert_none(complaints);
}

/// Returns the names of the dependencies in one section of a manifest: crates of the workspace,
/// then external ones.
fn dependencies(manifest: &DeTable, section: &str, ours: &BTreeSet<&str>) -> [Vec<String>; 2] {
    let Some(DeValue::Table(table)) = manifest.get(section).map(|value| value.get_ref()) else {
        return [Vec::new(), Vec::new()];
    };
    let names = table.keys().map(|key| key.get_ref().to_string());
    let (inner, outer) = names.partition(|name| ours.contains(name.as_str()));
    [inner, outer]
}

#[test]
fn crates_depend_only_where_they_may() {
    let ours: BTreeSet<&str> = CRATES.iter().map(|(name, ..)| *name).collect();
    let mut complaints = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some((_, allowed, others_max)) = CRATES.iter().find(|(known, ..)| *known == name)
        else {
            complaints.push(format!("crates/{name}: not among the crates of this test"));
            continue;
        };
        let text = read_if_there(&format!("crates/{name}/Cargo.toml")).unwrap();
        let manifest = DeTable::parse(&text).unwrap();
        let [inner, outer] = dependencies(manifest.get_ref(), "dependencies", &ours);
        for other in inner.iter().filter(|other| !allowed.contains(&other.as_str())) {
            complaints.push(format!("{name} must not depend on {other}"));
        }
        if outer.len() > *others_max {
            complaints.push(format!("{name} depends on {outer:?}; at most {others_max}"));
        }
        let [inner_of_build, _] = dependencies(manifest.get_ref(), "build-dependencies", &ours);
        if inner.iter().chain(&inner_of_build).any(|other| other == "testkit") {
            complaints.push(format!("{name}: testkit belongs below [dev-dependencies]"));
        }
        // Tests may use other crates than the crate itself. Only `twin` must stay independent of
        // `engine`, because each is checked by the other.
        let [inner, _] = dependencies(manifest.get_ref(), "dev-dependencies", &ours);
        for other in inner.iter().filter(|other| name == "twin" && *other == "engine") {
            complaints.push(format!("{name} must not depend on {other}, not even in tests"));
        }
    }
    assert_none(complaints);
}

/// Returns the documents about this tree.
fn documents() -> Vec<File> {
    let mut files = files();
    files.retain(|file| {
        let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
        top.contains(&file.path.as_str()) || file.path.starts_with("docs/") && file.is(&[".md"])
    });
    files
}

/// True if a word such as `engine/src/lib.rs` or `scripts/install-deps` names a file of this tree:
/// it begins with a folder of the tree, or has an extension of source files.
fn means_a_path(word: &str, folders: &BTreeSet<String>) -> bool {
    let Some((first, rest)) = word.split_once('/') else {
        return word.ends_with(".md") && !word.contains(|c: char| "*<{$ ".contains(c));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let source = [".rs", ".toml", ".sh", ".md", ".c", ".h"].iter().any(|end| rest.ends_with(end));
    !first.is_empty()
        && first != ".."
        && word.chars().all(plain)
        && (folders.contains(first) || source)
}

/// Returns the texts between backticks outside of code blocks, and the targets of links, with their
/// line numbers.
fn references(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        if in_block || is_fence {
            continue;
        }
        let quoted = line.split('`').skip(1).step_by(2);
        let linked = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let words = quoted.chain(linked.filter(|link| !link.contains(':') && !link.is_empty()));
        found.extend(words.map(|word| (number + 1, word.trim_end_matches('/').to_owned())));
    }
    found
}

#[test]
fn paths_in_documents_exist() {
    let root = root();
    let mut folders = BTreeSet::new();
    for parent in [root.clone(), root.join("crates")] {
        let entries = fs::read_dir(parent).unwrap().flatten().filter(|entry| entry.path().is_dir());
        folders.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
    }
    folders.retain(|folder| folder != "target" && folder != ".git");
    let mut complaints = Vec::new();
    for document in documents() {
        let folder = Path::new(&document.path).parent().unwrap();
        for (number, word) in references(&document.text) {
            // ARCHITECTURE.md names files of the engine relative to `crates/engine/src`.
            let engine = root.join("crates/engine/src");
            let exists = [root.clone(), root.join("crates"), root.join(folder), engine]
                .iter()
                .any(|base| base.join(&word).exists());
            if means_a_path(&word, &folders) && !exists {
                complaints.push(format!("{}:{number}: there is no {word}", document.path));
            }
        }
    }
    assert_none(complaints);
}

/// Returns the three numbers of a version.
fn version(text: &str) -> [u32; 3] {
    let mut numbers = text.split('.').map(|number| number.parse().expect("versions are numbers"));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// Cargo checks the required Rust version when a dependency is added, but not when an update raises
/// it.
#[test]
fn the_oldest_compiler_builds_every_dependency() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let needs = |package: &Value| package["rust_version"].as_str().map(version);
    let is_ours = |package: &&Value| package["name"] == "millrace";
    let ours = packages.iter().find(is_ours).and_then(needs).expect("it names a compiler");
    let newer = packages.iter().filter(|package| needs(package).is_some_and(|it| it > ours));
    let text = |package: &Value| {
        let [name, version, needs] = ["name", "version", "rust_version"].map(|it| &package[it]);
        format!("{name} {version} needs Rust {needs}")
    };
    assert_none(newer.map(text).collect());
}

/// True if a condition that begins with `let` has another operand, which Rust supports since 1.88.
/// `text` begins behind the `let`.
fn is_a_chain(text: &str) -> bool {
    let text = text.split_once(" =").map_or("", |(_, value)| value);
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return false,
            '&' if depth == 0 && text[at..].starts_with("&& ") => return true,
            _ => {}
        }
    }
    false
}

/// Newer compilers accept such conditions in this edition, and clippy does not check them.
#[test]
fn the_oldest_compiler_knows_every_condition() {
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with(".rs")) {
        let begins =
            file.text.match_indices("if let ").chain(file.text.match_indices("while let "));
        let chains = begins.filter(|(at, word)| is_a_chain(&file.text[at + word.len()..]));
        let more =
            file.text.match_indices("&& let ").filter(|(at, _)| !file.text[..*at].ends_with('"'));
        for (at, _) in chains.chain(more) {
            let number = file.text[..at].lines().count();
            complaints.push(format!("{}:{number}: a condition of several lets", file.path));
        }
    }
    assert_none(complaints);
    assert!(is_a_chain("Some(x) = f(a && b)\n    && c {"));
    assert!(!is_a_chain("P { x, .. } =\n    f(a && b) { let c = a && b; }"));
}

#[test]
fn references_are_found_where_they_stand() {
    let text = "See `crates/wire/src/lib.rs` and [this](docs/a.md#part), not [that](https://x/y).\n\
                ```\n`no/path.rs`\n```\nand `scripts/install-deps/`\n";
    let found = references(text);
    let expected = [(1, "crates/wire/src/lib.rs"), (1, "docs/a.md"), (5, "scripts/install-deps")];
    assert_eq!(found, expected.map(|(number, word)| (number, word.to_owned())));
    let folders = ["engine".to_owned(), "scripts".to_owned()].into();
    for word in ["engine/src", "scripts/install-deps", "other/x.rs", "docs.md"] {
        assert!(means_a_path(word, &folders), "{word}");
    }
    for word in ["a / b", "/sys/kernel/x.h", "bench/<date>.md", "pcap/pcapng", "lookup"] {
        assert!(!means_a_path(word, &folders), "{word}");
    }
}

#[test]
fn every_crate_is_on_the_map() {
    let Some(map) = read_if_there("ARCHITECTURE.md") else {
        println!("skipped: ARCHITECTURE.md is not written yet");
        return;
    };
    let mut complaints = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let begins_a_line = map.lines().any(|line| line.split(' ').next() == Some(&name));
        if !begins_a_line && !map.contains(&format!("`{name}`")) {
            complaints.push(format!("ARCHITECTURE.md does not name the crate {name}"));
        }
    }
    assert_none(complaints);
}

/// Most crates have no examples in their documentation, and say so: looking for them takes time.
#[test]
fn examples_in_documentation_are_tested() {
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.is(&[".rs"])) {
        let Some((name, _)) = file.path.strip_prefix("crates/").and_then(|it| it.split_once('/'))
        else {
            continue;
        };
        let manifest = read_if_there(&format!("crates/{name}/Cargo.toml")).unwrap_or_default();
        let mut lines = file.text.lines().map(str::trim_start);
        let has_example = lines.any(|it| it.starts_with("/// ```") || it.starts_with("//! ```"));
        if has_example && manifest.contains("doctest = false") {
            complaints.push(format!("{}: remove doctest = false from the crate", file.path));
        }
    }
    assert_none(complaints);
}
