// SPDX-License-Identifier: BSD-3-Clause
//! Limits the total time of reads and writes of a stream, however slowly bytes arrive.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);

/// Connects within `time`, with at least one attempt. A blocking connect would wait forever if the
/// queue of the socket is full and its owner accepts no client. In that case the error is
/// [`io::ErrorKind::WouldBlock`].
pub(super) fn connect_within(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let (address, until) = (SocketAddrUnix::new(path)?, Instant::now() + time);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    while let Err(error) = connect(&socket, &address).map_err(io::Error::from) {
        if error.kind() != io::ErrorKind::WouldBlock || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

pub(super) struct Deadline<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(stream: &'a UnixStream, time: Duration) -> Self {
        Self { stream, until: Instant::now() + time }
    }

    /// Sets a new deadline, `time` from now.
    pub(super) fn renew(&mut self, time: Duration) {
        self.until = Instant::now() + time;
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Deadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Deadline<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
