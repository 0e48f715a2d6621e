// SPDX-License-Identifier: BSD-3-Clause
//! Tests energy counters on trees of files, whose counters wrap, stand still or go back.

use super::*;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

const RANGE: u64 = 262_143_328_850;

/// A host with energy counters that the test sets.
struct Tree {
    folder: TempDir,
    start: Instant,
}

impl Tree {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), start: Instant::now() }
    }

    fn write(&self, path: &str, text: impl ToString) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{}\n", text.to_string())).unwrap();
    }

    fn set_zone(&self, zone: &str, name: &str, microjoules: u64) {
        let folder = format!("{POWERCAP}/{zone}");
        self.write(&format!("{folder}/name"), name);
        self.write(&format!("{folder}/max_energy_range_uj"), RANGE);
        self.write(&format!("{folder}/energy_uj"), microjoules);
    }

    fn set(&self, package: u32, microjoules: u64) {
        self.set_zone(&format!("intel-rapl:{package}"), &format!("package-{package}"), microjoules);
    }

    fn meter(&self) -> EnergyMeter {
        EnergyMeter::start(self.folder.path(), self.start)
    }

    /// Reads the counters after so many seconds.
    fn read(&self, meter: &mut EnergyMeter, seconds: u64) -> Result<u64, NoEnergy> {
        meter.read(self.start + Duration::from_secs(seconds));
        meter.microjoules()
    }
}

#[test]
fn the_counters_of_all_packages_add_up() {
    let tree = Tree::new();
    tree.set(0, 1_000);
    tree.set(1, 5_000_000);
    // A part of package 0, the whole machine, and the same package by another way.
    let others = [("intel-rapl:0:0", "core"), ("intel-rapl:2", "psys")];
    let others = [others[0], others[1], ("intel-rapl-mmio:0", "package-0")];
    others.iter().for_each(|(zone, name)| tree.set_zone(zone, name, 0));
    let mut meter = tree.meter();
    assert_eq!(meter.microjoules(), Ok(0));
    tree.set(0, 51_000);
    tree.set(1, 5_000_300);
    others.iter().for_each(|(zone, name)| tree.set_zone(zone, name, 999_999));
    assert_eq!(tree.read(&mut meter, 1), Ok(50_300));
    assert_eq!(tree.read(&mut meter, 2), Ok(50_300));
    tree.set(0, 52_000);
    assert_eq!(tree.read(&mut meter, 3), Ok(51_300));
    assert_eq!(meter.microjoules_of_each(), Ok(51_300));
}

#[test]
fn a_counter_that_wraps_goes_on() {
    let tree = Tree::new();
    tree.set(0, RANGE - 10);
    let mut meter = tree.meter();
    tree.set(0, 90);
    assert_eq!(tree.read(&mut meter, 1), Ok(100));
    // Twice within a run, but with a reading between.
    tree.set(0, RANGE - 40_000_000);
    let before = RANGE - 40_000_000 - 90;
    assert_eq!(tree.read(&mut meter, 132), Ok(100 + before));
    tree.set(0, 60_000_000);
    assert_eq!(tree.read(&mut meter, 133), Ok(100 + before + 100_000_000));
}

#[test]
fn no_figure_is_impossible() {
    let tree = Tree::new();
    tree.set(0, 1_000_000);
    // Set to 0 by a driver that was loaded anew: as a wrap it would be 262 kJ in a second.
    let mut meter = tree.meter();
    tree.set(0, 0);
    let path = "/sys/class/powercap/intel-rapl:0/energy_uj".to_owned();
    let fault = NoEnergy::Impossible { path: path.clone(), from: 1_000_000, to: 0 };
    assert_eq!(tree.read(&mut meter, 1), Err(fault.clone()));
    // What came before is lost, so the fault stays.
    tree.set(0, 2_000_000);
    assert_eq!(tree.read(&mut meter, 2), Err(fault));

    // Not read for so long that it may have wrapped more than once.
    let mut meter = tree.meter();
    tree.set(0, 3_000_000);
    let late = NoEnergy::ReadTooLate { path, seconds: 132 };
    assert_eq!(tree.read(&mut meter, 132), Err(late));
}

#[test]
fn a_counter_that_stands_still_has_no_figure() {
    let tree = Tree::new();
    tree.set(0, 7);
    tree.set(1, 7);
    let mut meter = tree.meter();
    tree.set(0, 700);
    assert_eq!(tree.read(&mut meter, 1), Ok(693));
    let unchanged = meter.microjoules_of_each().unwrap_err();
    assert_eq!(unchanged.to_string(), "/sys/class/powercap/intel-rapl:1/energy_uj did not change");
}

#[test]
fn sockets_of_amd_energy_are_read_where_there_is_no_other() {
    let tree = Tree::new();
    tree.write("sys/class/hwmon/hwmon0/name", "nvme");
    tree.write("sys/class/hwmon/hwmon0/energy1_label", "Esocket0");
    tree.write("sys/class/hwmon/hwmon0/energy1_input", 0);
    tree.write("sys/class/hwmon/hwmon3/name", "amd_energy");
    for (number, label) in [(1, "Ecore000"), (2, "Ecore001"), (65, "Esocket0"), (66, "Esocket1")] {
        tree.write(&format!("sys/class/hwmon/hwmon3/energy{number}_label"), label);
        tree.write(&format!("sys/class/hwmon/hwmon3/energy{number}_input"), 1u64 << 40);
    }
    let mut meter = tree.meter();
    for (number, more) in [(1, 1), (2, 2), (65, 40), (66, 60)] {
        let value = (1u64 << 40) + more;
        tree.write(&format!("sys/class/hwmon/hwmon3/energy{number}_input"), value);
    }
    assert_eq!(tree.read(&mut meter, 1), Ok(100));
    // It never wraps, so it never goes back; and it may be read late.
    let mut late = tree.meter();
    tree.write("sys/class/hwmon/hwmon3/energy65_input", (1u64 << 40) + 50);
    assert_eq!(tree.read(&mut late, 100_000), Ok(10));
    tree.write("sys/class/hwmon/hwmon3/energy65_input", 5);
    assert!(matches!(tree.read(&mut late, 100_001), Err(NoEnergy::Impossible { .. })));

    tree.set(0, 0);
    let mut meter = tree.meter();
    tree.set(0, 5);
    assert_eq!(tree.read(&mut meter, 1), Ok(5), "one interface only");
}

#[test]
fn the_reason_names_the_file() {
    let none = Tree::new().meter().microjoules().unwrap_err();
    let expected = "this host has no energy counter (virtual machines have none)";
    assert_eq!((none.clone(), none.to_string().as_str()), (NoEnergy::NoCounter, expected));

    // In a container, the folder that the link leads to is hidden.
    let tree = Tree::new();
    fs::create_dir_all(tree.folder.path().join(POWERCAP).join("intel-rapl:0")).unwrap();
    let hidden = tree.meter().microjoules().unwrap_err().to_string();
    let path = "/sys/class/powercap/intel-rapl:0/energy_uj";
    assert!(hidden.starts_with(&format!("{path} cannot be read: No such file")), "{hidden}");

    tree.write(&path[1..], "many");
    let odd = tree.meter().microjoules().unwrap_err().to_string();
    assert_eq!(odd, format!("{path} cannot be read: `many` is no number of microjoules"));

    let forbidden = NoEnergy::of(path, &io::ErrorKind::PermissionDenied.into());
    assert_eq!(forbidden.to_string(), format!("{path} must be readable for this user, and is not"));
}
