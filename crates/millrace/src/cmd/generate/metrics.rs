// SPDX-License-Identifier: BSD-3-Clause
//! Serves metrics over HTTP. Its own thread takes one request after the other and asks the control
//! thread for the current text. It starts before DPDK pins the control thread, and sleeps until a
//! client connects.

use anyhow::Context;
use results::metrics::CONTENT_TYPE;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Time in which a client must send its request, and then time in which it must read the response.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time in which the control thread must return the text.
const ANSWER: Duration = Duration::from_secs(1);
/// Maximum numbers of bytes and headers of a request.
const HEAD_MAX: usize = 8192;
const HEADERS_MAX: usize = 64;

/// Parses the address at which metrics are served: `IP:PORT`, or `PORT` on loopback.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = || Some(SocketAddr::from((Ipv4Addr::LOCALHOST, text.parse().ok()?)));
    let address = text.parse().ok().or_else(on_loopback);
    address.ok_or_else(|| "must be PORT, on loopback, or IP:PORT".to_owned())
}

/// The control thread's end of the server.
pub(super) struct MetricsServer {
    requests: Receiver<SyncSender<String>>,
    address: SocketAddr,
}

impl MetricsServer {
    /// Binds the address, and starts the server's thread.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("--metrics {address}: cannot listen there"))?;
        let address =
            listener.local_addr().context("cannot find the port of the metrics server")?;
        let (sender, requests) = channel();
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread
            .spawn(move || serve(&listener, &sender))
            .context("cannot start the thread of the metrics server")?;
        Ok(Self { requests, address })
    }

    /// Returns the address at which the server listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers all waiting requests.
    pub(super) fn answer(&self, text: impl Fn() -> String) {
        while let Ok(reply) = self.requests.try_recv() {
            // An error means that the client has gone.
            let _ = reply.try_send(text());
        }
    }
}

fn serve(listener: &TcpListener, queue: &Sender<SyncSender<String>>) {
    for client in listener.incoming() {
        match client {
            // After an error of one client, serve the next one.
            Ok(client) => _ = respond(client, queue),
            // Too many files are open: try again later.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A response, ready to be sent.
struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn error(status: &'static str) -> Self {
        let content_type = "text/plain; charset=utf-8";
        Self { status, content_type, body: format!("{status}: metrics are at /metrics\n") }
    }
}

fn respond(mut client: TcpStream, queue: &Sender<SyncSender<String>>) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut client)?;
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let is_complete = request.parse(&head).is_ok_and(|status| status.is_complete());
    let path = request.path.map(|path| path.split('?').next().unwrap_or_default());
    let response = match (request.method, path) {
        _ if !is_complete => Response::error("400 Bad Request"),
        (Some("GET" | "HEAD"), Some("/metrics")) => metrics(queue),
        (Some("GET" | "HEAD"), _) => Response::error("404 Not Found"),
        _ => Response::error("405 Method Not Allowed"),
    };
    let Response { status, content_type, body } = response;
    let len = body.len();
    let body = if request.method == Some("HEAD") { "" } else { &body };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n{body}"
    );
    client.write_all(text.as_bytes())
}

fn metrics(queue: &Sender<SyncSender<String>>) -> Response {
    let (reply, text) = sync_channel(1);
    let is_sent = queue.send(reply).is_ok();
    match text.recv_timeout(ANSWER) {
        Ok(body) if is_sent => Response { status: "200 OK", content_type: CONTENT_TYPE, body },
        _ => Response::error("503 Service Unavailable"),
    }
}

/// Reads up to the end of the headers, at most about [`HEAD_MAX`] bytes.
fn read_head(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() < HEAD_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        client.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let read = client.read(&mut part)?;
        head.extend(&part[..read]);
        if read == 0 {
            break;
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &MetricsServer, request: &str) -> String {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        // An error is fine: the server may have closed the connection before the request ended.
        let _ = client.shutdown(std::net::Shutdown::Write);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut text = String::new();
                client.read_to_string(&mut text).map(|_| text)
            });
            while !reader.is_finished() {
                server.answer(|| "figures\n".to_owned());
                std::thread::sleep(Duration::from_millis(1));
            }
            reader.join().unwrap().unwrap_or_default()
        })
    }

    #[test]
    fn addresses_are_on_loopback_unless_another_is_written() {
        assert_eq!(address("9100").unwrap().to_string(), "127.0.0.1:9100");
        assert_eq!(address("0.0.0.0:9100").unwrap().to_string(), "0.0.0.0:9100");
        assert_eq!(address("[::1]:0").unwrap().to_string(), "[::1]:0");
        for wrong in ["", "localhost", "70000", "127.0.0.1", ":9100"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_get_what_http_says() {
        let server = MetricsServer::start(address("0").unwrap()).unwrap();
        let get = ask(&server, "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(get.starts_with("HTTP/1.1 200 OK\r\n"), "{get}");
        assert!(get.contains(&format!("Content-Type: {CONTENT_TYPE}\r\n")), "{get}");
        assert!(get.contains("Content-Length: 8\r\n") && get.ends_with("\r\n\r\nfigures\n"));
        let head = ask(&server, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 8\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let status = |request: &str| ask(&server, request)[9..12].to_owned();
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("GET /metrics HT"), "400");
        assert_eq!(status("\0\0\0\r\n\r\n"), "400");
        // The server refuses a request without an end, and goes on with the next one.
        let endless = ask(&server, &format!("GET /metrics HTTP/1.1\r\nA: {}", "b".repeat(9000)));
        assert!(endless.is_empty() || endless.starts_with("HTTP/1.1 400"), "{endless}");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "200");
    }

    #[test]
    fn a_busy_port_is_refused() {
        let server = MetricsServer::start(address("0").unwrap()).unwrap();
        let error = MetricsServer::start(server.address()).err().unwrap();
        let told = format!("--metrics {}: cannot listen there: Address", server.address());
        assert!(format!("{error:#}").starts_with(&told), "{error:#}");
    }
}
