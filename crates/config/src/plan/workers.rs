// SPDX-License-Identifier: BSD-3-Clause
//! Assigns a cpu to each worker: one worker per cpu.

use crate::{Fault, Located, Pair, Place, Problem};
use doctor::host::{Cpus, format_cpus};
use std::collections::HashMap;

/// Returns problems with configured workers: cpus that do not exist, are not allowed, or are used
/// twice.
pub(super) fn impossible(pairs: &[Pair], cpus: &Cpus) -> Vec<Problem> {
    let mut taken: HashMap<u32, Place> = HashMap::new();
    let mut problems = Vec::new();
    let usable = cpus.usable();
    for (index, pair) in pairs.iter().enumerate() {
        let Some(workers) = &pair.workers else { continue };
        for (worker, Located { value: cpu, place }) in workers.value.iter().enumerate() {
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

/// Gives each pair the same number of the cpus that `--cpus` lists: the first ones to the first
/// pair, and so on. `count` is the number of workers per pair, if `--workers` is given too.
pub(super) fn deal_out(
    named: &[u32],
    pairs: &mut [Pair],
    count: Option<&Located<u32>>,
) -> Result<(), Problem> {
    let place = Place::Flag { flag: "--cpus" };
    let problem = |fault| Problem { place, key: String::new(), fault };
    let (cpus, pair_count) = (named.len(), pairs.len().max(1));
    if let Some(wanted) = count.map(|count| count.value) {
        let needed = wanted as usize * pair_count;
        if needed != cpus {
            return Err(problem(Fault::CpusAndWorkers { wanted, needed, named: cpus }));
        }
    }
    if cpus % pair_count != 0 {
        return Err(problem(Fault::UnevenCpus { named: cpus, pairs: pair_count }));
    }
    for (pair, cpus) in pairs.iter_mut().zip(named.chunks(cpus / pair_count)) {
        let value = cpus.iter().map(|cpu| Located { value: *cpu, place }).collect();
        pair.workers = Some(Located { value, place });
    }
    Ok(())
}

/// Returns the cpus of each pair's workers: the configured ones, or else `count` free ones (default
/// 1). Free cpus are taken in the order of [`Cpus::by_preference_near`] the ports of the pair.
pub(super) fn assign(
    pairs: &[Pair],
    count: Option<&Located<u32>>,
    cpus: &Cpus,
) -> Result<Vec<Vec<u32>>, Problem> {
    let written: Vec<u32> = pairs.iter().flat_map(written_workers).collect();
    let mut free = cpus.usable();
    free.retain(|cpu| !written.contains(cpu));

    let wanted = count.map_or(1, |count| count.value);
    let needed = wanted as usize * pairs.iter().filter(|pair| pair.workers.is_none()).count();
    if needed > free.len() {
        let place = count.map_or(Place::Whole {}, |count| count.place);
        let fault = Fault::TooFewCpus { wanted, needed, free: free.len() };
        return Err(Problem { place, key: "workers".to_owned(), fault });
    }
    let workers = pairs.iter().map(|pair| {
        if pair.workers.is_some() {
            return written_workers(pair);
        }
        let mut chosen = cpus.by_preference_near(&pair.found_nodes);
        chosen.retain(|cpu| free.contains(cpu));
        chosen.truncate(wanted as usize);
        free.retain(|cpu| !chosen.contains(cpu));
        chosen
    });
    Ok(workers.collect())
}

fn written_workers(pair: &Pair) -> Vec<u32> {
    let workers = pair.workers.iter().flat_map(|workers| &workers.value);
    workers.map(|worker| worker.value).collect()
}
