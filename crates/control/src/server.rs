// SPDX-License-Identifier: BSD-3-Clause
//! The socket of a bump that runs: who may ask, how many at a time, and for how long.
//!
//! One thread waits for clients, and each client has a thread of its own, which ends by a time of
//! its own: whoever is slow holds up himself.

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

/// Clients that are served at a time.
pub(super) const CLIENTS_MAX: usize = 8;
/// In what time a request must be there, and then its answer taken.
const TO_ASK: Duration = Duration::from_secs(5);
const TO_TAKE: Duration = Duration::from_secs(30);
/// How long clients may take what is said to them when the socket closes.
const TO_END: Duration = Duration::from_secs(1);

/// Who answers requests: a run, or a function.
pub trait Answerer: Send + Sync {
    /// Gives the lines of the answer to `request` to `taker`.
    ///
    /// # Errors
    /// If there is no answer, or nobody who takes it. The client is told a [`Failure`].
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
    /// Whoever asked is told.
    Failure(Failure),
    /// There is nobody to tell, or he is too slow.
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

/// Who takes an answer.
pub struct LineWriter<'a> {
    stream: &'a UnixStream,
    out: BufWriter<Deadline<'a>>,
    /// His time runs.
    takes: bool,
}

impl<'a> LineWriter<'a> {
    fn new(stream: &'a UnixStream) -> Self {
        let timed = Deadline::new(stream, TO_TAKE);
        Self { stream, out: BufWriter::with_capacity(64 << 10, timed), takes: false }
    }

    /// One more line.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        if !self.takes {
            self.out.get_mut().renew(TO_TAKE);
            self.takes = true;
        }
        write_line(&mut self.out, line)
    }

    /// Whether he has gone, for whom there is nothing to write just now. One who only has nothing
    /// more to ask is still there.
    pub fn is_gone(&self) -> bool {
        let mut looked_at = [PollFd::new(self.stream, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let looked = poll(&mut looked_at, Some(&at_once));
        looked.is_ok() && looked_at[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Waits until all lines so far are on their way. What follows has a time of its own.
    pub fn flush(&mut self) -> io::Result<()> {
        self.takes = false;
        self.out.flush()
    }
}

/// An open socket; it is gone with the value.
pub struct Server {
    path: PathBuf,
    /// Device and file number of the socket.
    file: (u64, u64),
    listener: Arc<UnixListener>,
    stop: Arc<AtomicBool>,
    /// `None` when it has been waited for.
    thread: Option<JoinHandle<()>>,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another instance answers there.
    #[error("{0}: another instance answers there; give this one a place of its own")]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{0}: is there already, and no socket")]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("{path}: {error}")]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl Server {
    /// Opens a socket that only this user and root reach. One that nobody answers at is replaced.
    pub fn open(path: &Path, answerer: Arc<dyn Answerer>) -> Result<Self, OpenError> {
        let io = |error| OpenError::Io { path: path.to_owned(), error };
        let is_socket = fs::symlink_metadata(path).map(|found| found.file_type().is_socket());
        match (UnixStream::connect(path), is_socket) {
            (Ok(_), _) => return Err(OpenError::InUse(path.to_owned())),
            (Err(_), Ok(false)) => return Err(OpenError::NoSocket(path.to_owned())),
            // Somebody listens, for other users or in another way.
            (Err(error), Ok(true)) if error.kind() != io::ErrorKind::ConnectionRefused => {
                return Err(io(error));
            }
            _ => {}
        }
        // Under another name until nobody else can connect to it.
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

    /// Lets nobody in any more. Clients hear that this is the end, if answers come to theirs.
    pub fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread: its call for the next client fails.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
    }

    /// Whether all clients have gone.
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
        // Somebody may have put another one there.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| file(&found) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Beside the path, with the number of this process in it.
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
            // Out of file descriptors, say; that may pass.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        clients.retain(|client| !client.thread.is_finished());
        clients.extend(admit(stream, clients.len(), (answerer, stop)));
    }
    dismiss(clients);
}

/// Waits for the last words to clients, but not for long.
fn dismiss(clients: Vec<Client>) {
    // Whoever has not asked yet will not.
    clients.iter().for_each(|client| drop(client.stream.shutdown(std::net::Shutdown::Read)));
    wait_for(&clients);
    clients.iter().for_each(|client| drop(client.stream.shutdown(std::net::Shutdown::Both)));
    // One that reads a file of a server that is gone is not to hold up the end of the run.
    wait_for(&clients);
}

/// Until they have ended, but not for long.
fn wait_for(clients: &[Client]) {
    let begun = Instant::now();
    while begun.elapsed() < TO_END && !clients.iter().all(|client| client.thread.is_finished()) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Serves a client that may ask, beside `others`; the others hear why not.
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
        // One line finds room in a new socket; where it does not, nobody waits.
        let _ = stream.set_nonblocking(true);
        let _ = write_line(&mut &stream, &refusal.line());
        return None;
    }
    let (mine, answerer) = (stream.try_clone().ok()?, Arc::clone(answerer));
    let stop = Arc::clone(stop);
    let work = move || {
        // A client that is gone needs no answer, and one that is too slow gets no more of it.
        let _ = serve(&mine, &*answerer, &stop);
        let _ = mine.shutdown(std::net::Shutdown::Both);
    };
    let thread = thread::Builder::new().name("control client".to_owned()).spawn(work).ok()?;
    Some(Client { stream, thread })
}

/// Whether a user may ask an instance of another.
pub(super) fn is_allowed(peer: u32, owner: u32) -> bool {
    peer == owner || peer == 0
}

fn serve(stream: &UnixStream, answerer: &dyn Answerer, stop: &AtomicBool) -> io::Result<()> {
    let mut taker = LineWriter::new(stream);
    let request = receive(Deadline::new(stream, TO_ASK)).map_err(|failure| {
        // Nobody listened to the rest of it.
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

/// Reads one line at most, and no more than a request may have.
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
