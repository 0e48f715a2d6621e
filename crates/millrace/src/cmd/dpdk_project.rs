// SPDX-License-Identifier: BSD-3-Clause
//! Translates the command line of dpdk-project into that of `gen` or `reflect`. Its forms are
//! `millrace gen dpdk-project EAL-OPTIONS -- sendrecv ...` and `... -- reflect ...`.
//!
//! EAL options that choose cpus and devices are translated. For each other one, standard error says
//! why it has no effect.

mod eal;

use crate::ports::by_mac;
use clap::{CommandFactory, Parser, ValueEnum};
use doctor::host::format_cpus;
use eal::Eal;
use report::output::write_line;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddrV4;

/// The word after `gen` or `reflect` that switches to this command line.
const WORD: &str = "dpdk-project";
/// Bytes of a frame without its payload: Ethernet, IPv4 and UDP headers, and FCS.
const HEADERS: u32 = 14 + 20 + 8 + 4;
/// Bytes of the shortest frame, with FCS.
const FRAME_MIN: u32 = 64;

/// Options of dpdk-project, after `--`.
#[derive(Parser, Debug)]
#[command(name = "millrace gen dpdk-project [EAL OPTIONS] --", disable_version_flag = true)]
struct Args {
    /// Send and receive, or send packets back
    #[arg(value_enum)]
    mode: Mode,
    /// Ports: MAC addresses, or names as `millrace gen` takes them
    #[arg(short = 'p', long = "ports", value_name = "MAC", num_args = 1..=2, value_delimiter = ',')]
    ports: Vec<String>,
    /// Receive queues
    #[arg(short = 'r', long = "rxq", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    rx_queues: u16,
    /// Transmit queues
    #[arg(short = 't', long = "txq", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    tx_queues: u16,
    /// Packets of a burst: passed to the port in one call, and with -R also due at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128))]
    burst_size: Option<u16>,
    /// File of intervals (CSV)
    #[arg(short = 's', long, value_name = "FILE")]
    stats_file: Option<String>,
    /// Length of an interval in milliseconds
    #[arg(short = 'i', long, value_name = "MS", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(50..))]
    stats_interval_ms: u32,
    /// No effect
    #[arg(long, value_name = "S")]
    stats_evict_interval_secs: Option<u32>,
    /// Time after sending in which a packet must arrive to count, in seconds
    #[arg(long, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    stats_evict_threshold_secs: u32,
    /// Bytes of UDP payload
    #[arg(long, value_name = "BYTES", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(16..=9170))]
    packet_size: u32,
    /// Source address
    #[arg(long, value_name = "ADDR")]
    src: Option<std::net::Ipv4Addr>,
    /// Source ports: A + index mod (B - A + 1)
    #[arg(long, value_name = "A-B", default_value = "10000-11000", value_parser = port_range)]
    src_port_range: String,
    /// Destination address and port
    #[arg(long, value_name = "IP:PORT", value_parser = destination)]
    dest: Option<SocketAddrV4>,
    /// Destination MAC address
    #[arg(long, value_name = "MAC", value_parser = mac)]
    dest_mac: Option<String>,
    /// Seed of the payload
    #[arg(long, value_name = "N", default_value_t = 4_107_683_144_946_382_073)]
    seed: u64,
    /// Packets of an interval, paced evenly over it; 0: as many as the port takes
    #[arg(short = 'R', long = "rate-limit", value_name = "N", default_value_t = 0)]
    rate_limit: u64,
    /// Content of the payload
    #[arg(long, value_enum, default_value_t = Payload::Stamp)]
    payload: Payload,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Sendrecv,
    Reflect,
}

/// Content of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Payload {
    /// Stamp of Millrace
    Stamp,
    /// Index, time and filler of dpdk-project
    DpdkProject,
}

/// A command line of Millrace, and notes for the user.
#[derive(Debug, Default)]
struct Translation {
    words: Vec<String>,
    notes: Vec<String>,
}

fn port_range(text: &str) -> Result<String, String> {
    let parse = || {
        let (first, last) = text.split_once('-')?;
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
    };
    match parse() {
        Some((first, last)) if first == last => Ok(first.to_string()),
        Some((first, last)) if first < last => Ok(format!("{first}-{last}")),
        _ => Err("must be A-B, ports from 0 to 65535, A first".to_owned()),
    }
}

fn destination(text: &str) -> Result<SocketAddrV4, String> {
    text.parse().map_err(|_| "must be IP:PORT, such as 10.0.0.2:4000".to_owned())
}

fn mac(text: &str) -> Result<String, String> {
    let mac = by_mac::parse(text).ok_or("must be a MAC address, such as aa:bb:cc:dd:ee:ff")?;
    Ok(by_mac::format(mac))
}

/// Translates a command line of dpdk-project into one of Millrace, and prints it to standard error.
/// Returns any other command line unchanged. Ends the process if the command line is wrong, and
/// after `--help`.
pub(crate) fn translate(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.collect();
    let is_ours = matches!(&args[..], [_, command, word, ..]
        if (command == "gen" || command == "reflect") && word == WORD);
    if !is_ours {
        return args;
    }
    let words: Vec<String> =
        args[3..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Translation { words, notes } = translation(&words).unwrap_or_else(|error| error.exit());
    for note in notes {
        write_line(io::stderr(), format_args!("millrace: {note}"));
    }
    let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
    write_line(
        io::stderr(),
        format_args!("millrace: translated into: millrace {}", quoted.join(" ")),
    );
    args.into_iter().take(1).chain(words.into_iter().map(OsString::from)).collect()
}

/// Translates the words after `dpdk-project`.
fn translation(words: &[String]) -> Result<Translation, clap::Error> {
    let cut = words.iter().position(|word| word == "--");
    let (of_eal, own) = match cut {
        Some(cut) => (&words[..cut], &words[cut + 1..]),
        // Without `--`, `--help` shows the options of dpdk-project, not those of EAL.
        None if words.iter().any(|word| word == "--help" || word == "-h") => (&words[..0], words),
        None => {
            let message = "write the options of EAL, then --, then sendrecv or reflect";
            return Err(
                Args::command().error(clap::error::ErrorKind::MissingRequiredArgument, message)
            );
        }
    };
    let eal = Eal::parse(of_eal)?;
    let name = std::iter::once(String::new());
    let args = Args::try_parse_from(name.chain(own.iter().cloned()))?;
    let ports = ports(&args, &eal)?;
    let mut out = Translation { words: Vec::new(), notes: eal.notes.clone() };
    if ports.is_replaced {
        out.notes.push(format!("-p {} is replaced by {}", args.ports.join(","), ports.names));
    }
    match args.mode {
        Mode::Sendrecv => sendrecv(&args, &eal, &ports.names, &mut out),
        Mode::Reflect => reflect(&args, &eal, &ports.names, &mut out),
    }
    Ok(out)
}

/// The ports of Millrace, `A` or `A,B`.
struct Ports {
    names: String,
    /// True if a device of EAL's options replaces a MAC address.
    is_replaced: bool,
}

/// Returns the ports. If there are options `--vdev` or `-a`, DPDK has only their devices, whose MAC
/// addresses are unknown before they are opened.
fn ports(args: &Args, eal: &Eal) -> Result<Ports, clap::Error> {
    let refuse =
        |message: String| Args::command().error(clap::error::ErrorKind::ValueValidation, message);
    if args.ports.is_empty() {
        return match &eal.devices[..] {
            [] => Err(refuse("name the port: -p MAC".to_owned())),
            [_] | [_, _] => Ok(Ports { names: eal.devices.join(","), is_replaced: false }),
            all => Err(refuse(format!("name the ports: -p, of {}", all.join(" and ")))),
        };
    }
    let is_mac = |port: &String| by_mac::parse(port).is_some();
    if eal.devices.is_empty() || !args.ports.iter().any(is_mac) {
        let name = |port: &String| if is_mac(port) { format!("mac={port}") } else { port.clone() };
        let names: Vec<_> = args.ports.iter().map(name).collect();
        return Ok(Ports { names: names.join(","), is_replaced: false });
    }
    if args.ports.len() == eal.devices.len() && args.ports.len() == 1 {
        return Ok(Ports { names: eal.devices[0].clone(), is_replaced: true });
    }
    Err(refuse(format!(
        "the MAC addresses of {} are unknown before they are opened: name the devices with -p",
        eal.devices.join(" and ")
    )))
}

fn sendrecv(args: &Args, eal: &Eal, ports: &str, out: &mut Translation) {
    let (senders, receivers) = (args.tx_queues, args.rx_queues);
    out.words = ["gen", ports, "--verify"].map(str::to_owned).to_vec();
    let cpus = eal.cpus_of(usize::from(receivers), usize::from(senders), &mut out.notes);
    let mut add = |option: &str, value: String| out.words.extend([option.to_owned(), value]);
    if !cpus.is_empty() {
        add("--cpus", format_cpus(&cpus));
    }
    if (senders, receivers) != (1, 1) {
        add("--senders", senders.to_string());
        add("--receivers", receivers.to_string());
    }
    add("--late", args.stats_evict_threshold_secs.to_string());
    add("--seed", args.seed.to_string());
    if args.payload == Payload::DpdkProject {
        add("--payload", "dpdk-project".to_owned());
    }
    args.tx_burst(&mut out.notes).into_iter().for_each(|burst| add("--tx-burst", burst));
    if let Some(file) = &args.stats_file {
        add("--csv", file.clone());
        add("--interval", (f64::from(args.stats_interval_ms) / 1e3).to_string());
    }
    add("--stream", args.stream());
    if args.stats_file.is_some() && args.stats_interval_ms < 1000 {
        out.words.push("--quiet".to_owned());
    }
    if args.packet_size + HEADERS < FRAME_MIN {
        let note = "the payload has 18 bytes: the shortest frame has 64";
        out.notes.push(format!("--packet-size {}: {note}", args.packet_size));
    }
    if args.stats_evict_interval_secs.is_some() {
        let note = "--stats-evict-interval-secs has no effect: intervals are written as they end";
        out.notes.push(note.to_owned());
    }
}

impl Args {
    /// Returns the value of `--stream`.
    fn stream(&self) -> String {
        let size = (self.packet_size + HEADERS).max(FRAME_MIN);
        let mut keys = vec![format!("size={size}"), format!("rate={}", self.rate())];
        if let Some(burst) = self.burst_size.filter(|_| self.rate_limit > 0) {
            keys.push(format!("burst={burst}"));
        }
        keys.extend(self.src.map(|src| format!("src={src}")));
        keys.push(format!("sport={}", self.src_port_range));
        keys.extend(self.dest.map(|it| format!("dst={} dport={}", it.ip(), it.port())));
        keys.extend(self.dest_mac.as_ref().map(|mac| format!("dst_mac={mac}")));
        keys.join(" ")
    }

    /// Returns the value of `--tx-burst`, if `--burst-size` is given. Adds a note if it is more
    /// than a burst holds.
    fn tx_burst(&self, notes: &mut Vec<String>) -> Option<String> {
        let size = usize::from(self.burst_size?);
        if size > dpdk::BURST_MAX {
            let note = format!("the port gets at most {} packets at once", dpdk::BURST_MAX);
            notes.push(format!("--burst-size {size}: {note}"));
        }
        Some(size.min(dpdk::BURST_MAX).to_string())
    }

    fn rate(&self) -> String {
        match self.rate_limit {
            0 => "max".to_owned(),
            packets => {
                let rate = packets as f64 * 1e3 / f64::from(self.stats_interval_ms);
                format!("{rate}pps")
            }
        }
    }
}

fn reflect(args: &Args, eal: &Eal, ports: &str, out: &mut Translation) {
    out.words = ["reflect", ports].map(str::to_owned).to_vec();
    let queues = args.rx_queues.max(args.tx_queues);
    if queues > 1 {
        out.words.extend(["--queues".to_owned(), queues.to_string()]);
    }
    let cpus = eal.cpus_of(queues.into(), 0, &mut out.notes);
    if !cpus.is_empty() {
        out.words.extend(["--cpus".to_owned(), format_cpus(&cpus)]);
    }
    let burst = args.tx_burst(&mut out.notes);
    out.words.extend(burst.into_iter().flat_map(|burst| ["--tx-burst".to_owned(), burst]));
    if args.rx_queues != args.tx_queues {
        let note = "the reflector has equally many receive and transmit queues";
        out.notes.push(format!("-r {} -t {}: {note}", args.rx_queues, args.tx_queues));
    }
    if args.stats_file.is_some() {
        out.notes.push("-s has no effect: --json FILE has the counters of a reflector".to_owned());
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests;
