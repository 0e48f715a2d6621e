// SPDX-License-Identifier: BSD-3-Clause
//! Reads which source files of a crate import which others, to test that its rooms are in layers.
//!
//! A name counts where it is defined: re-exports are followed. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A source file without its tests.
pub struct SourceFile {
    /// Relative to `src`.
    pub path: String,
    /// Module path: `["pipeline", "track"]`; empty for `lib.rs`.
    pub module: Vec<String>,
    /// Without comments, strings and unit tests.
    pub code: String,
}

/// One path that a file imports or uses in place.
struct Import {
    path: Vec<String>,
    is_reexport: bool,
}

/// Adds the source files below `folder` to `files`; `src` is the folder of the crate's sources.
fn collect(src: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            collect(src, &path, files);
            continue;
        }
        let relative = path.strip_prefix(src).expect("a path below src").display().to_string();
        let is_test = relative.ends_with("tests.rs") || relative.contains("/tests/");
        if is_test || !relative.ends_with(".rs") {
            continue;
        }
        let stem = relative.trim_end_matches(".rs").trim_end_matches("/mod");
        let module = match stem {
            "lib" => Vec::new(),
            stem => stem.split('/').map(str::to_owned).collect(),
        };
        let code = product_code(&fs::read_to_string(&path).expect("a text"));
        files.push(SourceFile { path: relative, module, code });
    }
}

/// Returns the code of a source file without comments, string literals and the test module at its
/// end.
pub fn product_code(text: &str) -> String {
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

/// Returns what a file imports, and the paths from `crate` or `super` that it uses in place.
fn imports(file: &SourceFile) -> Vec<Import> {
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

/// The source files of a crate, and where the names that their faces re-export are defined.
pub struct SourceTree {
    files: Vec<SourceFile>,
    modules: BTreeMap<Vec<String>, usize>,
    reexports: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl SourceTree {
    /// Reads the sources below `src`, the folder of `lib.rs`.
    pub fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        collect(src, src, &mut files);
        let modules: BTreeMap<_, _> =
            files.iter().enumerate().map(|(i, file)| (file.module.clone(), i)).collect();
        let mut tree = SourceTree { files, modules, reexports: BTreeMap::new() };
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

    /// Returns the path from the root of the crate of a path as written in a file; `None` for other
    /// crates.
    fn absolute(&self, file: &SourceFile, path: &[String]) -> Option<Vec<String>> {
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

    /// Returns the file in which the name at a path from the root is defined.
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

    /// Returns pairs of files of which the first imports a name of the second.
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

    /// Returns the source files.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns the path of the file that defines the name at a path such as `table::Table`.
    pub fn defined_in(&self, path: &str) -> &str {
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        &self.files[self.home(&path)].path
    }

    /// Returns the imports that go against the order of the rooms: a complaint for each.
    ///
    /// A room is a module with those below it. A room may import only rooms that stand before it in
    /// `order`. The root of the crate may import every room, and no room may import the root.
    ///
    /// # Panics
    ///
    /// If a file is in no room, or if few imports are found.
    pub fn upward_imports(&self, order: &[&str]) -> Vec<String> {
        let pairs = self.pairs();
        assert!(pairs.len() > 50, "only {} imports were found", pairs.len());
        let files = |(from, to): (usize, usize)| (&self.files[from], &self.files[to]);
        let is_upward = |(from, to): &(&SourceFile, &SourceFile)| {
            let (from, to) = (room(from, order), room(to, order));
            from.is_some() && to.is_none_or(|to| from < Some(to))
        };
        let upward = pairs.into_iter().map(files).filter(is_upward);
        upward.map(|(from, to)| format!("{} imports {}, above it", from.path, to.path)).collect()
    }

    /// Returns the imports by which files of `folder` (`""`: all) import each other in circles, and
    /// those of files that import such files: a complaint for each.
    pub fn circles(&self, folder: &str) -> Vec<String> {
        let is_in = |file: usize| self.files[file].path.starts_with(folder);
        let mut left = self.pairs();
        left.retain(|(from, to)| is_in(*from) && is_in(*to));
        // Files that import nothing that is left are no part of a circle.
        loop {
            let importers: BTreeSet<usize> = left.iter().map(|(from, _)| *from).collect();
            let before = left.len();
            left.retain(|(_, to)| importers.contains(to));
            if left.len() == before {
                break;
            }
        }
        let name = |file: usize| self.files[file].path.as_str();
        left.iter().map(|(from, to)| format!("{} -> {}", name(*from), name(*to))).collect()
    }
}

/// Returns the place of a file's room in `order`: the longest entry that its module path begins
/// with. `None` for the root of the crate.
fn room(file: &SourceFile, order: &[&str]) -> Option<usize> {
    if file.module.is_empty() {
        return None;
    }
    let rooms = (1..=file.module.len()).rev().map(|depth| file.module[..depth].join("/"));
    let place = rooms.filter_map(|name| order.iter().position(|room| *room == name)).next();
    Some(place.unwrap_or_else(|| panic!("{} is in no room of this test", file.path)))
}

#[test]
fn use_trees_are_expanded() {
    let mut paths = Vec::new();
    expand("crate::{a, b::{c, d as e}}", &[], &mut paths);
    let text: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(text, ["crate::a", "crate::b::c", "crate::b::d"]);
}
