// SPDX-License-Identifier: BSD-3-Clause
//! Runs the script on made-up hosts: its paths lead below their roots, and the programs that change
//! a host only write down how they were called.

use super::*;
use crate::tests::Machine;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Programs that the script calls and no test may.
const PROGRAMS: [&str; 13] = [
    "dpdk-devbind.py",
    "driverctl",
    "grub-mkconfig",
    "grub2-mkconfig",
    "grubby",
    "kernel-install",
    "modprobe",
    "sysctl",
    "systemctl",
    "systemd-tmpfiles",
    "tuned-adm",
    "uname",
    "update-grub",
];

/// A host of four cpus with one NIC in use and one idle, and the means of `files`.
fn host(name: &str, files: &[(&str, &str)]) -> Machine {
    let machine = Machine::plain(name)
        .with("proc/cmdline", "quiet\n")
        .with("proc/sys/vm/nr_hugepages", "512\n")
        .with("proc/meminfo", "MemAvailable: 4194304 kB\nHugepagesize:       2048 kB\n")
        .with("proc/self/status", "Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3\n")
        .with("proc/net/route", "Iface\tDestination\neno1\t00000000\t0100A8C0\n")
        .with("proc/net/dev", "head | er\n  eno1: 0\n  eno2: 0\n")
        .with("sys/devices/system/cpu/online", "0-3\n")
        .with("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
        .with("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n")
        .with("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n")
        .with("sys/kernel/iommu_groups/0/type", "DMA\n")
        .nic("0000:01:00.0", "eno1", "i40e")
        .nic("0000:01:00.1", "eno2", "i40e");
    files.iter().fold(machine, |machine, (path, text)| machine.with(path, text))
}

/// Runs the script of `machine`; returns its output, and the calls of programs.
fn run(machine: &Machine, variables: &[(&str, &str)]) -> (Output, String) {
    let root = machine.0.to_str().unwrap();
    let script = fix_script(&Host::read(&machine.0));
    let bin = machine.0.join("stand-ins");
    fs::create_dir_all(&bin).unwrap();
    for program in PROGRAMS {
        let text = format!("#!/bin/sh\necho {program} \"$@\" >> {root}/calls\n");
        fs::write(bin.join(program), text).unwrap();
        fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Whoever runs the tests is taken for root.
    let mut script = script.replace("$(id -u)", "0");
    for folder in ["/etc/", "/proc/", "/sys/"] {
        for before in [" ", "=", "\"", "'"] {
            script =
                script.replace(&format!("{before}{folder}"), &format!("{before}{root}{folder}"));
        }
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let _ = fs::remove_file(machine.0.join("calls"));
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script]).env("PATH", path).envs(variables.iter().copied());
    let output = output.output().unwrap();
    (output, fs::read_to_string(machine.0.join("calls")).unwrap_or_default())
}

fn run_well(machine: &Machine) -> String {
    let (output, calls) = run(machine, &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", fix_script(&Host::read(&machine.0)));
    calls
}

fn text(machine: &Machine, path: &str) -> String {
    fs::read_to_string(machine.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const ISOLATION: &str = "isolcpus=1,3 nohz_full=1,3 rcu_nocbs=1,3";

#[test]
fn debian_with_grub_is_prepared_once() {
    let files = [
        ("etc/default/grub.d/.keep", ""),
        ("etc/default/irqbalance", "IRQBALANCE_ARGS=-t\n"),
        ("usr/sbin/update-grub", ""),
        ("usr/bin/driverctl", ""),
        ("run/systemd/system/.keep", ""),
    ];
    let machine = host("script-debian", &files);
    let calls = run_well(&machine);
    assert!(calls.contains("update-grub\n"), "{calls}");
    assert!(calls.contains("driverctl set-override 0000:01:00.1 vfio-pci\n"), "{calls}");
    assert!(calls.contains("sysctl -q -p "), "{calls}");
    assert!(!calls.contains("0000:01:00.0"), "the NIC with the default route: {calls}");
    let grub = text(&machine, "etc/default/grub.d/millrace.cfg");
    assert!(grub.contains(&format!("\"$GRUB_CMDLINE_LINUX {ISOLATION}\"")), "{grub}");
    assert_eq!(text(&machine, "etc/sysctl.d/60-millrace.conf"), "vm.nr_hugepages = 512\n");
    assert_eq!(text(&machine, "etc/modules-load.d/millrace.conf"), "vfio-pci\n");
    let governor = "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor - - - - performance";
    assert!(text(&machine, "etc/tmpfiles.d/millrace.conf").contains(governor));
    let irqbalance = "IRQBALANCE_ARGS=-t\nIRQBALANCE_BANNED_CPULIST=\"1,3\"\n";
    assert_eq!(text(&machine, "etc/default/irqbalance"), irqbalance);
    // The second run changes no file, so it writes no menu of grub.
    let (output, calls) = run(&machine, &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("wrote") && said.ends_with("done\n"), "{said}");
    assert!(!calls.contains("update-grub"), "{calls}");
}

#[test]
fn red_hat_with_tuned_gets_no_parameters_beside_those_of_tuned() {
    let variables = "# isolated_cores=2-23\nno_balance_cores=3\nisolated_cores=2\n";
    let files = [
        ("etc/tuned/active_profile", "cpu-partitioning\n"),
        ("etc/tuned/cpu-partitioning-variables.conf", variables),
        ("usr/sbin/grubby", ""),
        ("usr/sbin/driverctl", ""),
    ];
    let machine =
        host("script-redhat", &files).with("proc/1/status", "Cpus_allowed_list:\t0-1,3\n");
    let script = fix_script(&Host::read(&machine.0));
    assert!(script.contains("WORKER_CPUS=${WORKER_CPUS-2}"), "{script}");
    let calls = run_well(&machine);
    assert!(!calls.contains("grubby") && !calls.contains("tuned-adm"), "{calls}");
    let (_, calls) = run(&machine, &[("WORKER_CPUS", "1,3"), ("HUGEPAGES_1G", "4")]);
    assert!(calls.contains("tuned-adm profile cpu-partitioning\n"), "{calls}");
    let pages = "grubby --update-kernel=ALL --args= hugepagesz=1G hugepages=4\n";
    assert!(calls.contains(pages), "{calls}");
    let expected = "# isolated_cores=2-23\nno_balance_cores=3\nisolated_cores=1,3\n";
    assert_eq!(text(&machine, "etc/tuned/cpu-partitioning-variables.conf"), expected);
    // doctor says what tuned does, not that no cpu is isolated.
    let isolation =
        host("script-tuned", &files).with("proc/1/status", "Cpus_allowed_list:\t0-1,3\n");
    let (status, found) = isolation.finding("isolation");
    assert_eq!(
        (status, found.as_str()),
        (Status::Ok, "cpus 2 are set apart by tuned (cpu-partitioning)")
    );
    assert_eq!(isolation.finding("tuned").0, Status::Ok);
    let waiting = isolation.with("proc/1/status", "Cpus_allowed_list:\t0-3\n");
    let (status, found) = waiting.finding("isolation");
    assert!(status == Status::Note && found.contains("process 1 has them still"), "{found}");
}

#[test]
fn a_host_without_any_of_them_is_told_what_to_keep() {
    let machine = host("script-bare", &[]);
    let (output, calls) = run(&machine, &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("boot the kernel with: {ISOLATION}")), "{said}");
    assert!(calls.contains("dpdk-devbind.py --bind=vfio-pci 0000:01:00.1\n"), "{calls}");
    assert_eq!(machine.finding("driver bindings").0, Status::Note);
    // With systemd, a service binds them at each boot.
    let machine = machine.with("run/systemd/system/.keep", "");
    let calls = run_well(&machine);
    assert!(calls.contains("systemctl enable millrace-ports.service\n"), "{calls}");
    let service = text(&machine, "etc/systemd/system/millrace-ports.service");
    assert!(service.contains("dpdk-devbind.py --bind=vfio-pci 0000:01:00.1\n"), "{service}");
}

#[test]
fn systemd_boot_keeps_the_command_line_of_the_running_kernel() {
    let loader = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let name: String = "systemd-boot 257".chars().flat_map(|letter| [letter, '\0']).collect();
    let files = [
        (loader, &*format!("\u{6}\0\0\0{name}")),
        ("proc/cmdline", "initrd=\\initrd root=/dev/sda1 isolcpus=7 quiet\n"),
    ];
    let machine = host("script-systemd-boot", &files);
    let calls = run_well(&machine);
    assert!(calls.contains("kernel-install add"), "{calls}");
    let line = text(&machine, "etc/kernel/cmdline");
    assert_eq!(line, format!("root=/dev/sda1 quiet {ISOLATION}\n"));
    let calls = run_well(&machine);
    assert!(!calls.contains("kernel-install"), "{calls}");
}

#[test]
fn a_nic_that_came_into_use_is_left_alone() {
    let machine = host("script-guard", &[("usr/bin/driverctl", "")]);
    for (variables, reason) in [
        (("PORTS", "0000:01:00.0"), "eno1 carries the default route: not bound"),
        (("PORTS", "0000:01:00.9"), "there is no such device"),
    ] {
        let (output, calls) = run(&machine, &[variables]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(reason), "{errors}");
        assert_eq!(output.status.code(), Some(1));
        assert!(!calls.contains("set-override"), "{calls}");
    }
    let pppoe = "Id  Address  Device\n0000A1B2 02:00:00:00:00:09     eno2\n";
    let machine = machine.with("proc/net/pppoe", pppoe);
    let (output, calls) = run(&machine, &[("PORTS", "0000:01:00.1")]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("eno2 carries a PPPoE session: not bound"), "{errors}");
    assert!(!calls.contains("set-override"), "{calls}");
    // In another namespace, nothing says what uses it.
    let machine = machine.with("proc/net/dev", "head | er\n");
    let (output, calls) = run(&machine, &[("PORTS", "0000:01:00.1")]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no interface is visible: not bound"), "{errors}");
    assert!(!calls.contains("set-override"), "{calls}");
}

#[test]
fn without_root_the_script_changes_nothing() {
    let script = fix_script(&Host::read(Path::new("/nonexistent")));
    let script = script.replace("$(id -u)", "1000");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.ends_with(": run this as root\n"), "{errors}");
}

#[test]
fn parameters_that_somebody_else_has_set_are_left_to_them() {
    let files = [
        ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"isolcpus=1,3\"\n"),
        ("proc/cmdline", "quiet isolcpus=1,3\n"),
    ];
    let machine = host("script-others", &files);
    let calls = run_well(&machine);
    assert!(calls.contains("grub-mkconfig -o /boot/grub/grub.cfg\n"), "{calls}");
    let own = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX nohz_full=1,3 rcu_nocbs=1,3\" \
               # millrace doctor\n";
    let expected = format!("{}{own}", files[0].1);
    assert_eq!(text(&machine, "etc/default/grub"), expected);
    // After the reboot they stay in the line of the script, and the file is the same.
    let machine = machine.with("proc/cmdline", &format!("quiet {ISOLATION}\n"));
    let calls = run_well(&machine);
    assert!(!calls.contains("grub-mkconfig"), "{calls}");
    assert_eq!(text(&machine, "etc/default/grub"), expected);
}

#[test]
fn a_virtual_machine_without_an_iommu_gets_the_unsafe_mode_or_uio() {
    let flags = "flags : sse4_2 avx2 constant_tsc nonstop_tsc hypervisor\n";
    let mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let machine = host("script-vm", &[("proc/cpuinfo", flags), (mode, "N\n")]);
    fs::remove_dir_all(machine.0.join("sys/kernel/iommu_groups")).unwrap();
    run_well(&machine);
    assert_eq!(text(&machine, mode), "1\n");
    let options = text(&machine, "etc/modprobe.d/millrace.conf");
    assert_eq!(options, "options vfio enable_unsafe_noiommu_mode=1\n");
    // A kernel that was built without that mode.
    fs::remove_dir_all(machine.0.join("sys/module/vfio")).unwrap();
    let machine = machine.with("boot/config-6.1.0-40-amd64", "# CONFIG_VFIO_NOIOMMU is not set\n");
    let calls = run_well(&machine);
    assert!(calls.contains("--bind=uio_pci_generic 0000:01:00.1\n"), "{calls}");
    let findings = machine.findings();
    let vfio = findings.iter().find(|finding| finding.topic == "vfio").unwrap();
    let advice = vfio.advice.as_deref().unwrap();
    assert!(advice.ends_with("modprobe uio_pci_generic (it needs hugepages)"), "{advice}");
}
