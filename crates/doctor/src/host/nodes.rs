// SPDX-License-Identifier: BSD-3-Clause
//! Reads NUMA nodes: which cpus and NICs are on them.

use super::Root;
use super::cpus::{Cpus, parse_cpus};
use std::collections::BTreeMap;
use std::path::Path;

const NODES: &str = "sys/devices/system/node";

/// Returns the cpus of each node; none if the kernel does not tell.
pub(super) fn read(root: Root) -> BTreeMap<u32, Vec<u32>> {
    let node = |name: String| {
        let number = name.strip_prefix("node")?.parse().ok()?;
        Some((number, parse_cpus(&root.text(&format!("{NODES}/{name}/cpulist"))?)))
    };
    root.names(NODES).into_iter().filter_map(node).collect()
}

impl Cpus {
    /// Returns the NUMA node of a cpu; `None` if the kernel does not tell.
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.nodes.iter().find_map(|(node, cpus)| cpus.contains(&cpu).then_some(*node))
    }

    /// True if the cpu is known to be on none of these nodes. Without nodes, no cpu is far.
    pub fn is_far(&self, cpu: u32, nodes: &[u32]) -> bool {
        let node = self.node_of(cpu).filter(|_| !nodes.is_empty());
        node.is_some_and(|node| !nodes.contains(&node))
    }
}

/// Returns the NUMA node of a PCI device of this host, such as `0000:18:00.0`. `None` if the kernel
/// does not tell, as on hosts with one node.
pub fn node_of_pci(address: &str) -> Option<u32> {
    number(Root(Path::new("/")), &format!("sys/bus/pci/devices/{address}/numa_node"))
}

/// Returns the NUMA node of the device behind a Linux interface of this host. `None` if the kernel
/// does not tell, as for virtual interfaces.
pub fn node_of_interface(name: &str) -> Option<u32> {
    of_interface(Root(Path::new("/")), name)
}

/// Reads the node of an interface. For virtio, the PCI device is one level higher.
fn of_interface(root: Root, name: &str) -> Option<u32> {
    let device = format!("sys/class/net/{name}/device");
    number(root, &format!("{device}/numa_node"))
        .or_else(|| number(root, &format!("{device}/../numa_node")))
}

/// Reads the number of a node. A device without a node has -1.
fn number(root: Root, path: &str) -> Option<u32> {
    root.text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn nodes_are_those_of_sysfs() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(read(Root(root)).is_empty());
        write(root, "sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
        write(root, "sys/devices/system/node/node1/cpulist", "2-3\n");
        // A node with memory but without cpus.
        write(root, "sys/devices/system/node/node2/cpulist", "\n");
        write(root, "sys/devices/system/node/has_cpu", "0-1\n");
        let nodes = read(Root(root));
        assert_eq!(nodes, [(0, vec![0, 1, 4, 5]), (1, vec![2, 3]), (2, vec![])].into());
        write(root, "sys/class/net/eth1/device/numa_node", "1\n");
        write(root, "sys/class/net/eth2/device/numa_node", "-1\n");
        // An interface of virtio.
        write(root, "sys/devices/pci/virtio0/net/eth3/carrier", "1\n");
        write(root, "sys/devices/pci/numa_node", "1\n");
        std::fs::create_dir_all(root.join("sys/class/net/eth3")).unwrap();
        let (to, link) = ("../../../devices/pci/virtio0", "sys/class/net/eth3/device");
        std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        let of = |name| of_interface(Root(root), name);
        assert_eq!((of("eth1"), of("eth2"), of("eth3"), of("lo")), (Some(1), None, Some(1), None));
    }

    #[test]
    fn cpus_of_the_port_s_node_come_first() {
        let cpus = |others: &[u32], load: &[f64]| {
            let load = crate::host::CpuLoad((0..).zip(load.iter().copied()).collect());
            let (online, others) = ((0..6).collect::<Vec<_>>(), others.to_vec());
            let nodes = [(0, vec![0, 1, 4]), (1, vec![2, 3, 5])].into();
            let allowed = online.clone();
            Cpus { online, allowed, others, nodes, load: load.into(), ..Cpus::default() }
        };
        assert_eq!(cpus(&[], &[]).by_preference(), [1, 2, 3, 4, 5, 0]);
        assert_eq!(cpus(&[], &[]).by_preference_near(&[0]), [1, 4, 0, 2, 3, 5]);
        assert_eq!(cpus(&[], &[]).by_preference_near(&[1]), [2, 3, 5, 1, 4, 0]);
        assert_eq!(cpus(&[], &[]).by_preference_near(&[0, 1]), [1, 2, 3, 4, 5, 0]);
        // A cpu of another instance comes last on any node. A busy cpu comes after all idle ones.
        assert_eq!(cpus(&[2, 4], &[]).by_preference_near(&[1]), [3, 5, 1, 0, 2, 4]);
        let busy = [0.0, 0.0, 99.0, 0.0, 0.0, 0.0];
        assert_eq!(cpus(&[], &busy).by_preference_near(&[1]), [3, 5, 1, 4, 0, 2]);
        // A node without cpus is ignored, and so are cpus without a node.
        assert_eq!(cpus(&[], &[]).by_preference_near(&[7]), [1, 2, 3, 4, 5, 0]);
        let unknown = Cpus { nodes: BTreeMap::new(), ..cpus(&[], &[]) };
        assert_eq!(unknown.by_preference_near(&[1]), [1, 2, 3, 4, 5, 0]);
    }
}
