// SPDX-License-Identifier: BSD-3-Clause
//! Starts DPDK's runtime (EAL), once. It runs until the process ends.
//!
//! EAL leaves nothing behind: memory is anonymous, there is no telemetry socket and no shared file,
//! and ports clean up when they are closed. So there is no cleanup at exit, and memory from EAL
//! stays valid for the rest of the process.

use crate::error::{EalError, Errno};
use crate::lcore::Lcore;
use crate::log::{self, Log, LogLevel};
use crate::sys;
use crate::vmbus::is_vmbus;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Configuration of EAL's start.
#[derive(Clone, Debug)]
pub struct EalConfig {
    /// Processors with a worker lcore each. The calling thread becomes the main lcore and keeps the
    /// other processors that this process may use, or all of them if the workers leave none.
    pub lcores: Vec<usize>,
    /// True to use ordinary memory instead of hugepages. That is slower and needs no privilege.
    pub no_huge: bool,
    /// Megabytes of memory to allocate at start; without hugepages also the maximum.
    pub memory_mb: u32,
    /// Devargs of every port that will be opened. Other PCI devices are not touched.
    pub ports: Vec<String>,
    /// PCI devices that ports on VMBus need: their VFs. Without such a port they are not touched.
    pub companions: Vec<String>,
    /// Name of EAL's directory for files (`--file-prefix`); `None`: one of this process's own.
    pub file_prefix: Option<String>,
    /// Drivers that are not part of DPDK, as paths of shared objects. EAL loads none from a path
    /// with a world-writable directory.
    pub drivers: Vec<PathBuf>,
    /// Extra arguments, passed to EAL unchanged. None may ask for help ([`asks_for_help`]).
    pub extra: Vec<String>,
    /// Log lines of this level and of worse levels are shown on the standard error.
    pub log_level: LogLevel,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self {
            lcores: Vec::new(),
            no_huge: false,
            memory_mb: 512,
            ports: Vec::new(),
            companions: Vec::new(),
            file_prefix: None,
            drivers: Vec::new(),
            extra: Vec::new(),
            log_level: LogLevel::Error,
        }
    }
}

/// Proof that EAL is up.
#[derive(Debug)]
pub struct Eal {
    workers: Vec<Lcore>,
}

static STARTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// Starts EAL; the calling thread becomes the main lcore.
    pub fn init(config: &EalConfig) -> Result<Self, EalError> {
        let refused =
            |arguments: &[String], log| EalError::Arguments { arguments: arguments.join(" "), log };
        if let Some(help) = config.extra.iter().find(|argument| asks_for_help(argument)) {
            return Err(refused(std::slice::from_ref(help), Log::default()));
        }
        let args = arguments(config, &allowed_cpus())?;
        let prefix = config.file_prefix.clone().unwrap_or_else(file_prefix);
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::StartedBefore);
        }
        log::init(config.log_level);
        let (result, log) = log::capture(|| start(args, &prefix));
        let unread = result.map_err(|errno| {
            let is_out_of_memory = errno == Errno::NoMemory && !config.no_huge;
            if log.mentions("hugepage information") || is_out_of_memory {
                EalError::NoHugepages { log }
            } else if log.mentions(BAD_ARGUMENTS) && !config.extra.is_empty() {
                refused(&config.extra, log.without(&[BAD_ARGUMENTS]))
            } else {
                EalError::Init { errno, log }
            }
        })?;
        if !unread.is_empty() {
            return Err(refused(&unread, Log::default()));
        }
        // EAL numbers the main lcore 0 and the workers from 1, as `arguments` asked.
        let workers = config.lcores.iter().zip(1..).map(|(&cpu, id)| Lcore::new(id, cpu)).collect();
        Ok(Self { workers })
    }

    /// Returns the worker lcores, in the order of [`EalConfig::lcores`]; empty from the second call
    /// on.
    pub fn take_lcores(&mut self) -> Vec<Lcore> {
        std::mem::take(&mut self.workers)
    }
}

/// Returns the version of DPDK that this process runs with, such as `DPDK 24.11.1`.
pub fn version() -> String {
    // SAFETY: returns a C string that is never freed.
    unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
}

/// True for an argument that makes EAL print its options and end the process. These are `--help`
/// and its abbreviations, `-h`, also behind `-v`, and `--log-level=help`.
pub fn asks_for_help(argument: &str) -> bool {
    let is_long = argument.len() > 2 && "--help".starts_with(argument);
    let letters = argument.strip_prefix('-').unwrap_or_default();
    let is_short = letters.trim_start_matches('v').starts_with('h');
    is_long || is_short || argument == "help" || argument.ends_with("=help")
}

/// EAL's message for arguments that it refuses.
const BAD_ARGUMENTS: &str = "Invalid 'command line' arguments";

/// Starts EAL; returns the arguments that it did not read, because they belong to no option.
fn start(args: Vec<CString>, prefix: &str) -> Result<Vec<String>, Errno> {
    let count = args.len() as i32;
    // EAL keeps some of these pointers, so the arguments are never freed.
    let mut argv: Vec<*mut c_char> = args.into_iter().map(CString::into_raw).collect();
    argv.push(std::ptr::null_mut());
    let argv = argv.leak();
    // SAFETY:
    // - `argv` holds `count` C strings and a null, writable and never freed;
    // - it is the first call in this process (`STARTED`);
    // - `write_printed` keeps to the contract of fopencookie's write function.
    let ret = unsafe { sys::shim_eal_init(count, argv.as_mut_ptr(), Some(log::write_printed)) };
    remove_runtime_dir(prefix);
    let read = usize::try_from(ret).map_err(|_| Errno::last())?;
    // EAL moves arguments that it does not read to the end.
    let unread = argv[..argv.len() - 1].iter().skip(read + 1);
    // SAFETY: these are the C strings of `args`, in another order, and never freed.
    let text = |&argument: &*mut c_char| unsafe { CStr::from_ptr(argument) };
    Ok(unread.map(|argument| text(argument).to_string_lossy().into_owned()).collect())
}

/// Removes the directory for files that EAL may have created, although its arguments request no
/// file.
fn remove_runtime_dir(prefix: &str) {
    // SAFETY: returns a C string that is never freed.
    let path = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    let path = path.to_string_lossy();
    if path.ends_with(prefix) {
        // If the directory does not exist or is not empty, it stays as it is.
        let _ = fs::remove_dir(&*path);
    }
}

/// Returns a prefix that differs for every process, so that two of them never collide.
fn file_prefix() -> String {
    format!("millrace-{}", std::process::id())
}

/// Returns the arguments of `rte_eal_init`. `allowed` is the kernel's list of processors, as
/// `0-3,8`.
fn arguments(config: &EalConfig, allowed: &str) -> Result<Vec<CString>, EalError> {
    let log_level = config.log_level.with_reasons() as u32;
    let mut args = vec![
        // EAL's messages about the other arguments begin with this name.
        "EAL".to_owned(),
        "--no-telemetry".to_owned(),
        format!("--file-prefix={}", config.file_prefix.clone().unwrap_or_else(file_prefix)),
        format!("--log-level=*:{log_level}"),
        format!("--lcores={}", lcore_map(&config.lcores, allowed)?),
        "--main-lcore=0".to_owned(),
        format!("-m{}", config.memory_mb),
    ];
    // Without hugepages, EAL has no `--in-memory`; `--no-shconf` is the part of it that remains.
    let memory: &[_] =
        if config.no_huge { &["--no-huge", "--no-shconf"] } else { &["--in-memory"] };
    args.extend(memory.iter().map(|arg| arg.to_string()));
    let mut pci: Vec<_> = config.ports.iter().filter(|devargs| is_pci(devargs)).collect();
    let vmbus: Vec<_> = config.ports.iter().filter(|devargs| is_vmbus(devargs)).collect();
    if !vmbus.is_empty() {
        let is_new = |vf: &&String| !config.ports.iter().any(|port| port.starts_with(*vf));
        pci.extend(config.companions.iter().filter(is_new));
    }
    if pci.is_empty() {
        args.push("--no-pci".to_owned());
    }
    args.extend(pci.into_iter().chain(vmbus).map(|devargs| format!("-a{devargs}")));
    args.extend(config.drivers.iter().map(|path| format!("-d{}", path.display())));
    args.extend(config.extra.iter().cloned());
    args.into_iter()
        .map(|arg| CString::new(arg.clone()).map_err(|_| EalError::ZeroByte(arg)))
        .collect()
}

/// Returns EAL's `--lcores`: lcore 0 on the remaining processors, lcores from 1 on one each.
fn lcore_map(workers: &[usize], allowed: &str) -> Result<String, EalError> {
    let all = parse_cpu_list(allowed);
    let mut left = all.clone();
    for &cpu in workers {
        if !all.contains(&cpu) {
            return Err(EalError::CpuNotAllowed { cpu, allowed: allowed.to_owned() });
        }
        if !left.remove(&cpu) {
            return Err(EalError::CpuTwice(cpu));
        }
    }
    let main = if left.is_empty() { all } else { left };
    let main: Vec<_> = main.iter().map(usize::to_string).collect();
    let mut map = format!("0@({})", main.join(","));
    for (cpu, lcore) in workers.iter().zip(1..) {
        map.push_str(&format!(",{lcore}@{cpu}"));
    }
    Ok(map)
}

/// Returns the processors that this process may use, as a list of the kernel. These are the ones on
/// which its threads run, and those of `isolcpus`, on which only threads run that are bound there.
fn allowed_cpus() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    match (list.unwrap_or("0").trim(), isolated.trim()) {
        (allowed, "") => allowed.to_owned(),
        (allowed, isolated) => format!("{allowed},{isolated}"),
    }
}

/// Returns the processors of a list such as `0-3,8`; skips everything that is no number.
fn parse_cpu_list(list: &str) -> BTreeSet<usize> {
    let mut cpus = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// True for `[pci:][DOMAIN:]BUS:DEVICE.FUNCTION[,ARGS]`, numbers in hexadecimal.
pub(crate) fn is_pci(devargs: &str) -> bool {
    let address = devargs.split(',').next().unwrap_or_default();
    let address = address.strip_prefix("pci:").unwrap_or(address);
    let Some((rest, function)) = address.rsplit_once('.') else { return false };
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    (2..=3).contains(&rest.split(':').count()) && rest.split(':').all(is_hex) && is_hex(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_distinguished_from_virtual_devices() {
        for devargs in ["0000:18:00.2", "18:00.2", "pci:0000:18:00.2,dv_flow_en=1", "0000:af:1f.7"]
        {
            assert!(is_pci(devargs), "{devargs}");
        }
        for devargs in ["net_null0", "net_pcap0,rx_pcap=a:b:c.d", "", "net_tap0,iface=x.1", "::."] {
            assert!(!is_pci(devargs), "{devargs}");
        }
    }

    #[test]
    fn what_ends_the_process_is_known() {
        for argument in ["--help", "--he", "-h", "-vvh", "--log-level=help", "help"] {
            assert!(asks_for_help(argument), "{argument}");
        }
        for argument in ["--huge-dir=/h", "-v", "--", "-", "", "--no-hpet", "--file-prefix=helper"]
        {
            assert!(!asks_for_help(argument), "{argument}");
        }
    }

    #[test]
    fn the_main_lcore_keeps_off_the_workers_processors() {
        assert_eq!(lcore_map(&[1], "0-1").unwrap(), "0@(0),1@1");
        assert_eq!(lcore_map(&[3, 1], "0-3,8").unwrap(), "0@(0,2,8),1@3,2@1");
        assert_eq!(lcore_map(&[], "0-1").unwrap(), "0@(0,1)");
        assert_eq!(lcore_map(&[0, 1], "0-1").unwrap(), "0@(0,1),1@0,2@1");
        assert_eq!(lcore_map(&[1, 1], "0-1"), Err(EalError::CpuTwice(1)));
        let refused = EalError::CpuNotAllowed { cpu: 2, allowed: "0-1".to_owned() };
        assert_eq!(lcore_map(&[2], "0-1"), Err(refused));
    }

    #[test]
    fn only_the_pci_devices_named_are_allowed() {
        let text = |ports: &[&str]| {
            let ports = ports.iter().map(|p| p.to_string()).collect();
            let args = arguments(&EalConfig { ports, ..Default::default() }, "0").unwrap();
            args.iter().map(|arg| arg.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let args = text(&["net_null0"]);
        assert!(args.contains(&"--no-pci".to_owned()));
        let args = text(&["net_null0", "0000:18:00.2,a=b"]);
        assert!(args.contains(&"-a0000:18:00.2,a=b".to_owned()));
        assert!(!args.contains(&"--no-pci".to_owned()));
    }

    #[test]
    fn a_port_on_vmbus_brings_its_vf() {
        let uuid = "000d3a7c-dfac-000d-3a7c-dfac000d3a7c";
        let text = |ports: &[&str]| {
            let ports = ports.iter().map(|p| p.to_string()).collect();
            let companions = vec!["0002:00:02.0".to_owned()];
            let config = EalConfig { ports, companions, ..Default::default() };
            let args = arguments(&config, "0").unwrap().into_iter();
            let is_device = |arg: &String| arg.starts_with("-a") || arg == "--no-pci";
            args.map(|arg| arg.into_string().unwrap()).filter(is_device).collect::<Vec<_>>()
        };
        assert_eq!(text(&[uuid]), ["-a0002:00:02.0".to_owned(), format!("-a{uuid}")]);
        assert_eq!(text(&["net_null0"]), ["--no-pci"]);
        let named = ["-a0002:00:02.0,mac=0:1".to_owned(), format!("-a{uuid}")];
        assert_eq!(text(&["0002:00:02.0,mac=0:1", uuid]), named);
    }
}
