// SPDX-License-Identifier: BSD-3-Clause
//! Finds the parameters that the driver of a virtual device knows.
//!
//! A driver that refuses a parameter seldom reports which one. But the shared object of a driver,
//! which EAL has loaded, has a line about its parameters, for the tools of DPDK. Without such a
//! line, no parameters are shown; nothing else depends on them.

use std::fs;
use std::path::Path;

/// Beginning of the line.
const MARK: &[u8] = b"PMD_INFO_STRING= ";

/// Returns the parameters of the driver of `devargs`, such as `iface=<string> qpairs=<int>`.
pub(crate) fn of(devargs: &str) -> Option<String> {
    let device = devargs.split(',').next().unwrap_or_default();
    let library = libraries().into_iter().find(|path| is_driver_of(device, path))?;
    let name_and_parameters = |line: &[u8]| in_line(&String::from_utf8_lossy(line));
    lines(&fs::read(library).ok()?)
        .filter_map(name_and_parameters)
        .find(|(name, _)| is_named_after(device, name))
        .map(|(name, parameters)| separated(&name, &parameters))
}

/// True if the driver of this name cannot read arguments of its devices: its library does not call
/// the parser of arguments. False if the library is not found.
pub(crate) fn reads_none(driver: &str) -> bool {
    let name = format!("\"name\": \"{driver}\"");
    let libraries = libraries().into_iter().filter(|path| path.contains("/librte_net_"));
    let mut files = libraries.filter_map(|path| fs::read(path).ok());
    files
        .find(|file| lines(file).any(|line| String::from_utf8_lossy(line).contains(&name)))
        .is_some_and(|file| !has(&file, b"rte_kvargs_parse"))
}

fn has(file: &[u8], text: &[u8]) -> bool {
    file.windows(text.len()).any(|window| window == text)
}

/// Returns the paths of the files that this process has mapped, each once.
fn libraries() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<_> =
        maps.lines().filter_map(|line| Some(line[line.find('/')?..].to_owned())).collect();
    paths.dedup();
    paths
}

/// Keys that `net_memif` does not separate from the value before.
const RUN_TOGETHER: [&str; 10] = [
    "role=",
    "bsize=",
    "rsize=",
    "socket=",
    "socket-abstract=",
    "owner-uid=",
    "owner-gid=",
    "mac=",
    "zero-copy=",
    "secret=",
];

/// Returns the parameters with a blank between each two.
fn separated(driver: &str, parameters: &str) -> String {
    if driver != "net_memif" {
        return parameters.to_owned();
    }
    RUN_TOGETHER.iter().fold(parameters.to_owned(), |text, key| {
        let blank = text.replace(key, &format!(" {key}"));
        blank.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

/// True if `library` is the driver of `device`: `.../librte_net_null.so.23.0` of `net_null0`.
fn is_driver_of(device: &str, library: &str) -> bool {
    let file = Path::new(library).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let driver = file.strip_prefix("librte_").and_then(|rest| rest.split_once(".so"));
    driver.is_some_and(|(driver, _)| is_named_after(device, driver))
}

/// True if the name of a device is that of the driver, followed by a number.
fn is_named_after(device: &str, driver: &str) -> bool {
    device.trim_end_matches(|last: char| last.is_ascii_digit()) == driver
}

/// Returns the texts behind each mark, up to the zero byte.
fn lines(library: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = library.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let line = |(start, _)| library[start + MARK.len()..].split(|byte| *byte == 0).next();
    starts.filter_map(line)
}

/// Returns the driver's name and parameters from such a line, which is JSON without escapes.
fn in_line(line: &str) -> Option<(String, String)> {
    let value = |key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\": \""))?;
        Some(rest.split_once('"')?.0.trim().to_owned())
    };
    Some((value("name")?, value("params")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_driver_is_found_and_read() {
        let library = b"\x7fELF\0PMD_INFO_STRING= {\"name\": \"net_x\", \"pci_ids\": []}\0..\
            PMD_INFO_STRING= {\"name\": \"net_y\", \"params\": \"a=<int> \", \"pci_ids\": []}\0";
        let found: Vec<_> =
            lines(library).map(|line| in_line(std::str::from_utf8(line).unwrap())).collect();
        assert_eq!(found, [None, Some(("net_y".to_owned(), "a=<int>".to_owned()))]);
    }

    #[test]
    fn parameters_are_separated() {
        let memif = "id=<int>role=server|clientbsize=<int>socket-abstract=yes|nosecret=<string>";
        let apart =
            "id=<int> role=server|client bsize=<int> socket-abstract=yes|no secret=<string>";
        assert_eq!(separated("net_memif", memif), apart);
        let usual = "iface=<string> qpairs=<int>";
        assert_eq!(separated("net_af_packet", usual), usual);
    }

    #[test]
    fn a_device_leads_to_its_driver() {
        let library = "/usr/lib/dpdk/pmds-23.0/librte_net_af_packet.so.23.0";
        assert!(is_driver_of("net_af_packet0", library));
        assert!(is_driver_of("net_af_packet12", library));
        for device in ["net_af_packets0", "net_af0", "0000:18:00.0", ""] {
            assert!(!is_driver_of(device, library), "{device}");
        }
    }
}
