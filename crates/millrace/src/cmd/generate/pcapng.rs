// SPDX-License-Identifier: BSD-3-Clause
//! Writes a sample of the frames of a run to a pcapng file, for Wireshark and tshark.

use anyhow::{Context, bail};
use dpdk::Port;
use generator::{Clock, Tap, TapFeed, tap};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a pcapng file begins: the type of its section header block.
const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Bytes of the longest frame.
const SNAP_LEN: u32 = 9216;
/// Option `if_tsresol`: times are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// Option `epb_flags`: the direction of a packet.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The options for a capture of the run.
#[derive(clap::Args)]
pub(super) struct PcapngArgs {
    /// Copy a sample of the packets sent and received to FILE, as pcapng
    ///
    /// FILE must be new, empty or a pcapng file. Packets count as sent when they are offered to the
    /// port.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Copy every Nth packet of each queue; by default every one, as far as the disk keeps up
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pcapng",
          value_parser = clap::value_parser!(u64).range(1..))]
    pcapng_every: u64,
}

/// A capture that is being written.
pub(super) struct PcapngFile {
    writer: PcapNgWriter<BufWriter<File>>,
    every: u64,
    clock: Clock,
    /// Time since the epoch at which the clock began.
    begun: Duration,
    feeds: Vec<Feed>,
    name: String,
}

struct Feed {
    port: u32,
    direction: u32,
    feed: TapFeed,
}

impl PcapngArgs {
    /// True if there is to be a capture.
    pub(super) fn is_given(&self) -> bool {
        self.pcapng.is_some()
    }

    /// Opens the file, before ports are; `None` if none is wanted.
    pub(super) fn open(&self) -> anyhow::Result<Option<(File, &Path)>> {
        let Some(path) = self.pcapng.as_deref() else { return Ok(None) };
        let name = path.display();
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.with_context(|| format!("cannot create {name}"))?;
        if file.metadata().is_ok_and(|found| found.is_file()) {
            let mut begin = Vec::new();
            let read = (&file).take(MAGIC.len() as u64).read_to_end(&mut begin);
            if read.is_err() || !(begin.is_empty() || begin == MAGIC) {
                bail!("{name} is no pcapng file, so it is left as it is: name another one");
            }
            file.rewind().and_then(|()| file.set_len(0))?;
        }
        Ok(Some((file, path)))
    }

    /// Begins the capture of these ports. The clock begins after `delay`.
    pub(super) fn begin(
        &self,
        (file, path): (File, &Path),
        ports: &[Port],
        clock: Clock,
        delay: Duration,
    ) -> anyhow::Result<PcapngFile> {
        let name = path.display().to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = now + delay;
        let mut writer = PcapNgWriter::new(BufWriter::new(file))?;
        for port in ports {
            let port = Cow::Owned(port.info().devargs.clone());
            let options = vec![
                InterfaceDescriptionOption::IfName(port),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let (linktype, snaplen) = (DataLink::ETHERNET, SNAP_LEN);
            writer.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen, options })?;
        }
        let every = self.pcapng_every;
        Ok(PcapngFile { writer, every, clock, begun, feeds: Vec::new(), name })
    }
}

impl PcapngFile {
    /// Makes a tap for a queue by which port number `port` sends, or receives.
    pub(super) fn tap(&mut self, port: usize, is_sent: bool) -> Tap {
        let (tap, feed) = tap(self.every, self.clock);
        let direction = if is_sent { OUTBOUND } else { INBOUND };
        self.feeds.push(Feed { port: port as u32, direction, feed });
        tap
    }

    /// Writes the frames that have been copied.
    pub(super) fn write(&mut self) -> anyhow::Result<()> {
        for Feed { port, direction, feed } in &mut self.feeds {
            let written = feed.take_all(|time_ns, frame| {
                let block = EnhancedPacketBlock {
                    interface_id: *port,
                    timestamp: self.begun + Duration::from_nanos(time_ns),
                    original_len: frame.len() as u32,
                    data: Cow::Borrowed(frame),
                    options: vec![EnhancedPacketOption::Flags(*direction)],
                };
                self.writer.write_pcapng_block(block).map(drop)
            });
            written.with_context(|| format!("cannot write {}", self.name))?;
        }
        Ok(())
    }

    /// Ends the file; returns how many copies found no room.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        self.write()?;
        self.writer.get_mut().flush().with_context(|| format!("cannot write {}", self.name))?;
        Ok(self.feeds.iter().map(|feed| feed.feed.missed()).sum())
    }
}
