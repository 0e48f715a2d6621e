// SPDX-License-Identifier: BSD-3-Clause
//! Plans access lists: reads their rules and sets, and binds them to the ports of each pair.

use super::Settings;
use super::ethernet_lists::{self, BoundFrames};
use super::new_from::{NEW_FROM, new_from};
use crate::lists::{Acl, List, ListKind, RuleTable, Set};
use crate::{Fault, Located, Place, Problem, read_at_most};
use acl::{
    AccessList, Action, AddressSet, Addresses, Criteria, EthernetList, EthernetRule, Family, Rule,
    RuleError, RuleOptions, SearchError, parse_addresses, parse_ethernet_rule, parse_rule,
    rule_lines,
};
use engine::{AccessError, AccessLimits, AccessLists, EthernetBinding, ListBinding, ListDirection};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Default limit of the memory of all searches of a pair, in MB.
const MEMORY_MB: u32 = 256;

/// Default number of rules of lists in one port. They go before those of connections, which most
/// NICs have room for beside as many.
const NIC_RULES_MAX: u32 = 2048;

/// Most bytes of a file of rules or networks: a million IPv6 networks fit.
const LIST_FILE_MAX: u64 = 128 << 20;

/// What the connections of a pair keep of what rules write to them.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    /// True if a zone of the pair has connections, which have marks.
    pub marks: bool,
    /// True if they have labels.
    pub labels: bool,
}

impl Keeps {
    /// Returns the index of the first rule that writes marks or labels which are not kept, and what
    /// is wrong with it.
    pub fn find_unkept(self, rules: &[Rule]) -> Option<(usize, String)> {
        let find = |is: fn(&RuleOptions) -> bool| rules.iter().position(|rule| is(&rule.options));
        let unmarked = || find(|options| options.sets_marks()).filter(|_| !self.marks);
        let unlabelled = || find(|options| options.set_label.is_some()).filter(|_| !self.labels);
        unmarked()
            .map(|rule| (rule, Fault::NoMarks.to_string()))
            .or_else(|| unlabelled().map(|rule| (rule, Fault::NoLabels.to_string())))
    }
}

/// What further rules of the lists are read with, and the limit for lists that have them.
#[derive(Clone, Debug)]
pub struct ListContext {
    /// Sets of networks by name, also those that no rule uses.
    pub sets: HashMap<String, Arc<AddressSet>>,
    /// Most memory of all searches of a pair, in MB.
    pub memory_mb: u32,
    /// By pair.
    pub keeps: Vec<Keeps>,
}

impl Default for ListContext {
    fn default() -> Self {
        Self { sets: HashMap::new(), memory_mb: MEMORY_MB, keeps: Vec::new() }
    }
}

/// The access lists of each pair.
#[derive(Debug, Default)]
pub(super) struct ListPlan {
    /// By pair; `None` for a pair without lists.
    pub(super) of_pairs: Vec<Option<Arc<AccessLists>>>,
    /// Most rules of lists in one port; 0 without lists.
    pub(super) nic_rules_max: u32,
    pub(super) context: ListContext,
}

/// A list, and the pair that it is for; `None` for all pairs.
struct Bound {
    binding: ListBinding,
    pair: Option<u32>,
    place: Place,
    /// Key of the list, or of the setting that it comes from.
    key: String,
}

/// Collects the lists of a configuration, and its problems.
#[derive(Default)]
struct Reader {
    sets: HashMap<String, Arc<AddressSet>>,
    lists: Vec<Bound>,
    frame_lists: Vec<BoundFrames>,
    problems: Vec<Problem>,
}

/// The rules of a list as text, one on each line, and where they are written.
struct RuleText {
    text: String,
    place: Place,
    key: String,
    /// Path of the file that has them; `None` in the configuration itself.
    file: Option<String>,
}

/// Returns the access lists of each pair, or all problems.
pub(super) fn plan_lists(
    acl: Option<Acl>,
    (sets, lists): (Vec<Set>, Vec<List>),
    keeps: &[Keeps],
    settings: &mut Settings,
) -> Result<ListPlan, Vec<Problem>> {
    let mut reader = Reader::default();
    let pairs = keeps.len();
    if acl.is_none() && lists.is_empty() && sets.is_empty() {
        return Ok(ListPlan { of_pairs: vec![None; pairs], ..ListPlan::default() });
    }
    let acl = acl.unwrap_or_default();
    settings.open("acl");
    let place = acl.new_from.as_ref().map_or(Place::Whole {}, |new_from| new_from.place);
    if let Some(from) = acl.new_from.map(|from| settings.require("new_from", from)) {
        let bound = |binding| Bound { binding, pair: None, place, key: NEW_FROM.to_owned() };
        reader.lists.extend(new_from(from).map(bound));
    }
    let memory_mb = settings.take("memory_mb", acl.memory_mb, MEMORY_MB);
    let nic_rules_max = settings.take("nic_rules_max", acl.nic_rules_max, NIC_RULES_MAX);
    let AccessLimits { rejects_per_second: rejects, logs_per_second: logs, recall_ms, nic_drop } =
        AccessLimits::default();
    let limits = AccessLimits {
        rejects_per_second: settings.take("rejects_per_second", acl.rejects_per_second, rejects),
        logs_per_second: settings.take("logs_per_second", acl.logs_per_second, logs),
        recall_ms: settings.take("recall_ms", acl.recall_ms, recall_ms),
        nic_drop: settings.take("nic_drop", acl.nic_drop, nic_drop),
    };
    for (index, set) in sets.into_iter().enumerate() {
        reader.read_set(index, set, settings);
    }
    for (index, list) in lists.into_iter().enumerate() {
        reader.read_list((index, pairs), list, settings);
    }
    if !reader.problems.is_empty() {
        return Err(reader.problems);
    }
    let of_pair = |(pair, keeps): (u32, &Keeps)| {
        check_marks(&reader.lists, pair, *keeps)?;
        let lists = build(&reader.lists, pair, (memory_mb, limits))?;
        ethernet_lists::bind(lists, &reader.frame_lists, pair).map(Arc::new)
    };
    let built: Vec<_> = (0..).zip(keeps).map(of_pair).collect();
    let context = ListContext { sets: reader.sets, memory_mb, keeps: keeps.to_vec() };
    let mut plan = ListPlan { of_pairs: Vec::new(), nic_rules_max, context };
    let mut problems = Vec::new();
    for pair in built {
        match pair {
            Ok(lists) => plan.of_pairs.push(Some(lists)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(plan) } else { Err(problems) }
}

/// Refuses rules that set marks or labels where connections keep none.
fn check_marks(lists: &[Bound], pair: u32, keeps: Keeps) -> Result<(), Problem> {
    let is_own = |bound: &&Bound| bound.pair.is_none_or(|number| number == pair);
    for Bound { binding, place, key, .. } in lists.iter().filter(is_own) {
        let rules = &binding.list.rules;
        if let Some((rule, why)) = keeps.find_unkept(rules) {
            let fault = Fault::Rule(format!("pair {pair}, rule {rule} ({}): {why}", rules[rule]));
            return Err(Problem { place: *place, key: key.clone(), fault });
        }
    }
    Ok(())
}

/// Builds the lists of one pair.
fn build(
    lists: &[Bound],
    pair: u32,
    (memory_mb, limits): (u32, AccessLimits),
) -> Result<AccessLists, Problem> {
    let own: Vec<_> =
        lists.iter().filter(|bound| bound.pair.is_none_or(|number| number == pair)).collect();
    let bindings: Vec<_> = own.iter().map(|bound| bound.binding.clone()).collect();
    let problem = |at: usize, fault| {
        let Bound { place, key, .. } = own[at];
        Problem { place: *place, key: key.clone(), fault }
    };
    let name = |at: usize| own[at].binding.list.name.clone();
    let lists = AccessLists::within(&bindings, (memory_mb as usize) << 20);
    let lists = lists.map_err(|error| match error {
        AccessError::SamePlace(both) => match both.map(|at| own[at].key == NEW_FROM) {
            [false, true] => problem(both[0], Fault::PlaceOfNewFrom),
            [true, false] => problem(both[1], Fault::PlaceOfNewFrom),
            _ => problem(both[1], Fault::SameListPlace { other: name(both[0]) }),
        },
        AccessError::TooLarge(at, SearchError::TooMuchMemory) => {
            problem(at, Fault::ListMemory { name: name(at), most: memory_mb })
        }
        AccessError::TooLarge(at, error) => {
            problem(at, Fault::Rule(format!("list {:?}, {error}", name(at))))
        }
    })?;
    Ok(lists.with_limits(limits))
}

impl Reader {
    fn problem(&mut self, place: Place, key: String, fault: Fault) {
        self.problems.push(Problem { place, key, fault });
    }

    fn read_set(&mut self, index: usize, set: Set, settings: &mut Settings) {
        let Some(name) = set.name else { return };
        settings.open_element("set");
        let place = name.place;
        let name = settings.require("name", name);
        let mut networks = Vec::new();
        if let Some(Located { value, place }) = &set.networks {
            settings.note("networks", value.clone(), (*place).into());
            self.add_networks(&mut networks, value.iter().map(String::as_str), |problem| {
                (*place, format!("set[{index}].networks"), Fault::Rule(problem))
            });
        }
        if let Some(file) = set.file {
            let (place, path) = (file.place, settings.require("file", file));
            let key = format!("set[{index}].file");
            if let Some(text) = self.read_file(&path, (place, &key)) {
                let lines = rule_lines(&text).map(|(_, line)| line.trim());
                self.add_networks(&mut networks, lines, |problem| {
                    (place, key.clone(), Fault::Rule(format!("{path}: {problem}")))
                });
            }
        }
        if networks.len() > AddressSet::NETWORKS_MAX {
            let most = AddressSet::NETWORKS_MAX;
            let fault = Fault::TooManyNetworks { found: networks.len(), most };
            self.problem(place, format!("set[{index}]"), fault);
        }
        if name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#') {
            self.problem(
                place,
                format!("set[{index}].name"),
                Fault::SetName { name: name.clone() },
            );
        }
        let set = Arc::new(AddressSet { name: name.clone(), networks });
        if self.sets.insert(name.clone(), set).is_some() {
            self.problem(place, format!("set[{index}].name"), Fault::ListNameTwice { name });
        }
    }

    fn add_networks<'a>(
        &mut self,
        networks: &mut Vec<acl::IpNet>,
        texts: impl Iterator<Item = &'a str>,
        problem: impl Fn(String) -> (Place, String, Fault),
    ) {
        for text in texts {
            let addresses = match text.starts_with('@') {
                true => Err("a set has no other sets in it; write their networks".to_owned()),
                false => parse_addresses(text, &|_| None),
            };
            let addresses = addresses.and_then(|addresses| match addresses {
                Addresses::Networks(found) => Ok(found),
                _ => Err(format!("{text:?} is no network; for all addresses, write no field")),
            });
            match addresses {
                Ok(found) => networks.extend(found),
                Err(message) => {
                    let (place, key, fault) = problem(message);
                    return self.problem(place, key, fault);
                }
            }
        }
    }

    fn read_file(&mut self, path: &str, (place, key): (Place, &str)) -> Option<String> {
        // Reading a pipe or a device might never end.
        let is_file = std::fs::metadata(path).map_or(true, |found| found.is_file());
        if !is_file && path != "/dev/null" {
            let fault = Fault::Rule(format!("{path} is not a regular file"));
            self.problem(place, key.to_owned(), fault);
            return None;
        }
        let text = read_at_most(Path::new(path), LIST_FILE_MAX)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                String::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))
            });
        match text {
            Ok(text) => Some(text),
            Err(error) => {
                let fault = Fault::Rule(format!("{path} cannot be read: {error}"));
                self.problem(place, key.to_owned(), fault);
                None
            }
        }
    }

    fn read_list(&mut self, (index, pairs): (usize, usize), list: List, settings: &mut Settings) {
        let Some(name) = list.name else { return };
        settings.open_element("list");
        let place = name.place;
        let name = settings.require("name", name);
        let key = format!("list[{index}]");
        if name.chars().any(char::is_control) {
            let fault = Fault::ListName { name: name.clone() };
            self.problem(place, format!("{key}.name"), fault);
        }
        let of_frames = self.frame_lists.iter().map(|other| &other.binding.list.name);
        let mut names = self.lists.iter().map(|other| &other.binding.list.name).chain(of_frames);
        if names.any(|other| *other == name) {
            let fault = Fault::ListNameTwice { name: name.clone() };
            self.problem(place, format!("{key}.name"), fault);
        }
        let pair_place = list.pair.as_ref().map_or(place, |pair| pair.place);
        let pair = list.pair.map(|pair| settings.require("pair", pair));
        if pair.is_some_and(|pair| pair as usize >= pairs) {
            self.problem(pair_place, format!("{key}.pair"), Fault::NoSuchPair { pairs });
        }
        let side = list.port.map(|port| settings.require("port", port));
        let direction = settings.take("direction", list.direction, ListDirection::In);
        let kind = settings.take("kind", list.kind, ListKind::Ip);
        let default_place = list.default.as_ref().map_or(place, |default| default.place);
        let default = settings.take("default", list.default, Action::Deny);
        let texts = self.read_texts(&key, (list.rules, list.file), settings);
        let places = side.map(|side| (side, direction)).into_iter().collect();
        let (found, most) = match kind {
            ListKind::Ip => {
                let rules = self.read_rules(&key, (&texts, list.rule_tables), settings);
                let (found, list) = (rules.len(), Arc::new(AccessList { name, rules, default }));
                let binding = ListBinding { list, places };
                self.lists.push(Bound { binding, pair, place, key: key.clone() });
                (found, AccessList::RULES_MAX)
            }
            ListKind::Ethernet => {
                if !EthernetList::allows(default) {
                    self.problem(default_place, format!("{key}.default"), Fault::EthernetDefault);
                }
                let rules = self.read_frame_rules(&key, (&texts, list.rule_tables), settings);
                let (found, list) = (rules.len(), Arc::new(EthernetList { name, rules, default }));
                let binding = EthernetBinding { list, places };
                self.frame_lists.push(BoundFrames { binding, pair, place, key: key.clone() });
                (found, EthernetList::RULES_MAX)
            }
        };
        if found > most {
            self.problem(place, key, Fault::TooManyRules { found, most });
        }
    }

    /// Reads the rules of a list for IP packets.
    fn read_rules(
        &mut self,
        key: &str,
        (texts, tables): (&[RuleText], Vec<RuleTable>),
        settings: &mut Settings,
    ) -> Vec<Rule> {
        let sets = std::mem::take(&mut self.sets);
        let find = |name: &str| sets.get(name).cloned();
        let mut rules = self.read_lines(texts, &|line| parse_rule(line, &find));
        self.sets = sets;
        for (number, table) in tables.into_iter().enumerate() {
            rules.extend(self.read_table(&format!("{key}.rule[{number}]"), table, settings));
        }
        rules
    }

    /// Reads the rules of a list for frames that are not IP.
    fn read_frame_rules(
        &mut self,
        key: &str,
        (texts, tables): (&[RuleText], Vec<RuleTable>),
        settings: &mut Settings,
    ) -> Vec<EthernetRule> {
        let mut rules = self.read_lines(texts, &parse_ethernet_rule);
        for (number, table) in tables.into_iter().enumerate() {
            let key = format!("{key}.rule[{number}]");
            match ethernet_lists::read_table(&key, table, settings) {
                Ok(rule) => rules.push(rule),
                Err(problem) => self.problems.push(problem),
            }
        }
        rules
    }

    /// Returns the texts with the rules of a list: `rules`, and that of its file.
    fn read_texts(
        &mut self,
        key: &str,
        (rules, file): (Option<Located<String>>, Option<Located<String>>),
        settings: &mut Settings,
    ) -> Vec<RuleText> {
        let mut texts = Vec::new();
        if let Some(Located { value: text, place }) = rules {
            settings.note("rules", text.clone(), place.into());
            let key = format!("{key}.rules");
            texts.push(RuleText { text, place, key, file: None });
        }
        if let Some(file) = file {
            let (place, file) = (file.place, settings.require("file", file));
            let key = format!("{key}.file");
            if let Some(text) = self.read_file(&file, (place, &key)) {
                texts.push(RuleText { text, place, key, file: Some(file) });
            }
        }
        texts
    }

    /// Reads the rules of texts, one on each line, without empty lines and comments.
    fn read_lines<R>(
        &mut self,
        texts: &[RuleText],
        parse: &dyn Fn(&str) -> Result<R, RuleError>,
    ) -> Vec<R> {
        let mut rules = Vec::new();
        for RuleText { text, place, key, file } in texts {
            for (line, rule) in rule_lines(text) {
                match parse(rule) {
                    Ok(rule) => rules.push(rule),
                    Err(error) => {
                        let file = file.as_ref().map_or(String::new(), |file| format!("{file}: "));
                        let fault = Fault::RuleLine { line, error: format!("{file}{error}") };
                        self.problem(*place, key.clone(), fault);
                    }
                }
            }
        }
        rules
    }

    fn read_table(&mut self, key: &str, table: RuleTable, settings: &mut Settings) -> Option<Rule> {
        settings.open_element("list.rule");
        let action = table.action?;
        let known = Action::ALL.iter().find(|(_, name)| *name == action.value);
        let Some((action, _)) = known else {
            let names = Action::ALL.map(|(_, name)| name).join(", ");
            let fault = Fault::Rule(format!("{:?} is no action; write {names}", action.value));
            self.problem(action.place, format!("{key}.action"), fault);
            return None;
        };
        settings.note("action", action.name().to_owned(), table.place.into());
        let mut criteria = Criteria::ANY;
        if let Some(family) = table.family {
            let known = Family::ALL.iter().find(|(_, name)| *name == family.value);
            let Some((found, _)) = known else {
                let fault = Fault::Rule("must be \"ipv4\" or \"ipv6\"".to_owned());
                self.problem(family.place, format!("{key}.family"), fault);
                return None;
            };
            criteria.family = Some(*found);
            settings.require("family", family);
        }
        for (name, Located { value, place }) in table.fields {
            let find = |name: &str| self.sets.get(name).cloned();
            if let Err(message) = acl::parse_field(&mut criteria, name, &value, &find) {
                self.problem(place, format!("{key}.{name}"), Fault::Rule(message));
                return None;
            }
            settings.note(name, value, place.into());
        }
        if let Err(message) = criteria.complete() {
            self.problem(table.place, key.to_owned(), Fault::Rule(message));
            return None;
        }
        let mut option = |name, option: Option<Located<bool>>| {
            option.is_some_and(|option| settings.require(name, option))
        };
        let log = option("log", table.log);
        let no_offload = option("no_offload", table.no_offload);
        let mut options = RuleOptions { log, no_offload, ..RuleOptions::default() };
        for (name, Located { value, place }) in table.marks {
            if let Err(message) = options.parse_mark(name, &value) {
                self.problem(place, format!("{key}.{name}"), Fault::Rule(message));
                return None;
            }
            settings.note(name, value, place.into());
        }
        if let Err(message) = options.check(*action) {
            self.problem(table.place, key.to_owned(), Fault::Rule(message));
            return None;
        }
        Some(Rule { criteria, action: *action, options })
    }
}
