// SPDX-License-Identifier: BSD-3-Clause
//! Writes to a pipe or terminal whose reader may have stopped, and waits a second at most.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes that a pipe takes in one write as soon as it has any room.
const PIECE: usize = 4096;

/// A file, pipe or terminal; writing fails if its reader takes nothing for a second.
pub struct Patient(File);

impl Patient {
    pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }

    pub(crate) fn stdout() -> io::Result<Self> {
        Ok(Self(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !is_ready(&self.0, Self::PATIENCE) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "its reader took nothing for 1 s"));
        }
        self.0.write(&bytes[..bytes.len().min(PIECE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True if `to` takes bytes, or fails, within this time. Regular files are always ready.
pub fn is_ready(to: impl AsFd, within: Duration) -> bool {
    let (fd, within) = (to.as_fd(), Timespec::try_from(within).ok());
    poll(&mut [PollFd::new(&fd, PollFlags::OUT)], within.as_ref()) != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn nobody_is_waited_for_who_does_not_read() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        while (&writer).write(&[0; PIECE]).is_ok() {}
        writer.set_nonblocking(false).unwrap();
        assert!(!is_ready(&writer, Duration::ZERO));
        let mut patient = Patient::new(File::from(std::os::fd::OwnedFd::from(writer)));
        let told = patient.write(b"a line\n").unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::TimedOut);
        let wait = std::thread::spawn(move || patient.write_all(b"a line\n"));
        let mut taken = vec![0; 1 << 20];
        // The end of the writer closes the other side.
        while reader.read(&mut taken).unwrap() > 0 {}
        wait.join().unwrap().unwrap();
    }
}
