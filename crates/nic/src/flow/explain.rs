// SPDX-License-Identifier: BSD-3-Clause
//! Explains a refusal: shows the part of the rule that the error points at, and the meaning of
//! error type and error number.

use super::print::print_item;
use dpdk::flow::{Cause, ErrorKind, FlowError, Rule};

/// Returns the explanation of a refusal of `rule`, as lines.
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

/// Returns the explanations of type and number of an error.
pub(super) fn in_words(error: &FlowError) -> Vec<String> {
    let words = about(error.kind).into_iter().chain(by_number(error.errno));
    words.map(str::to_owned).collect()
}

/// Returns the explanation of an error type; `None` for types without a meaning.
fn about(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::None | ErrorKind::Unspecified | ErrorKind::Other(_) => return None,
        ErrorKind::Handle => "the error is about the rule as a whole",
        ErrorKind::AttrGroup => "the error is about `group`",
        ErrorKind::AttrPriority => "the error is about `priority`",
        ErrorKind::AttrIngress => "the error is about `ingress`",
        ErrorKind::AttrEgress => "the error is about `egress`",
        ErrorKind::AttrTransfer => "the error is about `transfer`",
        ErrorKind::Attr => "the error is about the attributes, which stand before `pattern`",
        ErrorKind::ItemNum => "the error is about the number of items",
        ErrorKind::ItemSpec => "the error is about the values that an item matches (`is`, `spec`)",
        ErrorKind::ItemLast => "the error is about a range of values (`last`)",
        ErrorKind::ItemMask => "the error is about a mask (`is`, `mask`, `prefix`)",
        ErrorKind::Item => "the error is about an item, or its place in the pattern",
        ErrorKind::ActionNum => "the error is about the number of actions",
        ErrorKind::ActionConf => "the error is about the value of an action",
        ErrorKind::Action => "the error is about an action, or its place among the others",
        ErrorKind::State => "the error is about the state of the port",
    })
}

/// Returns the usual meaning of a Linux error number for rules.
fn by_number(errno: i32) -> Option<&'static str> {
    Some(match errno {
        0 => "the driver gives no error number",
        2 => "there is no such rule",
        12 => "memory, or another store of the NIC, is used up",
        16 => "the NIC cannot do it while the port is in use",
        17 => "the NIC has a rule for exactly these packets already",
        22 => "the NIC knows the request, but does not take it in this form",
        28 | 105 => "the NIC's table is full",
        38 => "the port's driver has no such operation; some have no flow rules at all",
        95 => "the NIC does not do this, or not for this rule",
        _ => return None,
    })
}
