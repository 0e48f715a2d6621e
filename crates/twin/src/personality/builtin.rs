// SPDX-License-Identifier: BSD-3-Clause
//! Holds the personalities that are part of the model.

/// Names of the built-in personalities.
pub const NAMES: [&str; 9] =
    ["ideal", "x710-17.02", "x710", "e810", "cx5", "cx6dx", "ntnic", "ntacc", "n6010"];

/// Returns the file of a built-in personality.
pub fn builtin(name: &str) -> Option<&'static str> {
    Some(match name {
        "ideal" => include_str!("../../personalities/ideal.toml"),
        "x710-17.02" => include_str!("../../personalities/x710-17.02.toml"),
        "x710" => include_str!("../../personalities/x710.toml"),
        "e810" => include_str!("../../personalities/e810.toml"),
        "cx5" => include_str!("../../personalities/cx5.toml"),
        "cx6dx" => include_str!("../../personalities/cx6dx.toml"),
        "ntnic" => include_str!("../../personalities/ntnic.toml"),
        "ntacc" => include_str!("../../personalities/ntacc.toml"),
        "n6010" => include_str!("../../personalities/n6010.toml"),
        _ => return None,
    })
}
