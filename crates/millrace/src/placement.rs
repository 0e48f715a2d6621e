// SPDX-License-Identifier: BSD-3-Clause
//! Which cpus the workers have and how busy these were before, in one line for people.

use crate::host::{Cpus, Process, busiest_process_on, format_cpus};
use std::fmt::Write;

/// Returns the line for workers on `workers`, in their order. Takes a tenth of a second for each
/// busy cpu, whose busiest process it looks for.
pub(crate) fn describe_placement(workers: &[u32], cpus: &Cpus) -> String {
    describe(workers, cpus, busiest_process_on)
}

fn describe(workers: &[u32], cpus: &Cpus, busiest: impl Fn(u32) -> Option<Process>) -> String {
    let numbers: Vec<u32> = (0..).zip(workers).map(|(number, _)| number).collect();
    let (s, most) = if workers.len() == 1 { ("", "") } else { ("s", "at most ") };
    let (numbers, list) = (format_cpus(&numbers), format_cpus(workers));
    let mut line = format!("millrace: worker{s} {numbers} on cpu{s} {list}");
    let loads = workers.iter().filter_map(|cpu| cpus.busy_percent(*cpu));
    if let Some(percent) = loads.reduce(f64::max) {
        write!(line, ", {most}{percent:.0} % busy before").expect("a string takes all");
    }
    let busy: Vec<_> = workers.iter().copied().filter(|cpu| cpus.is_busy(*cpu)).collect();
    for cpu in &busy {
        if let Some(Process { id, name }) = busiest(*cpu) {
            write!(line, "; cpu {cpu} runs {name:?}, pid {id}").expect("a string takes all");
        }
    }
    if !busy.is_empty() {
        let list = format_cpus(&busy);
        line += &format!("; packets will wait while others use {list}: name cpus with --cpus");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::CpuLoad;

    #[test]
    fn only_busy_cpus_are_worth_a_warning() {
        let load = CpuLoad([(1, 3.4), (2, 97.0), (3, 0.0), (5, 50.0)].into());
        let cpus = Cpus { load: load.into(), ..Cpus::default() };
        let describe = |workers: &[u32]| {
            describe(workers, &cpus, |cpu| {
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
             \"qemu\\n\", pid 4711; packets will wait while others use 5,2: name cpus with --cpus"
        );
    }
}
