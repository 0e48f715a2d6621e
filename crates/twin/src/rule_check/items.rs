// SPDX-License-Identifier: BSD-3-Clause
//! Decides whether a NIC accepts a pattern.

use super::{Fields, MaskedField, Rule, RuleChecker};
use crate::fields::{Cover, Field};
use crate::pattern::{Attributes, Item, Pattern, Proto};
use crate::personality::{
    Chain, FieldFacts, INNER, ItemFacts, MaskRule, Personality, Ports, Structure,
};
use crate::refusal::{Errno, Kind, Place, Refusal};

/// The part of a pattern that a NIC uses.
pub(super) struct Taken {
    /// The pattern without the bits that the NIC ignores; or the refusal of a pattern that no NIC
    /// could match.
    pub(super) pattern: Result<Pattern, Refusal>,
    pub(super) fields: Fields,
}

impl RuleChecker<'_> {
    pub(super) fn items(&self, Rule { attributes, items, .. }: Rule<'_>) -> Result<Taken, Refusal> {
        self.port(attributes)?;
        let chain = self.chain(items)?;
        let mut fields = Fields::default();
        let mut pattern = Ok(Pattern::default());
        let (mut is_inner, mut bytes) = (false, 0);
        for (place, item) in items.iter().enumerate() {
            let place = Place::Item(place);
            let mut item = *item;
            self.item(place, &mut item, &mut fields, is_inner)?;
            is_inner |= item.proto.is_tunnel();
            bytes += item.mask.iter().filter(|&&byte| byte != 0).count();
            // A refusal by the model comes after every refusal of this NIC.
            let added = pattern.as_mut().map_or(Ok(()), |pattern| pattern.add(&item));
            if let Err(refusal) = added {
                pattern = Err(refusal.at(place));
            }
        }
        self.whole(chain, &fields, bytes, Place::Item(items.len()))?;
        if chain.is_some_and(|chain| chain.other_transports_only) {
            pattern = pattern.map(Pattern::without_usual_transports);
        }
        Ok(Taken { pattern, fields })
    }

    /// Refuses a pattern that names a port, if that is not allowed.
    fn port(&self, attributes: Attributes) -> Result<(), Refusal> {
        let pattern = &self.personality.pattern;
        let is_good = match pattern.ports {
            Ports::Always => self.has_switch,
            Ports::Transfer => self.has_transfer(attributes),
        };
        match attributes.names_port && !is_good {
            true => {
                let facts = pattern.no_port.as_ref().or(pattern.unknown.as_ref());
                self.refuse(facts, NO_PORT, Place::Rule)
            }
            false => Ok(()),
        }
    }

    /// Returns the chain that the headers follow, if the NIC has chains.
    fn chain(&self, items: &[Item]) -> Result<Option<&Chain>, Refusal> {
        let chains = &self.personality.chains;
        if chains.is_empty() {
            return self.structure(items).map(|()| None);
        }
        let names = || items.iter().map(|item| item.proto.name());
        match chains.iter().find(|chain| chain.items.takes(names())) {
            Some(chain) => Ok(Some(chain)),
            None => {
                let facts = self.personality.pattern.unknown.as_ref();
                self.refuse(facts, UNKNOWN, Place::Item(0))
            }
        }
    }

    fn structure(&self, items: &[Item]) -> Result<(), Refusal> {
        let headers = &self.personality.pattern.headers;
        let is_known = |item: &Item| headers.iter().any(|name| name == item.proto.name());
        if let Some(place) = items.iter().position(|item| !headers.is_empty() && !is_known(item)) {
            let facts = self.personality.pattern.unknown.as_ref();
            return self.refuse(facts, UNKNOWN, Place::Item(place));
        }
        let structure = &self.personality.pattern.structure;
        let Structure { l4_without_l3, l3_after_l4, l2_after_l3, two_l3, two_l4, .. } = structure;
        let (mut highest, mut before) = (0, None);
        for (place, item) in items.iter().enumerate() {
            let layer = item.proto.layer();
            let facts = match (highest, layer) {
                (3, 3) => two_l3,
                (4, 4) => two_l4,
                (4, 3) => l3_after_l4,
                (3 | 4, 2) => l2_after_l3,
                (0 | 2, 4) => l4_without_l3,
                _ => match (before, item.proto) {
                    (Some(Proto::Vlan), Proto::Vlan) => &structure.two_tags,
                    (Some(Proto::Udp), _) => &None,
                    (_, Proto::Vxlan | Proto::Gtpu) => &structure.tunnel_without_udp,
                    _ => &None,
                },
            };
            if facts.is_some() {
                return self.refuse(facts.as_ref(), UNKNOWN, Place::Item(place));
            }
            // Behind a tunnel's header, layers start again.
            highest = if item.proto.is_tunnel() { 0 } else { layer };
            before = Some(item.proto);
        }
        Ok(())
    }

    /// Checks one item, and removes the bits from its mask that the NIC ignores.
    fn item(
        &self,
        place: Place,
        item: &mut Item,
        fields: &mut Fields,
        is_inner: bool,
    ) -> Result<(), Refusal> {
        let pattern = &self.personality.pattern;
        let facts = self.personality.items.get(item.proto.name());
        let given = item.given;
        if given.last && (pattern.never_last || !item.last_is_spec()) {
            return self.refuse(pattern.range.as_ref(), RANGE, place);
        }
        let null = facts.and_then(|facts| facts.null.as_ref());
        if null.is_some() && !(given.spec && given.mask) {
            return self.refuse(null, NULL, place);
        }
        if (given.mask || given.last) && !given.spec {
            if pattern.mask_alone.is_some() {
                return self.refuse(pattern.mask_alone.as_ref(), NULL, place);
            }
            item.forget_bits();
        }
        if !given.mask && (pattern.no_default_mask || !given.spec) {
            item.forget_bits();
        }
        if let Some(facts) = facts {
            self.masks(place, item, facts)?;
        }
        match item.proto.layer() {
            3 => fields.protos[0] = Some(item.proto),
            4 => fields.protos[1] = Some(item.proto),
            _ => {}
        }
        self.remember(place, item, fields, is_inner)
    }

    fn masks(&self, place: Place, item: &mut Item, facts: &ItemFacts) -> Result<(), Refusal> {
        if item.followed.is_some() && facts.followed.is_some() {
            return self.refuse(facts.followed.as_ref(), MASK, place);
        }
        for &field in item.proto.fields() {
            let of_field = facts.fields.get(field.name);
            let rule = of_field.map_or(MaskRule::Never, FieldFacts::rule);
            let good = match (rule, field.cover(&item.mask)) {
                (MaskRule::Always, cover) => cover == Cover::Full,
                (_, Cover::None) | (MaskRule::Any, _) => true,
                (MaskRule::Full | MaskRule::FullOrIgnored, Cover::Full) => true,
                (MaskRule::FullOrIgnored | MaskRule::Ignored, _) => {
                    field.clear(item);
                    true
                }
                (MaskRule::These, _) => is_one_of(of_field, field.value(&item.mask)),
                (MaskRule::Full | MaskRule::Never, _) => false,
            };
            if !good {
                let facts = of_field.and_then(FieldFacts::told).or(facts.mask.as_ref());
                return self.refuse(facts, MASK, place);
            }
            self.field_value(place, item, field, of_field)?;
        }
        Ok(())
    }

    /// Refuses values that the NIC does not accept, whatever the mask.
    fn field_value(
        &self,
        place: Place,
        item: &Item,
        field: Field,
        facts: Option<&FieldFacts>,
    ) -> Result<(), Refusal> {
        match facts {
            Some(FieldFacts::Detailed { not, not_told, .. })
                if field.cover(&item.mask) == Cover::Full
                    && not.contains(&field.value(&item.spec)) =>
            {
                self.refuse(not_told.as_ref(), VALUE, place)
            }
            _ => Ok(()),
        }
    }

    /// Notes the masked fields, if the personality limits them.
    fn remember(
        &self,
        place: Place,
        item: &Item,
        fields: &mut Fields,
        is_inner: bool,
    ) -> Result<(), Refusal> {
        let Personality { chains, pattern, exclusives, .. } = self.personality;
        if chains.is_empty() && exclusives.is_empty() && pattern.empty.is_none() {
            return Ok(());
        }
        let all = item.proto.fields().iter().enumerate();
        let counting = all.filter(|(_, field)| field.cover(&item.mask) != Cover::None);
        let before = fields.set.len();
        let proto = item.proto;
        fields.set.extend(counting.map(|(number, _)| MaskedField { proto, number, is_inner }));
        let (earlier, here) = fields.set.split_at(before);
        let is_in = |names: &[String], proto: Proto| names.iter().any(|name| name == proto.name());
        let broken = exclusives.iter().find(|exclusive| {
            !here.is_empty()
                && is_in(&exclusive.other, item.proto)
                && earlier.iter().any(|field| is_in(&exclusive.one, field.proto))
        });
        match broken {
            Some(exclusive) => self.refuse(Some(&exclusive.told), MASK, place),
            None => Ok(()),
        }
    }

    fn whole(
        &self,
        chain: Option<&Chain>,
        fields: &Fields,
        bytes: usize,
        end: Place,
    ) -> Result<(), Refusal> {
        let pattern = &self.personality.pattern;
        let set = &fields.set;
        if set.is_empty() && pattern.empty.is_some() {
            return self.refuse(pattern.empty.as_ref(), MASK, end);
        }
        if pattern.bytes_max.is_some_and(|most| bytes > most) {
            return self.refuse(pattern.too_wide.as_ref(), MASK, end);
        }
        let Some(Chain { exactly, only, .. }) = chain else { return Ok(()) };
        let are_in = |names: &Vec<String>| set.iter().all(|field| names.contains(&field.name()));
        let is_exact = |names: &Vec<String>| set.len() == names.len() && are_in(names);
        match exactly.as_ref().is_none_or(is_exact) && only.as_ref().is_none_or(are_in) {
            true => Ok(()),
            false => self.refuse(pattern.not_exactly.as_ref(), MASK, end),
        }
    }
}

impl MaskedField {
    /// Returns the name that chains use.
    fn name(self) -> String {
        let Self { proto, number, is_inner } = self;
        let behind = if is_inner { INNER } else { "" };
        format!("{behind}{}.{}", proto.name(), proto.fields()[number].name)
    }
}

fn is_one_of(facts: Option<&FieldFacts>, mask: u64) -> bool {
    matches!(facts, Some(FieldFacts::Detailed { these, .. }) if these.contains(&mask))
}

const UNKNOWN: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Item, c"these headers are not supported");
const NO_PORT: Refusal =
    Refusal::new(Errno::ENOTSUP, Kind::Item, c"only rules with transfer, of a switch, name ports");
const RANGE: Refusal = Refusal::new(Errno::ENOTSUP, Kind::ItemLast, c"ranges are not supported");
const NULL: Refusal = Refusal::new(Errno::EINVAL, Kind::ItemSpec, c"a mask without a spec");
const MASK: Refusal = Refusal::new(Errno::ENOTSUP, Kind::ItemMask, c"this mask is not supported");
const VALUE: Refusal = Refusal::new(Errno::EINVAL, Kind::ItemSpec, c"this value is not supported");
