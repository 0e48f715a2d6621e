// SPDX-License-Identifier: BSD-3-Clause
//! Reads rules for frames that are not IP from tables, and binds their lists to the ports of a
//! pair.

use super::Settings;
use crate::lists::RuleTable;
use crate::{Fault, Located, Place, Problem};
use acl::{EthernetCriteria, EthernetRule, parse_ethernet_action};
use engine::{AccessError, AccessLists, EthernetBinding};

/// A list for frames, and the pair that it is for; `None` for all pairs.
pub(super) struct BoundFrames {
    pub(super) binding: EthernetBinding,
    pub(super) pair: Option<u32>,
    pub(super) place: Place,
    /// Key of the list.
    pub(super) key: String,
}

/// Returns the lists of a pair with those for its frames that are not IP.
pub(super) fn bind(
    lists: AccessLists,
    frame_lists: &[BoundFrames],
    pair: u32,
) -> Result<AccessLists, Problem> {
    let own = frame_lists.iter().filter(|bound| bound.pair.is_none_or(|number| number == pair));
    let own: Vec<_> = own.collect();
    let bindings: Vec<_> = own.iter().map(|bound| bound.binding.clone()).collect();
    lists.with_ethernet(&bindings).map_err(|error| {
        let (second, fault) = match error {
            AccessError::SamePlace([first, second]) => {
                let other = own[first].binding.list.name.clone();
                (second, Fault::SameListPlace { other })
            }
            AccessError::TooLarge(list, error) => (list, Fault::Rule(error.to_string())),
        };
        let BoundFrames { place, key, .. } = own[second];
        Problem { place: *place, key: key.clone(), fault }
    })
}

/// Reads a `[[list.rule]]` of a list for frames.
pub(super) fn read_table(
    key: &str,
    table: RuleTable,
    settings: &mut Settings,
) -> Result<EthernetRule, Problem> {
    settings.open_element("list.rule");
    let problem = |place, name: &str, fault| Problem { place, key: format!("{key}.{name}"), fault };
    let RuleTable { place, action, family, log, no_offload, marks, fields } = table;
    let Some(written) = action else {
        return Err(problem(place, "action", Fault::MissingAction));
    };
    let action = parse_ethernet_action(&written.value);
    let action = action.map_err(|error| problem(written.place, "action", Fault::Rule(error)))?;
    settings.note("action", action.name().to_owned(), place.into());
    let of_ip = [
        ("family", family.map(|family| family.place)),
        ("log", log.map(|log| log.place)),
        ("no_offload", no_offload.map(|no_offload| no_offload.place)),
    ];
    let of_ip = of_ip.into_iter().filter_map(|(name, place)| Some((name, place?)));
    let mut of_ip = of_ip.chain(marks.iter().map(|(name, mark)| (*name, mark.place)));
    if let Some((name, place)) = of_ip.next() {
        return Err(problem(place, name, Fault::NotOfEthernet));
    }
    let mut criteria = EthernetCriteria::ANY;
    for (name, Located { value, place }) in fields {
        let outcome = criteria.parse_field(name, &value);
        outcome.map_err(|error| problem(place, name, Fault::Rule(error)))?;
        settings.note(name, value, place.into());
    }
    Ok(EthernetRule { criteria, action })
}
