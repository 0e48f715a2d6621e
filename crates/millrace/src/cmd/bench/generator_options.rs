// SPDX-License-Identifier: BSD-3-Clause
//! Options of `millrace gen` that a benchmark passes on: the words after `--`.

/// Options for streams of packets, and whether a calibration over a cable keeps them.
pub(super) const PACKET_OPTIONS: &[(&str, bool)] = &[
    ("--cpus", true),
    ("--gateway", false),
    ("--late", true),
    ("--mtu", false),
    ("--payload", true),
    ("--receivers", true),
    ("--rx-burst", true),
    ("--rx-descriptors", true),
    ("--send-on-time", false),
    ("--senders", true),
    ("--tx-burst", true),
    ("--tx-descriptors", true),
    ("--workers", true),
];

/// Options for connections, and whether a calibration over a cable keeps them.
pub(super) const CONNECTION_OPTIONS: &[(&str, bool)] = &[
    ("--clients", true),
    ("--cpus", true),
    ("--gateway", false),
    ("--senders", true),
    ("--servers", true),
    ("--workers", true),
];

/// Returns the name of an option; `None` if the word is a value.
fn option_name(word: &str) -> Option<&str> {
    word.starts_with('-').then(|| word.split('=').next().unwrap_or_default())
}

/// Fails if an option of `millrace gen` is not one of `known`.
pub(super) fn refuse_other_options(
    options: &[String],
    known: &[(&str, bool)],
) -> Result<(), String> {
    let is_known = |name: &str| known.iter().any(|(it, _)| *it == name);
    let unknown = |word: &&String| option_name(word).is_some_and(|name| !is_known(name));
    let Some(word) = options.iter().find(unknown) else { return Ok(()) };
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    Err(format!("{word}: only these options of gen are passed on: {}", names.join(", ")))
}

/// Returns the options that a calibration over a cable keeps.
pub(super) fn kept_by_cable(options: &[String], known: &[(&str, bool)]) -> Vec<String> {
    let mut is_kept = true;
    let of_cable = options.iter().filter(|word| {
        if let Some(name) = option_name(word) {
            is_kept = known.contains(&(name, true));
        }
        is_kept
    });
    of_cable.cloned().collect()
}
