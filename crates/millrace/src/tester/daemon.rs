// SPDX-License-Identifier: BSD-3-Clause
//! Serves a tester over TCP. A thread per client reads its lines; the main thread, which owns the
//! tester, carries the requests out one after the other.

use super::call::Call;
use super::protocol::{Answer, Done, Fault, LINE_MAX, ProfileStart, Refusal, Request, to_line};
use super::{CAPACITY, OfferedProfile, Tester, TesterError};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use stateful::Profile;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most clients at a time.
const CLIENTS_MAX: usize = 8;
/// Time in which a client must take an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without a line after which the kernel asks whether the client is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Time without a line after which a client gives its place to another one.
const IDLE: Duration = Duration::from_secs(30);
/// Longest time until the main thread sees that it is interrupted.
const TURN: Duration = Duration::from_millis(50);

/// A listening socket, and the requests that arrive.
pub(crate) struct Daemon {
    address: SocketAddr,
    requests: Receiver<Message>,
    /// Number of the client that has started the last load.
    owner: Arc<AtomicUsize>,
    /// The profile that clients start by default.
    profile: Option<OfferedProfile>,
    /// Most connections that a client's profile may keep open.
    capacity: u32,
}

/// The owner before any load.
const NOBODY: usize = usize::MAX;

/// What a client's thread tells the main thread.
struct Message {
    /// Number of the client.
    client: usize,
    kind: Kind,
}

enum Kind {
    Request(Request, SyncSender<Answer>),
    /// The client has disconnected.
    Gone,
}

impl Daemon {
    /// Binds the address and accepts clients, in a thread. Call it before DPDK starts, so that the
    /// threads may run on every cpu. Requests wait for [`Self::serve`].
    pub(crate) fn listen(address: SocketAddr) -> io::Result<Self> {
        Self::listen_with(address, IDLE)
    }

    /// Does so, with another time instead of [`IDLE`].
    fn listen_with(address: SocketAddr, idle: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (sender, requests) = sync_channel(CLIENTS_MAX);
        let owner = Arc::new(AtomicUsize::new(NOBODY));
        let mut clients = Clients { all: Vec::new(), idle, owner: Arc::clone(&owner) };
        let accept = move || clients.accept(&listener, &sender);
        thread::Builder::new().name("daemon".to_owned()).spawn(accept)?;
        Ok(Self { address, requests, owner, profile: None, capacity: CAPACITY })
    }

    /// Lets clients start this profile without sending it.
    pub(crate) fn offer(&mut self, profile: OfferedProfile) {
        self.profile = Some(profile);
    }

    /// Lets profiles that clients send keep so many connections open.
    pub(crate) fn allow(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// Returns the address at which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Carries out requests until `interrupted` is set; then stops the load.
    pub(crate) fn serve(
        &self,
        tester: &mut dyn Tester,
        interrupted: &AtomicBool,
    ) -> Result<(), TesterError> {
        while !interrupted.load(Ordering::Relaxed) {
            let Message { client, kind } = match self.requests.recv_timeout(TURN) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match kind {
                Kind::Request(request, reply) => {
                    // An error means that the client has gone.
                    let _ = reply.try_send(self.answer(client, request, tester, interrupted));
                }
                // Nobody else would end its load.
                Kind::Gone if self.owner.load(Ordering::SeqCst) == client => tester.stop()?,
                Kind::Gone => {}
            }
        }
        tester.stop()
    }

    /// Carries out a request of a client.
    fn answer(
        &self,
        client: usize,
        request: Request,
        tester: &mut dyn Tester,
        interrupted: &AtomicBool,
    ) -> Answer {
        let done = match request {
            Request::Start(load) => {
                self.owner.store(client, Ordering::SeqCst);
                tester.start(&load)
            }
            Request::StartProfile(start) => {
                let profile = match self.profile(&start) {
                    Ok(profile) => profile,
                    // The load of another client goes on.
                    Err(refusal) => return Answer::Error(refusal),
                };
                self.owner.store(client, Ordering::SeqCst);
                tester.start_profile(&profile, start.multiplier, start.ramp_up_s)
            }
            Request::Update(rate) => tester.update(rate.cps),
            Request::Multiply(new) => tester.multiply(new.multiplier),
            Request::Stop(_) => tester.stop(),
            Request::Clear(_) => tester.clear(),
            Request::Advance(_) if !tester.is_simulated() => Err(TesterError::RealTime),
            Request::Advance(seconds) => tester.wait(Duration::from_secs_f64(seconds), interrupted),
            Request::Stats(_) => match tester.statistics() {
                Ok(statistics) => return Answer::Stats(Box::new(statistics)),
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => Answer::Ok(Done { simulated: tester.is_simulated() }),
            Err(error) => Answer::Error(Refusal::new("", error.to_string())),
        }
    }

    /// Returns the profile that a client has sent, or that of the command line. A client's may name
    /// no files, or a client could read any file of this host.
    fn profile(&self, start: &ProfileStart) -> Result<OfferedProfile, Refusal> {
        let refuse = |text: String| Refusal::new("start.profile", text).with_fault(Fault::Field);
        let Some(text) = &start.profile else {
            let text = "the daemon has none: start it with --stateful PROFILE, or send one";
            return self.profile.clone().ok_or_else(|| refuse(text.to_owned()));
        };
        let no_files = |_: &Path| Err("a profile that a client sends may name no files".to_owned());
        let profile = Profile::from_toml(text, &no_files)
            .map_err(|error| refuse(format!("{:#}", anyhow::Error::new(error))))?;
        let open = profile.templates.iter().filter(|it| it.is_continuous).filter_map(|it| it.limit);
        let (open, most) = (open.fold(0, u64::saturating_add), self.capacity);
        if open > most.into() {
            let way_out = "start the daemon with --capacity for more";
            return Err(refuse(format!(
                "{open} connections are open at a time, and there is room for {most}: {way_out}"
            )));
        }
        Ok(OfferedProfile { profile: Arc::new(profile), capacity: most })
    }
}

/// A client that is being served.
struct Client {
    number: usize,
    stream: TcpStream,
    /// When its last line came.
    last_line: Mutex<Instant>,
}

impl Client {
    /// Returns the time since its last line.
    fn idle(&self) -> Duration {
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// The clients, at most [`CLIENTS_MAX`].
struct Clients {
    all: Vec<Arc<Client>>,
    /// Time without a line after which a client gives its place to another one.
    idle: Duration,
    owner: Arc<AtomicUsize>,
}

impl Clients {
    fn accept(&mut self, listener: &TcpListener, queue: &SyncSender<Message>) {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else {
                // For example for lack of file descriptors, which may pass.
                thread::sleep(TURN);
                continue;
            };
            // The thread of a client that has gone has dropped it.
            self.all.retain(|client| Arc::strong_count(client) > 1);
            if self.all.len() >= CLIENTS_MAX && !self.dismiss_idle() {
                refuse(&stream);
                continue;
            }
            let client = Arc::new(Client { number, stream, last_line: Mutex::new(Instant::now()) });
            self.all.push(Arc::clone(&client));
            let queue = queue.clone();
            let work = move || {
                // An error of the socket ends this client only.
                let _ = client.serve(&queue);
                // The list of clients keeps the socket open until the next one comes.
                let _ = client.stream.shutdown(Shutdown::Both);
                let _ = queue.send(Message { client: number, kind: Kind::Gone });
            };
            if thread::Builder::new().name("daemon client".to_owned()).spawn(work).is_err() {
                // This disconnects it.
                self.all.pop();
            }
        }
    }

    /// Disconnects the client that has been idle for longest; false if there is none. The one that
    /// has started the load stays.
    fn dismiss_idle(&mut self) -> bool {
        let owner = self.owner.load(Ordering::SeqCst);
        let is_idle = |client: &Client| client.number != owner && client.idle() >= self.idle;
        let idle = (0..self.all.len()).filter(|at| is_idle(&self.all[*at]));
        let Some(longest) = idle.max_by_key(|at| self.all[*at].idle()) else { return false };
        // Its thread ends with the next read. An error means that it has gone.
        let _ = self.all.swap_remove(longest).stream.shutdown(Shutdown::Both);
        true
    }
}

fn refuse(mut stream: &TcpStream) {
    let text = format!("{CLIENTS_MAX} clients are connected already; try again later");
    // One line fits a new socket; if it does not, the write fails instead of waiting.
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(&to_line(&Answer::Error(Refusal::new("", text))));
}

impl Client {
    fn serve(&self, queue: &SyncSender<Message>) -> io::Result<()> {
        let mut stream = &self.stream;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        stream.set_nodelay(true)?;
        set_socket_keepalive(stream, true)?;
        set_tcp_keepidle(stream, KEEPALIVE)?;
        let mut input = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            input.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', &mut line)?;
            *self.last_line.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            if line.len() > LINE_MAX {
                let text = format!("the line is too long: at most {LINE_MAX} bytes are allowed");
                return stream.write_all(&to_line(&Answer::Error(Refusal::new("", text))));
            }
            if line.is_empty() {
                return Ok(());
            }
            let Call { request, form } = Call::parse(&line);
            let answer = match request {
                Err(refusal) => Answer::Error(refusal),
                Ok(request) => {
                    let (reply, answer) = sync_channel(1);
                    let kind = Kind::Request(request, reply);
                    let message = Message { client: self.number, kind };
                    let (Ok(()), Ok(answer)) = (queue.send(message), answer.recv()) else {
                        // The daemon is ending.
                        return Ok(());
                    };
                    answer
                }
            };
            stream.write_all(&form.to_line(&answer))?;
            // It is another protocol, such as HTTP, whose body a web page may have written.
            if matches!(&answer, Answer::Error(Refusal { fault: Fault::Json, .. })) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
