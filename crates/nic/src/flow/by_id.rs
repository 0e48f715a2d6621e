// SPDX-License-Identifier: BSD-3-Clause
//! Converts the port numbers in rules from those of the shell to those of DPDK. They differ if
//! devices have hidden ports or are on the PCI bus.

use dpdk::flow::{Action, ActionData, Item, ItemKind, Rule, Value};

/// Returns `rule` with DPDK's port numbers: `ids[n]` in place of n. Numbers that are no port of the
/// shell stay as they are.
pub(super) fn by_id(rule: &Rule, ids: &[u16]) -> Rule {
    let id = |number: u32| ids.get(number as usize).map_or(number, |id| u32::from(*id));
    let value = |value: Value, width| {
        let mut value = value;
        value.set_bits(0, width, id(value.bits(0, width) as u32).into());
        value
    };
    let item = |item: &Item| {
        let width = match item.kind {
            ItemKind::PortId => 32,
            ItemKind::RepresentedPort | ItemKind::PortRepresentor => 16,
            _ => return item.clone(),
        };
        let [spec, last] =
            [item.spec, item.last].map(|given| given.map(|given| value(given, width)));
        Item { spec, last, ..item.clone() }
    };
    let short = |number: u16| ids.get(usize::from(number)).copied().unwrap_or(number);
    let action = |action: &Action| match action {
        Action::PortId(number) => Action::PortId(number.map(id)),
        Action::RepresentedPort(number) => Action::RepresentedPort(short(*number)),
        Action::PortRepresentor(number) => Action::PortRepresentor(short(*number)),
        Action::Other(other) => {
            let mut other = other.clone();
            if let ActionData::Actions(actions) = &other.data {
                let rule = Rule { actions: actions.clone(), ..Rule::default() };
                other.data = ActionData::Actions(by_id(&rule, ids).actions);
            }
            Action::Other(other)
        }
        other => other.clone(),
    };
    Rule {
        attributes: rule.attributes,
        pattern: rule.pattern.iter().map(item).collect(),
        actions: rule.actions.iter().map(action).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Command, parse, print_rule};

    #[test]
    fn ports_are_named_by_the_numbers_of_dpdk() {
        let line = "flow create 0 pattern port_id id is 1 / \
                    represented_port ethdev_port_id spec 0 / mark id is 1 / end \
                    actions port_id id 1 / represented_port ethdev_port_id 9 / \
                    port_id original 1 / port_representor port_id 0 / end";
        let Ok(Some(Command::Create { rule, .. })) = parse(line, 1) else { panic!("{line}") };
        let expected = "pattern port_id id is 7 / \
                        represented_port ethdev_port_id spec 4 / mark id is 1 / end \
                        actions port_id id 7 / represented_port ethdev_port_id 9 / \
                        port_id original 1 / port_representor port_id 4 / end";
        assert_eq!(print_rule(&by_id(&rule, &[4, 7])), expected);
    }
}
