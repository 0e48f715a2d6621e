// SPDX-License-Identifier: BSD-3-Clause
//! Drives the tester of a daemon, over TCP.

use super::protocol::{Answer, Done, LINE_MAX, NewRate, Nothing, Request, to_line};
use super::{Load, Tester, TesterError, TesterStatistics, wait_in_real_time};
use serde::de::Error as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time that a daemon may need to end a load, besides the time to answer: it waits for open
/// connections and for packets on their way.
const ENDING: Duration = Duration::from_secs(4);

/// A connection with a daemon.
pub(crate) struct RemoteTester {
    daemon: SocketAddr,
    stream: BufReader<TcpStream>,
    /// What the daemon said last about itself.
    is_simulated: bool,
}

impl RemoteTester {
    /// Connects with the daemon at a port of a host. It must answer each request within `timeout`,
    /// plus the time that it needs to end a load.
    pub(crate) fn connect(host: &str, port: u16, timeout: Duration) -> Result<Self, TesterError> {
        let unreachable =
            |error| TesterError::Unreachable { host: format!("{host} port {port}"), error };
        let mut error = io::ErrorKind::AddrNotAvailable.into();
        for daemon in (host, port).to_socket_addrs().map_err(unreachable)? {
            match open(daemon, timeout) {
                Ok(stream) => return Ok(Self { daemon, stream, is_simulated: false }),
                Err(fault) => error = fault,
            }
        }
        Err(unreachable(error))
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, TesterError> {
        let daemon = self.daemon;
        let broken = |error| TesterError::Connection { daemon, error };
        self.stream.get_mut().write_all(&to_line(request)).map_err(broken)?;
        let mut line = Vec::new();
        let mut input = self.stream.by_ref().take(LINE_MAX as u64);
        input.read_until(b'\n', &mut line).map_err(broken)?;
        if line.is_empty() {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let answer = serde_json::from_slice(&line);
        match answer.map_err(|error| TesterError::Unknown { daemon, error })? {
            Answer::Error(refusal) => Err(TesterError::Refused { daemon, text: refusal.line() }),
            answer => Ok(answer),
        }
    }

    fn order(&mut self, request: &Request) -> Result<(), TesterError> {
        if let Answer::Ok(Done { simulated }) = self.ask(request)? {
            self.is_simulated = simulated;
        }
        Ok(())
    }
}

fn open(daemon: SocketAddr, timeout: Duration) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&daemon, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout + ENDING))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(BufReader::new(stream))
}

impl Tester for RemoteTester {
    fn start(&mut self, load: &Load) -> Result<(), TesterError> {
        self.order(&Request::Start(*load))
    }

    fn update(&mut self, cps: f64) -> Result<(), TesterError> {
        self.order(&Request::Update(NewRate { cps }))
    }

    fn stop(&mut self) -> Result<(), TesterError> {
        self.order(&Request::Stop(Nothing {}))
    }

    fn clear(&mut self) -> Result<(), TesterError> {
        self.order(&Request::Clear(Nothing {}))
    }

    fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
        match self.ask(&Request::Stats(Nothing {}))? {
            Answer::Stats(statistics) => Ok(*statistics),
            Answer::Ok(_) | Answer::Error(_) => {
                let error = serde_json::Error::custom("it has no statistics");
                Err(TesterError::Unknown { daemon: self.daemon, error })
            }
        }
    }

    fn wait(&mut self, time: Duration, interrupted: &AtomicBool) -> Result<(), TesterError> {
        match self.is_simulated {
            true => self.order(&Request::Advance(time.as_secs_f64())),
            false => {
                wait_in_real_time(time, interrupted);
                Ok(())
            }
        }
    }

    fn is_simulated(&self) -> bool {
        self.is_simulated
    }
}
