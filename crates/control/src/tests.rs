// SPDX-License-Identifier: BSD-3-Clause
//! Tests the socket with a fake answerer: permissions, and requests that are wrong, long, slow or
//! many.

use super::client::read_line;
use super::deadline::connect_within;
use super::server::{AnswerError, CLIENTS_MAX, LineWriter, Server, is_allowed};
use super::*;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use testkit::scratch::Scratch;

/// Makes a folder that is removed after the test. Its name is short, as paths of sockets must be.
fn new_scratch() -> Scratch {
    Scratch::new(std::env::temp_dir(), "control")
}

/// The path of the socket in it.
fn socket(scratch: &Scratch) -> PathBuf {
    scratch.folder().join("a.sock")
}

fn echo(request: &Request, taker: &mut LineWriter) -> Result<(), AnswerError> {
    Ok(taker.line(&Line::End(EndLine { matched: request.limit() as u64, ..EndLine::default() }))?)
}

/// Sends these bytes and returns the lines of the answer.
fn answers(stream: &UnixStream, request: &[u8]) -> Vec<Value> {
    // The server may refuse before it has read everything.
    let _ = { stream }.write_all(request);
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str(&line).expect("lines are JSON")).collect()
}

fn code(scratch: &Scratch, request: &[u8]) -> String {
    let stream = UnixStream::connect(socket(scratch)).unwrap();
    let lines = answers(&stream, request);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0]["error"]["code"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_request_is_answered_and_a_wrong_one_gets_the_reason() {
    let scratch = new_scratch();
    let server = Server::open(&socket(&scratch), Arc::new(echo)).unwrap();
    let mode = fs::metadata(socket(&scratch)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut request = serde_json::to_vec(&Request::new(RequestKind::Flows)).unwrap();
    request.push(b'\n');
    let stream = UnixStream::connect(socket(&scratch)).unwrap();
    assert_eq!(answers(&stream, &request), [json!({ "end": { "matched": 50 } })]);

    assert_eq!(code(&scratch, b"{\"millrace\":1,\"ask\":\"flows\"}\n"), "none");
    for wrong in [
        "\n",
        "flows\n",
        "{\"ask\":\"flows\"}\n",
        "{\"millrace\":1,\"ask\":\"everything\"}\n",
        "{\"millrace\":1,\"ask\":\"flows\",\"limit\":100001}\n",
        "{\"millrace\":1,\"ask\":\"flows\",\"adress\":\"10.0.0.1\"}\n",
        "{\"millrace\":1,\"ask\":\"flows\",\"address\":\"10.0.0\"}\n",
        "{\"millrace\":1,\"ask\":\"list\",\"src\":\"10.0.0.0/33\"}\n",
        "{\"millrace\":1,\"ask\":\"list\",\"state\":\"open\"}\n",
        "{\"millrace\":1,\"ask\":\"list\",\"proto\":256}\n",
        "{\"millrace\":1,\"ask\":\"list\",\"all\":true}\n",
        "{\"millrace\":1,\"ask\":\"flush\"}\n",
        "{\"millrace\":1,\"ask\":\"reload\",\"path\":\"bump.toml\"}\n",
        "{\"millrace\":1,\"ask\":\"reload\",\"zone\":7}\n",
        "{\"millrace\":1,\"ask\":\"list\",\"path\":\"/bump.toml\"}\n",
        "{\"millrace\":1,\"ask\":\"flush\",\"all\":false}\n",
        "{\"millrace\":1,\"ask\":\"flush\",\"zone\":1,\"all\":true}\n",
        "[1,\"count\"]\n",
        "\u{0}\u{1}\n",
    ] {
        assert_eq!(code(&scratch, wrong.as_bytes()), "syntax", "{wrong}");
    }
    for good in [
        "{\"millrace\":1,\"ask\":\"list\",\"limit\":100001,\"src\":\"10.0.0.0/8\",\"dport\":53}\n",
        "{\"millrace\":1,\"ask\":\"count\",\"state\":\"established\",\"proto\":6}\n",
        "{\"millrace\":1,\"ask\":\"flush\",\"zone\":0}\n",
        "{\"millrace\":1,\"ask\":\"reload\"}\n",
        "{\"millrace\":1,\"ask\":\"reload\",\"path\":\"/bump.toml\"}\n",
        "{\"millrace\":1,\"ask\":\"flush\",\"all\":true}\n",
    ] {
        assert_eq!(code(&scratch, good.as_bytes()), "none", "{good}");
    }
    assert_eq!(code(&scratch, b"{\"millrace\":2,\"ask\":\"all\",\"new\":1}\n"), "version");
    assert_eq!(code(&scratch, &vec![b' '; REQUEST_MAX + 1]), "too_long");
    drop(server);
    assert!(!socket(&scratch).exists());
}

/// `flush` and `set` would otherwise end or change more connections than the client wants.
#[test]
fn a_member_that_a_request_does_not_take_is_refused() {
    let limit = "limit: only \"flows\", \"offload\" and \"list\" take it";
    let zone = "takes no conditions, such as \"zone\"; only \"flows\", \"offload\", \"list\"";
    for (members, text) in [
        (r#""ask":"flush","zone":1,"limit":1"#, limit),
        (r#""ask":"set","zone":1,"set_mark":"1","limit":1"#, limit),
        (r#""ask":"count","limit":1"#, limit),
        (r#""ask":"events","limit":1"#, limit),
        (r#""ask":"reload","limit":1"#, limit),
        (r#""ask":"zones","zone":1"#, zone),
        (r#""ask":"instance","zone":1"#, zone),
        (r#""ask":"stats","dport":53"#, zone),
        (r#""ask":"reload","mark":"1""#, zone),
        (
            r#""ask":"count","dry_run":true"#,
            "dry_run: only \"reload\" and \"change_lists\" take it",
        ),
        (r#""ask":"explain""#, "explain: needs explain"),
        (r#""ask":"explain","zone":1,"explain":{"packet":"udp"}"#, zone),
        (r#""ask":"count","explain":{"packet":"udp"}"#, "explain: only \"explain\" takes it"),
        (r#""ask":"explain","explain":{"packet":"udp","side":"a"}"#, "unknown field"),
        (r#""ask":"change_lists""#, "change_lists: needs list_change"),
        (r#""ask":"count","list_change":{"delete":{"handles":[]}}"#, "list_change: only"),
        (r#""ask":"change_lists","list_change":{"add":{"list":"l","to":1,"rules":[]}}"#, "unknown"),
    ] {
        let error = receive(format!("{{\"millrace\":1,{members}}}\n").as_bytes()).unwrap_err();
        assert!(error.to_string().contains(text), "{members}: {error}");
    }
    for members in [
        r#""ask":"offload","zone":1,"limit":1"#,
        r#""ask":"events","zone":1"#,
        r#""ask":"list","zone":1,"limit":1"#,
        r#""ask":"explain","explain":{"packet":"udp","port":"eth1","pair":1,"ct":"new","zone":7}"#,
        r#""ask":"reload","dry_run":true"#,
        r#""ask":"change_lists","list_change":{"add":{"list":"l","at":1,"rules":["permit"]}}"#,
        r#""ask":"change_lists","dry_run":true,"list_change":{"move":{"handle":"l:0:0","to":2}}"#,
    ] {
        receive(format!("{{\"millrace\":1,{members}}}\n").as_bytes()).unwrap();
    }
}

#[test]
fn a_line_that_is_no_object_gets_the_form_of_a_request() {
    for line in ["[]", "null", "[1,\"count\"]", "5", "", "count"] {
        let error = receive(format!("{line}\n").as_bytes()).unwrap_err().to_string();
        let form = r#"a JSON object in one line, such as {"millrace":1,"ask":"count"}"#;
        assert!(error.contains(form), "{line}: {error}");
    }
    receive(&b"  {\"millrace\":1,\"ask\":\"count\"}\n"[..]).unwrap();
}

/// The instance closes the connection at its end, and if the client does not read.
#[test]
fn an_answer_that_breaks_off_names_both_causes() {
    let error = QueryError::Cut { path: PathBuf::from("/run/millrace/1.sock") }.to_string();
    assert!(error.contains("the run may have ended"), "{error}");
    assert!(error.contains("the output was not read for 30 s"), "{error}");
}

#[test]
fn no_more_clients_than_there_may_be_and_slow_ones_hold_up_nobody() {
    let scratch = new_scratch();
    let server = Server::open(&socket(&scratch), Arc::new(echo)).unwrap();
    // These clients send nothing; those above the limit are refused.
    let connect = |_| UnixStream::connect(socket(&scratch)).unwrap();
    let silent: Vec<_> = (0..2 * CLIENTS_MAX).map(connect).collect();
    let request = b"{\"millrace\":1,\"ask\":\"flows\"}\n";
    assert_eq!(code(&scratch, request), "busy");
    drop(silent);
    while code(&scratch, request) == "busy" {}
    let last = UnixStream::connect(socket(&scratch)).unwrap();
    // The server ends whatever its clients do. A client that was not accepted yet gets a reset.
    drop(server);
    let end = { last }.read_to_end(&mut Vec::new());
    assert!(!end.is_err_and(|why| why.kind() != ErrorKind::ConnectionReset));
}

/// An answer that a client does not take ends with the server; meanwhile another client is served.
#[test]
fn an_answer_that_is_not_taken_holds_up_nobody() {
    let scratch = new_scratch();
    let (tell, told) = mpsc::channel();
    let answerer = move |request: &Request, taker: &mut LineWriter| {
        let _ = tell.send(());
        let line = ErrorLine { code: String::new(), text: "x".repeat(1 << 20) };
        let line = Line::Error(line);
        Ok((0..request.limit()).try_for_each(|_| taker.line(&line))?)
    };
    let server = Server::open(&socket(&scratch), Arc::new(answerer)).unwrap();
    let mut slow = UnixStream::connect(socket(&scratch)).unwrap();
    slow.write_all(b"{\"millrace\":1,\"ask\":\"flows\",\"limit\":20}\n").unwrap();
    told.recv().unwrap();
    let quick = UnixStream::connect(socket(&scratch)).unwrap();
    let lines = answers(&quick, b"{\"millrace\":1,\"ask\":\"flows\",\"limit\":1}\n");
    assert_eq!(lines.len(), 1);
    drop(server);
}

/// For example an answerer that waits for a file on a server that is gone.
#[test]
fn an_answer_that_does_not_come_holds_up_no_end() {
    let scratch = new_scratch();
    let (tell, told) = mpsc::channel();
    let (end, hangs) = mpsc::channel::<()>();
    let hangs = Mutex::new(hangs);
    let answerer = move |_: &Request, _: &mut LineWriter| {
        let _ = tell.send(());
        let _ = hangs.lock().unwrap().recv();
        Ok(())
    };
    let server = Server::open(&socket(&scratch), Arc::new(answerer)).unwrap();
    let mut client = UnixStream::connect(socket(&scratch)).unwrap();
    client.write_all(b"{\"millrace\":1,\"ask\":\"flows\"}\n").unwrap();
    told.recv().unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    drop(end);
}

/// A socket that accepts no client does not block the client for ever.
#[test]
fn who_is_not_let_in_goes_away_in_time() {
    let scratch = new_scratch();
    let listener = UnixListener::bind(socket(&scratch)).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let connect = |_| connect_within(&socket(&scratch), Duration::ZERO);
    let let_in: Vec<_> = (0..3).map(connect).collect();
    assert!(let_in[0].is_ok());
    let last = let_in.last().unwrap().as_ref().unwrap_err();
    assert_eq!(last.kind(), ErrorKind::WouldBlock);
    drop(listener);
    let gone = connect_within(&socket(&scratch), Duration::from_secs(60)).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_place_is_taken_over_only_from_the_dead() {
    let scratch = new_scratch();
    let path = socket(&scratch);
    let open = || Server::open(&path, Arc::new(echo));
    // A leftover of a process that did not end in order.
    drop(UnixListener::bind(&path).unwrap());
    let first = open().unwrap();
    assert!(matches!(open(), Err(OpenError::InUse(_))));
    // The path has another process's socket by now, which stays.
    fs::remove_file(&path).unwrap();
    let second = open().unwrap();
    drop(first);
    assert_eq!(code(&scratch, b"{\"millrace\":1,\"ask\":\"flows\"}\n"), "none");
    drop(second);
    fs::write(&path, "a file").unwrap();
    assert!(matches!(open(), Err(OpenError::NoSocket(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    fs::remove_file(&path).unwrap();
    // The type of socket at which a system log listens.
    let log = UnixDatagram::bind(&path).unwrap();
    assert!(matches!(open(), Err(OpenError::Io { .. })));
    UnixDatagram::unbound().unwrap().send_to(b"a line", &path).unwrap();
    assert_eq!(log.recv(&mut [0; 10]).unwrap(), 6);
    let long = scratch.folder().join("x".repeat(200));
    let error = Server::open(&long, Arc::new(echo)).err().unwrap().to_string();
    assert!(error.contains("xxx: the path of a socket may have at most 98 bytes"), "{error}");
    assert_eq!(fs::read_dir(scratch.folder()).unwrap().count(), 1);
}

#[test]
fn a_path_that_no_socket_can_have_is_refused_with_the_way_out() {
    let scratch = new_scratch();
    let folder = scratch.folder();
    let fill = 98 - folder.as_os_str().len() - 1;
    let longest = folder.join("x".repeat(fill));
    check_path(&longest).unwrap();
    drop(Server::open(&longest, Arc::new(echo)).unwrap());
    let error = check_path(&folder.join("x".repeat(fill + 1))).unwrap_err().to_string();
    assert!(error.contains("at most 98 bytes, but this one has 99; choose a shorter"), "{error}");
    check_path(Path::new("a.sock")).unwrap();
    let error = check_path(&folder.join("none/a.sock")).unwrap_err().to_string();
    assert!(error.contains("none: No such file") && error.contains("create it"), "{error}");
    fs::write(folder.join("file"), "").unwrap();
    let error = check_path(&folder.join("file/a.sock")).unwrap_err().to_string();
    assert!(error.contains("file: not a directory"), "{error}");
}

/// Root queries sockets of any user.
#[test]
fn an_answer_does_not_command_a_terminal() {
    let text = "\u{1b}]0;mine\u{7}\u{9b}2J µs\nnext".to_owned();
    let line = Line::Error(ErrorLine { code: "late".to_owned(), text });
    let text = serde_json::to_string(&line).unwrap();
    let Line::Error(read) = read_line(&text).unwrap() else { panic!("{text}") };
    assert_eq!(read.text, "\u{fffd}]0;mine\u{fffd}\u{fffd}2J µs\nnext");
}

#[test]
fn only_the_owner_and_root_may_ask() {
    assert!(is_allowed(1000, 1000) && is_allowed(0, 1000) && is_allowed(0, 0));
    assert!(!is_allowed(1000, 0) && !is_allowed(1001, 1000));
}
