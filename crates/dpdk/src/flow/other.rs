// SPDX-License-Identifier: BSD-3-Clause
//! Lists the items and actions that only the flow shell uses: all of testpmd of DPDK 22.11 and
//! 24.11 besides those of [`super::ItemKind`] and [`super::Action`], and some of older releases.

mod action;
mod item;

pub use action::{ActionData, OtherAction, OtherActionKind};
pub(super) use action::{Layout, MODIFY_LEN};
pub use item::OtherItem;

mod numbers {
    include!(concat!(env!("OUT_DIR"), "/flow_numbers.rs"));
}

/// Whether a rule with an item or action can reach a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// With each supported DPDK.
    Always,
    /// Since this release of DPDK.
    Since(&'static str),
    /// Up to this release of DPDK.
    Until(&'static str),
    /// Never: it refers to an object that this crate cannot create.
    Never(&'static str),
}

impl Reach {
    /// Returns the number of an item or action of this DPDK, or the reason why there is none.
    /// `kind` is `item` or `action`; `numbers` are those of this DPDK by their names.
    pub(super) fn number(
        self,
        kind: &str,
        numbers: &[(&str, u32)],
        name: &str,
    ) -> Result<u32, String> {
        let number = numbers.iter().find(|(of, _)| *of == name).map(|(_, number)| *number);
        match (self, number) {
            (Reach::Never(reason), _) => Err(reason.to_owned()),
            (_, Some(number)) => Ok(number),
            (reach, None) => {
                let who = match reach {
                    Reach::Since(release) => format!("DPDK {release} and later have it"),
                    Reach::Until(release) => format!("DPDK had it up to {release}"),
                    Reach::Always | Reach::Never(_) => "other releases have it".to_owned(),
                };
                let version = crate::version();
                Err(format!(
                    "{version}, for which this program is built, has no such {kind}; {who}"
                ))
            }
        }
    }
}
