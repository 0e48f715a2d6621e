// SPDX-License-Identifier: BSD-3-Clause
//! Writes captures in the classic pcap format: Ethernet, nanosecond times, byte order of the
//! machine.

use std::io::{self, Write};

/// Writes frames as a capture into any [`Write`], without a buffer of its own.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// A write to `out` has failed.
    pub fn new(mut out: W) -> io::Result<Self> {
        const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
        const VERSION_2_4: u32 =
            if cfg!(target_endian = "little") { 4 << 16 | 2 } else { 2 << 16 | 4 };
        const SNAPLEN: u32 = 0xffff;
        const ETHERNET: u32 = 1;
        for word in [MAGIC_NANOSECONDS, VERSION_2_4, 0, 0, SNAPLEN, ETHERNET] {
            out.write_all(&word.to_ne_bytes())?;
        }
        Ok(Self { out })
    }

    /// Writes one frame with its time, in nanoseconds after the Unix epoch.
    ///
    /// # Errors
    /// A write to `out` has failed.
    pub fn write(&mut self, time_ns: u64, frame: &[u8]) -> io::Result<()> {
        const SECOND: u64 = 1_000_000_000;
        let len = frame.len() as u32;
        let mut header = [0; 16];
        for (bytes, word) in header.chunks_exact_mut(4).zip([
            (time_ns / SECOND) as u32,
            (time_ns % SECOND) as u32,
            len,
            len,
        ]) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        self.out.write_all(&header)?;
        self.out.write_all(frame)
    }

    /// Flushes `out` and returns it.
    ///
    /// # Errors
    /// A write to `out` has failed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_byte_by_byte() {
        let mut writer = PcapWriter::new(Vec::new()).unwrap();
        writer.write(1_000_000_002, b"frame").unwrap();
        let bytes = writer.finish().unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap());
        assert_eq!((word(0), half(4), half(6)), (0xa1b2_3c4d, 2, 4));
        assert_eq!((word(8), word(12), word(16), word(20)), (0, 0, 65535, 1));
        assert_eq!((word(24), word(28), word(32), word(36)), (1, 2, 5, 5));
        assert_eq!(&bytes[40..], b"frame");
    }
}
