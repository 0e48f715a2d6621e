// SPDX-License-Identifier: BSD-3-Clause
//! Writes a shell script that does what the findings advise, so that it survives a reboot. The
//! script is text: nothing here changes the host.
//!
//! What may differ when the script runs (is a NIC in use now, is a parameter there already) the
//! script looks up itself. What is a property of the host (its boot loader, tuned, driverctl)
//! decides which steps are written at all.

mod steps;
#[cfg(test)]
mod tests;

use crate::host::{Host, Nic, format_cpus};
use crate::nics::{NicUse, user_driver};
use crate::{Status, diagnose};
use std::collections::BTreeSet;

/// Fewest hugepages of 2 MB that the script reserves: 1 GB.
const HUGEPAGES: u64 = 512;
const TABLE_PAGE_KB: u64 = 2048;

/// Returns the script for `host`.
pub fn fix_script(host: &Host) -> String {
    let steps: [fn(&Host) -> String; 8] = [
        steps::isolation,
        steps::kernel_parameters,
        steps::hugepages,
        steps::tuning,
        steps::interrupts,
        steps::vmbus_ports,
        // Last: it may end the script with a reboot to do first.
        steps::pci_ports,
        |_| steps::END.to_owned(),
    ];
    let mut script = START.to_owned() + &findings(host) + &variables(host) + FUNCTIONS;
    for step in steps {
        script.push_str(&step(host));
    }
    script
}

const START: &str = "\
#!/bin/sh
# Prepares a host for Millrace. Written by `millrace doctor --fix-script`, which changed nothing.
# Read it, change the variables below, then run it as root. It may run again at any time.
set -eu

";

/// Lists the findings to act on, as comments.
fn findings(host: &Host) -> String {
    let mut text = String::new();
    for finding in diagnose(host) {
        let mark = match finding.status {
            Status::Ok | Status::Unknown => continue,
            Status::Note => "note",
            Status::Warn => "WARN",
            Status::Fail => "FAIL",
        };
        let found = format!("{mark} {}: {}", finding.topic, finding.found);
        text.push_str(&format!("#   {}\n", found.replace(char::is_control, " ")));
    }
    if text.is_empty() { text } else { format!("# millrace doctor found:\n{text}\n") }
}

fn variables(host: &Host) -> String {
    let workers = format_cpus(&worker_cpus(host));
    let pool = host.memory.hugepages.iter().find(|pool| pool.page_kb == TABLE_PAGE_KB);
    // A quarter of the available memory at most: the host needs the rest.
    let quarter = |bytes: u64| bytes / 4 / (TABLE_PAGE_KB << 10);
    let most = host.memory.available_bytes.map_or(HUGEPAGES, quarter);
    let pages = pool.map_or(0, |pool| pool.total).max(HUGEPAGES.min(most));
    let ports = idle_nics(host).map(|nic| nic.address.as_str()).collect::<Vec<_>>().join(" ");
    let driver = user_driver(&host.software);
    format!(
        "\
# Cpus of the workers, with the other threads of their cores, such as 2-5,9.
WORKER_CPUS=${{WORKER_CPUS-{workers}}}
# Hugepages of 2 MB (512 are 1 GB), and of 1 GB (reserved at boot only).
HUGEPAGES=${{HUGEPAGES-{pages}}}
HUGEPAGES_1G=${{HUGEPAGES_1G-0}}
# PCI addresses of the NICs that DPDK takes from Linux; idle ones by default. Empty: none.
PORTS=${{PORTS-{ports}}}
# Kernel driver that hands them to DPDK.
DRIVER=${{DRIVER-{driver}}}
"
    )
}

/// Returns the NICs that nothing uses. Their addresses go into the script, so others than the
/// kernel writes are left out.
fn idle_nics(host: &Host) -> impl Iterator<Item = &Nic> {
    let is_address = |nic: &&Nic| {
        nic.address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
    };
    host.nics.iter().flatten().filter(|nic| NicUse::of(nic) == NicUse::Idle).filter(is_address)
}

/// Returns the cpus to set apart: those that are so already, else one core for each two idle NICs
/// on their NUMA node. The first core is left to the host.
fn worker_cpus(host: &Host) -> Vec<u32> {
    let cpus = &host.cpus;
    let tuned = host.boot.tuned.as_ref().filter(|tuned| tuned.partitions());
    match (tuned.map(|tuned| &tuned.isolated), &cpus.isolated) {
        (Some(isolated), _) if !isolated.is_empty() => return isolated.clone(),
        (_, isolated) if !isolated.is_empty() => return isolated.clone(),
        _ => {}
    }
    let core_of = |cpu: u32| {
        let core = cpus.siblings.iter().find(|core| core.contains(&cpu));
        core.cloned().unwrap_or_else(|| vec![cpu])
    };
    let Some(first) = cpus.online.first().map(|cpu| core_of(*cpu)) else { return Vec::new() };
    let nodes: BTreeSet<u32> =
        idle_nics(host).filter_map(|nic| nic.node.and_then(|node| node.try_into().ok())).collect();
    let count = (idle_nics(host).count() / 2).max(1);
    let nodes: Vec<u32> = nodes.into_iter().collect();
    let mut chosen = BTreeSet::new();
    let candidates = cpus.by_preference_near(&nodes).into_iter();
    for (taken, cpu) in candidates.filter(|cpu| !first.contains(cpu)).enumerate() {
        if taken >= count {
            break;
        }
        chosen.extend(core_of(cpu));
    }
    chosen.into_iter().collect()
}

const FUNCTIONS: &str = r#"
[ "$(id -u)" -eq 0 ] || { echo "$0: run this as root" >&2; exit 1; }
REBOOT=
SKIPPED=

say() { echo "millrace fix: $*"; }

# Says why a NIC is left alone.
skip() {
    say "$*: not bound" >&2
    SKIPPED=yes
}

# Writes standard input to a file. Succeeds if that changed the file.
put() {
    new=$(cat)
    if [ -e "$1" ] && [ "$(cat "$1")" = "$new" ]; then return 1; fi
    mkdir -p "${1%/*}" || exit 1
    # A file that is cut off could keep the host from booting. Programs may read all files of the
    # folder, but none whose name begins with a dot.
    draft=${1%/*}/.${1##*/}.millrace
    if [ -e "$1" ]; then cp -p "$1" "$draft" || exit 1; fi
    if ! printf '%s\n' "$new" > "$draft" || ! mv "$draft" "$1"; then
        rm -f "$draft"
        say "cannot write $1" >&2
        exit 1
    fi
    say "wrote $1"
}

# Prints the kernel parameters to set: those that the running kernel lacks, and those in $1, which
# this script has set before.
wanted() {
    for parameter in $PARAMETERS; do
        case " $(cat /proc/cmdline) " in
        *" $parameter "*) case "$1" in *"$parameter"*) ;; *) continue ;; esac ;;
        esac
        printf ' %s' "$parameter"
    done
}

# Prints the numbers of a list such as 2-4,8.
numbers() {
    echo "$1" | tr , '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done
}

# Prints for what this host needs an interface; nothing if it does not.
usage() {
    awk -v name="$1" '$1 == name && $2 == "00000000" { print "carries the default route"; exit }
        $1 == name { print "has an address"; exit }' /proc/net/route
    [ ! -r /proc/net/if_inet6 ] || awk -v name="$1" \
        '$6 == name && $4 == "00" { print "has an IPv6 address"; exit }' /proc/net/if_inet6
    # An address may have no route in the main table.
    [ -z "$(ip -4 -o address show dev "$1" 2>/dev/null)" ] || echo "has an address"
    [ ! -e "/sys/class/net/$1/master" ] || echo "belongs to a bridge or bond"
    for upper in "/sys/class/net/$1"/upper_*; do
        [ ! -e "$upper" ] || echo "carries ${upper##*/upper_}"
    done
    [ ! -r /proc/net/pppoe ] || awk -v name="$1" \
        '$3 == name { print "carries a PPPoE session"; exit }' /proc/net/pppoe
}
"#;
