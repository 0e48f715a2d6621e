// SPDX-License-Identifier: BSD-3-Clause
//! Says which vector extensions this compiler can be asked for: AVX-512 is stable from Rust 1.89,
//! and the oldest compiler supported is 1.85.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(avx512)");
    if minor_version().is_some_and(|minor| minor >= 89) {
        println!("cargo:rustc-cfg=avx512");
    }
}

/// 89 for "rustc 1.89.0 (...)".
fn minor_version() -> Option<u32> {
    let rustc = std::env::var_os("RUSTC")?;
    let output = Command::new(rustc).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split('.').nth(1)?.parse().ok()
}
