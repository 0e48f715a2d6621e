// SPDX-License-Identifier: BSD-3-Clause
//! Describes the cpus of the workers and their load before the run, in one line.

use doctor::host::{Cpus, Process, busiest_process_on, format_cpus};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Returns the line for workers on the cpus `workers`, whose ports are on the NUMA nodes `nodes`.
/// For each busy cpu it spends a tenth of a second to find the busiest process.
pub(crate) fn describe_placement(workers: &[u32], cpus: &Cpus, nodes: &[u32]) -> String {
    describe(workers, cpus, nodes, busiest_process_on)
}

fn describe(
    workers: &[u32],
    cpus: &Cpus,
    nodes: &[u32],
    busiest: impl Fn(u32) -> Option<Process>,
) -> String {
    let numbers: Vec<u32> = (0..).zip(workers).map(|(number, _)| number).collect();
    let (s, most) = if workers.len() == 1 { ("", "") } else { ("s", "at most ") };
    let (numbers, list) = (format_cpus(&numbers), format_cpus(workers));
    let mut line = format!("millrace: worker{s} {numbers} on cpu{s} {list}");
    let loads = workers.iter().filter_map(|cpu| cpus.busy_percent(*cpu));
    if let Some(percent) = loads.reduce(f64::max) {
        write!(line, ", {most}{percent:.0} % busy before").expect("a string takes all");
    }
    let of_cpus: BTreeSet<u32> = workers.iter().filter_map(|cpu| cpus.node_of(*cpu)).collect();
    if cpus.nodes.len() > 1 && !of_cpus.is_empty() {
        line += &format!(", NUMA {}", name_nodes(of_cpus));
    }
    let far: Vec<_> = workers.iter().copied().filter(|cpu| cpus.is_far(*cpu, nodes)).collect();
    if !far.is_empty() {
        let (list, nodes) = (format_cpus(&far), name_nodes(nodes.iter().copied()));
        line += &format!("; the ports are on {nodes}, far from {list}");
    }
    let busy: Vec<_> = workers.iter().copied().filter(|cpu| cpus.is_busy(*cpu)).collect();
    for cpu in &busy {
        if let Some(Process { id, name }) = busiest(*cpu) {
            write!(line, "; cpu {cpu} runs {name:?}, pid {id}").expect("a string takes all");
        }
    }
    if !busy.is_empty() {
        let list = format_cpus(&busy);
        line += &format!("; packets will wait while other programs use {list}");
        line += ": name cpus with --cpus";
    }
    line
}

fn name_nodes(nodes: impl IntoIterator<Item = u32>) -> String {
    let nodes: Vec<u32> = nodes.into_iter().collect();
    let s = if nodes.len() == 1 { "" } else { "s" };
    format!("node{s} {}", format_cpus(&nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::host::CpuLoad;

    #[test]
    fn only_busy_cpus_are_worth_a_warning() {
        let load = CpuLoad([(1, 3.4), (2, 97.0), (3, 0.0), (5, 50.0)].into());
        let cpus = Cpus { load: load.into(), ..Cpus::default() };
        let describe = |workers: &[u32]| {
            describe(workers, &cpus, &[], |cpu| {
                (cpu == 2).then(|| Process { id: 4711, name: "qemu\n".to_owned() })
            })
        };
        assert_eq!(describe(&[1]), "millrace: worker 0 on cpu 1, 3 % busy before");
        assert_eq!(describe(&[7]), "millrace: worker 0 on cpu 7");
        let two = "millrace: workers 0-1 on cpus 3,1, at most 3 % busy before";
        assert_eq!(describe(&[3, 1]), two);
        assert_eq!(
            describe(&[5, 1, 2]),
            "millrace: workers 0-2 on cpus 5,1-2, at most 97 % busy before; cpu 2 runs \
             \"qemu\\n\", pid 4711; packets will wait while other programs use 5,2: name cpus with \
             --cpus"
        );
    }

    #[test]
    fn nodes_are_named_where_there_are_several() {
        let nodes = [(0, vec![0, 1]), (1, vec![2, 3])].into();
        let cpus = Cpus { nodes, ..Cpus::default() };
        let describe = |workers: &[u32], nodes: &[u32]| describe(workers, &cpus, nodes, |_| None);
        assert_eq!(describe(&[2], &[]), "millrace: worker 0 on cpu 2, NUMA node 1");
        assert_eq!(describe(&[2, 3], &[1]), "millrace: workers 0-1 on cpus 2-3, NUMA node 1");
        assert_eq!(
            describe(&[2, 1, 0], &[1]),
            "millrace: workers 0-2 on cpus 2,1,0, NUMA nodes 0-1; the ports are on node 1, far \
             from 1,0"
        );
        let one = Cpus { nodes: [(0, vec![0])].into(), ..Cpus::default() };
        let line = super::describe(&[0], &one, &[0], |_| None);
        assert_eq!(line, "millrace: worker 0 on cpu 0");
    }
}
