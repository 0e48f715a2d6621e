// SPDX-License-Identifier: BSD-3-Clause
//! Tests the reading of ASTF profiles: that they are the same as profiles in TOML, and that what is
//! not supported is refused at its line.

use super::*;
use std::fs;
use std::path::PathBuf;
use testkit::host::{has_tools, skip};

/// True with a Python that can run profiles; says why not otherwise.
fn has_python() -> bool {
    if !has_tools(&[PYTHON]) {
        return false;
    }
    let code = "import sys; sys.exit(sys.version_info < (3, 7))";
    let is_new = Command::new(PYTHON).args(["-c", code]).status().is_ok_and(|it| it.success());
    if !is_new {
        skip("python3 is older than 3.7");
    }
    is_new
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn owned(tunables: &[&str]) -> Vec<String> {
    tunables.iter().map(|&it| it.to_owned()).collect()
}

fn toml(text: &str) -> Profile {
    Profile::from_toml(text, &|_| Err("no files".to_owned())).unwrap()
}

/// Returns the profile of a file in `tests/astf`, and the notes about it.
fn example(name: &str, tunables: &[&str]) -> (Profile, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/astf").join(name);
    match run(PYTHON, &path, &owned(tunables)).unwrap() {
        Outcome::Refused(remark) => panic!("{remark}"),
        Outcome::Read { profile, notes } => {
            let profile = Profile::from_json(&profile.to_string(), &|_| Err(String::new()));
            let prefix = format!("{}:", path.display());
            let text = |note: Remark| note.to_string().strip_prefix(&prefix).unwrap().to_owned();
            (profile.unwrap(), notes.into_iter().map(text).collect())
        }
    }
}

/// The article's TOML profiles in one, with more messages, and the bytes of the profile in Python.
fn article_in_toml(messages: u32, wait_ms: u32) -> Profile {
    let file = |name| fs::read_to_string(root().join("profiles").join(name)).unwrap();
    let (tcp, udp) = (file("article-tcp.toml"), file("article-udp.toml"));
    let whole = tcp + &udp[udp.find("[[template]]").unwrap()..];
    let mut text = String::new();
    for line in whole.lines() {
        let byte = if line.starts_with("client") { "x" } else { "y" };
        let delay =
            if wait_ms > 0 { format!("{{ delay_ms = {wait_ms} }}, ") } else { String::new() };
        let send = format!("{{ send = \"{}\" }}", byte.repeat(20));
        let mut line = line.replace("{ send = 20 }", &send);
        if line.starts_with("server") {
            line = line.replace("{ send", &format!("{delay}{{ send"));
        }
        line = match messages {
            1 => line.replace("{ repeat = 1, do = [", "").replace("] }]", "]"),
            _ => line.replace("repeat = 1", &format!("repeat = {messages}")),
        };
        text += &(line + "\n");
    }
    toml(&text)
}

#[test]
fn the_article_is_the_same_in_both_languages() {
    if !has_python() {
        return;
    }
    let path = root().join("profiles/article.py");
    let of = |tunables: &[&str]| read(PYTHON, &path, &owned(tunables)).unwrap();
    assert_eq!(of(&[]), article_in_toml(1, 0));
    assert_eq!(of(&["num-messages=500", "server-wait=50"]), article_in_toml(500, 50));
    let small = of(&["message-size=19", "num-messages=2", "max-flows=1000", "udp-percent=0"]);
    assert_eq!((small.templates.len(), small.templates[0].limit), (1, Some(1000)));
    assert_ne!(small.templates[0], article_in_toml(2, 0).templates[0]);
}

#[test]
fn a_request_over_tcp_is_read() {
    if !has_python() {
        return;
    }
    let (profile, notes) = example("http.py", &["size=5"]);
    let expected = r#"
        clients = "16.0.0.0-16.0.0.255"
        servers = "48.0.0.0-48.0.255.255"
        [timeouts]
        delayed_ack_ms = 20
        [[template]]
        port = 80
        cps = 1
        client = [{send = "GET / HTTP/1.1\r\nHost: 48.0.0.1\r\n\r\n"}, {receive = 24},
            {delay_us = [10, 2500]}]
        server = [{receive = 34}, {delay_ms = 500}, {send = "HTTP/1.1 200 OK\r\n\r\n*****"},
            "wait_for_close"]
    "#;
    assert_eq!(profile, toml(expected));
    assert_eq!(
        notes,
        [
            "29: distribution=\"rand\" has no effect: addresses are used in turn",
            "35: tcp.mss = 1400 has no effect: use --mtu: the MSS is 40 bytes less, over IPv6 60",
            "37: scheduler.rampup_sec = 5 has no effect: use --ramp S",
        ]
    );
}

#[test]
fn messages_over_udp_are_counted_in_bytes() {
    if !has_python() {
        return;
    }
    let (profile, notes) = example("udp.py", &[]);
    let expected = format!(
        r#"
        clients = "2001:2::1000:1-2001:2::1000:9"
        servers = "2001:2:1::3000:1"
        [[template]]
        name = "dns"
        proto = "udp"
        port = 53
        cps = 2.5
        limit = 10
        client = [{{send = "query"}}, {{receive = 106}}, {{send_hex = "00ff"}}, "close"]
        server = [{{receive = 5}}, {{send = "a part"}}, {{send = "{}"}}, {{receive = 2}}]
        "#,
        "ab".repeat(50)
    );
    assert_eq!(profile, toml(&expected));
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn loops_that_count_are_repeated() {
    if !has_python() {
        return;
    }
    let (profile, notes) = example("loops.py", &["loop=3", "with-udp"]);
    let chunk = |len| format!("{{send = \"{}\"}}, {{delay_us = 20}}", "*".repeat(len));
    let expected = format!(
        r#"
        clients = "16.0.0.0-16.0.0.255"
        servers = "48.0.0.0-48.0.0.255"
        [[template]]
        port = 80
        cps = 1
        client = [{{repeat = 3, do = [
            {{send = "request"}}, {{repeat = 4, do = [{{receive = 100}}]}},
        ]}}, "reset"]
        server = [{{repeat = 3, do = [{{receive = 7}}, {0}, {0}, {1}]}}]
        [[template]]
        name = "2"
        proto = "udp"
        port = 81
        cps = 1
        client = [
            {{repeat = 1, do = [{{repeat = 65535, do = [{{send = "ping"}}, {{receive = 5}}]}}]}},
            {{repeat = 4465, do = [{{send = "ping"}}, {{receive = 5}}]}},
        ]
        server = [{{repeat = 35000, do = [{{receive = 4}}, {{send = "pong!"}}, {{receive = 4}},
            {{send = "pong!"}}]}}]
        "#,
        chunk(150),
        chunk(100)
    );
    assert_eq!(profile, toml(&expected));
    assert_eq!(notes, ["29: recv() in a loop waits in each round; in TRex that takes clear=True"]);
}

/// Writes a profile whose programs, `c` and `s`, begin at line 6; returns why it is refused.
fn refusal(programs: &str, [client, server, profile]: [&str; 3], tunables: &[&str]) -> String {
    let programs = programs.replace("; ", "\n        ");
    let text = format!(
        r#"from trex.astf.api import *
class Prof1():
    def get_profile(self, **kwargs):
        c, s, udp = ASTFProgram(), ASTFProgram(), ASTFProgram(stream=False)
        dist = ASTFIPGenDist(ip_range=["16.0.0.0", "16.0.0.255"], distribution="seq")
        {programs}
        gen = ASTFIPGen(dist, ASTFIPGenDist(ip_range=["48.0.0.0", "48.0.0.255"]))
        temp_c = ASTFTCPClientTemplate(program=c, ip_gen=gen{client})
        temp_s = ASTFTCPServerTemplate(program=s{server})
        template = ASTFTemplate(client_template=temp_c, server_template=temp_s)
        return ASTFProfile(default_ip_gen=gen, templates=template{profile})
def register():
    return Prof1()
"#
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.py");
    fs::write(&path, text).unwrap();
    let error = read(PYTHON, &path, &owned(tunables)).unwrap_err();
    format!("{error:#}").replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn what_is_not_supported_is_refused_at_its_line() {
    if !has_python() {
        return;
    }
    let end = "s.recv(1)";
    let programs = [
        ("c.send('a'); c.set_tick_var('b')", "7: ASTFProgram.set_tick_var() is not supported"),
        ("c = ASTFProgram(file='a.pcap'); c.send('a')", "7: send(): a program from a capture has"),
        ("c = ASTFProgram(file='a.pcap')", "10: ASTFTemplate: both programs must come from the"),
        ("c = s = ASTFProgram(file='a.pcap')", "10: ASTFTemplate: the server's program needs side"),
        ("ASTFCapInfo(file='a.pcap', l7_percent=1)", "6: ASTFCapInfo(l7_percent=...) is not"),
        ("Other()", "6: NameError: name 'Other' is not defined"),
        ("from trex.astf.api import Other", "6: cannot import name 'Other': it is not supported"),
        ("c.send_msg('a')", "6: send_msg() is for UDP: this program lacks stream=False"),
        ("c.send(''); s.recv(1)", "6: send: needs at least 1 byte"),
        ("c.set_label('a'); c.send('a'); c.jmp_nz('i', 'a')", "8: jmp_nz: 'i' is not set just"),
        (
            "c.set_label('a'); c.set_var('i', 2); c.send('a'); c.jmp_nz('i', 'a')",
            "9: jmp_nz: 'i' is set inside its own loop",
        ),
        ("c.set_var('i', 2); c.send('a'); c.jmp_nz('i', 'a')", "8: jmp_nz: there is no loop from"),
        (
            "c.set_var('i', 2); c.set_label('a'); c.send('a'); c.reset(); c.jmp_nz('i', 'a')",
            "9: reset() must be the last command",
        ),
        (
            "c = s = udp; c.send_msg('a'); c.recv_msg(2)",
            "8: recv_msg: the other end sends fewer messages",
        ),
        ("i = ASTFGlobalInfo(); i.ip.ttl = 3", "7: ip.ttl = 3 is not supported: it is 64"),
        ("i = ASTFGlobalInfo(); i.tcp.mtu = 3", "7: tcp.mtu is not supported"),
        ("exit(3)", "6: the profile ended Python with status 3"),
        ("c.send('a'", "SyntaxError"),
    ];
    for (program, expected) in programs {
        let error = refusal(program, ["", "", ""], &[]);
        let at = format!("profile.py:{expected}");
        let is_named =
            error.starts_with(&at) || error.contains(expected) && expected == "SyntaxError";
        assert!(is_named && error.contains("docs/generator-astf.md"), "{program}: {error}");
    }
    let rule = ", assoc=ASTFAssociationRule(port=81)";
    for (rest, expected) in [
        ([", port=90", "", ""], "10: ASTFTemplate: the client's port is 90, that of the server"),
        (["", rule, ""], "10: ASTFTemplate: the client's port is 80, that of the server's rule 81"),
        (["", "", ", cap_list=[1]"], "11: ASTFProfile: cap_list: needs ASTFCapInfo, not 1"),
        ([", e_duration=3", "", ""], "8: TypeError"),
        // Found by the same checks as in TOML.
        (
            ["", "", ""],
            "profile profile.py: template 1: the server receives 1 bytes, but the other",
        ),
    ] {
        let error = refusal(end, rest, &[]);
        let at = error.strip_prefix("profile.py:").unwrap_or(&error);
        assert!(at.starts_with(expected), "{rest:?}: {error}");
    }
}

/// Captures are found beside the profile; of their pauses, those of UDP are kept.
#[test]
fn captures_are_those_of_a_profile_in_toml() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let frames = [[1, 2], [2, 1]].map(|[src, dst]| {
        let ip = wire::FrameBuilder::ipv4([10, 0, 0, src], [10, 0, 0, dst]);
        let (sport, dport) = if src == 1 { (4000, 53) } else { (53, 4000) };
        ip.udp(sport, dport).payload([src; 30]).build()
    });
    testkit::capture::write_pcap(folder.path().join("dns.pcap"), &frames);
    let text = "\
from trex.astf.api import *
class Prof:
    def get_profile(self, **kwargs):
        gen = ASTFIPGen(dist_client=ASTFIPGenDist(['16.0.0.1', '16.0.0.9']),
                        dist_server=ASTFIPGenDist(['48.0.0.1', '48.0.0.9']))
        c, s = [ASTFProgram(file='dns.pcap', side=side) for side in 'cs']
        template = ASTFTemplate(
            client_template=ASTFTCPClientTemplate(program=c, ip_gen=gen, port=5353),
            server_template=ASTFTCPServerTemplate(program=s, assoc=ASTFAssociationRule(port=5353)))
        caps = [ASTFCapInfo(file='dns.pcap', cps=2.5, tg_name='dns'),
                ASTFCapInfo(file='dns.pcap', port=54, limit=7)]
        return ASTFProfile(default_ip_gen=gen, templates=template, cap_list=caps)
def register():
    return Prof()
";
    let path = folder.path().join("profile.py");
    fs::write(&path, text).unwrap();
    let profile = read(PYTHON, &path, &[]).unwrap();
    let expected = r#"
        clients = "16.0.0.1-16.0.0.9"
        servers = "48.0.0.1-48.0.0.9"
        [[template]]
        capture = "dns.pcap"
        port = 5353
        cps = 1
        [[template]]
        name = "dns"
        capture = "dns.pcap"
        cps = 2.5
        [[template]]
        capture = "dns.pcap"
        port = 54
        cps = 1
        limit = 7
    "#;
    let read_file = |file: &Path| Ok(fs::read(folder.path().join(file)).unwrap());
    assert_eq!(profile, Profile::from_toml(expected, &read_file).unwrap());
    assert_eq!(profile.timeouts.answer_ms, 2000);
    fs::remove_file(folder.path().join("dns.pcap")).unwrap();
    let error = format!("{:#}", read(PYTHON, &path, &[]).unwrap_err());
    assert!(error.contains("dns.pcap: No such file") && error.contains("cannot read"), "{error}");
}

#[test]
fn faults_around_a_profile_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.py");
    let error = |python: &str, tunables: &[&str]| {
        let error = read(python, &path, &owned(tunables)).unwrap_err();
        format!("{error:#}").replace(&format!("{}/", folder.path().display()), "")
    };
    assert!(error(PYTHON, &[]).starts_with("cannot read profile.py: No such file"));
    fs::write(&path, "X = 1\n").unwrap();
    let missing = error("python3-that-is-not-there", &[]);
    assert!(missing.contains("python3-that-is-not-there is not installed"), "{missing}");
    assert!(missing.contains("write the profile in TOML"), "{missing}");
    if !has_python() {
        return;
    }
    assert!(error(PYTHON, &[]).starts_with("profile.py:1: there is no function register()"));
    let text = "class A:\n  def get_profile(self, size=1): pass\ndef register(): return A()\n";
    fs::write(&path, text).unwrap();
    assert!(error(PYTHON, &["length=3"]).starts_with("profile.py:2: there is no tunable length"));
    let other = error(PYTHON, &["size=3"]);
    assert!(other.starts_with("profile.py:2: get_profile() returns no ASTFProfile"), "{other}");
    // Nothing is left beside the profile.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
