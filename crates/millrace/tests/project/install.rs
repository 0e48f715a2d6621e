// SPDX-License-Identifier: BSD-3-Clause
//! Tests `make install` as a packager calls it: it installs all files below a directory, they work
//! there, and `make uninstall` removes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::scratch::Scratch;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Makes a directory that is removed when the test ends.
fn new_scratch(name: &str) -> Scratch {
    Scratch::new(env!("CARGO_TARGET_TMPDIR"), &format!("install-{name}"))
}

/// Paths of all files below, from `folder` on.
fn files_below(scratch: &Scratch, folder: &str) -> BTreeSet<String> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => below(&path, found),
                path => found.push(path),
            }
        }
    }
    let (mut found, folder) = (Vec::new(), scratch.folder().join(folder));
    below(&folder, &mut found);
    let name = |path: PathBuf| path.strip_prefix(&folder).unwrap().display().to_string();
    found.into_iter().map(name).collect()
}

fn millrace(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// Runs a target of the Makefile with a cargo target directory that has the program of this test.
fn make(target: &str, scratch: &Scratch) -> Output {
    let release = scratch.folder().join("target/release");
    fs::create_dir_all(&release).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_millrace"), release.join("millrace")).unwrap();
    let driver = scratch.folder().join("driver.so");
    fs::write(&driver, "a driver").unwrap();
    let mut make = Command::new("make");
    make.args([target, "PREFIX=/opt/mill", &format!("DESTDIR={}", scratch.folder().display())]);
    make.arg(format!("TWIN={}", driver.display()));
    make.env("CARGO_TARGET_DIR", scratch.folder().join("target")).env_remove("MAKEFLAGS");
    make.current_dir(root()).output().unwrap()
}

#[test]
fn what_is_installed_works_and_goes_again() {
    let scratch = new_scratch("all");
    let output = make("install", &scratch);
    assert!(output.status.success(), "{output:?}");
    let files = files_below(&scratch, "opt/mill");
    for file in [
        "bin/millrace",
        "lib/millrace/librte_net_twin.so",
        "share/bash-completion/completions/millrace",
        "share/doc/millrace/millrace.toml",
        "share/doc/millrace/profiles/article-tcp.toml",
        "share/doc/millrace/profiles/article.py",
        "share/fish/vendor_completions.d/millrace.fish",
        "share/man/man1/millrace-ct-list.1",
        "share/man/man1/millrace-run.1",
        "share/man/man1/millrace.1",
        "share/zsh/site-functions/_millrace",
    ] {
        assert!(files.contains(file), "{file} not in {files:?}");
    }
    let installed = |file: &str| scratch.folder().join("opt/mill").join(file);
    let text = |file: &str| fs::read_to_string(installed(file)).unwrap();
    let page = text("share/man/man1/millrace-run.1");
    assert!(page.contains("\\-\\-cpus"), "{page}");
    for script in
        files.iter().filter(|file| file.contains("/completions") || file.contains("/site-"))
    {
        assert!(text(script).contains("--cpus"), "{script}");
    }
    let sample = installed("share/doc/millrace/millrace.toml");
    let output = millrace(&installed("bin/millrace"), &["check", sample.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");

    // Installs over existing files, then uninstalls. Files of others stay.
    assert!(make("install", &scratch).status.success());
    assert_eq!(files_below(&scratch, "opt/mill"), files);
    fs::write(installed("share/man/man1/other.1"), "").unwrap();
    assert!(make("uninstall", &scratch).status.success());
    let left = files_below(&scratch, "opt/mill").into_iter().collect::<Vec<_>>();
    assert_eq!(left, ["share/man/man1/other.1"]);
}

#[test]
fn nothing_is_installed_that_was_not_built() {
    let scratch = new_scratch("nothing");
    let install = root().join("scripts/install");
    let mut command = Command::new(install);
    command.args(["install", scratch.folder().to_str().unwrap(), "/nowhere/driver.so"]);
    let output = command.env("DESTDIR", scratch.folder()).current_dir(root()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("run make build first"), "{message}");
    assert!(files_below(&scratch, "").is_empty());
}
