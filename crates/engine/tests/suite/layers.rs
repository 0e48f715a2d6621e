// SPDX-License-Identifier: BSD-3-Clause
//! The rooms of the engine in layers: which room may import which, and that no files import each
//! other in a circle.
//!
//! A room is a top-level module: `name.rs` and `name/`. `packet/parse` is a room of its own. A name
//! counts where it is defined: re-exports in the face of a room are followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A room may import only what stands before it.
const ORDER: [&str; 14] = [
    "base",
    "api",
    "packet",
    "packet/parse",
    "conn",
    "fragments",
    "policy",
    "account",
    "table",
    "offload",
    "tracker",
    "pipeline",
    "engine",
    "control",
];

const FACE_LINES_MAX: usize = 120;

/// A source file without its tests.
struct File {
    /// Relative to `src`.
    path: String,
    /// Module path: `["pipeline", "track"]`; empty for `lib.rs`.
    module: Vec<String>,
    /// Without comments, strings and unit tests.
    code: String,
}

/// One path that a file imports or uses in place.
struct Import {
    path: Vec<String>,
    is_reexport: bool,
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files() -> Vec<File> {
    fn collect(folder: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, files);
                continue;
            }
            let relative = path.strip_prefix(src()).unwrap().to_str().unwrap().to_owned();
            if relative.ends_with("tests.rs") || relative.contains("/tests/") {
                continue;
            }
            let stem = relative.trim_end_matches(".rs");
            let module = match stem {
                "lib" => Vec::new(),
                stem => stem.split('/').map(str::to_owned).collect(),
            };
            let code = bare(&fs::read_to_string(&path).unwrap());
            files.push(File { path: relative, module, code });
        }
    }
    let mut files = Vec::new();
    collect(&src(), &mut files);
    assert!(files.len() > 50, "the sources are not where they were");
    files
}

/// The code alone: comments, string literals and the test module at the end are left out.
fn bare(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut code = String::new();
    for line in product.lines() {
        let line = line.split("//").next().unwrap_or_default();
        for (i, piece) in line.split('"').enumerate() {
            code.push_str(if i % 2 == 0 { piece } else { " " });
        }
        code.push('\n');
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Expands a use tree such as `a::{b, c::{d, e}}` to its paths.
fn expand(tree: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    if let Some((head, rest)) = tree.split_once('{') {
        let inner = rest.trim_end().strip_suffix('}').expect("braces are in pairs");
        let head = head.trim_end_matches("::").split("::").filter(|part| !part.is_empty());
        let prefix: Vec<String> =
            prefix.iter().cloned().chain(head.map(|part| part.trim().to_owned())).collect();
        let (mut depth, mut from) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    if !inner[from..at].trim().is_empty() {
                        expand(&inner[from..at], &prefix, paths);
                    }
                    from = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let path = tree.split(" as ").next().unwrap_or_default();
    let parts = path.split("::").map(|part| part.trim().to_owned());
    paths.push(prefix.iter().cloned().chain(parts).collect());
}

/// What a file imports, and the paths from `crate` or `super` that it uses in place.
fn imports(file: &File) -> Vec<Import> {
    let mut found = Vec::new();
    let mut rest = file.code.as_str();
    let mut code = String::new();
    while let Some(at) = rest.find("use ") {
        let before = &rest[..at];
        let line = before.rsplit('\n').next().unwrap_or_default().trim();
        let is_visibility = line == "pub" || line.starts_with("pub(") && line.ends_with(')');
        if before.ends_with(is_word) || !line.is_empty() && !is_visibility {
            code.push_str(&rest[..at + 4]);
            rest = &rest[at + 4..];
            continue;
        }
        code.push_str(before);
        let end = at + rest[at..].find(';').expect("a use ends");
        let mut paths = Vec::new();
        expand(&rest[at + 4..end], &[], &mut paths);
        found.extend(paths.into_iter().map(|path| Import { path, is_reexport: is_visibility }));
        rest = &rest[end + 1..];
    }
    code.push_str(rest);
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with(|c: char| is_word(c) || c == ':') {
                continue;
            }
            let text: String = code[at..].chars().take_while(|&c| is_word(c) || c == ':').collect();
            // `pub(in crate::room)` and `pub(super)` import nothing.
            if !code[..at].ends_with("in ") {
                let path = text.split("::").map(str::to_owned).collect();
                found.push(Import { path, is_reexport: false });
            }
        }
    }
    found
}

/// The files of the crate by module path, and where the names that their faces re-export lie.
struct Tree {
    files: Vec<File>,
    modules: BTreeMap<Vec<String>, usize>,
    reexports: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl Tree {
    fn read() -> Self {
        let files = files();
        let modules: BTreeMap<_, _> =
            files.iter().enumerate().map(|(i, file)| (file.module.clone(), i)).collect();
        let mut tree = Tree { files, modules, reexports: BTreeMap::new() };
        for file in &tree.files {
            for import in imports(file).into_iter().filter(|import| import.is_reexport) {
                let name = import.path.last().expect("no path is empty").clone();
                if let Some(path) = tree.absolute(file, &import.path) {
                    tree.reexports.insert((file.module.clone(), name), path);
                }
            }
        }
        tree
    }

    /// A path as it is written in a file, from the root of the crate; `None` for other crates.
    fn absolute(&self, file: &File, path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([&file.module[..], &path[1..]].concat()),
            "super" => {
                let parent = &file.module[..file.module.len() - supers];
                Some([parent, &path[supers..]].concat())
            }
            child => {
                let mut module = file.module.clone();
                module.push(child.to_owned());
                let is_child = self.modules.contains_key(&module);
                is_child.then(|| [&file.module[..], path].concat())
            }
        }
    }

    /// The file in which the name at a path from the root is defined.
    fn home(&self, path: &[String]) -> usize {
        let depth = (0..=path.len()).rev();
        let module = depth
            .map(|depth| &path[..depth])
            .find(|module| self.modules.contains_key(*module))
            .expect("the root is a module");
        let home = self.modules[module];
        let Some(name) = path.get(module.len()) else { return home };
        match self.reexports.get(&(module.to_vec(), name.clone())) {
            Some(path) => self.home(path),
            None => home,
        }
    }

    /// Pairs of files of which the first imports a name of the second.
    fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let mut pairs = BTreeSet::new();
        for (from, file) in self.files.iter().enumerate() {
            for import in imports(file).iter().filter(|import| !import.is_reexport) {
                let path = self.absolute(file, &import.path);
                let to = path.map(|path| self.home(&path));
                pairs.extend(to.filter(|to| *to != from).map(|to| (from, to)));
            }
        }
        pairs
    }
}

/// The place of a file's room in [`ORDER`]; `None` for `lib.rs`.
fn room(file: &File) -> Option<usize> {
    let name = match &file.module[..] {
        [] => return None,
        [packet, parse, ..] if packet == "packet" && parse == "parse" => "packet/parse",
        [name, ..] => name,
    };
    let place = ORDER.iter().position(|room| *room == name);
    Some(place.unwrap_or_else(|| panic!("{} is in no room of this test", file.path)))
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn rooms_import_only_downwards() {
    let tree = Tree::read();
    let pairs = tree.pairs();
    assert!(pairs.len() > 200, "only {} imports were found", pairs.len());
    let mut complaints = Vec::new();
    for (from, to) in pairs {
        let (from, to) = (&tree.files[from], &tree.files[to]);
        if room(from).is_some() && room(to).is_none_or(|to| room(from) < Some(to)) {
            complaints.push(format!("{} imports {}, which lies above it", from.path, to.path));
        }
    }
    assert_none(complaints);
}

#[test]
fn no_files_import_each_other() {
    let tree = Tree::read();
    let mut left = tree.pairs();
    // Files that import nothing that is left are no part of a circle.
    loop {
        let importers: BTreeSet<usize> = left.iter().map(|(from, _)| *from).collect();
        let before = left.len();
        left.retain(|(_, to)| importers.contains(to));
        if left.len() == before {
            break;
        }
    }
    let name = |file: usize| tree.files[file].path.as_str();
    let complaint = |(from, to): &(usize, usize)| format!("{} -> {}", name(*from), name(*to));
    assert_none(left.iter().map(complaint).collect());
}

#[test]
fn the_engine_is_implemented_at_the_top() {
    let is_below =
        |file: &&File| !file.path.starts_with("engine") && !file.path.starts_with("control");
    let has_it = |file: &&File| file.code.contains("impl Engine");
    let files = files();
    let found = files.iter().filter(is_below).filter(has_it);
    assert_none(found.map(|file| format!("{}: impl Engine", file.path)).collect());
}

#[test]
fn verdicts_are_made_by_the_pipeline() {
    let allowed = ["pipeline", "engine", "fragments/hold.rs", "api/verdict.rs"];
    let files = files();
    let others = files.iter().filter(|file| !allowed.iter().any(|it| file.path.starts_with(it)));
    let found = others.filter(|file| file.code.contains("Verdict::"));
    assert_none(found.map(|file| format!("{}: makes a verdict", file.path)).collect());
}

#[test]
fn the_face_of_the_crate_only_re_exports() {
    let text = fs::read_to_string(src().join("lib.rs")).unwrap();
    assert!(text.lines().count() <= FACE_LINES_MAX);
    let code = bare(&text);
    let statements = code.split(';').map(str::trim).filter(|text| !text.is_empty());
    for statement in statements {
        let statement = statement.trim_start_matches("#![deny(unsafe_code)]").trim_start();
        let is_plain = statement.starts_with("mod ") || statement.starts_with("pub use ");
        assert!(is_plain, "lib.rs has more than modules and re-exports: {statement}");
    }
}

#[test]
fn paths_are_resolved_to_where_names_are_defined() {
    let mut paths = Vec::new();
    expand("crate::{a, b::{c, d as e}}", &[], &mut paths);
    let text: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(text, ["crate::a", "crate::b::c", "crate::b::d"]);
    let tree = Tree::read();
    let home = |path: &str| {
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        tree.files[tree.home(&path)].path.as_str()
    };
    assert_eq!(home("base::TimerWheel"), "base/timer_wheel.rs");
    assert_eq!(home("tracker::Tracker"), "tracker.rs");
    assert_eq!(home("Verdict"), "api/verdict.rs");
}
