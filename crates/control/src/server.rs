// SPDX-License-Identifier: BSD-3-Clause
//! Serves the control socket of a running instance: who may query it, how many clients at a time,
//! and for how long.
//!
//! One thread waits for clients. Each client has its own thread with its own deadline, so a slow
//! client delays no other.

use super::deadline::Deadline;
use super::{Failure, Line, REQUEST_MAX, Request, read_request, user};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use rustix::net::sockopt::socket_peercred;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most clients that are served at a time.
pub(super) const CLIENTS_MAX: usize = 8;
/// Time in which a request must arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which the client must take the answer.
pub(super) const TAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that clients have to take a last message when the socket closes.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of the path of a socket: those of an address (unix(7)), without the zero at its end
/// and what [`hidden`] adds with the longest process number, 4194304.
const PATH_MAX: usize = 108 - 1 - "..4194304".len();

/// Answers requests: a run, or a function.
pub trait Answerer: Send + Sync {
    /// Writes the lines of the answer to `request` to `taker`.
    ///
    /// # Errors
    ///
    /// If there is no answer, or the client is gone. [`AnswerError::Failure`] is reported to the
    /// client.
    fn answer(&self, request: &Request, taker: &mut LineWriter) -> Result<(), AnswerError>;
}

impl<F> Answerer for F
where
    F: Fn(&Request, &mut LineWriter) -> Result<(), AnswerError> + Send + Sync,
{
    fn answer(&self, request: &Request, taker: &mut LineWriter) -> Result<(), AnswerError> {
        self(request, taker)
    }
}

/// Why an answer breaks off.
pub enum AnswerError {
    /// An error that is reported to the client.
    Failure(Failure),
    /// The client is gone, or too slow.
    Gone,
}

impl From<Failure> for AnswerError {
    fn from(failure: Failure) -> Self {
        AnswerError::Failure(failure)
    }
}

impl From<io::Error> for AnswerError {
    fn from(_: io::Error) -> Self {
        AnswerError::Gone
    }
}

/// Writes the lines of an answer to a client.
pub struct LineWriter<'a> {
    stream: &'a UnixStream,
    out: BufWriter<Deadline<'a>>,
    /// True while the client's time to take lines is running.
    is_timed: bool,
}

impl<'a> LineWriter<'a> {
    fn new(stream: &'a UnixStream) -> Self {
        let timed = Deadline::new(stream, TAKE_TIMEOUT);
        Self { stream, out: BufWriter::with_capacity(64 << 10, timed), is_timed: false }
    }

    /// Writes a line.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        if !self.is_timed {
            self.out.get_mut().renew(TAKE_TIMEOUT);
            self.is_timed = true;
        }
        write_line(&mut self.out, line)
    }

    /// True if the client has disconnected. A client that has only shut down its sending side is
    /// still connected.
    pub fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(self.stream, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut fds, Some(&at_once));
        polled.is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Sends all lines so far, and waits until the socket has taken them. Later lines have their
    /// own time limit.
    pub fn flush(&mut self) -> io::Result<()> {
        self.is_timed = false;
        self.out.flush()
    }
}

/// An open control socket; dropping this removes it.
pub struct Server {
    path: PathBuf,
    /// Device and inode number of the socket.
    file: (u64, u64),
    listener: Arc<UnixListener>,
    stop: Arc<AtomicBool>,
    /// The thread that accepts clients; `None` once it was joined.
    thread: Option<JoinHandle<()>>,
}

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another instance listens there.
    #[error("{0}: another instance uses this socket; give this one another path (--socket)")]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{0}: exists and is not a socket; remove it, or choose another path (--socket)")]
    NoSocket(PathBuf),
    /// The path does not fit the address of a socket.
    #[error(
        "{path}: the path of a socket may have at most {PATH_MAX} bytes, but this one has {}; \
         choose a shorter one (--socket)",
        .path.as_os_str().len()
    )]
    TooLong {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The folder of the socket cannot be used.
    #[error("{path}: the folder {folder}: {error}; create it, or choose another path (--socket)")]
    NoFolder {
        /// Path of the socket.
        path: PathBuf,
        /// Path of the folder.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system's error.
    #[error("{path}: {error}")]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl Server {
    /// Opens a socket that only this user and root can reach. Replaces a socket that no process
    /// listens at.
    pub fn open(path: &Path, answerer: Arc<dyn Answerer>) -> Result<Self, OpenError> {
        check_path(path)?;
        let io = |error| OpenError::Io { path: path.to_owned(), error };
        let is_socket = fs::symlink_metadata(path).map(|found| found.file_type().is_socket());
        match (UnixStream::connect(path), is_socket) {
            (Ok(_), _) => return Err(OpenError::InUse(path.to_owned())),
            (Err(_), Ok(false)) => return Err(OpenError::NoSocket(path.to_owned())),
            // A process listens there, but for other users or with another type of socket.
            (Err(error), Ok(true)) if error.kind() != io::ErrorKind::ConnectionRefused => {
                return Err(io(error));
            }
            _ => {}
        }
        // The socket gets its name only after its mode excludes other users.
        let hidden = hidden(path);
        let _ = fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden).map_err(io)?;
        let ready = fs::set_permissions(&hidden, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&hidden, path))
            .and_then(|()| fs::symlink_metadata(path));
        let found = ready.inspect_err(|_| drop(fs::remove_file(&hidden))).map_err(io)?;
        let (listener, stop) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let work = {
            let (listener, stop) = (Arc::clone(&listener), Arc::clone(&stop));
            move || listen(&listener, &stop, &answerer)
        };
        let thread = thread::Builder::new().name("control".to_owned()).spawn(work).map_err(io)?;
        let (path, file) = (path.to_owned(), file(&found));
        Ok(Self { path, file, listener, stop, thread: Some(thread) })
    }

    /// Accepts no more clients. Clients whose answers go on get an error that the run ends.
    pub fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread's call to accept fails now, so it wakes.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
    }

    /// True once all clients have gone.
    pub fn is_closed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Another process may have replaced the socket.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| file(&found) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Checks that a socket can have this path: its length, and its folder. A run calls it before it
/// starts DPDK and changes interfaces.
pub fn check_path(path: &Path) -> Result<(), OpenError> {
    if path.as_os_str().len() > PATH_MAX {
        return Err(OpenError::TooLong { path: path.to_owned() });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let error = match fs::metadata(folder) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    Err(OpenError::NoFolder { path: path.to_owned(), folder: folder.to_owned(), error })
}

/// Returns a hidden name beside the path, with the number of this process.
fn hidden(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// A client that is being served.
struct Client {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

fn listen(listener: &UnixListener, stop: &Arc<AtomicBool>, answerer: &Arc<dyn Answerer>) {
    let mut clients: Vec<Client> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // For example for lack of file descriptors, which may pass.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        clients.retain(|client| !client.thread.is_finished());
        clients.extend(admit(stream, clients.len(), (answerer, stop)));
    }
    dismiss(clients);
}

/// Waits briefly until clients have taken their last lines.
fn dismiss(clients: Vec<Client>) {
    // Requests that have not arrived yet are not read any more.
    clients.iter().for_each(|client| drop(client.stream.shutdown(std::net::Shutdown::Read)));
    wait_for(&clients);
    clients.iter().for_each(|client| drop(client.stream.shutdown(std::net::Shutdown::Both)));
    // A client that waits for a file on a server that is gone must not delay the end of the run.
    wait_for(&clients);
}

/// Waits until the clients' threads have ended, at most [`TO_END`].
fn wait_for(clients: &[Client]) {
    let begun = Instant::now();
    while begun.elapsed() < END_TIMEOUT && !clients.iter().all(|client| client.thread.is_finished())
    {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Serves a client beside `others`, in a thread. Refuses users without permission, and clients
/// above [`CLIENTS_MAX`].
fn admit(
    stream: UnixStream,
    others: usize,
    (answerer, stop): (&Arc<dyn Answerer>, &Arc<AtomicBool>),
) -> Option<Client> {
    let peer = socket_peercred(&stream).ok()?.uid.as_raw();
    let refusal = match () {
        () if !is_allowed(peer, user()) => Some(Failure::Denied(peer)),
        () if others >= CLIENTS_MAX => Some(Failure::Busy),
        () => None,
    };
    if let Some(refusal) = refusal {
        // One line fits a new socket; if it does not, the write fails instead of waiting.
        let _ = stream.set_nonblocking(true);
        let _ = write_line(&mut &stream, &refusal.line());
        return None;
    }
    let (mine, answerer) = (stream.try_clone().ok()?, Arc::clone(answerer));
    let stop = Arc::clone(stop);
    let work = move || {
        // A client that is gone or too slow needs no more of the answer.
        let _ = serve(&mine, &*answerer, &stop);
        let _ = mine.shutdown(std::net::Shutdown::Both);
    };
    let thread = thread::Builder::new().name("control client".to_owned()).spawn(work).ok()?;
    Some(Client { stream, thread })
}

/// True if user `peer` may query an instance of user `owner`.
pub(super) fn is_allowed(peer: u32, owner: u32) -> bool {
    peer == owner || peer == 0
}

fn serve(stream: &UnixStream, answerer: &dyn Answerer, stop: &AtomicBool) -> io::Result<()> {
    let mut taker = LineWriter::new(stream);
    let request = receive(Deadline::new(stream, REQUEST_TIMEOUT)).map_err(|failure| {
        // The read side was shut down at the end of the run.
        if stop.load(Ordering::Relaxed) { Failure::Ending } else { failure }
    });
    let answered = request
        .map_err(AnswerError::from)
        .and_then(|request| answerer.answer(&request, &mut taker));
    match answered {
        Ok(()) => {}
        Err(AnswerError::Failure(failure)) => taker.line(&failure.line())?,
        Err(AnswerError::Gone) => return Ok(()),
    }
    taker.flush()
}

/// Reads the line of a request, at most `REQUEST_MAX` bytes.
pub fn receive(input: impl Read) -> Result<Request, Failure> {
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(REQUEST_MAX as u64 + 1));
    input.read_until(b'\n', &mut line).map_err(|_| Failure::Late)?;
    if line.len() > REQUEST_MAX { Err(Failure::TooLong) } else { read_request(&line) }
}

fn write_line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text)
}
