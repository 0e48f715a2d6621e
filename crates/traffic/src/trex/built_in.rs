// SPDX-License-Identifier: BSD-3-Clause
//! Holds the profiles that are built into the program.

use super::error::ProfileError;
use super::profile::Profile;

/// Names and texts of the built-in profiles. The texts are ours, in TRex's format with our key
/// `first_from`.
const TEXTS: [(&str, &str); 5] = [
    ("imix_fast_1g", include_str!("built_in/imix_fast_1g.yaml")),
    ("imix_fast_1g_7_4_1", include_str!("built_in/imix_fast_1g_7_4_1.yaml")),
    ("imix_article", include_str!("built_in/imix_article.yaml")),
    ("syn_synack", include_str!("built_in/syn_synack.yaml")),
    ("udp_20k_64", include_str!("built_in/udp_20k_64.yaml")),
];

impl Profile {
    /// Names of the built-in profiles.
    pub const BUILT_IN: [&'static str; 5] = {
        let mut names = [""; 5];
        let mut index = 0;
        while index < names.len() {
            names[index] = TEXTS[index].0;
            index += 1;
        }
        names
    };

    /// Returns the built-in profile `name`; `None` if there is none.
    ///
    /// Folder and extension are ignored: `cap2/imix_fast_1g.yaml` is `imix_fast_1g`.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        Self::built_in_text(name).map(|text| {
            let parsed: Result<Self, ProfileError> = Self::parse(text, short(name));
            parsed.expect("a test parses every built-in profile")
        })
    }

    /// Returns the YAML of the built-in profile `name`, from which users can start their own;
    /// `None` if there is none.
    #[must_use]
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        TEXTS.iter().find(|(known, _)| *known == short(name)).map(|(_, text)| *text)
    }
}

/// Returns the name without its folder and extension.
fn short(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".yml")).unwrap_or(file)
}
