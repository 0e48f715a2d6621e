// SPDX-License-Identifier: BSD-3-Clause
//! Tests the daemon with clients in this process.

use super::super::{Load, RemoteTester, SimulatedTester, TesterStatistics};
use super::*;
use std::sync::Mutex;

/// A tester that notes what it is asked to do.
struct Noting(Arc<Mutex<Vec<String>>>);

impl Noting {
    fn note(&self, text: String) -> Result<(), TesterError> {
        self.0.lock().unwrap().push(text);
        Ok(())
    }
}

impl Tester for Noting {
    fn start(&mut self, load: &Load) -> Result<(), TesterError> {
        self.note(format!("start {}", load.cps))
    }

    fn update(&mut self, _: f64) -> Result<(), TesterError> {
        Err(TesterError::Idle)
    }

    fn start_profile(
        &mut self,
        OfferedProfile { profile, capacity }: &OfferedProfile,
        multiplier: f64,
        ramp_up_s: u32,
    ) -> Result<(), TesterError> {
        let cps = profile.cps();
        self.note(format!("start {cps} x {multiplier} in {ramp_up_s} s, {capacity}"))
    }

    fn multiply(&mut self, multiplier: f64) -> Result<(), TesterError> {
        self.note(format!("multiply {multiplier}"))
    }

    fn stop(&mut self) -> Result<(), TesterError> {
        self.note("stop".to_owned())
    }

    fn clear(&mut self) -> Result<(), TesterError> {
        self.note("clear".to_owned())
    }

    fn statistics(&mut self) -> Result<TesterStatistics, TesterError> {
        Ok(TesterStatistics { elapsed_s: 2.5, ..TesterStatistics::default() })
    }
}

/// Sets a flag when it is dropped, also by a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `clients` while a daemon serves `tester`.
fn serve(tester: &mut dyn Tester, clients: impl FnOnce(SocketAddr) + Send) {
    serve_profile(None, tester, clients);
}

/// Does so, with a profile that clients may start.
fn serve_profile(
    profile: Option<OfferedProfile>,
    tester: &mut dyn Tester,
    clients: impl FnOnce(SocketAddr) + Send,
) {
    let mut daemon = Daemon::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    daemon.allow(5000);
    profile.into_iter().for_each(|profile| daemon.offer(profile));
    let (end, address) = (AtomicBool::new(false), daemon.address());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _end = SetAtEnd(&end);
            clients(address);
        });
        daemon.serve(tester, &end).unwrap();
    });
}

/// Sends lines; returns the lines of the answers, until the daemon closes the connection.
fn ask(address: SocketAddr, lines: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    // The daemon may close before it has read everything.
    let _ = stream.write_all(lines.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    BufReader::new(stream).lines().map_while(Result::ok).collect()
}

#[test]
fn each_line_has_an_answer() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    serve(&mut Noting(Arc::clone(&noted)), |address| {
        let lines = "{\"start\": {\"cps\": 1000}}\n{\"update\":{\"cps\":7}}\n[]\n\
                     {\"start\": {\"cps\": 1000, \"messages\": 0}}\n{\"advance\": 1}\n\
                     {\"clear\": {}}\n{\"stats\": {}}\n\
                     GET / HTTP/1.1\n{\"clear\": {}}";
        let answers = ask(address, lines);
        assert_eq!(answers[0], "{\"ok\":{\"simulated\":false}}");
        assert_eq!(
            answers[1],
            "{\"error\":{\"field\":\"\",\"text\":\"no load runs: start one first\"}}"
        );
        assert!(answers[2].contains("\"code\":-32600") && answers[2].contains("\"id\":null"));
        assert_eq!(
            answers[3],
            "{\"error\":{\"field\":\"start.messages\",\"text\":\"must be a whole number from 1 to \
             10000, not 0\"}}"
        );
        assert!(answers[4].contains("runs in real time"), "{}", answers[4]);
        assert!(answers[6].starts_with("{\"stats\":{\"elapsed_s\":2.5,\"client\":{\"attempted\""));
        // What is no JSON ends the connection: a web page may have sent it.
        assert!(answers[7].contains("\"code\":-32700"), "{}", answers[7]);
        assert_eq!(answers.len(), 8);
    });
    // The client that started the load has gone, so the daemon stops it.
    assert_eq!(noted.lock().unwrap()[..3], ["start 1000", "clear", "stop"]);
}

fn toml(cps: u32, send: &str) -> String {
    format!(
        "[[template]]\nport = 80\ncps = {cps}\nclient = [{{{send}}}]\nserver = [{{receive = 3}}]\n"
    )
}

/// Its own profile, or one that the client sends. That one may name no files of this host.
#[test]
fn profiles_run_with_a_multiplier() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let own = Profile::from_toml(&toml(100, "send = 3"), &|_| Err(String::new())).unwrap();
    let own = OfferedProfile { profile: Arc::new(own), capacity: 77 };
    serve_profile(Some(own), &mut Noting(Arc::clone(&noted)), |address| {
        let text = |send| serde_json::to_string(&toml(7, send)).unwrap();
        let (sent, file) = (text("send = 3"), text("send_file = \"/etc/passwd\""));
        let lines = format!(
            "{{\"start\": {{\"multiplier\": 2.5, \"ramp_up_s\": 0}}}}\n\
             {{\"jsonrpc\": \"2.0\", \"method\": \"update\", \"params\": {{\"multiplier\": 3}}}}\n\
             {{\"start\": {{\"profile\": {sent}}}}}\n\
             {{\"start\": {{\"profile\": {file}}}}}\n\
             {{\"jsonrpc\": \"2.0\", \"method\": \"start\", \"params\": {{\"profile\": \"x\"}}, \
             \"id\": 4}}\n"
        );
        let answers = ask(address, &lines);
        let ok = "{\"ok\":{\"simulated\":false}}";
        assert_eq!(answers[..2], [ok, ok], "the notification has no answer");
        assert!(answers[2].contains("a profile that a client sends may name no files"));
        assert!(answers[3].contains("\"code\":-32602") && answers[3].contains("start.profile"));
        assert_eq!(answers.len(), 4, "{answers:?}");
    });
    let noted = noted.lock().unwrap();
    assert_eq!(
        noted[..3],
        ["start 100 x 2.5 in 0 s, 77", "multiply 3", "start 7 x 1 in 3 s, 5000"]
    );
    serve(&mut Noting(Arc::default()), |address| {
        let answers = ask(address, "{\"start\": {\"multiplier\": 2}}\n");
        assert!(
            answers[0].contains("the daemon has none: start it with --stateful"),
            "{answers:?}"
        );
    });
}

/// A client whose profile is refused does not get the load of another one.
#[test]
fn a_refused_start_leaves_a_load_to_its_client() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    serve(&mut Noting(Arc::clone(&noted)), |address| {
        let mut starter =
            RemoteTester::connect("127.0.0.1", address.port(), WRITE_TIMEOUT).unwrap();
        starter.start(&Load::of_rate(5000.0)).unwrap();
        let many = toml(7, "send = 3").replace("cps", "continuous = true\nlimit = 5001\ncps");
        let line = serde_json::json!({"start": {"profile": many}});
        let answers = ask(address, &format!("{line}\n{{\"start\":{{\"multiplier\":1}}}}\n"));
        assert!(answers[0].contains("5001 connections are open at a time"), "{answers:?}");
        assert!(answers[1].contains("the daemon has none"), "{answers:?}");
        // The daemon notices that the other one has gone before it answers this.
        ask(address, "{\"clear\":{}}\n");
        starter.clear().unwrap();
        assert_eq!(noted.lock().unwrap()[..], ["start 5000", "clear", "clear"]);
    });
    assert_eq!(noted.lock().unwrap()[3], "stop");
}

/// A client that only watches does not end the load of another one.
#[test]
fn only_the_client_that_started_the_load_ends_it_by_going() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    serve(&mut Noting(Arc::clone(&noted)), |address| {
        let mut starter =
            RemoteTester::connect("127.0.0.1", address.port(), WRITE_TIMEOUT).unwrap();
        starter.start(&Load::of_rate(5000.0)).unwrap();
        assert_eq!(ask(address, "{\"stats\":{}}\n").len(), 1);
        // The daemon notices that the watcher has gone before it answers this.
        ask(address, "{\"clear\":{}}\n");
        starter.clear().unwrap();
        assert_eq!(noted.lock().unwrap()[..], ["start 5000", "clear", "clear"]);
    });
}

#[test]
fn clients_and_lines_are_bounded() {
    serve(&mut SimulatedTester::new("limit=1000".parse().unwrap()), |address| {
        let long = format!("{{\"stats\": {{{}", " ".repeat(LINE_MAX));
        // The socket may be reset while the rest of the line arrives.
        assert!(ask(address, &long).iter().all(|answer| answer.contains("the line is too long")));
        let connect = || RemoteTester::connect("localhost", address.port(), WRITE_TIMEOUT);
        let mut clients: Vec<RemoteTester> = (0..CLIENTS_MAX).map(|_| connect().unwrap()).collect();
        assert!(clients.iter_mut().all(|client| client.clear().is_ok()));
        let error = connect().unwrap().clear().unwrap_err().to_string();
        assert!(error.contains("8 clients are connected already"), "{error}");
        clients.pop();
        while connect().unwrap().clear().is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Only if no place is free, and never the client that has started the load.
#[test]
fn idle_clients_give_up_their_places() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let daemon = Daemon::listen_with(any, Duration::from_millis(50)).unwrap();
    let (end, port) = (AtomicBool::new(false), daemon.address().port());
    let clients = || {
        let connect = || RemoteTester::connect("localhost", port, WRITE_TIMEOUT).unwrap();
        let mut starter = connect();
        starter.start(&Load::of_rate(5000.0)).unwrap();
        let mut watcher = connect();
        watcher.clear().unwrap();
        thread::sleep(Duration::from_millis(200));
        watcher.clear().unwrap();
        let _others: Vec<RemoteTester> = (2..CLIENTS_MAX).map(|_| connect()).collect();
        while connect().clear().is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        starter.clear().unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _end = SetAtEnd(&end);
            clients();
        });
        daemon.serve(&mut Noting(Arc::default()), &end).unwrap();
    });
}

#[test]
fn a_remote_tester_is_as_good_as_a_local_one() {
    let drive = |tester: &mut dyn Tester| {
        let never = AtomicBool::new(false);
        tester.start(&Load { udp_percent: 1.0, ..Load::of_rate(41_218.75) }).unwrap();
        tester.wait(Duration::from_secs(5), &never).unwrap();
        tester.update(42_781.25).unwrap();
        tester.clear().unwrap();
        tester.wait(Duration::from_secs(30), &never).unwrap();
        assert!(tester.is_simulated());
        let statistics = tester.statistics().unwrap();
        tester.stop().unwrap();
        (statistics, tester.update(1.0).unwrap_err().to_string())
    };
    let new = || SimulatedTester::new("limit=41700,noise=2".parse().unwrap());
    let (local, idle) = drive(&mut new());
    assert!(local.failed() > 0 && local.elapsed_s == 30.0, "{local:?}");
    serve(&mut new(), |address| {
        let port = address.port();
        let mut remote = RemoteTester::connect("127.0.0.1", port, WRITE_TIMEOUT).unwrap();
        let (there, refused) = drive(&mut remote);
        assert_eq!(there, local);
        assert_eq!(refused, format!("127.0.0.1:{port}: {idle}"));
    });
}

#[test]
fn a_server_that_is_no_daemon_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(b"220 mail ready\r\n").unwrap();
            let (_, _) = listener.accept().unwrap();
        });
        let connect = |time| RemoteTester::connect("127.0.0.1", port, time).unwrap();
        let mut tester = connect(WRITE_TIMEOUT);
        let error = tester.stop().unwrap_err().to_string();
        assert!(error.contains("is a daemon of millrace gen --daemon there?"), "{error}");
        let error = connect(WRITE_TIMEOUT).stop().unwrap_err().to_string();
        assert!(error.starts_with(&format!("127.0.0.1:{port}: the daemon ")), "{error}");
    });
    drop(listener);
    let error = RemoteTester::connect("127.0.0.1", port, WRITE_TIMEOUT).err().unwrap().to_string();
    assert!(error.contains("cannot connect") && error.contains("--daemon"), "{error}");
}
