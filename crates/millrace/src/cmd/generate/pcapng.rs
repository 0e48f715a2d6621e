// SPDX-License-Identifier: BSD-3-Clause
//! Writes a sample of the frames of a run to a pcapng file, for Wireshark and tshark.

use anyhow::Context;
use dpdk::Port;
use generator::{Clock, Tap, TapFeed, tap};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError, PcapResult};
use report::output::{Kind, LockedFile, refuse_dash};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// First bytes of a pcapng file: the type of its section header block.
const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Offset of the file's first option: code and length, two bytes each, then the text.
const FIRST_OPTION: usize = 24;
/// Option `shb_userappl`, in either byte order: the program that wrote the file.
const USER_APPLICATION: [[u8; 2]; 2] = [4_u16.to_le_bytes(), 4_u16.to_be_bytes()];
/// First characters of that option's text in files written by Millrace.
const PROGRAM: &str = "Millrace";
/// Length of the longest frame, in bytes.
const SNAP_LEN: u32 = 9216;
/// Option `if_tsresol`: times are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// Option `epb_flags`: the direction of a packet.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Options for a capture of the run.
#[derive(clap::Args)]
pub(super) struct PcapngArgs {
    /// Copy a sample of the packets sent and received to FILE, as pcapng
    ///
    /// FILE must be new, empty or written by --pcapng before. Packets count as sent when they are
    /// offered to the port.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Copy every Nth packet of each queue; by default every packet, as far as the disk keeps up
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pcapng",
          value_parser = clap::value_parser!(u64).range(1..))]
    pcapng_every: u64,
}

/// The capture file of a run.
pub(super) struct PcapngFile {
    file: LockedFile,
    /// `None` before the run starts.
    writer: Option<PcapNgWriter<BufWriter<File>>>,
    /// Names of the ports.
    ports: Vec<String>,
    every: u64,
    clock: Clock,
    /// Time since the epoch at which the clock begins.
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
    /// True if `--pcapng` is given.
    pub(super) fn is_given(&self) -> bool {
        self.pcapng.is_some()
    }

    /// Returns the path of `--pcapng`.
    pub(super) fn path(&self) -> Option<&Path> {
        self.pcapng.as_deref()
    }

    /// Opens the file; `None` without `--pcapng`. The file keeps its contents until the run starts.
    pub(super) fn open(&self) -> anyhow::Result<Option<LockedFile>> {
        let path = self.path();
        refuse_dash("--pcapng", path)?;
        path.map(|path| LockedFile::open(path, Kind::public("capture"), is_ours)).transpose()
    }

    /// Prepares the capture of these ports. The clock begins after `delay`, counted from now.
    pub(super) fn prepare(
        &self,
        file: LockedFile,
        ports: &[Port],
        clock: Clock,
        delay: Duration,
    ) -> PcapngFile {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        PcapngFile {
            file,
            writer: None,
            ports: ports.iter().map(|port| port.info().devargs.clone()).collect(),
            every: self.pcapng_every,
            clock,
            begun: now + delay,
            feeds: Vec::new(),
            name: self.path().map(|path| path.display().to_string()).unwrap_or_default(),
        }
    }
}

/// True if `head` is the beginning of a capture that Millrace has written.
fn is_ours(head: &[u8]) -> bool {
    let Some((section, option)) = head.split_at_checked(FIRST_OPTION) else { return false };
    let Some((option, text)) = option.split_at_checked(4) else { return false };
    let is_program = USER_APPLICATION.iter().any(|code| option.starts_with(code));
    section.starts_with(&MAGIC) && is_program && text.starts_with(PROGRAM.as_bytes())
}

/// Returns the I/O error of an error of `pcap_file`, whose message says "reading" also for errors
/// of writing.
fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// Writes the blocks before the packets: the section header and the interfaces.
fn write_head<W: Write>(out: W, ports: &[String]) -> PcapResult<PcapNgWriter<W>> {
    let program = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    let options = vec![SectionHeaderOption::UserApplication(Cow::Owned(program))];
    let section = SectionHeaderBlock { options, ..SectionHeaderBlock::default() };
    let mut writer = PcapNgWriter::with_section_header(out, section)?;
    for port in ports {
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(port.clone())),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let (linktype, snaplen) = (DataLink::ETHERNET, SNAP_LEN);
        writer.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen, options })?;
    }
    Ok(writer)
}

impl PcapngFile {
    /// Makes a tap for a queue by which port number `port` sends, or receives.
    pub(super) fn tap(&mut self, port: usize, is_sent: bool) -> Tap {
        let (tap, feed) = tap(self.every, self.clock);
        let direction = if is_sent { OUTBOUND } else { INBOUND };
        self.feeds.push(Feed { port: port as u32, direction, feed });
        tap
    }

    /// Empties the file; frames are written from now on.
    ///
    /// # Errors
    /// If the file cannot be emptied or written.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let writing = || format!("cannot write {}", self.name);
        let file = self.file.begin().with_context(writing)?;
        let head = write_head(BufWriter::new(file), &self.ports).map_err(io_error);
        self.writer = Some(head.with_context(writing)?);
        Ok(())
    }

    /// Writes the frames copied so far, once the run has started.
    ///
    /// # Errors
    /// If writing fails.
    pub(super) fn write(&mut self) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        for Feed { port, direction, feed } in &mut self.feeds {
            let written = feed.take_all(|time_ns, frame| {
                let block = EnhancedPacketBlock {
                    interface_id: *port,
                    timestamp: self.begun + Duration::from_nanos(time_ns),
                    original_len: frame.len() as u32,
                    data: Cow::Borrowed(frame),
                    options: vec![EnhancedPacketOption::Flags(*direction)],
                };
                writer.write_pcapng_block(block).map(drop)
            });
            written.map_err(io_error).with_context(|| format!("cannot write {}", self.name))?;
        }
        Ok(())
    }

    /// Writes the remaining frames; returns the number of frames that were not copied for lack of
    /// room.
    ///
    /// # Errors
    /// If writing fails.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        self.write()?;
        if let Some(writer) = &mut self.writer {
            writer.get_mut().flush().with_context(|| format!("cannot write {}", self.name))?;
        }
        Ok(self.feeds.iter().map(|feed| feed.feed.missed()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_captures_of_this_program_are_overwritten() {
        let mut ours = Vec::new();
        write_head(&mut ours, &["eth1".to_owned()]).unwrap();
        assert!(is_ours(&ours));
        // Files of other programs begin without the option, or with another name.
        let theirs = PcapNgWriter::new(Vec::new()).unwrap().into_inner();
        assert!(theirs.starts_with(&MAGIC) && !is_ours(&theirs));
        let mut dumpcap = ours.clone();
        dumpcap[FIRST_OPTION + 4..][..8].copy_from_slice(b"Dumpcap ");
        assert!(!is_ours(&dumpcap));
        for len in 0..FIRST_OPTION + 4 + PROGRAM.len() {
            assert!(!is_ours(&ours[..len]), "{len}");
        }
    }
}
