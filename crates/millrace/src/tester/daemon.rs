// SPDX-License-Identifier: BSD-3-Clause
//! Serves a tester over TCP. A thread per client reads its lines; the main thread, which owns the
//! tester, carries the requests out one after the other.

use super::protocol::{Answer, Done, LINE_MAX, Refusal, Request, to_line};
use super::{Tester, TesterError};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Most clients at a time.
const CLIENTS_MAX: usize = 8;
/// Time in which a client must take an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without a line after which the kernel asks whether the client is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Longest time until the main thread sees that it is interrupted.
const TURN: Duration = Duration::from_millis(50);

/// A listening socket, and the requests that arrive.
pub(crate) struct Daemon {
    address: SocketAddr,
    requests: Receiver<Message>,
}

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
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (sender, requests) = sync_channel(CLIENTS_MAX);
        let accept = move || accept(&listener, &sender);
        thread::Builder::new().name("daemon".to_owned()).spawn(accept)?;
        Ok(Self { address, requests })
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
        // The client that started the load.
        let mut owner = None;
        while !interrupted.load(Ordering::Relaxed) {
            let Message { client, kind } = match self.requests.recv_timeout(TURN) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match kind {
                Kind::Request(request, reply) => {
                    if matches!(request, Request::Start(_)) {
                        owner = Some(client);
                    }
                    // An error means that the client has gone.
                    let _ = reply.try_send(answer(request, tester, interrupted));
                }
                // Nobody else would end its load.
                Kind::Gone if owner == Some(client) => tester.stop()?,
                Kind::Gone => {}
            }
        }
        tester.stop()
    }
}

/// Carries out a request.
fn answer(request: Request, tester: &mut dyn Tester, interrupted: &AtomicBool) -> Answer {
    let done = match request {
        Request::Start(load) => tester.start(&load),
        Request::Update(rate) => tester.update(rate.cps),
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

fn accept(listener: &TcpListener, queue: &SyncSender<Message>) {
    let count = Arc::new(AtomicUsize::new(0));
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else {
            // For example for lack of file descriptors, which may pass.
            thread::sleep(TURN);
            continue;
        };
        if count.load(Ordering::SeqCst) >= CLIENTS_MAX {
            refuse(&stream);
            continue;
        }
        let place = Place::take(&count);
        let queue = queue.clone();
        let work = move || {
            let _place = place;
            // An error of the socket ends this client only.
            let _ = serve_client(&stream, number, &queue);
            let _ = queue.send(Message { client: number, kind: Kind::Gone });
        };
        // If there is no thread for it, the client is disconnected.
        let _ = thread::Builder::new().name("daemon client".to_owned()).spawn(work);
    }
}

/// One of the places for clients; free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn refuse(mut stream: &TcpStream) {
    let text = format!("{CLIENTS_MAX} clients are connected already; try again later");
    // One line fits a new socket; if it does not, the write fails instead of waiting.
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(&to_line(&Answer::Error(Refusal::new("", text))));
}

fn serve_client(
    mut stream: &TcpStream,
    number: usize,
    queue: &SyncSender<Message>,
) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.set_nodelay(true)?;
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEPALIVE)?;
    let mut input = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        input.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        if line.len() > LINE_MAX {
            let text = format!("the line is too long: at most {LINE_MAX} bytes are allowed");
            return stream.write_all(&to_line(&Answer::Error(Refusal::new("", text))));
        }
        if line.is_empty() {
            return Ok(());
        }
        let answer = match Request::parse(&line) {
            Err(refusal) => Answer::Error(refusal),
            Ok(request) => {
                let (reply, answer) = sync_channel(1);
                let message = Message { client: number, kind: Kind::Request(request, reply) };
                let (Ok(()), Ok(answer)) = (queue.send(message), answer.recv()) else {
                    // The daemon is ending.
                    return Ok(());
                };
                answer
            }
        };
        stream.write_all(&to_line(&answer))?;
    }
}

#[cfg(test)]
mod tests;
