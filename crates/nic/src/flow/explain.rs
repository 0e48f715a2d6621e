// SPDX-License-Identifier: BSD-3-Clause
//! Explains a refusal: shows the part of the rule that the NIC blames, beside the NIC's own
//! message.

use super::print::print_item;
use dpdk::flow::{Cause, ErrorKind, FlowError, Rule};

/// Explains a refusal of `rule`, in lines.
pub(crate) fn explain(rule: &Rule, error: &FlowError) -> Vec<String> {
    let mut lines = Vec::new();
    match error.cause {
        Some(Cause::Item(place)) => lines.extend(
            rule.pattern
                .get(place)
                .map(|item| format!("the NIC points at item {}: {}", place + 1, print_item(item))),
        ),
        Some(Cause::Action(place)) => lines.extend(
            rule.actions
                .get(place)
                .map(|action| format!("the NIC points at action {}: {}", place + 1, action.name())),
        ),
        Some(Cause::Attributes) | None => (),
    }
    lines.extend(in_words(error));
    lines
}

/// Explains type and number of an error, independent of the call.
pub(super) fn in_words(error: &FlowError) -> Vec<String> {
    let words = about(error.kind).into_iter().chain(by_number(error.errno));
    words.map(str::to_owned).collect()
}

/// Explains the type of an error.
fn about(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::None | ErrorKind::Unspecified | ErrorKind::Other(_) => return None,
        ErrorKind::Handle => "it is about the rule as a whole",
        ErrorKind::AttrGroup => "it is about `group`",
        ErrorKind::AttrPriority => "it is about `priority`",
        ErrorKind::AttrIngress => "it is about `ingress`",
        ErrorKind::AttrEgress => "it is about `egress`",
        ErrorKind::AttrTransfer => "it is about `transfer`",
        ErrorKind::Attr => "it is about what stands before `pattern`",
        ErrorKind::ItemNum => "it is about how many items there are",
        ErrorKind::ItemSpec => "it is about the values that an item asks for (`is`, `spec`)",
        ErrorKind::ItemLast => "it is about a range of values (`last`)",
        ErrorKind::ItemMask => "it is about a mask (`is`, `mask`, `prefix`)",
        ErrorKind::Item => "it is about an item, or the place where it stands",
        ErrorKind::ActionNum => "it is about how many actions there are",
        ErrorKind::ActionConf => "it is about the value of an action",
        ErrorKind::Action => "it is about an action, or its place among the others",
        ErrorKind::State => "it is about the state that the port is in",
    })
}

/// Explains what an error number usually means for rules, by Linux's numbers.
fn by_number(errno: i32) -> Option<&'static str> {
    Some(match errno {
        0 => "the driver gives no error number",
        2 => "there is no such rule",
        12 => "memory, or another store of the NIC, is used up",
        16 => "the NIC cannot do it while the port is in use",
        17 => "the NIC has a rule for just these packets already",
        22 => "the NIC knows the request, but does not take it in this form",
        28 | 105 => "the NIC's table is full",
        38 => "the port's driver has no flow rules, or not this operation",
        95 => "the NIC does not do this",
        _ => return None,
    })
}
