// SPDX-License-Identifier: BSD-3-Clause

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A made-up root directory, removed at the end.
pub(crate) struct Machine(pub(crate) PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("millrace-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    /// Makes a virtual machine with two cpus and DPDK, without any preparation.
    pub(crate) fn plain(name: &str) -> Self {
        let drivers = ["af_packet", "memif", "null", "pcap", "ring", "tap"];
        let machine = Self::new(name)
            .with("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n")
            .with(
                "proc/cpuinfo",
                "processor\t: 0\nflags\t\t: sse4_2 avx2 constant_tsc nonstop_tsc\n",
            )
            .with("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable:    4194304 kB\n")
            .with("proc/self/status", "Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-1\n")
            .with("proc/self/limits", "Limit  Soft  Hard\nMax locked memory  unlimited  8  bytes\n")
            .with("proc/1/comm", "init\n")
            .with("proc/mounts", "none /tmp tmpfs rw 0 0\n")
            .with("proc/net/protocols", "protocol size\nPACKET 1600\nXDP 1088\n")
            .with("sys/devices/system/cpu/online", "0-1\n")
            .with("sys/devices/system/cpu/isolated", "\n")
            .with("sys/devices/system/cpu/smt/active", "0\n")
            .with("sys/devices/system/node/online", "0\n")
            .with(CLOCK_SOURCE, "tsc\n")
            .with("sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n")
            .with("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
            .pages("", 0, 0);
        drivers.into_iter().fold(machine, |machine, driver| {
            machine.with(&format!("{PMDS}/librte_net_{driver}.so.23"), "")
        })
    }

    pub(crate) fn with(self, path: &str, text: &str) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn linked(self, path: &str, target: &str) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    fn pages(self, node: &str, total: u64, free: u64) -> Self {
        let dir = match node {
            "" => "sys/kernel/mm/hugepages".to_owned(),
            node => format!("sys/devices/system/node/{node}/hugepages"),
        };
        self.with(&format!("{dir}/hugepages-2048kB/nr_hugepages"), &total.to_string())
            .with(&format!("{dir}/hugepages-2048kB/free_hugepages"), &free.to_string())
    }

    /// Adds a NIC with an interface and a driver.
    pub(crate) fn nic(self, address: &str, interface: &str, driver: &str) -> Self {
        let dir = format!("sys/bus/pci/devices/{address}");
        self.with(&format!("{dir}/class"), "0x020000\n")
            .with(&format!("{dir}/vendor"), "0x8086\n")
            .with(&format!("{dir}/device"), "0x1572\n")
            .with(&format!("{dir}/numa_node"), "0\n")
            .with(&format!("{dir}/net/{interface}/mtu"), "1500\n")
            .linked(&format!("{dir}/driver"), &format!("../../drivers/{driver}"))
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        diagnose(&Host::read(&self.0))
    }

    /// Returns status and text of the only finding on `topic`.
    pub(crate) fn finding(&self, topic: &str) -> (Status, String) {
        let mut findings = self.findings();
        findings.retain(|finding| finding.topic == topic);
        assert_eq!(findings.len(), 1, "{topic}");
        (findings[0].status, findings[0].found.clone())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A directory left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
pub(crate) const PMDS: &str = "usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0";

#[test]
fn a_plain_machine_runs_without_a_warning() {
    let machine = Machine::plain("plain");
    let findings = machine.findings();
    for Finding { topic, status, found, advice } in &findings {
        assert!(*status < Status::Unknown, "{topic}: {found}");
        assert!(
            *status == Status::Ok
                || advice.is_some()
                || found.contains("not visible")
                || topic == "nics",
            "{topic}: {found}"
        );
    }
    assert_eq!(machine.finding("hugepages").0, Status::Note);
    assert_eq!(machine.finding("transparent hugepages"), (Status::Ok, "madvise".to_owned()));
    assert_eq!(machine.finding("isolation").0, Status::Note);
    assert_eq!(machine.finding("dpdk").0, Status::Ok);
}

#[test]
fn what_cannot_be_read_is_unknown_and_neither_good_nor_bad() {
    let machine = Machine::new("empty");
    for Finding { topic, status, found, advice } in machine.findings() {
        assert_eq!((status, advice), (Status::Unknown, None), "{topic}: {found}");
        assert!(found.starts_with("unknown: /") && found.ends_with(" cannot be read"), "{found}");
    }
    let nowhere = diagnose(&Host::read(Path::new("/nonexistent")));
    assert_eq!(nowhere.len(), machine.findings().len());
}

#[test]
fn each_file_that_is_missing_is_named() {
    for (topic, file) in [
        ("memlock", "proc/self/limits"),
        ("irqbalance", "proc/1/comm"),
        ("numa", "sys/devices/system/node/online"),
        ("tsc", CLOCK_SOURCE),
        ("isolation", "sys/devices/system/cpu/isolated"),
        ("smt", "sys/devices/system/cpu/smt/active"),
        ("hugetlbfs", "proc/mounts"),
        ("memory", "proc/meminfo"),
        ("kernel", "proc/sys/kernel/osrelease"),
    ] {
        let machine = Machine::plain("missing");
        assert!(machine.finding(topic).0 < Status::Unknown, "{topic}");
        fs::remove_file(machine.0.join(file)).unwrap();
        let found = format!("unknown: /{file} cannot be read");
        assert_eq!(machine.finding(topic), (Status::Unknown, found));
        let unknown = machine.findings().iter().filter(|it| it.status == Status::Unknown).count();
        assert_eq!(unknown, 1, "{file}");
    }
}

#[test]
fn what_stops_every_run_is_a_failure() {
    let bare = Machine::new("bare").with("usr/lib/os-release", "");
    assert_eq!(bare.finding("dpdk").0, Status::Fail);
    let old = Machine::plain("old").with("proc/cpuinfo", "flags : sse2 constant_tsc nonstop_tsc\n");
    assert_eq!(old.finding("instructions").0, Status::Fail);
    let small = Machine::plain("small").with("proc/meminfo", "MemAvailable: 100000 kB\n");
    assert_eq!(small.finding("memory"), (Status::Fail, "97 MB available".to_owned()));
    let tight = Machine::plain("tight").with("proc/meminfo", "MemAvailable: 300000 kB\n");
    assert_eq!(tight.finding("memory").0, Status::Warn);
}

#[test]
fn hugepages_are_counted_in_all_and_per_node() {
    let machine = Machine::plain("pages").pages("", 512, 500).pages("node0", 512, 500);
    assert_eq!(machine.finding("hugepages"), (Status::Ok, "2M: 500 of 512 free".to_owned()));
    assert_eq!(Host::read(&machine.0).memory.free_hugepages_mb(), 1000);
    let machine = machine.pages("node1", 0, 0).with("sys/devices/system/node/online", "0-1\n");
    assert_eq!(machine.finding("hugepages per node").0, Status::Warn);
    assert_eq!(machine.finding("numa").0, Status::Note);
    let machine = machine
        .with("proc/self/cgroup", "0::/box\n")
        .with("proc/self/mountinfo", "31 23 0:29 / /sys/fs/cgroup rw - cgroup2 none rw\n")
        .with("sys/fs/cgroup/box/hugetlb.2MB.max", "62914560\n")
        .with("sys/fs/cgroup/box/hugetlb.2MB.current", "20971520\n");
    let found = "2M: 500 of 512 free, 20 of them for this control group".to_owned();
    assert_eq!(machine.finding("hugepages"), (Status::Ok, found));
    assert_eq!(Host::read(&machine.0).memory.free_hugepages_mb(), 40);
    let machine = machine.with("sys/fs/cgroup/box/hugetlb.2MB.max", "20971520\n");
    assert_eq!(machine.finding("hugepages").0, Status::Warn);
    let machine = machine.pages("", 512, 0);
    assert_eq!(machine.finding("hugepages").0, Status::Warn);
    let machine = machine.with("proc/mounts", "none /dev/hugepages hugetlbfs rw 0 0\n");
    assert_eq!(machine.finding("hugetlbfs"), (Status::Ok, "mounted at /dev/hugepages".to_owned()));
}

#[test]
fn hugepages_that_the_next_boot_lacks_are_told() {
    let topic = "hugepages at boot";
    let has = |machine: &Machine| machine.findings().iter().any(|it| it.topic == topic);
    let machine = Machine::plain("boot-pages").pages("", 512, 500);
    assert!(!has(&machine), "a container");
    let machine = machine.with("run/systemd/system/.keep", "");
    assert_eq!(machine.finding(topic).0, Status::Note);
    let machine = machine.with("etc/sysctl.d/9.conf", "# vm.nr_hugepages = 8\n");
    assert!(has(&machine));
    assert!(!has(&machine.with("etc/sysctl.d/9.conf", "vm.nr_hugepages = 512\n")));
    let by_kernel = Machine::plain("boot-kernel").pages("", 512, 500);
    let by_kernel =
        by_kernel.with("run/systemd/system/.keep", "").with("proc/cmdline", "hugepages=4\n");
    assert!(!has(&by_kernel));
}

#[test]
fn cpus_set_apart_are_seen() {
    let cpu = "sys/devices/system/cpu";
    let machine = Machine::plain("isolated")
        .with(&format!("{cpu}/isolated"), "1\n")
        .with(&format!("{cpu}/nohz_full"), "1\n")
        .with(&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "powersave\n")
        .with(&format!("{cpu}/smt/active"), "1\n")
        .with("proc/77/comm", "irqbalance\n");
    let expected = "cpus 1 are isolated, not all of them with rcu_nocbs";
    assert_eq!(machine.finding("isolation"), (Status::Note, expected.to_owned()));
    assert_eq!(machine.finding("governor"), (Status::Warn, "powersave".to_owned()));
    assert_eq!(machine.finding("smt").0, Status::Note);
    assert_eq!(machine.finding("irqbalance").0, Status::Note);
    let machine = machine
        .with("proc/cmdline", "quiet isolcpus=1 nohz_full=1 rcu_nocbs=1\n")
        .with(&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "performance\n");
    assert_eq!(machine.finding("isolation").0, Status::Ok);
    assert_eq!(machine.finding("governor").0, Status::Ok);
}

#[test]
fn nics_the_host_lives_on_are_guarded() {
    let routes =
        "Iface\tDestination\tGateway\neno1\t00000000\t0100A8C0\neno2\t0000A8C0\t00000000\n";
    let six = "20010db8000000000000000000000001 05 40 00 80 eno4\n\
               fe800000000000000000000000000001 06 40 20 80 eno5\n";
    let machine = Machine::plain("nics")
        .with("proc/net/route", routes)
        .with("proc/net/if_inet6", six)
        .nic("0000:01:00.0", "eno1", "i40e")
        .nic("0000:01:00.1", "eno2", "i40e")
        .nic("0000:01:00.2", "eno3", "i40e")
        .nic("0000:01:00.3", "eno4", "i40e")
        .nic("0000:01:00.4", "eno5", "i40e")
        .nic("0000:01:00.5", "eno6", "i40e")
        .with("proc/net/pppoe", "Id  Address  Device\n0000A1B2 02:00:00:00:00:09     eno6\n")
        .linked("sys/class/net/eno3/master", "../br0");
    let nic = |function: u8| machine.finding(&format!("nic 0000:01:00.{function}"));
    // Every host has such a NIC, so this is no warning.
    assert_eq!(nic(0), (Status::Note, "8086:1572 on i40e; eno1 carries the default route".into()));
    assert_eq!(nic(1), (Status::Note, "8086:1572 on i40e; eno2 has an address".into()));
    assert_eq!(nic(2), (Status::Note, "8086:1572 on i40e; eno3 belongs to br0".into()));
    assert_eq!(nic(3), (Status::Note, "8086:1572 on i40e; eno4 has an address".into()));
    assert_eq!(nic(5), (Status::Note, "8086:1572 on i40e; eno6 carries a PPPoE session".into()));
    // A link-local address is automatic and does not mean use.
    let idle = "8086:1572 on i40e; idle; it has no IOMMU group (see vfio)";
    assert_eq!(nic(4), (Status::Note, idle.into()));
    let findings = machine.findings();
    let nics: Vec<_> = findings.iter().filter(|it| it.topic.starts_with("nic 0")).collect();
    for finding in &nics {
        let advice = finding.advice.as_deref().unwrap();
        assert_eq!(advice.starts_with("never"), finding.found != idle, "{advice}");
    }
    assert_eq!(nics.len(), 6);
}

/// Names of interfaces are bytes. A route of such an interface hides no other one.
#[test]
fn an_interface_whose_name_is_no_text_hides_no_route() {
    let machine = Machine::plain("bytes").nic("0000:01:00.0", "eno1", "i40e");
    let routes = b"Iface\tDestination\tGateway\nx\xff\t00000A0A\t00000000\n\
                   eno1\t00000000\t0100A8C0\n";
    fs::create_dir_all(machine.0.join("proc/net")).unwrap();
    fs::write(machine.0.join("proc/net/route"), routes).unwrap();
    let (_, found) = machine.finding("nic 0000:01:00.0");
    assert_eq!(found, "8086:1572 on i40e; eno1 carries the default route");
}

/// A made-up root may have anything in the place of a file.
#[test]
fn pipes_and_devices_are_not_read() {
    let machine = Machine::plain("pipes")
        .linked("proc/cmdline", "/dev/zero")
        .with("sys/devices/system/cpu/isolated", "0-4294967295\n");
    let pipe = machine.0.join("sys/devices/system/cpu/nohz_full");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    assert!(machine.findings().iter().all(|finding| finding.status != Status::Fail));
}

#[test]
fn nics_that_can_be_ports_say_how() {
    let machine = Machine::plain("ports")
        .nic("0000:01:00.0", "eno1", "mlx5_core")
        .nic("0000:01:00.1", "eno2", "igb")
        .with("sys/bus/pci/devices/0000:02:00.0/class", "0x010802\n")
        .with("sys/module/vfio_pci/refcnt", "0\n");
    assert_eq!(machine.finding("nic 0000:01:00.0").0, Status::Ok);
    let findings = machine.findings();
    let idle = findings.iter().find(|finding| finding.topic == "nic 0000:01:00.1").unwrap();
    assert_eq!(
        idle.advice.as_deref(),
        Some(
            "for a port: dpdk-devbind.py --bind=vfio-pci 0000:01:00.1, or as it is: \
             eno2"
        )
    );
    assert!(findings.iter().all(|finding| finding.topic != "nic 0000:02:00.0"));
    assert_eq!(machine.finding("vfio").0, Status::Note);
    let machine = machine.with("sys/kernel/iommu_groups/0/type", "DMA\n");
    assert_eq!(machine.finding("vfio").0, Status::Ok);
    let mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let unsafe_mode = Machine::plain("noiommu")
        .nic("0000:01:00.0", "eno1", "igb")
        .with("sys/module/vfio_pci/refcnt", "0\n")
        .with(mode, "Y\n");
    assert_eq!(unsafe_mode.finding("vfio").0, Status::Warn);
}

#[test]
fn privileges_and_drivers_are_named() {
    let status = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000002000\nCpus_allowed_list:\t0\n";
    let machine = Machine::plain("user").with("proc/self/status", status);
    let (status, found) = machine.finding("privileges");
    assert_eq!(status, Status::Note);
    assert!(found.contains("net_af_packet") && found.contains("net_tap"), "{found}");
    assert_eq!(machine.finding("cpus").0, Status::Warn);
    fs::remove_file(machine.0.join(PMDS).join("librte_net_memif.so.23")).unwrap();
    let machine =
        machine.with("usr/lib/x86_64-linux-gnu/pkgconfig/libdpdk.pc", "Version: 22.11.9\n");
    let (status, found) = machine.finding("dpdk");
    assert_eq!(status, Status::Warn);
    assert!(found.contains("22.11.9") && found.ends_with("not among them: net_memif"), "{found}");
}

#[test]
fn a_nic_of_another_namespace_is_not_idle() {
    let routes = "Iface\tDestination\neno9\t00000000\t0100A8C0\n";
    let machine = Machine::plain("namespaces")
        .with("proc/net/route", routes)
        .nic("0000:01:00.0", "eno1", "igb")
        .nic("0000:01:00.1", "eno2", "mlx5_core");
    let nic =
        |machine: &Machine, function: u8| machine.finding(&format!("nic 0000:01:00.{function}"));
    assert!(nic(&machine, 0).1.contains("idle"));
    let unseen = "no interface of it is visible: in use by another network namespace, or unknown";
    // sysfs may be that of the host, while the process is in another network namespace.
    let machine = machine.with("proc/net/dev", "head | er\n    lo: 0 0\n");
    for function in [0, 1] {
        let (status, found) = nic(&machine, function);
        assert!(status == Status::Note && found.ends_with(unseen), "{found}");
    }
    // In a namespace with its own sysfs, there is no interface at all.
    fs::remove_dir_all(machine.0.join("sys/bus/pci/devices/0000:01:00.0/net")).unwrap();
    assert!(nic(&machine, 0).1.ends_with(unseen));
    let machine = machine.nic("0000:01:00.2", "eno3", "vfio-pci");
    assert_eq!(nic(&machine, 2).0, Status::Ok);
}

#[test]
fn interfaces_have_their_mtu_and_their_use() {
    let routes = "Iface\tDestination\neth0\t00000000\t0100A8C0\n";
    let machine = Machine::plain("interfaces")
        .with("proc/net/route", routes)
        .with("sys/class/net/eth0/mtu", "1500\n")
        .with("sys/class/net/eth1/mtu", "9000\n")
        .with("sys/class/net/eth2/mtu", "1500\n")
        .with("sys/class/net/eth2/upper_vlan7/mtu", "1500\n")
        .with("sys/class/net/lo/mtu", "65536\n")
        .with("sys/class/net/bonding_masters", "\n");
    let found = |name: &str| machine.finding(&format!("interface {name}"));
    assert_eq!(found("eth0"), (Status::Ok, "MTU 1500; carries the default route".to_owned()));
    assert_eq!(found("eth1"), (Status::Note, "MTU 9000; this host does not use it".to_owned()));
    assert_eq!(found("eth2"), (Status::Ok, "MTU 1500; carries vlan7".to_owned()));
    let mut host = Host::read(&machine.0);
    host.measure(|name| (name == "eth0").then_some(true));
    let findings = diagnose(&host);
    let all: Vec<_> = findings.iter().map(|it| it.found.as_str()).collect();
    assert!(all.contains(&"MTU 1500, GRO on; carries the default route"), "{all:?}");
    assert!(!findings.iter().any(|it| it.topic.ends_with(" lo") || it.topic.contains("bonding")));
    let many = (0..12).fold(machine, |machine, number| {
        machine.with(&format!("sys/class/net/veth{number}/mtu"), "1500\n")
    });
    assert_eq!(many.finding("interfaces").1, "7 more are not listed");
}

#[test]
fn busy_cpus_are_named() {
    let machine = Machine::plain("load");
    let with_load = |load: &[(u32, f64)]| {
        let mut host = Host::read(&machine.0);
        host.load = Some(crate::host::CpuLoad(load.iter().copied().collect()));
        host.busiest = Some(crate::host::Process { id: 7, name: "cc1".to_owned() });
        let finding = diagnose(&host).into_iter().find(|it| it.topic == "load").unwrap();
        (finding.status, finding.found)
    };
    assert_eq!(with_load(&[(0, 3.0), (1, 20.0)]), (Status::Ok, "no cpu is busy".to_owned()));
    let one = "busy: cpus 1; most: cpu 1, 99 %, by cc1 (pid 7)".to_owned();
    assert_eq!(with_load(&[(0, 3.0), (1, 99.0)]), (Status::Note, one));
    assert_eq!(with_load(&[(0, 50.0), (1, 99.0)]).0, Status::Warn);
}

#[test]
fn memory_is_that_of_the_control_group() {
    let machine = Machine::plain("group")
        .with("proc/self/cgroup", "0::/box\n")
        .with("proc/self/mountinfo", "31 23 0:29 / /sys/fs/cgroup rw - cgroup2 none rw\n")
        .with("sys/fs/cgroup/box/memory.max", "314572800\n")
        .with("sys/fs/cgroup/box/memory.current", "104857600\n");
    let found = "200 MB left within the limit of this control group".to_owned();
    assert_eq!(machine.finding("memory"), (Status::Warn, found));
}
