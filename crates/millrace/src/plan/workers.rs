// SPDX-License-Identifier: BSD-3-Clause
//! Which cpu each worker gets: one worker per cpu.

use crate::config::{Fault, Pair, Place, Problem, Written};
use crate::host::{Cpus, format_cpus};
use std::collections::HashMap;

/// Workers written down for cpus that do not exist or have a worker already.
pub(super) fn impossible(pairs: &[Pair], cpus: &Cpus) -> Vec<Problem> {
    let mut taken: HashMap<u32, Place> = HashMap::new();
    let mut problems = Vec::new();
    let usable = cpus.usable();
    for (index, pair) in pairs.iter().enumerate() {
        let Some(workers) = &pair.workers else { continue };
        for (worker, Written { value: cpu, place }) in workers.value.iter().enumerate() {
            let fault = if !cpus.online.contains(cpu) {
                Fault::NoSuchCpu { cpu: *cpu, online: format_cpus(&cpus.online) }
            } else if !usable.contains(cpu) {
                Fault::CpuNotAllowed { cpu: *cpu, usable: format_cpus(&usable) }
            } else if let Some(first) = taken.get(cpu) {
                Fault::CpuTwice { cpu: *cpu, first: *first }
            } else {
                taken.insert(*cpu, *place);
                continue;
            };
            let key = format!("pair[{index}].workers[{worker}]");
            problems.push(Problem { place: *place, key, fault });
        }
    }
    problems
}

/// The cpus of each pair's workers: those written down, or `count` (default 1) that are free.
/// Isolated cpus come first, being meant for this; the first cpu comes last, being the
/// best one for all other work.
pub(super) fn assign(
    pairs: &[Pair],
    count: Option<&Written<u32>>,
    cpus: &Cpus,
) -> Result<Vec<Vec<u32>>, Problem> {
    let written: Vec<u32> = pairs.iter().flat_map(written_workers).collect();
    let (first, others) = cpus.allowed.split_at(cpus.allowed.len().min(1));
    let others = others.iter().filter(|cpu| !cpus.isolated.contains(cpu));
    let first = first.iter().filter(|cpu| !cpus.isolated.contains(cpu));
    let candidates = cpus.isolated.iter().chain(others).chain(first);
    let free: Vec<u32> = candidates.filter(|cpu| !written.contains(cpu)).copied().collect();

    let wanted = count.map_or(1, |count| count.value);
    let needed = wanted as usize * pairs.iter().filter(|pair| pair.workers.is_none()).count();
    if needed > free.len() {
        let place = count.map_or(Place::Whole {}, |count| count.place);
        let fault = Fault::TooFewCpus { wanted, needed, free: free.len() };
        return Err(Problem { place, key: "workers".to_owned(), fault });
    }
    let mut free = free.into_iter();
    let workers = pairs.iter().map(|pair| match &pair.workers {
        Some(_) => written_workers(pair),
        None => free.by_ref().take(wanted as usize).collect(),
    });
    Ok(workers.collect())
}

fn written_workers(pair: &Pair) -> Vec<u32> {
    let workers = pair.workers.iter().flat_map(|workers| &workers.value);
    workers.map(|worker| worker.value).collect()
}
