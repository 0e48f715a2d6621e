// SPDX-License-Identifier: BSD-3-Clause
//! Reads a profile and checks every key. Captures are not needed yet.

use super::decimal::Decimal;
use super::error::{Note, Place, ProfileError};
use super::fields::{Field, Fields};
use super::keys;
use super::pool::{Distribution, Pool};
use super::yaml::Document;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// Range of decimals without a narrower one. As microseconds, the maximum is a thousand seconds.
const ANY: RangeInclusive<Decimal> = Decimal::ZERO..=Decimal::MAX;

/// A TRex "cap" profile: a list of templates. Each is a capture that is replayed as flows at a
/// rate.
///
/// [`Profile::bind`] joins it with its captures; the result makes the traffic.
///
/// All keys of the outermost map, of `generator` and its pools, of `vlan` and of a template of
/// `cap_info` have the meaning that TRex gives them, with these exceptions:
///
/// - `tcp_aging` and `udp_aging` are only compared with the rate: [`Traffic::aging_notes`].
/// - `plugin_id` 1 and 2 permit additional flows in the capture. Payloads are sent as captured, and
///   a note says so.
/// - `clients_per_gb`, `min_clients`, `mac`, `wlength`, `tw` and `track_ports` are ignored, and a
///   note says so.
/// - Other values of `plugin_id` are refused, and so are `dyn_pyload`, `multi_flow_enabled`,
///   `flows_dirs`, `ip_header_offset` and `max_ip_tunnels`.
/// - `first_from: server` is a key of ours: the capture begins with a frame of the server.
///
/// TRex needs `ipg`, `rtt` and `w`; here they default to 10000, 10000 and 1.
///
/// [`Traffic::aging_notes`]: super::Traffic::aging_notes
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) origin: String,
    pub(super) notes: Vec<Note>,
    pub(super) duration: Option<Decimal>,
    pub(super) clients: Vec<Pool>,
    pub(super) servers: Vec<Pool>,
    pub(super) dual_port_mask: u32,
    pub(super) tcp_aging_s: u64,
    pub(super) udp_aging_s: u64,
    pub(super) settings: Settings,
    pub(super) templates: Vec<Template>,
}

/// Settings for the frames of all templates.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Gaps of the capture below the first number of nanoseconds are replaced by the second.
    /// Templates with fixed gaps ignore it.
    pub(super) shortest_gap: Option<(u64, u64)>,
    /// VLAN identifiers of flows with an even and with an odd client address.
    pub(super) vlans: Option<[u16; 2]>,
    pub(super) mac_override: MacOverride,
    /// First 96 bits of client and server addresses, if frames are sent as IPv6.
    pub(super) ipv6: Option<[[u8; 12]; 2]>,
}

/// MAC addresses in which the IPv4 address of the host is written: `mac_override_by_ip`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MacOverride {
    #[default]
    None,
    /// The source of frames from the client.
    Client,
    /// Source and destination of every frame.
    All,
}

/// One entry of `cap_info`.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) place: Place,
    pub(super) limit_place: Option<Place>,
    pub(super) name: String,
    /// Flows per second at multiplier 1.
    pub(super) cps: Decimal,
    pub(super) timing: Timing,
    /// Number of flows of a burst.
    pub(super) burst: u32,
    /// Number of flows, which repeat for ever. `None`: every flow is new.
    pub(super) limit: Option<u32>,
    /// Index of the pool of clients.
    pub(super) client_pool: usize,
    /// Index of the pool of servers.
    pub(super) server_pool: usize,
    /// The only server of this template; `None` if servers come from the pool.
    pub(super) server: Option<Ipv4Addr>,
    pub(super) keeps_src_port: bool,
    /// True if the capture may hold additional flows with one of its hosts.
    pub(super) has_side_flows: bool,
    pub(super) starts_at_server: bool,
}

/// Gaps between the frames of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Timing {
    /// The gaps of the capture.
    Capture,
    /// `ipg_ns` between frames of one direction, `rtt_ns` where the direction changes.
    Fixed { ipg_ns: u64, rtt_ns: u64 },
}

impl Profile {
    /// Reads the YAML of a profile. `origin` names it in errors and notes.
    ///
    /// # Errors
    /// The text is not the YAML of a profile, a key is unknown, refused or repeated, or a value is
    /// not allowed. The error names the line.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let document = Document::parse(text, origin)?;
        let root = Field::root(&document, "the profile");
        let mut notes = Vec::new();
        let map = match root.list() {
            Ok(items) if items.len() == 1 => items[0],
            // A file of --client_cfg is a map. Reading it as one names the key that is refused.
            _ if root.is_map() => {
                root.map(&keys::PROFILE, &mut notes)?;
                return Err(root.refuse("a list with one map: begin with \"- \""));
            }
            _ => return Err(root.refuse("a list with one map")),
        };
        let fields = map.map(&keys::PROFILE, &mut notes)?;
        let generator = fields.need("generator")?.map(&keys::GENERATOR, &mut notes)?;
        let clients = read_pools(&generator, &CLIENT_KEYS, &mut notes)?;
        let servers = read_pools(&generator, &SERVER_KEYS, &mut notes)?;
        let settings = read_settings(&fields, &mut notes)?;
        let uses_capture_gaps = fields.read("cap_ipg", Field::boolean)?.unwrap_or(false);
        let mut templates = Vec::new();
        for item in fields.need("cap_info")?.list()? {
            let template = item.map(&keys::TEMPLATE, &mut notes)?;
            let pools = [&clients[..], &servers[..]];
            templates.push(read_template(&template, pools, uses_capture_gaps, &mut notes)?);
        }
        note_unused_gaps(&fields, &settings, &templates, &mut notes);
        let aging = |key| generator.read(key, |field| field.integer(0..=u64::from(u16::MAX)));
        notes.sort_by_key(|note| note.place.line);
        Ok(Self {
            origin: origin.to_owned(),
            duration: fields.read("duration", |field| field.decimal(ANY))?,
            dual_port_mask: generator
                .read("dual_port_mask", Field::address)?
                .unwrap_or(Ipv4Addr::UNSPECIFIED)
                .to_bits(),
            tcp_aging_s: aging("tcp_aging")?.unwrap_or(0),
            udp_aging_s: aging("udp_aging")?.unwrap_or(0),
            clients,
            servers,
            settings,
            templates,
            notes,
        })
    }

    /// Returns the remarks on keys without effect, in the order of the file.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the name that the profile was parsed with.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the duration of a run that the profile proposes, in seconds.
    #[must_use]
    pub fn duration(&self) -> Option<Decimal> {
        self.duration
    }

    /// Returns the names of the captures, each once, in the order of the file.
    #[must_use]
    pub fn capture_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = HashSet::new();
        names
            .extend(self.templates.iter().map(|it| it.name.as_str()).filter(|it| seen.insert(*it)));
        names
    }
}

/// Names of the keys for pools of one side.
struct PoolKeys {
    start: &'static str,
    end: &'static str,
    more: &'static str,
    section: &'static keys::Section,
}

const CLIENT_KEYS: PoolKeys = PoolKeys {
    start: "clients_start",
    end: "clients_end",
    more: "generator_clients",
    section: &keys::CLIENTS,
};

const SERVER_KEYS: PoolKeys = PoolKeys {
    start: "servers_start",
    end: "servers_end",
    more: "generator_servers",
    section: &keys::SERVERS,
};

/// Reads the pools of one side. The first is the default: the pool of the generator itself, or the
/// first additional pool if the generator has none.
fn read_pools(
    generator: &Fields<'_>,
    keys: &PoolKeys,
    notes: &mut Vec<Note>,
) -> Result<Vec<Pool>, ProfileError> {
    let mut pools = Vec::new();
    let more = generator.get(keys.more);
    if more.is_none() || generator.get(keys.start).is_some() || generator.get(keys.end).is_some() {
        let name = "default".to_owned();
        pools.push(read_pool(generator, name, keys.start, keys.end)?);
    }
    for item in more.map(Field::list).transpose()?.unwrap_or_default() {
        let fields = item.map(keys.section, notes)?;
        let name = fields.need("name")?;
        let text = name.text()?.to_owned();
        if pools.iter().any(|pool| pool.name == text) {
            return Err(name.refuse("a name that no other pool has"));
        }
        pools.push(read_pool(&fields, text, "ip_start", "ip_end")?);
    }
    Ok(pools)
}

fn read_pool(
    fields: &Fields<'_>,
    name: String,
    start: &'static str,
    end: &'static str,
) -> Result<Pool, ProfileError> {
    let kinds = [Distribution::Sequential, Distribution::Random, Distribution::Normal];
    let words = ["seq", "random", "normal"];
    let distribution = fields.read("distribution", |field| field.word(&words))?.unwrap_or(0);
    let first = fields.need(start)?.address()?;
    let end = fields.need(end)?;
    let last = end.address()?;
    if last < first {
        return Err(end.refuse(format!("an address from {first} up")));
    }
    Ok(Pool { name, distribution: kinds[distribution], first, last })
}

fn read_micros(field: Field<'_>) -> Result<u64, ProfileError> {
    field.decimal(ANY).map(Decimal::micros_as_ns)
}

fn read_settings(fields: &Fields<'_>, notes: &mut Vec<Note>) -> Result<Settings, ProfileError> {
    let least = fields.read("cap_ipg_min", read_micros)?;
    let instead = fields.read("cap_override_ipg", read_micros)?;
    let conflict = |key: &'static str, other| {
        let place = fields.get(key).map_or_else(|| fields.place(), |field| field.place());
        let reason = format!("it needs {other}; give both or none");
        Err(ProfileError::Conflict { place, key, reason })
    };
    let shortest_gap = match (least, instead) {
        (Some(_), None) => return conflict("cap_ipg_min", "cap_override_ipg"),
        (None, Some(_)) => return conflict("cap_override_ipg", "cap_ipg_min"),
        (least, instead) => least.zip(instead),
    };
    let prefixes =
        [fields.read("src_ipv6", Field::prefix)?, fields.read("dst_ipv6", Field::prefix)?];
    let ipv6 = match prefixes {
        [Some(client), Some(server)] => Some([client, server]),
        [None, None] => None,
        [Some(_), None] => return conflict("src_ipv6", "dst_ipv6"),
        [None, Some(_)] => return conflict("dst_ipv6", "src_ipv6"),
    };
    if let Some(field) = fields.get("src_ipv6") {
        let text = "frames are sent as IPv6; TRex does so with --ipv6 only".to_owned();
        notes.push(Note { place: field.place(), text });
    }
    let vlans = fields.read("vlan", |field| read_vlans(field, notes))?.flatten();
    let mac_override = fields.read("mac_override_by_ip", read_mac_override)?.unwrap_or_default();
    Ok(Settings { shortest_gap, vlans, mac_override, ipv6 })
}

/// Adds a note if `cap_ipg_min` is given and no template has the gaps of its capture.
fn note_unused_gaps(
    fields: &Fields<'_>,
    settings: &Settings,
    templates: &[Template],
    notes: &mut Vec<Note>,
) {
    let is_used = templates.iter().any(|template| template.timing == Timing::Capture);
    if let (Some(field), Some(_), false) =
        (fields.get("cap_ipg_min"), settings.shortest_gap, is_used)
    {
        let text = "cap_ipg_min has no effect: no template has cap_ipg".to_owned();
        notes.push(Note { place: field.place(), text });
    }
}

fn read_vlans(field: Field<'_>, notes: &mut Vec<Note>) -> Result<Option<[u16; 2]>, ProfileError> {
    let fields = field.map(&keys::VLAN, notes)?;
    let is_enabled = fields.need("enable")?.boolean()?;
    let id = |key| {
        let id = fields.need(key)?.integer(0..=u64::from(wire::vlan::MAX_ID))?;
        Ok(id as u16)
    };
    if is_enabled { Ok(Some([id("vlan0")?, id("vlan1")?])) } else { Ok(None) }
}

fn read_mac_override(field: Field<'_>) -> Result<MacOverride, ProfileError> {
    // Older profiles, written when TRex had two modes, have a boolean here.
    match field.word(&["0", "1", "2", "false", "true"])? {
        1 | 4 => Ok(MacOverride::Client),
        2 => Ok(MacOverride::All),
        _ => Ok(MacOverride::None),
    }
}

fn read_template(
    fields: &Fields<'_>,
    [clients, servers]: [&[Pool]; 2],
    uses_capture_gaps: bool,
    notes: &mut Vec<Note>,
) -> Result<Template, ProfileError> {
    let name = fields.need("name")?;
    let gap = |key| Ok(fields.read(key, read_micros)?.unwrap_or(DEFAULT_GAP_NS));
    let fixed = Timing::Fixed { ipg_ns: gap("ipg")?, rtt_ns: gap("rtt")? };
    let own = fields.read("cap_ipg", Field::boolean)?.unwrap_or(uses_capture_gaps);
    let limit = fields.get("limit");
    let pool = |key, pools| {
        let pool = fields.read(key, |field| find_pool(field, pools))?;
        Ok(pool.unwrap_or(0))
    };
    let count = |number: u64| number as u32;
    Ok(Template {
        place: name.place(),
        limit_place: limit.map(|field| field.place()),
        name: name.text()?.to_owned(),
        cps: fields.need("cps")?.decimal(Decimal::LEAST..=Decimal::MAX)?,
        timing: if own { Timing::Capture } else { fixed },
        burst: fields.read("w", |field| field.integer(1..=65535))?.map_or(1, count),
        limit: limit.map(|field| field.integer(1..=u64::from(u32::MAX))).transpose()?.map(count),
        client_pool: pool("client_pool", clients)?,
        server_pool: pool("server_pool", servers)?,
        server: read_server(fields, notes)?,
        keeps_src_port: fields.read("keep_src_port", Field::boolean)?.unwrap_or(false),
        has_side_flows: read_plugin(fields, notes)?,
        starts_at_server: fields
            .read("first_from", |field| field.word(&["client", "server"]))?
            .is_some_and(|word| word == 1),
    })
}

/// TRex's default for `ipg` and `rtt`.
const DEFAULT_GAP_NS: u64 = 10_000_000;

fn find_pool(field: Field<'_>, pools: &[Pool]) -> Result<usize, ProfileError> {
    let name = field.text()?;
    if name == "default" {
        return Ok(0);
    }
    let found = pools.iter().position(|pool| pool.name == name);
    found.ok_or_else(|| {
        let distance = |pool: &&Pool| strsim::osa_distance(name, &pool.name);
        let nearest = pools.iter().min_by_key(distance).map_or("default", |pool| &pool.name);
        field.refuse(format!("the name of a pool of the generator; did you mean {nearest}?"))
    })
}

/// Reads `server_addr`, which has an effect only with `one_app_server: true`, as in TRex.
fn read_server(
    fields: &Fields<'_>,
    notes: &mut Vec<Note>,
) -> Result<Option<Ipv4Addr>, ProfileError> {
    let is_single = fields.read("one_app_server", Field::boolean)?.unwrap_or(false);
    match (fields.read("server_addr", Field::address)?, fields.get("one_app_server")) {
        (Some(server), _) if is_single => Ok(Some(server)),
        (None, Some(field)) if is_single => {
            let reason = "it needs server_addr; add the address of the server".to_owned();
            Err(ProfileError::Conflict { place: field.place(), key: "one_app_server", reason })
        }
        (Some(_), _) => {
            let place = fields.need("server_addr")?.place();
            let text = "server_addr is ignored: one_app_server is not true".to_owned();
            notes.push(Note { place, text });
            Ok(None)
        }
        (None, _) => Ok(None),
    }
}

/// Reads `plugin_id`. Returns true if the capture may hold additional flows.
///
/// Payloads stay as captured. So additional flows (RTP beside RTSP or SIP) keep the ports of the
/// capture, which those payloads name.
fn read_plugin(fields: &Fields<'_>, notes: &mut Vec<Note>) -> Result<bool, ProfileError> {
    let Some(field) = fields.get("plugin_id") else { return Ok(false) };
    let plugin = field.integer(0..=255)?;
    let refuse = |reason| {
        let key = format!("plugin_id {plugin}");
        Err(ProfileError::Unsupported { place: field.place(), key, reason })
    };
    match plugin {
        0 => return Ok(false),
        1 | 2 => {}
        3 => return refuse("dyn_pyload rewrites payloads"),
        4 => return refuse("its HTTP plugin rewrites payloads"),
        5 => return refuse("its DHCP plugin rewrites payloads"),
        _ => return refuse("TRex has no such plugin"),
    }
    if fields.get("limit").is_some() {
        let reason = "it excludes limit; remove one of them".to_owned();
        return Err(ProfileError::Conflict { place: field.place(), key: "plugin_id", reason });
    }
    let text = format!(
        "plugin_id {plugin}: payloads are sent as captured, and additional flows of the capture \
         keep its ports; addresses in payloads are not rewritten"
    );
    notes.push(Note { place: field.place(), text });
    Ok(true)
}
