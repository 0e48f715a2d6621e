// SPDX-License-Identifier: BSD-3-Clause
//! Tests virtual ports that need no privileges: all frames that enter on one side leave on the
//! other, and the flow records agree with the frames sent.

use crate::bump::{Setup, count};
use crate::captures::{Talk, arp, is_a, is_complete, jumbo, read_pcap, truncated};

use crate::records::{conversations, read_records};
use serde_json::Value;
use testkit::host::has_cpus;

/// Returns the devargs of a `net_pcap` port with one queue for each capture.
pub(crate) fn pcap_port(name: &str, receive: &[String], transmit: &[String]) -> String {
    let queues = receive.iter().zip(transmit);
    let args = queues.map(|(rx, tx)| format!(",rx_pcap={rx},tx_pcap={tx}"));
    format!("net_pcap{name}{}", args.collect::<String>())
}

/// Returns packets and bytes received and sent by a port, from the summary.
fn port_counts(summary: &Value, port: usize) -> [u64; 4] {
    let port = &summary["ports"][port];
    ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"].map(|member| count(&port[member]))
}

fn bytes(frames: &[Vec<u8>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

#[test]
fn frames_come_out_as_they_went_in_and_are_counted_to_their_flows() {
    for flows in ["flows.jsonl", "flows.csv"] {
        let setup = Setup::new("pcap").flows(flows);
        let mut talk = Talk::new(1, 1000);
        let mut sent = talk.frames.clone();
        sent[0].extend([arp(), truncated(), jumbo()]);
        sent[1].extend([arp(), arp(), truncated()]);
        std::mem::swap(&mut talk.frames, &mut sent);
        let [a, b, a_out, b_out] = ["a", "b", "a_out", "b_out"].map(|name| setup.path(name));
        talk.write(&a, &b);
        let ports = [("0", a, &a_out), ("1", b, &b_out)]
            .map(|(name, rx, tx)| pcap_port(name, &[rx], std::slice::from_ref(tx)));
        let mut bump = setup.pair(&ports[0], &ports[1]).start();
        bump.wait_until("all frames", |_| {
            is_complete(&b_out, &talk.frames[0]) && is_complete(&a_out, &talk.frames[1])
        });
        let ended = bump.finish();
        ended.assert_good();
        assert_eq!(read_pcap(&b_out), talk.frames[0]);
        assert_eq!(read_pcap(&a_out), talk.frames[1]);

        let records = ended.records();
        let mut seen = conversations(&records, is_a);
        let jumbo_tally = seen.remove("17 10.0.0.1 9000 10.0.255.255 9000 []").unwrap()[0];
        assert_eq!((jumbo_tally.packets, jumbo_tally.bytes), (1, jumbo().len() as u64));
        assert_eq!(seen, talk.conversations);
        assert!(records.iter().all(|record| record.text("end_reason") == "exit"));

        let summary = ended.summary();
        let passed = &summary["passed"];
        assert_eq!((&passed["non_ip"], &passed["ip_truncated"]), (&3.into(), &2.into()));
        let [up, down] = &talk.frames;
        let (up, down) = ([up.len() as u64, bytes(up)], [down.len() as u64, bytes(down)]);
        assert_eq!(port_counts(&summary, 0), [up[0], up[1], down[0], down[1]]);
        assert_eq!(port_counts(&summary, 1), [down[0], down[1], up[0], up[1]]);
        let directions = summary["directions"].as_array().unwrap();
        assert_eq!(directions[0]["packets"], up[0]);
        assert_eq!(directions[1]["packets"], down[0]);
    }
}

#[test]
fn what_is_to_be_dropped_is_dropped_and_nothing_else() {
    let setup = Setup::new("drop").config("[policy]\nmalformed = \"drop\"\n");
    let mut talk = Talk::new(1, 50);
    let kept = talk.frames[0].clone();
    for position in [0, 7, kept.len()] {
        talk.frames[0].insert(position, truncated());
    }
    let [a, b, a_out, b_out] = ["a", "b", "a_out", "b_out"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let a = pcap_port("0", &[a], &[a_out]);
    let b = pcap_port("1", &[b], std::slice::from_ref(&b_out));
    let mut bump = setup.pair(&a, &b).start();
    bump.wait_until("all frames", |_| is_complete(&b_out, &kept));
    let ended = bump.finish();
    ended.assert_good();
    assert_eq!(read_pcap(&b_out), kept);
    assert_eq!(ended.summary()["drops"]["ip_truncated"], 3);
    assert_eq!(conversations(&ended.records(), is_a), talk.conversations);
}

/// Each conversation is in the same queue of both sides, as with symmetric RSS of a NIC.
#[test]
fn two_workers_have_a_queue_of_each_port() {
    if !has_cpus(2) {
        return;
    }
    let setup = Setup::new("workers");
    let talks = [Talk::new(1, 300), Talk::new(2, 200)];
    let paths = |name: &str| ["0", "1"].map(|queue| setup.path(&format!("{name}{queue}")));
    let [a, b, a_out, b_out] = ["a", "b", "a_out", "b_out"].map(paths);
    for (queue, talk) in talks.iter().enumerate() {
        talk.write(&a[queue], &b[queue]);
    }
    let ports = (pcap_port("0", &a, &a_out), pcap_port("1", &b, &b_out));
    let mut bump = setup.pair(&ports.0, &ports.1).args(&["--workers", "2"]).start();
    bump.wait_until("all frames of both queues", |_| {
        talks.iter().enumerate().all(|(queue, talk)| {
            is_complete(&b_out[queue], &talk.frames[0])
                && is_complete(&a_out[queue], &talk.frames[1])
        })
    });
    let ended = bump.finish();
    ended.assert_balanced();
    // The captures are symmetric, but `net_pcap` has no RSS.
    assert_eq!(ended.stderr.matches("has no symmetric RSS").count(), 2, "{}", ended.stderr);
    let mut expected = talks[0].conversations.clone();
    expected.extend(talks[1].conversations.clone());
    assert_eq!(conversations(&ended.records(), is_a), expected);
    let summary = ended.summary();
    for (queue, talk) in talks.iter().enumerate() {
        assert_eq!(read_pcap(&b_out[queue]), talk.frames[0]);
        assert_eq!(read_pcap(&a_out[queue]), talk.frames[1]);
        let packets = talk.frames[0].len() + talk.frames[1].len();
        assert_eq!(summary["workers"][queue]["packets"], packets);
    }
    assert_ne!(summary["workers"][0]["lcore"], summary["workers"][1]["lcore"]);
}

#[test]
fn pairs_are_apart_from_one_another() {
    if !has_cpus(2) {
        return;
    }
    let mut setup = Setup::new("pairs");
    // Both pairs have the same conversations, and flow tables of their own.
    let talk = Talk::new(1, 100);
    let [a, b, a_out, b_out, c_out, d_out] =
        ["a", "b", "a_out", "b_out", "c_out", "d_out"].map(|name| setup.path(name));
    talk.write(&a, &b);
    for (names, outs) in [(["0", "1"], [&a_out, &b_out]), (["2", "3"], [&c_out, &d_out])] {
        let first = pcap_port(names[0], std::slice::from_ref(&a), std::slice::from_ref(outs[0]));
        let second = pcap_port(names[1], std::slice::from_ref(&b), std::slice::from_ref(outs[1]));
        setup = setup.pair(&first, &second);
    }
    let mut bump = setup.start();
    bump.wait_until("all frames of both pairs", |_| {
        let ups = [&b_out, &d_out].iter().all(|path| is_complete(path, &talk.frames[0]));
        ups && [&a_out, &c_out].iter().all(|path| is_complete(path, &talk.frames[1]))
    });
    let ended = bump.finish();
    ended.assert_good();
    for (out, side) in [(b_out, 0), (d_out, 0), (a_out, 1), (c_out, 1)] {
        assert_eq!(read_pcap(&out), talk.frames[side]);
    }
    assert_eq!(ended.records().len(), 2 * talk.conversations.len());
    let summary = ended.summary();
    assert_eq!(summary["ports"].as_array().unwrap().len(), 4);
    let [up, down] = talk.frames.map(|frames| 2 * frames.len());
    assert_eq!(summary["directions"][0]["packets"], up);
    assert_eq!(summary["directions"][1]["packets"], down);
}

/// Two zones have equal addresses. A zone's settings apply to all packets of its pair, whatever
/// their tags.
#[test]
fn a_pair_has_a_zone_of_its_own() {
    if !has_cpus(2) {
        return;
    }
    let setup = Setup::new("pair-zones");
    let talk = Talk::new(1, 100);
    let [a, b, a_out, b_out, c_out, d_out] =
        ["a", "b", "a_out", "b_out", "c_out", "d_out"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let port = |name, rx: &str, tx: &str| pcap_port(name, &[rx.to_owned()], &[tx.to_owned()]);
    let pair =
        |[a, b]: [String; 2], zone| format!("[[pair]]\na = {a:?}\nb = {b:?}\nzone = {zone}\n");
    let first = pair([port("0", &a, &a_out), port("1", &b, &b_out)], 7);
    let second = pair([port("2", &a, &c_out), port("3", &b, &d_out)], 65_535);
    let keys = ["tcp_syn_sent", "tcp_established", "udp_first", "udp_single", "udp_multiple"];
    let keys = [&keys[..], &["icmp_first", "icmp_reply"]].concat();
    let brief: String = keys.iter().map(|key| format!("{key} = 0.05\n")).collect();
    let zones = format!(
        "[[timeout_policy]]\nname = \"brief\"\n{brief}[[zone]]\nids = [65_535]\n\
         timeouts = \"brief\"\n[[zone]]\nids = [7]\nconnections_max = 30\n"
    );
    let mut bump = setup.config(&format!("{first}{second}{zones}")).start();
    bump.wait_until("all frames of both pairs", |_| {
        let ups = [&b_out, &d_out].iter().all(|path| is_complete(path, &talk.frames[0]));
        ups && [&a_out, &c_out].iter().all(|path| is_complete(path, &talk.frames[1]))
    });
    // All connections of the second pair have expired, none of the first one has.
    bump.wait_for_line("the ends of brief ones", |line| line.flows == 30.0);
    let ended = bump.finish();
    ended.assert_good();
    let records = ended.records();
    let of = |zone| records.iter().filter(move |record| record.number("zone") == zone);
    assert_eq!(of(7).count(), 30);
    assert!(of(7).all(|record| record.text("end_reason") == "exit"));
    assert!(of(65_535).count() >= talk.conversations.len());
    assert!(of(65_535).all(|record| record.text("end_reason") == "idle"));
    assert_eq!(of(7).count() + of(65_535).count(), records.len());
    assert!(count(&ended.summary()["passed"]["zone_full"]) > 0);
}

/// `net_ring` receives the frames that are sent to it.
#[test]
fn a_ring_gives_everything_back() {
    let setup = Setup::new("ring");
    let mut talk = Talk::new(1, 300);
    talk.frames[1].clear();
    let [a, b, a_out] = ["a", "b", "a_out"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let port = pcap_port("0", &[a], std::slice::from_ref(&a_out));
    let mut bump = setup.pair(&port, "net_ring0").start();
    bump.wait_until("the frames are back", |_| is_complete(&a_out, &talk.frames[0]));
    let ended = bump.finish();
    ended.assert_good();
    assert_eq!(read_pcap(&a_out), talk.frames[0]);
    assert_eq!(ended.summary()["ledger"]["rx"], 2 * talk.frames[0].len());
    for (key, [a, b]) in conversations(&ended.records(), is_a) {
        let sent = talk.conversations[&key][0];
        assert_eq!((a.packets, b.packets), (2 * sent.packets, 0), "{key}");
    }
}

#[test]
fn a_capture_goes_round_until_the_time_is_over() {
    let setup = Setup::new("infinite").duration("1.2");
    let talk = Talk::new(1, 100);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let port = format!("net_pcap0,rx_pcap={a},infinite_rx=1");
    let ended = setup.pair(&port, "net_null0,no-rx=1").run();
    ended.assert_good();
    let summary = ended.summary();
    assert!(summary["duration_s"].as_f64().unwrap() >= 1.2);
    assert!(count(&summary["ledger"]["tx"]) > talk.frames[0].len() as u64, "{summary}");
    let keys = |of: &crate::records::Conversations| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&conversations(&ended.records(), is_a)), keys(&talk.conversations));
}

/// `net_null` generates frames of zeros, which are not IP packets.
#[test]
fn frames_of_nothing_pass_between_null_ports() {
    let setup = Setup::new("null").duration("1");
    let ended = setup.pair("net_null0,size=64", "net_null1,size=1500").run();
    ended.assert_good();
    let summary = ended.summary();
    for port in 0..2 {
        // The driver does not count bytes.
        let [received, _, sent, _] = port_counts(&summary, port);
        assert!(received > 0 && sent > 0, "{summary}");
    }
    assert_eq!(summary["passed"]["llc"], summary["ledger"]["rx"]);
    assert_eq!(ended.records(), []);
}

/// With ordinary pages, an mbuf larger than half a page takes a whole page.
#[test]
fn the_memory_of_a_plan_is_enough_for_its_mbufs() {
    for (mbufs, data_bytes) in [(60_000, 2048), (20_000, 4096), (50_000, 1024)] {
        let config = format!("[eal]\nmbufs = {mbufs}\nmbuf_data_bytes = {data_bytes}\n");
        let setup = Setup::new("memory").config(&config).duration("0.1");
        setup.pair("net_null0,no-rx=1", "net_null1,no-rx=1").run().assert_good();
    }
}

#[test]
fn both_formats_of_records_say_the_same() {
    let mut seen = Vec::new();
    for flows in ["flows.jsonl", "flows.csv"] {
        let setup = Setup::new("formats").flows(flows);
        let mut talk = Talk::new(1, 40);
        talk.frames[1].clear();
        let [a, b, a_out, b_out] = ["a", "b", "a_out", "b_out"].map(|name| setup.path(name));
        talk.write(&a, &b);
        let a = pcap_port("0", &[a], &[a_out]);
        let b = pcap_port("1", &[b], std::slice::from_ref(&b_out));
        let mut bump = setup.pair(&a, &b).start();
        bump.wait_until("all frames", |_| is_complete(&b_out, &talk.frames[0]));
        let ended = bump.finish();
        ended.assert_good();
        let mut records = read_records(&ended.path(flows));
        for record in &mut records {
            record.forget_times();
            record.forget_details();
        }
        records.sort_by_key(|record| record.number("sport"));
        seen.push(records);
    }
    assert_eq!(seen[0], seen[1]);
}
