// SPDX-License-Identifier: BSD-3-Clause

use super::*;
use crate::{Huge, Policy};
use std::collections::{BTreeMap, BTreeSet};
use testkit::capture::write_pcap;
use testkit::scratch::Scratch;

fn cpus(online: std::ops::Range<u32>) -> Cpus {
    let online: Vec<u32> = online.collect();
    Cpus { allowed: online.clone(), online, ..Cpus::default() }
}

pub(super) fn plan(text: &str) -> Result<Plan, Vec<Problem>> {
    Plan::new(Config::read(text), &cpus(0..4))
}

/// Returns `key: fault` of every problem.
pub(super) fn faults(text: &str) -> Vec<String> {
    let problems = plan(text).expect_err("a plan");
    problems.iter().map(|problem| format!("{}: {}", problem.key, problem.fault)).collect()
}

pub(super) const PAIR: &str = "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n";

#[test]
fn one_pair_is_all_a_plan_needs() {
    let plan = plan(PAIR).unwrap();
    assert_eq!(plan.pairs[0].workers, [1]);
    assert_eq!(plan.pairs[0].rx_descriptors, 1024);
    assert_eq!(
        plan.pairs[0].zone_from(engine::ZoneSource::InnerVlan),
        engine::ZoneSource::InnerVlan
    );
    assert_eq!(plan.engine.capacity_ipv4, 1 << 20);
    assert_eq!(plan.engine.capacity_ipv6, 1 << 18);
    assert_eq!(plan.engine.timeouts, Timeouts::default());
    assert_eq!(plan.eal.mbufs, 16_384);
    assert_eq!(plan.eal.huge, Huge::Auto);
    assert_eq!(plan.offload.policy, Policy::Measured);
    assert!(!plan.offload.is_asked_for);
}

#[test]
fn what_is_written_takes_effect() {
    let text = format!(
        "{PAIR}workers = [3, 0]\nrx_descriptors = 64\ntx_descriptors = 128\nzone = 7\n\
         [eal]\nhuge = true\nmemory_mb = 900\nmbufs = 20000\nmbuf_data_bytes = 9000\n\
         extra = [\"-v\"]\n\
         [table]\ncapacity = 7\nwhen_full = \"drop\"\nzone = \"none\"\n\
         [policy]\nmalformed = \"drop\"\ntcp = \"liberal\"\ninvalid = \"drop\"\n\
         [timeouts]\ntcp_syn_sent = 1\ntcp_established = 2\ntcp_close = 3\nudp_first = 4\n\
         tcp_syn_recv = 10\ntcp_fin_wait = 11\ntcp_time_wait = 12\nudp_single = 13\n\
         udp_multiple = 5\nicmp_first = 6\nicmp_reply = 7\nother_first = 8.25\nother_multiple = 9\n\
         flow_first = 10\nflow_multiple = 11\n\
         sctp_init = 20\nsctp_cookie = 21\nsctp_established = 22\nsctp_shutdown = 23\n\
         sctp_closed = 24\nsctp_heartbeat = 25\n"
    );
    let plan = plan(&text).unwrap();
    let pair = &plan.pairs[0];
    assert_eq!((pair.rx_descriptors, pair.tx_descriptors), (64, 128));
    assert_eq!(pair.zone_from(plan.engine.zone), engine::ZoneSource::Fixed(7));
    let eal = plan.eal_config(0);
    assert_eq!(eal.lcores, [3, 0]);
    assert_eq!(eal.ports, ["net_null0", "net_null1"]);
    assert_eq!((eal.memory_mb, eal.no_huge, eal.extra), (900, false, vec!["-v".to_owned()]));
    assert_eq!((plan.eal.mbufs, plan.eal.mbuf_data_bytes), (20_000, 9000));
    let engine = &plan.engine;
    assert_eq!((engine.capacity_ipv4, engine.capacity_ipv6), (7, 1));
    assert_eq!(engine.when_full, engine::WhenFull::Drop);
    assert_eq!(engine.zone, engine::ZoneSource::None);
    assert_eq!(engine.malformed, engine::MalformedPackets::Drop);
    assert_eq!(engine.tcp, engine::TcpWindowCheck::Liberal);
    assert_eq!(engine.invalid, engine::InvalidPackets::Drop);
    let expected = Timeouts {
        tcp_syn_sent: 1_000_000_000,
        tcp_syn_recv: 10_000_000_000,
        tcp_established: 2_000_000_000,
        tcp_fin_wait: 11_000_000_000,
        tcp_time_wait: 12_000_000_000,
        tcp_close: 3_000_000_000,
        udp_first: 4_000_000_000,
        udp_single: 13_000_000_000,
        udp_multiple: 5_000_000_000,
        icmp_first: 6_000_000_000,
        icmp_reply: 7_000_000_000,
        sctp_init: 20_000_000_000,
        sctp_cookie: 21_000_000_000,
        sctp_established: 22_000_000_000,
        sctp_shutdown: 23_000_000_000,
        sctp_closed: 24_000_000_000,
        sctp_heartbeat: 25_000_000_000,
        other_first: 8_250_000_000,
        other_multiple: 9_000_000_000,
        flow_first: 10_000_000_000,
        flow_multiple: 11_000_000_000,
    };
    assert_eq!(engine.timeouts, expected);
}

#[test]
fn a_zone_has_what_it_names_and_for_the_rest_what_holds_elsewhere() {
    let text = format!(
        "{PAIR}[policy]\ntcp = \"liberal\"\n[timeouts]\nudp_first = 4\n\
         [limits]\nembryonic_percent = 25\nsource_max = 7\nevict = \"nothing\"\n\
         adaptive_start = 60\n\
         [[timeout_policy]]\nname = \"dns\"\nudp_multiple = 5\n\
         [[zone]]\nids = [7, 65535]\ntimeouts = \"dns\"\nconnections_max = 9\n\
         [[zone]]\nids = [8]\npick_up = \"strict\"\nwhen_full = \"drop\"\n"
    );
    let engine = plan(&text).unwrap().engine;
    assert_eq!(
        (engine.embryonic_percent, engine.source_max, engine.new_per_second),
        (25, Some(7), None)
    );
    assert_eq!(engine.evict, engine::Evict::Nothing);
    assert_eq!(engine.adaptive_percent, Some((60, 120)));
    let elsewhere = engine.policy();
    let of_default = Timeouts { udp_first: 4_000_000_000, ..Timeouts::default() };
    assert_eq!((elsewhere.timeouts, elsewhere.connections_max), (of_default, None));
    let dns = Timeouts { udp_multiple: 5_000_000_000, ..of_default };
    let zones = engine::ZonePolicies::new(&engine);
    let first = engine::ZonePolicy { timeouts: dns, connections_max: Some(9), ..elsewhere };
    assert_eq!((zones.of(7), zones.of(65_535), zones.of(0)), (&first, &first, &elsewhere));
    let (pick_up, when_full) = (engine::TcpPickup::Strict, engine::WhenFull::Drop);
    assert_eq!(*zones.of(8), engine::ZonePolicy { pick_up, when_full, ..elsewhere });
}

#[test]
fn zones_and_policies_that_are_not_there_are_reported() {
    let refused = |rest: &str| {
        let problems = plan(&format!("{PAIR}{rest}")).err().unwrap();
        let line = |problem: &Problem| format!("{}: {}", problem.key, problem.fault);
        problems.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let message =
        refused("[[zone]]\nids = [1]\ntimeouts = \"dsn\"\n[[timeout_policy]]\nname = \"dns\"\n");
    assert_eq!(
        message,
        "zone[0].timeouts: there is no timeout policy \"dsn\"; the policies are \"default\", \
         \"dns\""
    );
    assert!(refused("[[zone]]\ntcp = \"strict\"\n").contains("zone[0].ids: missing"));
    assert!(refused("[[zone]]\nids = []\n").contains("zone[0].ids: missing"));
    assert!(
        refused("[[timeout_policy]]\nudp_first = 1\n").contains("timeout_policy[0].name: missing")
    );
    let too_many = "[[zone]]\nids = [1]\n".repeat(engine::ZonePolicies::MAX + 1);
    assert_eq!(
        refused(&too_many),
        "zone: there are 65536 sections [[zone]]; at most 65535 are allowed"
    );
    assert!(refused("[[timeout_policy]]\nname = \"default\"\n").contains("already"));
    assert!(refused("[[zone]]\nids = [65536]\n").contains("0 to 65535"));
}

#[test]
fn a_plan_shown_and_read_again_is_the_same_plan() {
    for rest in [
        "",
        "[table]\ncapacity = 5\n[eal]\nhuge = false\n",
        "[[timeout_policy]]\nname = \"a\\u0001\"\n[[zone]]\nids = [3]\ntimeouts = \"a\\u0001\"\n",
        "[eal]\nextra = [\"\\u0001\\u007f\\u0085\\t\\n\\\"\"]\n",
    ] {
        let text = format!("{PAIR}{rest}");
        let first = plan(&text).unwrap();
        let second = plan(&first.settings.to_string()).unwrap();
        let without_engine = |plan: &Plan| format!("{:?} {:?}", plan.eal, plan.pairs);
        assert_eq!(without_engine(&first), without_engine(&second));
        let bare = |plan: &Plan| {
            let text = plan.settings.to_string();
            text.lines()
                .map(|line| line.split(" #").next().unwrap().trim_end().to_owned())
                .collect()
        };
        let (first, second): (Vec<String>, Vec<String>) = (bare(&first), bare(&second));
        assert_eq!(first, second);
    }
}

#[test]
fn every_default_is_marked() {
    let plan = plan(&format!("{PAIR}[table]\ncapacity = 5\n")).unwrap();
    let text = plan.settings.to_string();
    let unmarked: Vec<_> = text
        .lines()
        .filter(|line| {
            line.contains('=') && !line.contains("# default") && !line.contains("# comp")
        })
        .collect();
    assert_eq!(unmarked, ["a = \"net_null0\"", "b = \"net_null1\"", "capacity = 5"]);
    let json = plan.settings.to_json();
    assert_eq!(json["table"]["capacity"], serde_json::json!({ "value": 5, "from": "file" }));
    assert_eq!(json["pair"][0]["workers"]["from"], "computed");
    assert_eq!(
        json["timeouts"]["tcp_close"],
        serde_json::json!({ "value": 30.0, "from": "default" })
    );
}

#[test]
fn a_port_has_one_place() {
    let same = "[[pair]]\na = \"18:00.2\"\nb = \"0000:18:00.2,x=1\"\n";
    assert_eq!(
        faults(same),
        ["pair[0].b: 0000:18:00.2 is already a port of this configuration (line 2, column 5); \
          name it once"]
    );
    let across = format!("{PAIR}[[pair]]\na = \"net_null2\"\nb = \"net_null0,copy=1\"\n");
    assert_eq!(faults(&across).len(), 1);
    let interface = "[[pair]]\na = \"net_af_packet0,iface=eth1\"\n\
                     b = \"net_af_packet1,qpairs=1,iface=eth1\"\n";
    assert_eq!(
        faults(interface),
        ["pair[0].b: Linux interface eth1 already belongs to a port (line 2, column 5)"]
    );
}

#[test]
fn a_cpu_has_one_worker() {
    let text = "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\nworkers = [1, 1]\n\
                [[pair]]\na = \"net_null2\"\nb = \"net_null3\"\nworkers = [2, 1, 9]\n";
    assert_eq!(
        faults(text),
        [
            "pair[0].workers[1]: cpu 1 already has a worker (line 4, column 12); a worker needs a \
             cpu of its own",
            "pair[1].workers[1]: cpu 1 already has a worker (line 4, column 12); a worker needs a \
             cpu of its own",
            "pair[1].workers[2]: this host has no cpu 9; it has 0-3",
        ]
    );
}

#[test]
fn a_worker_may_have_an_isolated_cpu_but_none_that_is_denied() {
    let cpus = Cpus { allowed: vec![0], isolated: vec![2], ..cpus(0..4) };
    let plan = |cpu| Plan::new(Config::read(&format!("{PAIR}workers = [{cpu}]\n")), &cpus);
    assert_eq!(plan(2).unwrap().pairs[0].workers, [2]);
    let fault = &plan(3).unwrap_err()[0].fault;
    assert_eq!(*fault, Fault::CpuNotAllowed { cpu: 3, usable: "0,2".to_owned() });
}

#[test]
fn faults_of_different_kinds_are_reported_together() {
    let text = "[[pair]]\na = \"net_null0\"\nb = \"net_null0\"\nworkers = [7]\nworker = 1\n";
    assert_eq!(faults(text).len(), 3);
    assert_eq!(
        faults("[table]\n"),
        ["pair: no pair of ports: write [[pair]] with a and b, or give --pair A,B"]
    );
    assert_eq!(faults("[table]\ncapacity = 0\n").len(), 1);
}

#[test]
fn the_program_chooses_free_cpus() {
    let two = "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n\
               [[pair]]\na = \"net_null2\"\nb = \"net_null3\"\n";
    let chosen = |text: &str, count: Option<u32>, cpus: &Cpus| {
        let place = Place::Flag { flag: "--workers" };
        let workers = count.map(|value| Located { value, place });
        let plan = Plan::new(Config { workers, ..Config::read(text) }, cpus);
        plan.map(|plan| plan.pairs.into_iter().map(|pair| pair.workers).collect::<Vec<_>>())
    };
    let four = cpus(0..4);
    assert_eq!(chosen(two, None, &four).unwrap(), [[1], [2]]);
    assert_eq!(chosen(two, Some(2), &four).unwrap(), [[1, 2], [3, 0]]);
    assert_eq!(chosen(PAIR, None, &cpus(0..1)).unwrap(), [[0]]);
    let fault = &chosen(two, Some(3), &four).unwrap_err()[0].fault;
    assert_eq!(*fault, Fault::TooFewCpus { wanted: 3, needed: 6, free: 4 });
    let isolated = Cpus { isolated: vec![2, 3], ..four };
    assert_eq!(chosen(two, None, &isolated).unwrap(), [[2], [3]]);
    assert_eq!(chosen(&format!("{two}workers = [2]\n"), None, &isolated).unwrap(), [[3], [2]]);
}

#[test]
fn the_program_chooses_cpus_of_the_node_of_the_ports() {
    let cpus = Cpus { nodes: [(0, vec![0, 1]), (1, vec![2, 3])].into(), ..cpus(0..4) };
    let chosen = |nodes: &[&[u32]], count| {
        let mut config = Config::read(
            "[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n\
             [[pair]]\na = \"net_null2\"\nb = \"net_null3\"\n",
        );
        for (pair, nodes) in config.pairs.iter_mut().zip(nodes) {
            pair.found_nodes = nodes.to_vec();
        }
        let place = Place::Flag { flag: "--workers" };
        config.workers = Some(Located { value: count, place });
        let plan = Plan::new(config, &cpus).unwrap();
        plan.pairs.into_iter().map(|pair| pair.workers).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&[&[], &[]], 1), [[1], [2]]);
    assert_eq!(chosen(&[&[1], &[1]], 1), [[2], [3]]);
    assert_eq!(chosen(&[&[1], &[0]], 2), [[2, 3], [1, 0]]);
    assert_eq!(chosen(&[&[0, 1], &[0]], 1), [[1], [0]]);
    // The second pair takes cpus that the first one leaves.
    assert_eq!(chosen(&[&[1], &[1]], 2), [[2, 3], [1, 0]]);
}

const EVERY_KEY: &str = include_str!("../every_key.toml");
/// The commented configuration that `make install` installs.
const SAMPLE: &str = include_str!("../../../../etc/millrace.toml");

#[test]
fn the_sample_configuration_has_every_key_with_its_default() {
    let values = |text: &str| -> BTreeMap<String, String> {
        let plan = Plan::new(Config::read(text), &cpus(0..4));
        plan.unwrap_or_else(|problems| panic!("{problems:?}"))
            .settings
            .values()
            .into_iter()
            .collect()
    };
    // A `#` before a blank begins a comment. Without the blank it hides a key or a section.
    let reveal = |line: &str| {
        let hidden =
            line.strip_prefix('#').filter(|rest| !rest.is_empty() && !rest.starts_with(' '));
        format!("{}\n", hidden.unwrap_or(line))
    };
    let revealed: String = SAMPLE.lines().map(reveal).collect();
    let defaults = values(SAMPLE);
    let written = values(&revealed);
    for (key, default) in &defaults {
        assert_eq!(written.get(key), Some(default), "{key}");
    }
    assert_ne!(written.len(), defaults.len(), "the examples are read as well");
    // Sections that are absent by default are examples, with every key as well.
    let key_of = |line: &str| {
        let (key, _) = line.trim_start_matches(['#', ' ']).split_once(" = ")?;
        key.bytes()
            .all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte))
            .then(|| key.to_owned())
    };
    let keys: BTreeSet<String> = SAMPLE.lines().filter_map(key_of).collect();
    let planned = defaults.keys().map(|key| key.rsplit('.').next().unwrap().to_owned());
    let every: BTreeSet<String> = EVERY_KEY.lines().filter_map(key_of).chain(planned).collect();
    let missing: Vec<_> = every.difference(&keys).collect();
    assert!(missing.is_empty(), "not in the sample: {missing:?}");
}

#[test]
fn memory_covers_all_queues() {
    let text = format!("{PAIR}workers = [1, 2]\nrx_descriptors = 8192\ntx_descriptors = 8192\n");
    let plan = plan(&text).unwrap();
    assert_eq!(plan.eal.mbufs, 81_920);
    let memory = plan.memory();
    assert_eq!(memory.workers, 2);
    assert!(memory.mbuf_bytes < memory.eal_bytes);
    let engines = 2 * memory.engine_bytes_per_worker;
    assert_eq!(memory.total_bytes, memory.eal_bytes + engines + memory.offload_bytes);

    let few = format!("{text}[eal]\nmbufs = 60000\nmemory_mb = 64\n");
    assert_eq!(
        faults(&few),
        [
            "eal.mbufs: 60000 packet buffers are too few: 68480 can be in use at the same time",
            "eal.memory_mb: 64 MB are too little: packet buffers and ports need 307 MB",
        ]
    );
}

/// The worst capacities are those that just need an index of twice the size. A table of a few
/// kilobytes may take a little more than planned.
#[test]
fn what_a_plan_says_of_an_engine_is_enough() {
    for capacity in [1000, 4096, 7373, 58_983, 100_000, 471_860] {
        let tables = format!("[table]\ncapacity = {capacity}\ncapacity_ipv6 = {capacity}\n");
        let plan = plan(&format!("{PAIR}{tables}")).unwrap();
        let taken = engine::Engine::new(&plan.engine).memory_bytes() as u64;
        let told = plan.memory().engine_bytes_per_worker;
        assert!(taken <= told, "{capacity}: {taken} bytes taken, {told} told");
        assert!(told <= 2 * taken, "{capacity}: {taken} bytes taken, {told} told");
    }
}

/// Compares the planned bytes with what the engine and ports take for rules.
#[test]
fn what_a_plan_says_of_rules_is_enough() {
    let text = format!(
        "{PAIR}workers = [1, 2]\n[table]\ncapacity = 100_000\n[offload]\npolicy = \"after 8\"\n\
         rules_max = 10_000\ncheck = \"always\"\nquarantine_ms = 20\n"
    );
    let plan = plan(&text).unwrap();
    let offload = &plan.offload;
    assert_eq!((offload.policy, offload.quarantine), (Policy::After(8), 20_000_000));
    assert!(offload.is_asked_for);
    assert_eq!(offload.check, engine::MarkVerification::Always);
    assert_eq!(offload.rules_per_worker(2), 5_000);
    let slots = offload.slots(&plan.engine, 32, 2);
    assert!(slots > 5_000 && offload.slots(&plan.engine, 12, 2) < 64);
    let rules = engine::OffloadConfig {
        layout: engine::MarkLayout::new(32, engine::OffloadConfig::indices(slots)).unwrap(),
        first_index: 0,
        slots,
        check: offload.check,
        admission: engine::OffloadPolicy::After { packets: 8 },
        rules_max: offload.rules_per_worker(2),
        zone_rules_max: offload.zone_rules_per_worker(2),
        chooses_marks: false,
        bypass: [engine::BypassConfig::OFF; 2],
    };
    let taken = |offload| {
        let config = engine::Config { offload, ..plan.engine.clone() };
        engine::Engine::new(&config).memory_bytes() as u64
    };
    let memory = plan.memory();
    assert!(2 * (taken(Some(rules)) - taken(None)) <= memory.offload_bytes);
    let engines = 2 * memory.engine_bytes_per_worker;
    assert_eq!(memory.total_bytes, memory.eal_bytes + engines + memory.offload_bytes);
}

#[test]
fn an_argument_that_would_end_the_program_is_refused() {
    let faults = faults(&format!("{PAIR}[eal]\nextra = [\"-v\", \"-h\", \"--log-level=help\"]\n"));
    let told = |index: usize, word: &str| {
        format!(
            "eal.extra[{index}]: {word:?} makes DPDK print its options and exit; remove it \
             (dpdk-testpmd --help prints them)"
        )
    };
    assert_eq!(faults, [told(1, "-h"), told(2, "--log-level=help")]);
}

#[test]
fn a_capture_that_is_replayed_for_ever_has_its_buffers() {
    let scratch = Scratch::new(std::env::temp_dir(), "plan");
    let file = scratch.path("a.pcap");
    write_pcap(&file, &vec![vec![0; 60]; 20_000]);
    let mbufs = |arguments: &str| {
        let a = format!("net_pcap0,rx_pcap={file}{arguments}");
        let text = format!("[[pair]]\na = {a:?}\nb = \"net_null0,no-rx=1\"\nworkers = [1]\n");
        plan(&text).unwrap().eal.mbufs
    };
    assert_eq!(mbufs(""), 16_384);
    assert_eq!(mbufs(",infinite_rx=0"), 16_384);
    assert_eq!(mbufs(",infinite_rx=1"), 32_768);
    let again = format!(",rx_pcap={file},infinite_rx=1");
    assert_eq!(mbufs(&again), 49_152);
    drop(scratch);
    assert_eq!(mbufs(",infinite_rx=1"), 16_384, "the driver will say that there is no such file");
}

#[test]
fn the_setting_that_takes_most_memory_is_named() {
    let part = |text: &str| plan(&format!("{PAIR}{text}")).unwrap().largest_part().setting;
    assert_eq!(part("[eal]\nhuge = true\nmemory_mb = 200000\n"), "eal.memory_mb = 200000");
    assert_eq!(part("[table]\ncapacity = 5_000_000\n"), "table.capacity = 5000000");
    let small = "[table]\ncapacity = 1000\n[offload]\npolicy = \"off\"\n";
    assert_eq!(part(&format!("{small}[eal]\nmbufs = 90000\n")), "eal.mbufs = 90000");
    let rules = "[offload]\npolicy = \"all\"\nrules_max = 16_000_000\n[table]\ncapacity = 100\n";
    assert_eq!(part(rules), "offload.rules_max = 16000000");
}

#[test]
fn hugepages_are_taken_where_enough_are_free() {
    let no_huge = |huge: &str, free_mb| {
        plan(&format!("{PAIR}[eal]\nhuge = {huge}\n")).unwrap().eal_config(free_mb).no_huge
    };
    let needed = u64::from(plan(PAIR).unwrap().eal.memory_mb);
    assert!(!no_huge("\"auto\"", needed));
    assert!(no_huge("\"auto\"", needed - 1));
    assert!(!no_huge("true", 0));
    assert!(no_huge("false", 1 << 20));
}

#[test]
fn names_that_rules_and_commands_cannot_write_are_refused() {
    let told = |text: &str| {
        let problems = Plan::new(Config::read(&format!("{PAIR}{text}")), &cpus(0..2)).unwrap_err();
        problems
            .iter()
            .map(|Problem { key, fault, .. }| format!("{key}: {fault}"))
            .collect::<String>()
    };
    let list = told("[[list]]\nname = \"a\\tb\"\n");
    assert!(list.starts_with("list[0].name: \"a\\tb\" has control characters"), "{list}");
    let set = told("[[set]]\nname = \"a b\"\nnetworks = []\n");
    assert!(set.starts_with("set[0].name: \"a b\" has spaces"), "{set}");
}

/// Lists are read from text, tables and files; faults are named with their list and line.
#[test]
fn faults_of_access_lists_are_named() {
    let told = |rest: &str| {
        let text = format!("[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n{rest}");
        let line = |Problem { key, fault, .. }: &Problem| format!("{key}: {fault}");
        let plan = Plan::new(Config::read(&text), &cpus(0..2));
        plan.err().map(|problems| problems.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    let list = "[[list]]\nname = \"l\"\nport = \"a\"\n";
    let many: String = (0..20_000).map(|i| format!("deny sport {i} dport {i}\n")).collect();
    assert_eq!(told(list), None);
    assert_eq!(told("[acl]\nnew_from = \"a\"\n"), None);
    for (text, says) in [
        ("[[list]]\nport = \"a\"\n", "list[0].name: missing; give the list or set a name"),
        (&format!("{list}{list}"), "list[1].name: the name \"l\" exists already"),
        (
            &format!("{list}[[list]]\nname = \"m\"\nport = \"A\"\n"),
            "the list \"l\" is bound to the same port",
        ),
        (
            &format!("{list}[acl]\nnew_from = \"a\"\n"),
            "list[0]: new_from in [acl] makes a list for the packets that arrive at this port",
        ),
        (&format!("{list}pair = 1\n"), "list[0].pair: there are only 1 pairs"),
        (
            &format!("{list}rules = \"permit\\n\\ndeny dport 90-80\"\n"),
            "list[0].rules: rule on line 3, column 12: the range 90-80",
        ),
        (&format!("{list}rules = \"deny src @no\"\n"), "there is no set \"no\""),
        (&format!("{list}file = \"/nowhere\"\n"), "list[0].file: /nowhere cannot be read"),
        (
            &format!("{list}[[list.rule]]\naction = \"drop\"\n"),
            "list[0].rule[0].action: \"drop\" is no action; write permit,",
        ),
        (
            &format!("{list}[[list.rule]]\nsrc = \"any\"\n"),
            "list[0].rule[0].action: missing; write permit,",
        ),
        (
            &format!("{list}[[list.rule]]\naction = \"deny\"\ndport = [80, 70000]\n"),
            "list[0].rule[0].dport: \"70000\" is no port",
        ),
        (
            &format!("{list}[[list.rule]]\naction = \"deny\"\nicmp_type = 8\n"),
            "list[0].rule[0]: icmp-type and icmp-code need proto",
        ),
        (
            &format!("{list}[[list.rule]]\naction = \"deny\"\ncolour = 8\n"),
            "list[0].rule[0].colour: no such key",
        ),
        (
            &format!(
                "[acl]\nmemory_mb = 1\n{list}[[list]]\nname = \"m\"\nrules = '''\n{many}'''\n"
            ),
            "list[1]: the searches of the lists of a pair, up to the list \"m\", need more than",
        ),
        (
            &format!("{list}[[list.rule]]\naction = \"deny\"\nether_type = \"arp\"\n"),
            "list[0].rule[0].ether_type: \"ether_type\" is a field of ethernet lists; write kind",
        ),
        ("[[set]]\nname = \"s\"\nnetworks = [\"any\"]\n", "set[0].networks: \"any\" is no network"),
        ("[[set]]\nname = \"s\"\nnetworks = [\"@t\"]\n", "a set has no other sets in it"),
        ("[[set]]\nname = \"s\"\n", "set[0].networks: missing; write networks, file, or both"),
        (
            "[[set]]\nname = \"s\"\nnetworks = [\"10.0.0.1/8\"]\n",
            "set[0].networks: 10.0.0.1/8 has bits behind its prefix",
        ),
    ] {
        let found = told(text).unwrap_or_default();
        assert!(found.contains(says), "{text}\n{found}");
    }
}

/// Rules that would write where no connection keeps it are refused, with their list.
#[test]
fn rules_that_set_what_connections_do_not_keep_are_told() {
    let list = |rule: &str| format!("[[list]]\nname = \"l\"\nrules = \"deny\\n{rule}\"\n");
    let told = |text: &str, rule| match plan(&format!("{PAIR}{text}{}", list(rule))) {
        Ok(_) => String::new(),
        Err(problems) => format!("{}: {}", problems[0].key, problems[0].fault),
    };
    assert_eq!(told("", "permit set-mark 1"), "");
    assert_eq!(told("[table]\nlabels = true\n", "permit set-label 1"), "");
    assert_eq!(told("[policy]\ntracking = \"flows\"\n", "permit set-mark 1"), "");
    let tracked = "[[zone]]\nids = [7]\ntracking = \"connections\"\n";
    let some = format!("[policy]\ntracking = \"off\"\n{tracked}");
    assert_eq!(told(&some, "count set-mark 1"), "");
    let labels = told("", "permit set-label 1");
    let refused = "list[0]: pair 0, rule 1 (permit set-label 0x1): connections have no labels";
    assert!(labels.contains(refused), "{labels}");
    for off in ["tracking = \"off\"\n", "[policy]\ntracking = \"off\"\n"] {
        let refused = told(off, "permit set-mark 1");
        assert!(
            refused.contains("list[0]: pair 0, rule 1 (permit set-mark 0x1): there are no"),
            "{refused}"
        );
    }
}

/// Lists for frames that are not IP stand beside others; their faults are named.
#[test]
fn faults_of_ethernet_lists_are_named() {
    let told = |rest: &str| {
        let text = format!("[[pair]]\na = \"net_null0\"\nb = \"net_null1\"\n{rest}");
        let line = |Problem { key, fault, .. }: &Problem| format!("{key}: {fault}");
        let plan = Plan::new(Config::read(&text), &cpus(0..2));
        plan.err().map(|problems| problems.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    let list = "[[list]]\nname = \"l\"\nport = \"a\"\nkind = \"ethernet\"\n";
    let rule = format!("{list}[[list.rule]]\naction = \"deny\"\n");
    let many: String = (0..257).map(|i| format!("deny zone {i}\n")).collect();
    let of_ip = "[[list]]\nname = \"ip\"\nport = \"a\"\n";
    assert_eq!(told(&format!("{list}rules = \"permit ether-type arp\"\n{of_ip}")), None);
    assert_eq!(told(&format!("{rule}ether_type = [\"arp\", 2055]\nsrc_mac = \"any\"\n")), None);
    for (text, says) in [
        (format!("{list}{}", list.replace("\"l\"", "\"m\"")), "list[1]: the list \"l\" is bound"),
        (format!("{list}{of_ip}").replace("\"ip\"", "\"l\""), "the name \"l\" exists already"),
        (
            format!("{list}rules = \"permit\\npermit proto tcp\"\n"),
            "list[0].rules: rule on line 2, column 8: \"proto\" is no field of a rule in an",
        ),
        (
            format!("{list}rules = \"reject\"\n"),
            "column 1: \"reject\" is no action of an ethernet list; write permit, deny, or count",
        ),
        (format!("{list}default = \"reject\"\n"), "list[0].default: an ethernet list has"),
        (format!("{list}rules = '''\n{many}'''\n"), "list[0]: 257 rules; at most 256"),
        (format!("{rule}src_mac = \"02\"\n"), "list[0].rule[0].src_mac: \"02\" is no MAC"),
        (format!("{rule}set_mark = 1\n"), "list[0].rule[0].set_mark: only rules for IP packets"),
        (format!("{rule}log = true\n"), "list[0].rule[0].log: only rules for IP packets"),
        (list.replace("ethernet", "arp"), "list[0].kind:"),
    ] {
        let found = told(&text).unwrap_or_default();
        assert!(found.contains(says), "{text}\n{found}");
    }
}
