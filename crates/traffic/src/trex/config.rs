// SPDX-License-Identifier: BSD-3-Clause
//! Reads `trex_cfg.yaml`: the ports, cpus and MAC addresses of a TRex host.
//!
//! The keys and their ranges are those of TRex's own reader, `src/platform_cfg.cpp`.

mod keys;

use super::error::{Note, Place, ProfileError};
use super::fields::{Field, Fields};
use super::keys::Section;
use super::yaml::Document;
use std::net::Ipv4Addr;

/// Maximum number of ports of TRex (`TREX_MAX_PORTS`).
const PORTS_MAX: u64 = 16;
/// Maximum number of threads of a port pair in TRex.
const THREADS_MAX: u64 = 64;
/// Highest number of a cpu.
const CPU_MAX: u64 = 4095;
/// Highest number of a NUMA node.
const NODE_MAX: u64 = 255;

/// Settings of a `trex_cfg.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Ports in the order of the file, at most `port_limit`. A `dummy` at the end is left out.
    pub interfaces: Vec<Interface>,
    /// MAC and IP addresses of the ports, one entry for each (`port_info`).
    pub port_info: Vec<PortInfo>,
    /// File prefix of DPDK (`prefix`).
    pub file_prefix: Option<String>,
    /// Descriptors of each receive queue (`rx_desc`).
    pub rx_descriptors: Option<u16>,
    /// Descriptors of each transmit queue (`tx_desc`).
    pub tx_descriptors: Option<u16>,
    /// MTU of the ports (`port_mtu`).
    pub mtu: Option<u16>,
    /// Number of threads of each pair of ports (`c`).
    pub threads: Option<u16>,
    /// Cpus of the threads (`platform`).
    pub platform: Option<Platform>,
    notes: Vec<Note>,
}

/// A port of `interfaces`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Line of the name.
    pub place: Place,
    /// PCI address, Linux interface, or devargs of a vdev without `--vdev=`.
    pub name: String,
}

/// Addresses of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// First line of the entry.
    pub place: Place,
    /// Destination MAC address of its frames; `None` if absent or zero.
    pub dest_mac: Option<[u8; 6]>,
    /// Source MAC address of its frames; `None` if absent or zero.
    pub src_mac: Option<[u8; 6]>,
    /// IPv4 address of the port.
    pub ip: Option<Ipv4Addr>,
    /// IPv4 address of the port's gateway. TRex requests its MAC address by ARP.
    pub default_gw: Option<Ipv4Addr>,
}

/// Cpus of a TRex process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Cpu of the control thread (`master_thread_id`).
    pub master: Thread,
    /// Cpu of the thread that receives (`rx_thread_id`, or `latency_thread_id`).
    pub receiver: Thread,
    /// Cpus of the threads of each pair of ports.
    pub dual_if: Vec<DualIf>,
}

/// Cpus of a pair of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DualIf {
    /// NUMA node (`socket`).
    pub socket: u32,
    /// Line of `socket`.
    pub place: Place,
    /// Cpus of the threads that send.
    pub threads: Vec<Thread>,
}

/// A cpu that the file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Number of the cpu.
    pub cpu: u32,
    /// Line of the number.
    pub place: Place,
}

impl Config {
    /// Reads the text of a `trex_cfg.yaml`. `origin` names it in errors and notes.
    ///
    /// A `platform` that is not indented stands beside the list, where TRex would not find it. It
    /// is read as if it stood inside, and a note says so.
    ///
    /// # Errors
    /// The text is not the YAML of such a file, a key is unknown, refused or repeated, or a value
    /// is not allowed. The error names the line.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let (list, beside) = split_beside(text);
        let document = Document::parse(list, origin)?;
        let beside = beside.map(|text| Document::parse(&text, origin)).transpose()?;
        let mut notes = Vec::new();
        let root = Field::root(&document, keys::CONFIG.name);
        let map = match root.list() {
            Ok(items) if items.len() == 1 => items[0],
            // Some files have no list around the map. TRex would not read them.
            _ if root.is_map() => root,
            _ => return Err(root.refuse("a list with one map")),
        };
        let fields = map.map(&keys::CONFIG, &mut notes)?;
        let outside = beside
            .as_ref()
            .map(|it| Field::root(it, keys::BESIDE.name).map(&keys::BESIDE, &mut notes))
            .transpose()?;
        let platform = read_platform(&fields, outside.as_ref(), &mut notes)?;
        let port_info = read_list(&fields, "port_info", |it| read_port_info(it, &mut notes))?;
        let count = |key, range: std::ops::RangeInclusive<u64>| {
            fields.read(key, |field| field.integer(range.clone()).map(|number| number as u16))
        };
        let config = Self {
            interfaces: read_interfaces(&fields)?,
            port_info,
            file_prefix: fields.read("prefix", read_prefix)?,
            rx_descriptors: count("rx_desc", 32..=32_768)?,
            tx_descriptors: count("tx_desc", 32..=32_768)?,
            mtu: count("port_mtu", 68..=65_535)?,
            threads: count("c", 1..=THREADS_MAX)?,
            platform,
            notes,
        };
        config.check_threads(&fields)?;
        Ok(config)
    }

    /// Returns the remarks on keys without effect, in the order of the file.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = self.notes.clone();
        notes.sort_by_key(|note| note.place.line);
        notes
    }

    /// Refuses a `c` above the number of cpus in the shortest `threads`, as TRex does.
    fn check_threads(&self, fields: &Fields<'_>) -> Result<(), ProfileError> {
        let pairs = self.platform.iter().flat_map(|platform| &platform.dual_if);
        let fewest = pairs.map(|pair| pair.threads.len()).min();
        match (fields.get("c"), self.threads, fewest) {
            (Some(field), Some(c), Some(fewest)) if c as usize > fewest => {
                Err(field.refuse(format!("at most {fewest}, the cpus of the shortest threads")))
            }
            _ => Ok(()),
        }
    }
}

/// Splits the text where a `platform` stands beside the list. The second part begins with empty
/// lines, so that its line numbers are those of the file.
fn split_beside(text: &str) -> (&str, Option<String>) {
    let mut has_list = false;
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        has_list |= line.starts_with("- ");
        let is_platform = line
            .strip_prefix("platform")
            .is_some_and(|rest| rest.trim_start_matches(' ').starts_with(':'));
        if has_list && is_platform {
            let beside = "\n".repeat(number) + &text[offset..];
            return (&text[..offset], Some(beside));
        }
        offset += line.len();
    }
    (text, None)
}

fn read_list<T>(
    fields: &Fields<'_>,
    key: &'static str,
    read: impl FnMut(Field<'_>) -> Result<T, ProfileError>,
) -> Result<Vec<T>, ProfileError> {
    let Some(field) = fields.get(key) else { return Ok(Vec::new()) };
    field.list()?.into_iter().map(read).collect()
}

fn read_interfaces(fields: &Fields<'_>) -> Result<Vec<Interface>, ProfileError> {
    const DUMMY: &str = "a port first: \"dummy\" stands behind the ports";
    let field = fields.need("interfaces")?;
    let items = field.list()?;
    if items.len() as u64 > PORTS_MAX {
        return Err(field.refuse(format!("a list of 1 to {PORTS_MAX} ports")));
    }
    let most = match fields.get("port_limit") {
        Some(limit) => limit.integer(1..=items.len() as u64)? as usize,
        None => items.len(),
    };
    let mut interfaces = Vec::new();
    let mut first_dummy: Option<Field<'_>> = None;
    for item in items.into_iter().take(most) {
        let name = item.text()?;
        if name == "dummy" {
            first_dummy.get_or_insert(item);
            continue;
        }
        if let Some(dummy) = first_dummy {
            return Err(dummy.refuse(DUMMY));
        }
        let name = name.strip_prefix("--vdev=").unwrap_or(name);
        interfaces.push(Interface { place: item.place(), name: name.to_owned() });
    }
    match first_dummy {
        Some(dummy) if interfaces.is_empty() => Err(dummy.refuse(DUMMY)),
        _ => Ok(interfaces),
    }
}

fn read_prefix(field: Field<'_>) -> Result<String, ProfileError> {
    let text = field.text()?;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    // DPDK makes a directory of this name.
    if text.len() > 32 || !text.bytes().all(is_good) || text.starts_with(['.', '-']) {
        return Err(field.refuse("up to 32 letters, digits, _, - and ."));
    }
    Ok(text.to_owned())
}

fn read_port_info(item: Field<'_>, notes: &mut Vec<Note>) -> Result<PortInfo, ProfileError> {
    let fields = item.map(&keys::PORT_INFO, notes)?;
    // In TRex, zeros mean that there is no address.
    let mac = |key| Ok(fields.read(key, Field::mac)?.filter(|mac| *mac != [0; 6]));
    let place = fields.place();
    let (dest_mac, src_mac) = (mac("dest_mac")?, mac("src_mac")?);
    let ip = fields.read("ip", Field::address)?;
    Ok(PortInfo {
        place,
        dest_mac,
        src_mac,
        ip,
        default_gw: fields.read("default_gw", Field::address)?,
    })
}

/// Reads `platform`, inside the list or beside it.
fn read_platform(
    fields: &Fields<'_>,
    outside: Option<&Fields<'_>>,
    notes: &mut Vec<Note>,
) -> Result<Option<Platform>, ProfileError> {
    let beside = outside.map(|fields| fields.need("platform")).transpose()?;
    let field = match (fields.get("platform"), beside) {
        (Some(inside), Some(beside)) => {
            let (place, first) = (beside.key_place(), inside.key_place().line);
            return Err(ProfileError::Repeated { place, key: "platform".to_owned(), first });
        }
        (None, Some(beside)) => {
            let text = "platform stands beside the list; it is read as if it stood inside, \
                        indented by two blanks"
                .to_owned();
            notes.push(Note { place: beside.key_place(), text });
            beside
        }
        (Some(inside), None) => inside,
        (None, None) => return Ok(None),
    };
    let platform = field.map(&keys::PLATFORM, notes)?;
    let receiver = match platform.get("rx_thread_id") {
        Some(field) => field,
        None => platform.need("latency_thread_id")?,
    };
    let master = read_thread(platform.need("master_thread_id")?)?;
    let receiver = read_thread(receiver)?;
    let dual_if = platform.need("dual_if")?.list()?.into_iter();
    let dual_if = dual_if.map(|item| read_dual_if(item, notes)).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Platform { master, receiver, dual_if }))
}

fn read_dual_if(item: Field<'_>, notes: &mut Vec<Note>) -> Result<DualIf, ProfileError> {
    let fields = item.map(&keys::DUAL_IF, notes)?;
    let socket = fields.need("socket")?;
    let mut threads: Vec<Thread> = Vec::new();
    for item in fields.need("threads")?.list()? {
        let thread = read_thread(item)?;
        if threads.iter().any(|other| other.cpu == thread.cpu) {
            return Err(item.refuse("a cpu that the list does not have yet"));
        }
        threads.push(thread);
    }
    let number = socket.integer(0..=NODE_MAX)? as u32;
    Ok(DualIf { socket: number, place: socket.place(), threads })
}

fn read_thread(field: Field<'_>) -> Result<Thread, ProfileError> {
    Ok(Thread { cpu: field.integer(0..=CPU_MAX)? as u32, place: field.place() })
}
