// SPDX-License-Identifier: BSD-3-Clause
//! The steps of the script. Each is empty if it does not apply to the host.

use super::idle_nics;
use crate::host::{BootLoader, Host};
use crate::vmbus::is_idle;

/// Sets cpus apart by tuned, if its profile for that is there. Kernel parameters would do the same
/// a second time.
pub(super) fn isolation(host: &Host) -> String {
    let Some(tuned) = host.boot.tuned.as_ref().filter(|tuned| tuned.can_set_apart()) else {
        return "\n# Kernel parameters that keep other work off the workers' cpus.\n\
                PARAMETERS=${WORKER_CPUS:+isolcpus=$WORKER_CPUS nohz_full=$WORKER_CPUS \
                rcu_nocbs=$WORKER_CPUS}\n"
            .to_owned();
    };
    let active = match tuned.partitions() {
        true => tuned.profile.trim(),
        false => "cpu-partitioning",
    };
    let is_kept = |it: char| it.is_ascii_alphanumeric() || "-_. ".contains(it);
    let active = active.replace(|it: char| !is_kept(it), "");
    r#"
# tuned keeps other work off the workers' cpus (profile cpu-partitioning); it sets the kernel
# parameters, the governor and irqbalance.
PARAMETERS=
VARIABLES=/etc/tuned/cpu-partitioning-variables.conf
if [ -n "$WORKER_CPUS" ]; then
    # Lines of other variables stay.
    if { sed '/^[[:space:]]*isolated_cores[[:space:]]*=/d' "$VARIABLES" 2>/dev/null || :
        echo "isolated_cores=$WORKER_CPUS"; } | put "$VARIABLES" \
        || ! grep -qxF "PROFILE" /etc/tuned/active_profile; then
        # Takes effect with the next boot.
        tuned-adm profile PROFILE
        REBOOT=yes
    fi
fi
"#
    .replace("PROFILE", &active)
}

/// Adds the IOMMU and pages of 1 GB to the parameters, and gives all of them to the boot loader.
pub(super) fn kernel_parameters(host: &Host) -> String {
    let mut text = String::new();
    let flags = host.processor.flags.as_deref().unwrap_or_default();
    let has = |flag: &str| flags.iter().any(|have| have == flag);
    // A virtual machine has an IOMMU only if its hypervisor gives it one.
    if host.software.iommu_groups == 0 && !flags.is_empty() && !has("hypervisor") {
        let iommu = if has("vmx") { "intel_iommu=on iommu=pt" } else { "iommu=pt" };
        text.push_str(&format!(
            "# The IOMMU confines a NIC to the memory of its program. Firmware may have it off.\n\
             [ -z \"$PORTS\" ] || PARAMETERS=\"$PARAMETERS {iommu}\"\n"
        ));
    }
    text.push_str(
        "# Pages of 1 GB can be reserved at boot only.\n\
         [ \"${HUGEPAGES_1G:-0}\" -eq 0 ] || \
         PARAMETERS=\"$PARAMETERS hugepagesz=1G hugepages=$HUGEPAGES_1G\"\n",
    );
    text.push_str(match host.boot.loader {
        Some(BootLoader::Grubby) => GRUBBY,
        Some(BootLoader::GrubFolder(_)) => GRUB_FOLDER,
        Some(BootLoader::GrubFile(_)) => GRUB_FILE,
        Some(BootLoader::SystemdBoot) => SYSTEMD_BOOT,
        None => NO_LOADER,
    });
    match host.boot.loader {
        Some(BootLoader::GrubFolder(update) | BootLoader::GrubFile(update)) => {
            text.replace("UPDATE", update)
        }
        _ => text,
    }
}

const GRUBBY: &str = r#"# Into all boot entries. An old value of a parameter is replaced.
for parameter in $PARAMETERS; do
    case " $(cat /proc/cmdline) " in *" $parameter "*) continue ;; esac
    grubby --update-kernel=ALL --args="$PARAMETERS"
    REBOOT=yes
    break
done
"#;

const GRUB_FOLDER: &str = r#"# Into a file of its own, which grub reads after /etc/default/grub.
FILE=/etc/default/grub.d/millrace.cfg
WANTED=$(wanted "$(cat "$FILE" 2>/dev/null || :)")
if [ -n "$WANTED" ] && put "$FILE" <<END
# Written by the script of millrace doctor --fix-script.
GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX$WANTED"
END
then
    # Writes the menu of grub anew.
    UPDATE
    REBOOT=yes
fi
"#;

const GRUB_FILE: &str = r#"# Into the settings of grub: a line at their end, marked with its writer.
WANTED=$(wanted "$(sed -n '/# millrace doctor$/p' /etc/default/grub)")
if [ -n "$WANTED" ] && {
    sed '/# millrace doctor$/d' /etc/default/grub
    echo "GRUB_CMDLINE_LINUX=\"\$GRUB_CMDLINE_LINUX$WANTED\" # millrace doctor"
} | put /etc/default/grub; then
    # Writes the menu of grub anew.
    UPDATE
    REBOOT=yes
fi
"#;

const SYSTEMD_BOOT: &str = r#"# Into the command line of kernel-install, in place of older values.
# Without the file, it begins as that of the running kernel, since a boot entry needs its root.
if [ -n "$PARAMETERS" ]; then
    FILE=/etc/kernel/cmdline
    source=/proc/cmdline
    [ ! -s "$FILE" ] || source=$FILE
    line=
    # shellcheck disable=SC2013
    for word in $(cat "$source"); do
        case "$word" in BOOT_IMAGE=* | initrd=*) continue ;; esac
        for parameter in $PARAMETERS; do
            [ "${word%%=*}" != "${parameter%%=*}" ] || continue 2
        done
        line="$line$word "
    done
    if echo "$line$PARAMETERS" | put "$FILE"; then
        # Writes the boot entry of the running kernel anew.
        image=/lib/modules/$(uname -r)/vmlinuz
        [ -e "$image" ] || image=/boot/vmlinuz-$(uname -r)
        kernel-install add "$(uname -r)" "$image"
        REBOOT=yes
    fi
fi
"#;

const NO_LOADER: &str = r#"# No boot loader is known here, so the parameters are only printed.
WANTED=$(wanted "")
[ -z "$WANTED" ] || say "boot the kernel with:$WANTED"
"#;

pub(super) fn hugepages(host: &Host) -> String {
    if host.memory.hugepages.is_empty() {
        return String::new();
    }
    r#"
# Hugepages of 2 MB, now and at each boot. The line is that of pages of the default size.
if [ "${HUGEPAGES:-0}" -gt 0 ] && grep -q '^Hugepagesize: *2048 kB' /proc/meminfo; then
    put /etc/sysctl.d/60-millrace.conf <<END || :
vm.nr_hugepages = $HUGEPAGES
END
    sysctl -q -p /etc/sysctl.d/60-millrace.conf
    # Memory may be too scattered for all of them; at boot it is not.
    got=$(cat /proc/sys/vm/nr_hugepages)
    [ "$got" -ge "$HUGEPAGES" ] || { say "$got of $HUGEPAGES hugepages for now"; REBOOT=yes; }
fi
"#
    .to_owned()
}

/// Binds NICs on the PCI bus to DPDK: by driverctl, which does so at each boot, else by a service
/// of its own.
pub(super) fn pci_ports(host: &Host) -> String {
    if host.nics.as_ref().is_none_or(Vec::is_empty) {
        return String::new();
    }
    let keep = match (host.boot.driverctl, host.boot.systemd) {
        (true, _) => DRIVERCTL,
        (false, true) => DEVBIND_SERVICE,
        (false, false) => DEVBIND,
    };
    let none = if idle_nics(host).next().is_none() {
        "# No NIC is idle, so by default there is nothing to do.\n"
    } else {
        ""
    };
    format!("{PORTS_BEGIN}{none}{PORTS_CHECK}{keep}")
}

const PORTS_BEGIN: &str = "\n# NICs for DPDK, now and at each boot.\n";

const PORTS_CHECK: &str = r#"BIND=
for port in $PORTS; do
    device=/sys/bus/pci/devices/$port
    [ -e "$device" ] || { say "$port: there is no such device" >&2; exit 1; }
    functions=$(cat "$device/sriov_numvfs" 2>/dev/null || echo 0)
    [ "$functions" -eq 0 ] || { skip "$port: has $functions virtual functions"; continue; }
    driver=$(readlink "$device/driver" || :)
    interfaces=
    # The interface of a virtio NIC is one level deeper.
    for net in "$device"/net/* "$device"/virtio*/net/*; do
        # sysfs may show the interfaces of another network namespace.
        grep -q "^ *${net##*/}:" /proc/net/dev || continue
        interfaces=yes
        usage=$(usage "${net##*/}" | head -n 1)
        [ -z "$usage" ] || { skip "$port: ${net##*/} $usage"; continue 2; }
    done
    case "${driver##*/}" in
    "$DRIVER" | "") ;;
    *)
        # The NIC may be in another network namespace.
        [ -n "$interfaces" ] || { skip "$port: no interface is visible"; continue; }
        ;;
    esac
    BIND="${BIND:+$BIND }$port"
done
if [ -n "$BIND" ]; then
    # The driver is loaded at each boot.
    put /etc/modules-load.d/millrace.conf <<END || :
$DRIVER
END
    modprobe "$DRIVER"
    # Without an IOMMU, vfio must be told to do without, if this kernel's can.
    noiommu=/sys/module/vfio/parameters/enable_unsafe_noiommu_mode
    if [ "$DRIVER" = vfio-pci ] && [ -z "$(ls /sys/kernel/iommu_groups 2>/dev/null)" ]; then
        if [ ! -e "$noiommu" ]; then
            say "there is no IOMMU: reboot if this script has turned it on, else run it again" \
                "with DRIVER=uio_pci_generic" >&2
            exit 1
        elif grep -q '^flags.* hypervisor' /proc/cpuinfo; then
            put /etc/modprobe.d/millrace.conf <<END || :
options vfio enable_unsafe_noiommu_mode=1
END
            echo 1 > "$noiommu"
        else
            say "the IOMMU is off: reboot, then run this again" >&2
            exit 1
        fi
    fi
fi
"#;

const DRIVERCTL: &str = r#"for port in $BIND; do
    # driverctl keeps the binding in /etc/driverctl.d. `driverctl unset-override` ends it.
    driverctl list-overrides | grep -q "^$port $DRIVER\$" \
        || driverctl set-override "$port" "$DRIVER"
done
"#;

const DEVBIND: &str = r#"if [ -n "$BIND" ]; then
    # Until the next boot: install driverctl, or put this line where this host starts services.
    # shellcheck disable=SC2086
    dpdk-devbind.py --bind="$DRIVER" $BIND
fi
"#;

const DEVBIND_SERVICE: &str = r#"if [ -n "$BIND" ]; then
    # A service binds them at each boot, before the network is set up. With driverctl there is no
    # need for it.
    put /etc/systemd/system/millrace-ports.service <<END || :
[Unit]
Description=Bind the NICs of Millrace to DPDK
Wants=network-pre.target
Before=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$(command -v dpdk-devbind.py) --bind=$DRIVER $BIND

[Install]
WantedBy=multi-user.target
END
    systemctl daemon-reload
    systemctl enable millrace-ports.service
    # dpdk-devbind.py leaves NICs alone that have a route, and those that are bound already.
    # shellcheck disable=SC2086
    dpdk-devbind.py --bind="$DRIVER" $BIND
fi
"#;

/// Hands idle netvsc devices of Hyper-V and Azure to DPDK.
pub(super) fn vmbus_ports(host: &Host) -> String {
    let Some(nics) = host.vmbus.as_ref().filter(|nics| !nics.is_empty()) else {
        return String::new();
    };
    let idle = nics.iter().filter(|nic| is_idle(nic) && is_uuid(&nic.uuid));
    let idle = idle.map(|nic| nic.uuid.as_str()).collect::<Vec<_>>().join(" ");
    let keep = if host.boot.driverctl { VMBUS_DRIVERCTL } else { VMBUS_NO_DRIVERCTL };
    format!("{}{keep}", VMBUS.replace("IDLE", &idle))
}

fn is_uuid(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

const VMBUS: &str = r#"
# UUIDs of the netvsc devices that DPDK takes from Linux. Their VFs stay with their kernel driver.
VMBUS_PORTS=${VMBUS_PORTS-IDLE}
for port in $VMBUS_PORTS; do
    device=/sys/bus/vmbus/devices/$port
    [ -e "$device" ] || { say "$port: there is no such device" >&2; exit 1; }
    for net in "$device"/net/*; do
        [ -e "$net" ] || continue
        usage=$(usage "${net##*/}" | head -n 1)
        [ -z "$usage" ] || { skip "$port: ${net##*/} $usage"; continue 2; }
    done
    put /etc/modules-load.d/millrace-vmbus.conf <<END || :
uio_hv_generic
END
    modprobe uio_hv_generic
"#;

const VMBUS_DRIVERCTL: &str = r#"    # driverctl keeps the binding in /etc/driverctl.d.
    driverctl -b vmbus list-overrides | grep -q "^$port uio_hv_generic\$" \
        || driverctl -b vmbus set-override "$port" uio_hv_generic
done
"#;

const VMBUS_NO_DRIVERCTL: &str = r#"    skip "$port: driverctl is missing"
done
"#;

/// Sets governor and transparent hugepages, unless tuned does.
pub(super) fn tuning(host: &Host) -> String {
    let by_tuned = host.boot.tuned.as_ref().is_some_and(|tuned| tuned.can_set_apart());
    let governors = host.processor.governors.as_deref().unwrap_or_default();
    let governor = !by_tuned && governors.iter().any(|governor| governor != "performance");
    let transparent = host.memory.transparent.as_deref() == Some("never");
    if !governor && !transparent {
        return String::new();
    }
    let mut text = "\n# Values of sysfs, now and at each boot.\nsettings() {\n".to_owned();
    if governor {
        text.push_str(
            "    # The workers' cpus run at a steady, high frequency.\n    \
             for cpu in $(numbers \"$WORKER_CPUS\"); do\n        \
             echo \"/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor performance\"\n    \
             done\n",
        );
    }
    if transparent {
        text.push_str(
            "    # Flow tables that ask for large pages get them.\n    \
             echo '/sys/kernel/mm/transparent_hugepage/enabled madvise'\n",
        );
    }
    text + if host.boot.systemd { TMPFILES } else { WRITES }
}

const TMPFILES: &str = r#"}
# systemd-tmpfiles writes them at each boot.
settings | while read -r file value; do echo "w $file - - - - $value"; done \
    | put /etc/tmpfiles.d/millrace.conf || :
systemd-tmpfiles --create /etc/tmpfiles.d/millrace.conf
"#;

const WRITES: &str = r#"}
# Until the next boot: put these lines where this host starts services.
settings | while read -r file value; do
    [ ! -w "$file" ] || echo "$value" > "$file"
done
"#;

/// Keeps irqbalance off the workers' cpus, unless tuned does.
pub(super) fn interrupts(host: &Host) -> String {
    let by_tuned = host.boot.tuned.as_ref().is_some_and(|tuned| tuned.can_set_apart());
    let Some(file) = host.boot.irqbalance_file.filter(|_| !by_tuned) else { return String::new() };
    format!(
        r#"
# irqbalance leaves the workers' cpus alone.
if [ -n "$WORKER_CPUS" ] && {{
    sed '/^[[:space:]]*IRQBALANCE_BANNED_CPULIST=/d' /{file}
    echo "IRQBALANCE_BANNED_CPULIST=\"$WORKER_CPUS\""
}} | put /{file}; then
    systemctl try-restart irqbalance.service || say "start irqbalance again"
fi
"#
    )
}

pub(super) const END: &str = r#"
if [ -n "$REBOOT" ]; then say "reboot for all of it to take effect"; fi
[ -z "$SKIPPED" ] || exit 1
say "done"
"#;
