// SPDX-License-Identifier: BSD-3-Clause
//! Creates and destroys the rules of a DPDK port, and measures how long each operation takes.
//!
//! The programming thread shares the port with the control thread, which reads counters and the
//! link about once a second. Neither thread is on the packet path.

mod api;

pub(crate) use api::{Calls, DEPTH, try_counting_rule};

use crate::live::offload::bypass::{ByProtocol, Bypass};
use crate::live::offload::list_support::{ListQueues, ListSupport};
use crate::live::offload::rule_dialect::{KINDS, RuleDialect, example, kind};
use crate::live::ports::shared::SharedPort;
use api::{Api, Completed, DriverError};
use config::RuleApi;
use dpdk::flow::{FlowRule, Rule};
use dpdk::{Port, Resets};
use engine::{BypassCount, FiveTuple};
use hdrhistogram::Histogram;
use offload::{
    Completion, ListAction, ListPort, NicAction, Refusal, RefusalClass, RuleNumber, RulePort,
};
use report::summary::Times;
use std::collections::HashMap;
use std::time::Duration;
use wire::header_match::HeaderMatch;

/// A rule that was requested from the NIC, and neither refused nor removed.
struct RequestedRule {
    kind: u8,
    is_installed: bool,
}

/// The rules of one port, in the shapes that its NIC takes.
pub(crate) struct PortRules {
    port: SharedPort,
    pub(crate) resets: Resets,
    /// Number of resets begun, at the last call of [`was_reset`](Self::was_reset).
    resets_seen: u64,
    /// The port was reset, and not called since.
    needs_renewal: bool,
    pub(crate) support: RuleSupport,
    rules_max: u32,
    requested: HashMap<RuleNumber, RequestedRule>,
    /// Rules of access lists, by their numbers.
    list_rules: HashMap<u64, FlowRule>,
    next_list_rule: u64,
    /// Rules that the NIC has, by kind; the last entry is for bypass rules.
    rules: [u32; KINDS + 1],
    /// Results that need no call to the NIC.
    immediate_results: Vec<Completion>,
    /// Rules that were not requested, since the NIC takes none of their kind.
    pub(crate) unsupported: u64,
    /// The driver's words for the last refusal.
    pub(crate) last_refusal: Option<String>,
    pub(crate) inserts: LatencyStats,
    pub(crate) deletes: LatencyStats,
}

/// The kind of all bypass rules.
const BYPASS: usize = KINDS;

/// The configuration of a port's rules.
#[derive(Clone, Copy)]
pub(crate) struct RuleSpec {
    pub(crate) api: RuleApi,
    pub(crate) rules_max: u32,
    /// Number of the port to bypass to.
    pub(crate) peer: u16,
    /// Which protocols are to be bypassed.
    pub(crate) bypass: ByProtocol<bool>,
    /// The receive queues, if the port is to have rules of access lists.
    pub(crate) list_queues: Option<ListQueues>,
}

/// Which rules a port takes, and how they are created.
pub(crate) struct RuleSupport {
    pub(crate) dialect: RuleDialect,
    spec: RuleSpec,
    api: Api,
    /// Why rules are not created through a flow queue; `None` if they are.
    pub(crate) why_sync: Option<String>,
    pub(crate) bypass: Bypass,
    /// The form of rules of access lists, or why the port takes none.
    pub(crate) lists: Result<ListSupport, String>,
}

/// Creates a rule and destroys it again.
fn try_rule(port: &mut Port, rule: &Rule) -> Result<(), String> {
    let made = port.flow_create(rule).map_err(|error| error.of(Some(rule)))?;
    // A rule that stays matches documentation addresses only, and ends with the port.
    let _ = port.flow_destroy(made);
    Ok(())
}

impl RuleSupport {
    /// Tries which rules a started port takes.
    ///
    /// # Errors
    ///
    /// The driver's words, if it takes no rules.
    pub(crate) fn of(port: &mut Port, spec: RuleSpec) -> Result<Self, String> {
        let dialect = RuleDialect::probe(|rule| try_rule(port, rule))?;
        let lists = Self::lists_of(port, &dialect, spec.list_queues);
        let bypass = Bypass::of(port, spec.peer, spec.bypass);
        let (api, why_sync) = Api::best(port, &dialect, (spec.api, spec.rules_max));
        Ok(Self { dialect, spec, api, why_sync, bypass, lists })
    }

    /// Tries which rules of access lists the port takes.
    fn lists_of(
        port: &mut Port,
        dialect: &RuleDialect,
        queues: Option<ListQueues>,
    ) -> Result<ListSupport, String> {
        let queues = queues.ok_or_else(|| "`nic_rules_max` is 0".to_owned())?;
        let shape = dialect.shape(&example(0, 0)).ok_or("it takes no rules for UDP over IPv4")?;
        let info = port.info().clone();
        let mut lists = ListSupport::probe((&info, queues), shape, |rule| try_rule(port, rule))?;
        lists.probe_drops(queues, |rule| try_counting_rule(port, rule));
        Ok(lists)
    }

    /// Sets up the flow queue again after a reset of the port.
    fn renew(&mut self, port: &mut Port) {
        let spec = (self.spec.api, self.spec.rules_max);
        (self.api, self.why_sync) = Api::best(port, &self.dialect, spec);
    }

    /// Returns a rule and its kind; `None` if the port takes none for such packets.
    fn rule(&self, tuple: &FiveTuple, action: NicAction) -> Option<(Rule, usize)> {
        match action {
            NicAction::Mark { mark, queue } => {
                let shape = self.dialect.shape(tuple)?;
                Some((shape.rule(tuple, mark, queue), kind(tuple)))
            }
            NicAction::Peer => Some((self.bypass.rule(tuple)?, BYPASS)),
        }
    }

    /// Returns the name of the interface, as in the summary.
    pub(crate) fn api(&self) -> &'static str {
        self.api.name()
    }

    /// Returns the shapes of the rules, for each kind.
    pub(crate) fn shapes(&self) -> Vec<String> {
        self.dialect.shapes().into_iter().chain(self.bypass.shapes()).collect()
    }
}

impl PortRules {
    pub(crate) fn new(port: SharedPort, support: RuleSupport, rules_max: u32) -> Self {
        let resets = port.lock().resets();
        Self {
            port,
            resets_seen: resets.begun(),
            resets,
            needs_renewal: false,
            support,
            rules_max,
            requested: HashMap::new(),
            list_rules: HashMap::new(),
            next_list_rule: 0,
            rules: [0; KINDS + 1],
            immediate_results: Vec::new(),
            unsupported: 0,
            last_refusal: None,
            inserts: LatencyStats::new(),
            deletes: LatencyStats::new(),
        }
    }

    /// True if the port was reset, or a reset was tried, since the last call. Then it has no rules,
    /// and pending operations have no result.
    pub(crate) fn was_reset(&mut self) -> bool {
        let seen = std::mem::replace(&mut self.resets_seen, self.resets.begun());
        let was_reset = seen != self.resets_seen;
        if was_reset {
            self.needs_renewal = true;
            self.rules = [0; KINDS + 1];
            self.requested.clear();
            self.list_rules.clear();
            self.support.bypass.calls = Calls::default();
            self.immediate_results.clear();
        }
        was_reset
    }

    /// Calls `operate` with the port. `None` if the port is out of service, or was reset and
    /// [`was_reset`](Self::was_reset) has not returned that yet.
    fn call<T>(&mut self, operate: impl FnOnce(&mut Port, &mut RuleSupport) -> T) -> Option<T> {
        let mut port = self.port.lock();
        if self.resets.begun() != self.resets_seen || self.resets.is_down() {
            return None;
        }
        if std::mem::take(&mut self.needs_renewal) {
            self.support.renew(&mut port);
        }
        Some(operate(&mut port, &mut self.support))
    }

    /// Removes all rules at once, without results.
    pub(crate) fn flush(&mut self) {
        // Rules that stay end with the port.
        self.call(|port, _| _ = port.flow_flush());
    }

    /// Removes the template tables; no further rule can be created.
    pub(crate) fn close(&mut self) {
        // Tables that stay end with the port.
        self.call(|port, _| _ = port.flow_tables_destroy());
    }

    fn is_bypass(&self, rule: RuleNumber) -> bool {
        self.requested.get(&rule).is_some_and(|request| usize::from(request.kind) == BYPASS)
    }

    fn refuse(&mut self, rule: RuleNumber, class: RefusalClass, message: &str) {
        let refusal = Refusal { class, words: message.to_owned() };
        self.immediate_results.push(Completion { rule, result: Err(refusal) });
    }

    fn complete(&mut self, Completed { rule, took, result }: Completed) -> Completion {
        let request = self.requested.get_mut(&rule).expect("a rule that was requested");
        let (kind, was_there) = (usize::from(request.kind), request.is_installed);
        request.is_installed = true;
        let result = match (was_there, result) {
            (false, Ok(())) => {
                self.inserts.add(took);
                self.rules[kind] += 1;
                Ok(())
            }
            (false, Err(DriverError { errno, words })) => {
                self.requested.remove(&rule);
                self.last_refusal = Some(words.clone());
                Err(Refusal { class: self.refusal_class(errno, kind), words })
            }
            (true, Ok(())) => {
                self.requested.remove(&rule);
                self.deletes.add(took);
                self.rules[kind] -= 1;
                Ok(())
            }
            // The rule was not destroyed, so it still takes space in the NIC.
            (true, Err(DriverError { errno, words })) => {
                Err(Refusal { class: RefusalClass::of_errno(errno), words })
            }
        };
        Completion { rule, result }
    }

    /// Returns the class of a refusal. Some drivers (Intel's), and results of flow queues, say only
    /// that something is wrong. Then the NIC is full if it has rules of this kind. If it has none,
    /// it takes no such rules beside those of other kinds.
    fn refusal_class(&self, errno: i32, kind: usize) -> RefusalClass {
        match RefusalClass::of_errno(errno) {
            // A NIC that does not bypass a connection may still mark its packets.
            RefusalClass::Full | RefusalClass::Unsuitable if kind == BYPASS => {
                RefusalClass::Unsuitable
            }
            RefusalClass::Unsuitable if self.rules[kind] > 0 && errno != EEXIST => {
                RefusalClass::Full
            }
            class => class,
        }
    }
}

impl RulePort for PortRules {
    fn depth(&self) -> usize {
        self.support.api.depth()
    }

    fn create(&mut self, rule: RuleNumber, tuple: &FiveTuple, action: NicAction) {
        let Some((request, kind)) = self.support.rule(tuple, action) else {
            self.unsupported += 1;
            let message = "the NIC takes no rule for such packets";
            return self.refuse(rule, RefusalClass::Unsuitable, message);
        };
        if self.requested.len() >= self.rules_max as usize {
            let message = "the port has `rules_max` rules already";
            return self.refuse(rule, RefusalClass::Full, message);
        }
        let create = |port: &mut Port, support: &mut RuleSupport| match kind {
            BYPASS => support.bypass.calls.create(port, rule, &request),
            _ => support.api.create(port, rule, &request),
        };
        match self.call(create) {
            Some(()) => {
                self.requested
                    .insert(rule, RequestedRule { kind: kind as u8, is_installed: false });
            }
            None => self.refuse(rule, RefusalClass::PortError, "the port is being reset"),
        }
    }

    fn destroy(&mut self, rule: RuleNumber) {
        let is_bypass = self.is_bypass(rule);
        let destroy = |port: &mut Port, support: &mut RuleSupport| match is_bypass {
            true => support.bypass.calls.destroy(port, rule),
            false => support.api.destroy(port, rule),
        };
        if self.call(destroy).is_none() {
            // The reset has removed the rule.
            self.immediate_results.push(Completion { rule, result: Ok(()) });
        }
    }

    fn counted(&mut self, rule: RuleNumber) -> Option<BypassCount> {
        self.call(|port, support| support.bypass.calls.count(port, rule)).flatten()
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.immediate_results);
        let poll = |port: &mut Port, support: &mut RuleSupport| {
            let (mut ended, polled) = support.api.poll(port);
            ended.extend(support.bypass.calls.take_ended());
            (ended, polled)
        };
        let Some((ended, polled)) = self.call(poll) else { return };
        // After an error, the other results come with a later poll.
        self.last_refusal = polled.err().or(self.last_refusal.take());
        done.extend(ended.into_iter().map(|ended| self.complete(ended)));
    }
}

impl ListPort for PortRules {
    fn create_list_rule(
        &mut self,
        action: ListAction,
        header: &HeaderMatch,
        level: u32,
    ) -> Result<u64, Refusal> {
        let lists = self
            .support
            .lists
            .as_ref()
            .map_err(|words| Refusal { class: RefusalClass::Unsuitable, words: words.clone() })?;
        let rule = lists.rule(action, header, level);
        let created = self.call(|port, _| port.flow_create(&rule));
        let created = created.ok_or_else(out_of_service)?.map_err(|error| Refusal {
            class: RefusalClass::of_errno(error.errno),
            words: error.of(Some(&rule)),
        })?;
        self.next_list_rule += 1;
        self.list_rules.insert(self.next_list_rule, created);
        Ok(self.next_list_rule)
    }

    fn check_list_rule(&self, header: &HeaderMatch) -> Result<(), Refusal> {
        let Ok(lists) = &self.support.lists else { return Ok(()) };
        let unsuitable = |words| Refusal { class: RefusalClass::Unsuitable, words };
        lists.check(header).map_err(unsuitable)
    }

    fn dropped_by(&mut self, number: u64) -> Option<[u64; 2]> {
        let rule = self.list_rules.remove(&number)?;
        let count = self.call(|port, _| port.flow_query_count(&rule, false));
        self.list_rules.insert(number, rule);
        let count = count?.ok()?;
        Some([count.hits?, count.bytes?])
    }

    fn destroy_list_rule(&mut self, number: u64) -> Result<(), Refusal> {
        let Some(rule) = self.list_rules.remove(&number) else { return Ok(()) };
        // A port that was reset has no rules.
        match self.call(|port, _| port.flow_destroy(rule)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err((rule, error))) => {
                self.list_rules.insert(number, rule);
                Err(Refusal { class: RefusalClass::of_errno(error.errno), words: error.of(None) })
            }
        }
    }
}

fn out_of_service() -> Refusal {
    Refusal { class: RefusalClass::PortError, words: "the port is being reset".to_owned() }
}

/// Error number: a rule for such packets exists already.
const EEXIST: i32 = 17;

/// Time that successful operations took.
pub(crate) struct LatencyStats {
    all: Histogram<u64>,
    time: Duration,
}

/// Longer times are recorded as this.
const LONGEST_NS: u64 = 60_000_000_000;

impl LatencyStats {
    fn new() -> Self {
        // Two digits suffice: times range from microseconds to milliseconds.
        let all = Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("bounds and digits in range");
        Self { all, time: Duration::ZERO }
    }

    fn add(&mut self, took: Duration) {
        self.all.saturating_record((took.as_nanos() as u64).max(1));
        self.time += took;
    }

    /// Returns the number of operations and their total time.
    pub(crate) fn sum(&self) -> (u64, Duration) {
        (self.all.len(), self.time)
    }

    pub(crate) fn times(&self) -> Times {
        // Microseconds with three decimals: times are in whole nanoseconds.
        let us = |ns: u64| ns as f64 / 1e3;
        let all = &self.all;
        if all.is_empty() {
            return Times::default();
        }
        Times {
            min: us(all.min()),
            avg: us(all.mean() as u64),
            max: us(all.max()),
            p50: us(all.value_at_quantile(0.5)),
            p99: us(all.value_at_quantile(0.99)),
        }
    }
}
