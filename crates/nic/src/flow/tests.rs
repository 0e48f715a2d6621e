// SPDX-License-Identifier: BSD-3-Clause

use super::fields::{Field, Form, Keeps, action_fields, keeps, variants, whole};
use super::grammar::{Indirect, Query, Show};
use super::*;
use dpdk::flow::{
    Action, ActionData, Attributes, HashFunction, Item, ItemKind, LongValues, OtherAction,
    OtherActionKind, Rss, Rule, Value, set_bits_of,
};
use proptest::prelude::*;

fn command(line: &str) -> Command {
    match parse(line, 4) {
        Ok(Some(command)) => command,
        other => panic!("{line}: {other:?}"),
    }
}

fn rule(text: &str) -> Rule {
    match command(&format!("flow create 0 {text}")) {
        Command::Create { port: 0, rule, .. } => rule,
        other => panic!("{other:?}"),
    }
}

fn item(text: &str) -> Item {
    rule(&format!("pattern {text} / end actions end")).pattern.remove(0)
}

#[test]
fn every_command_is_read() {
    assert_eq!(parse("  # nothing", 4), Ok(None));
    assert_eq!(command("flow flush 3 # all of them"), Command::Flush { port: 3 });
    let rules = vec![RuleName::Number(1), RuleName::Number(20)];
    let destroy = Command::Destroy { port: 0, rules };
    assert_eq!(command("flow destroy 0 rule 1 rule 0x14"), destroy);
    let query = Command::Query { port: 1, rule: RuleName::Number(2), query: Query::Count };
    assert_eq!(command("flow query 1 2 count"), query);
    assert_eq!(command("flow list 0"), Command::List { port: 0, groups: vec![] });
    assert_eq!(
        command("flow list 0 group 1 group 7"),
        Command::List { port: 0, groups: vec![1, 7] }
    );
    for (word, isolate) in [("0", false), ("1", true), ("true", true), ("off", false)] {
        let line = format!("flow isolate 0 {word}");
        assert_eq!(command(&line), Command::Isolate { port: 0, isolate });
    }
    assert_eq!(command("flow dump 0 all"), Command::Dump { port: 0, rule: None, file: None });
    let (rule, file) = (Some(RuleName::Number(3)), Some("f".to_owned()));
    assert_eq!(command("flow dump 0 rule 3 f"), Command::Dump { port: 0, rule, file });
    let rule = RuleName::UserId(5);
    let by_user = Command::Query { port: 0, rule, query: Query::Age };
    assert_eq!(command("flow query 0 5 age user_id"), by_user);
    assert_eq!(
        command("flow destroy 0 rule 5 user_id"),
        Command::Destroy { port: 0, rules: vec![rule] }
    );
    for line in ["show port fdir 0", "show port 0 fdir"] {
        assert_eq!(command(line), Command::Show { what: Show::Fdir, port: Some(0) });
    }
    assert_eq!(command("show port info all"), Command::Show { what: Show::Info, port: None });
    let ids = vec![100, 101];
    let destroy = Command::Indirect { port: 0, what: Indirect::Destroy { ids } };
    assert_eq!(command("flow indirect_action 0 destroy action_id 100 action_id 101"), destroy);
    assert_eq!(command("flow aged 0"), Command::Aged { port: 0, destroy: false });
    assert_eq!(command("flow aged 0 destroy"), Command::Aged { port: 0, destroy: true });
    assert_eq!(command("help ipv4"), Command::Help(Some("ipv4".to_owned())));
    assert_eq!(command("quit"), Command::Quit);
}

#[test]
fn the_two_rules_of_the_article_are_read() {
    let rule = rule("ingress pattern eth / ipv4 / udp / end actions queue index 6 / end");
    let kinds = [ItemKind::Eth, ItemKind::Ipv4, ItemKind::Udp];
    assert_eq!(rule.pattern, kinds.map(Item::any));
    assert_eq!(rule.actions, [Action::Queue(6)]);
    assert_eq!(rule.attributes, Attributes { ingress: true, ..Attributes::default() });

    let rule = super::tests::rule(
        "ingress pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 / tcp src is 1000 dst is 80 / \
         end actions queue index 1 / mark id 1 / end",
    );
    let ipv4 = &rule.pattern[1];
    let mut bytes = [0; 20];
    bytes[12..].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(ipv4.spec, Some(Value::new(&bytes)));
    bytes[12..].fill(0xff);
    assert_eq!((ipv4.mask, ipv4.last), (Some(Value::new(&bytes)), None));
    assert_eq!(rule.pattern[2].spec, Some(Value::new(&[0x03, 0xe8, 0, 80])));
    assert_eq!(rule.actions, [Action::Queue(1), Action::Mark(1)]);
}

#[test]
fn what_is_not_written_is_not_there() {
    assert_eq!(item("udp"), Item::any(ItemKind::Udp));
    let spec = item("udp src spec 0");
    assert_eq!((spec.spec, spec.last, spec.mask), (Some(Value::ZERO), None, None));
    let mask = item("udp src mask 0xff00");
    assert_eq!((mask.spec, mask.mask), (None, Some(Value::new(&[0xff]))));
    let range = item("udp src spec 1 src last 9 src mask 0xffff");
    assert_eq!(range.last, Some(Value::new(&[0, 9])));
    let prefix = item("ipv6 dst spec 2001:db8:: dst prefix 33").mask.unwrap();
    assert_eq!(prefix.bits(192, 128), u128::MAX << 95);
    assert_eq!(item("ipv4 src prefix 0").mask, Some(Value::ZERO));
    assert_eq!(item("eth has_vlan is 1").spec.unwrap().bytes()[14], 1);
    assert_eq!(item("vlan vid is 5").spec, Some(Value::new(&[0, 5])));
    assert_eq!(item("vlan vid is 5").mask, Some(Value::new(&[0x0f, 0xff])));
    assert_eq!(
        item("eth src is 02:0:0:0:0:aB").spec.unwrap().bytes()[6..12],
        [2, 0, 0, 0, 0, 0xab]
    );
}

/// Bytes of any length are beside the values, and a type is a value.
#[test]
fn items_have_bytes_types_and_values_without_names() {
    let raw = item("raw relative is 1 offset is -2 pattern is ab");
    let spec = raw.spec.unwrap();
    assert_eq!((spec.bits(31, 1), spec.bits(32, 32)), (1, 0xffff_fffe));
    let long = raw.long.unwrap();
    assert_eq!((long.spec, long.mask), (b"ab".to_vec(), vec![0xff; 2]));
    let masked = item("raw pattern_hex spec 0a0b pattern_hex mask 00ff");
    assert_eq!((masked.spec, masked.mask), (Some(Value::ZERO), Some(Value::ZERO)));
    assert_eq!(masked.long.unwrap().mask, [0, 0xff]);
    assert_eq!(item("raw pattern_hex is 0x").long, None);
    assert_eq!(item("conntrack is 1").spec, Some(Value::new(&[0, 0, 0, 1])));
    let control = item("l2tpv2 type control session_id is 0x1111");
    assert_eq!(control.spec, Some(Value::new(&[0xc8, 2, 0, 0, 0, 0, 0x11, 0x11])));
    let data = item("l2tpv2 type data session_id is 0x1111");
    assert_eq!(data.spec, Some(Value::new(&[0, 2, 0, 0, 0x11, 0x11])));
    assert_eq!(item("meter color is red").spec, Some(Value::new(&[0, 0, 0, 2])));
    assert_eq!(item("mpls label is 5 s is 1").spec, Some(Value::new(&[0, 0, 0x51])));
    let far = parse("flow create 0 pattern raw offset is -2147483649 / end actions end", 4);
    assert!(far.unwrap_err().message().contains("does not fit into 32 bits"));
}

#[test]
fn rss_without_queues_means_all_of_them() {
    let rss = |text: &str| match &rule(&format!("pattern end actions {text} / end")).actions[0] {
        Action::Rss(rss) => rss.clone(),
        other => panic!("{other:?}"),
    };
    let default = Rss { types: 0xa38c, queues: vec![0, 1, 2, 3], ..Rss::default() };
    assert_eq!(rss("rss"), default);
    let full = "rss func toeplitz level 2 types ipv4 tcp 0x20 end key 0102fF queues 3 end";
    let expected = Rss {
        func: HashFunction::Toeplitz,
        level: 2,
        types: 0x1_0410 | 4 | 0x20,
        key: vec![1, 2, 255],
        null_key_len: 0,
        queues: vec![3],
    };
    assert_eq!(rss(full), expected);
    assert_eq!(rss("rss types none end queues end"), Rss::default());
}

/// The names are those of DPDK 22.11: `cmdline_flow.c` and, for types, `config.c` of testpmd.
#[test]
fn rss_has_the_words_of_testpmd() {
    let rss = |text: &str| match &rule(&format!("pattern end actions {text} / end")).actions[0] {
        Action::Rss(rss) => rss.clone(),
        other => panic!("{other:?}"),
    };
    // Names of groups of types.
    let of = |bits: &[u32]| bits.iter().fold(0u64, |types, bit| types | 1 << bit);
    let all: Vec<u32> = (2..=17).chain([23, 24, 25, 26, 27, 28, 29, 30, 32, 33, 36]).collect();
    for (word, bits) in [
        ("all", &all[..]),
        ("ip", &[2, 3, 7, 8, 9, 13, 15]),
        ("udp", &[5, 11, 17]),
        ("tcp", &[4, 10, 16]),
        ("sctp", &[6, 12]),
        ("tunnel", &[19, 20, 21]),
        ("vlan", &[25, 26]),
    ] {
        assert_eq!(rss(&format!("rss types {word} end")).types, of(bits), "{word}");
    }
    for word in ["default", "toeplitz", "simple_xor", "symmetric_toeplitz"] {
        rss(&format!("rss func {word}"));
    }
    // A length without a key is passed to the driver; a key is cut, or filled with zeros.
    let of_key = |text: &str| (rss(text).key, rss(text).null_key_len);
    assert_eq!(of_key("rss key_len 40"), (vec![], 40));
    assert_eq!(of_key("rss key_len 40 key 0102"), (vec![1, 2], 0));
    assert_eq!(of_key("rss key 0102 key_len 1"), (vec![1], 0));
    assert_eq!(of_key("rss key 0102 key_len 4"), (vec![1, 2, 0, 0], 0));
    let line = "flow create 0 pattern end actions rss key_len 65 / end";
    assert!(parse(line, 4).unwrap_err().message().contains("\"65\" is more than 64"));
}

#[test]
fn an_error_has_its_place_and_what_was_expected() {
    for (line, column, marks, message) in [
        (
            "flow creat 0",
            6,
            5,
            "\"creat\" may not stand here; nearest: create; expected: validate, create, ",
        ),
        (
            "flow create 0 ingres pattern",
            15,
            6,
            "nearest: ingress; expected: group, priority, ingress, egress",
        ),
        ("flow create 0 pattern eth / ip4 / end", 29, 3, "nearest: ipv4; expected: void, any, eth"),
        ("flow create 0 pattern ipv4 srk is 1", 28, 3, "nearest: src; expected: /, version_ihl"),
        (
            "flow create 0 pattern ipv4 src 10.0.0.1",
            32,
            8,
            "may not stand here; expected: is, spec",
        ),
        (
            "flow create 0 pattern ipv4 src is 10.0.0",
            35,
            6,
            "\"10.0.0\" is no IPv4 address, such as 10.0.0.1; expected: IPV4",
        ),
        (
            "flow create 0 pattern tcp dst is 65536",
            34,
            5,
            "\"65536\" is more than 65535; expected: NUMBER",
        ),
        ("flow create 0 pattern tcp dst is 010", 34, 3, "begins with a zero"),
        ("flow create 0 pattern ipv4 src prefix 33", 39, 2, "\"33\" is more than 32"),
        (
            "flow create 0 pattern eth / end actions age timeout 16777216 / end",
            53,
            8,
            "is more than 16777215",
        ),
        ("flow create 0 pattern eth / end actions drop id", 46, 2, "expected: /"),
        ("flow create 65536", 13, 5, "is more than 65535; expected: PORT"),
        ("flow create", 12, 1, "the line ends too early; expected: PORT"),
        ("flow list 0 every", 13, 5, "\"every\" may not stand here; expected: group"),
        ("quit now", 6, 3, "\"now\" is too much"),
        ("fl\u{f6}w", 1, 4, "nearest: flow"),
        ("\t\u{1b}[31m", 2, 5, "\"\\u{1b}[31m\" may not stand here"),
    ] {
        let error = parse(line, 4).expect_err(line);
        assert!(error.message().contains(message), "{line}: {}", error.message());
        assert_eq!(error.column(line), column, "{line}");
        let shown = error.marks(line);
        assert_eq!(shown.trim_start(), "^".repeat(marks), "{line}");
        assert_eq!(shown.chars().count(), column - 1 + marks, "{line}");
    }
}

fn value(fields: &'static [Field]) -> impl Strategy<Value = Option<Value>> {
    let bits = prop_oneof![Just(0), Just(u128::MAX), any::<u128>()];
    let field = (0..fields.len().max(1), bits);
    proptest::option::of(proptest::collection::vec(field, 0..4)).prop_map(move |set| {
        let set = set.filter(|_| !fields.is_empty())?;
        let mut value = Value::ZERO;
        for (place, bits) in set {
            value.set_bits(fields[place].first, fields[place].width, bits);
        }
        Some(value)
    })
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..max)
}

/// Adds what the grammar makes beside the values: bytes of any length, or a type.
fn completed(mut item: Item, long: [Vec<u8>; 3], pick: usize) -> Item {
    let fields = whole(item.kind);
    if fields.iter().any(Field::is_long) {
        let [spec, last, mask] = long;
        let values = [&mut item.spec, &mut item.last, &mut item.mask];
        for (value, bytes) in values.into_iter().zip([&spec, &last, &mask]) {
            if !bytes.is_empty() {
                value.get_or_insert(Value::ZERO);
            }
        }
        let long = LongValues { spec, last, mask };
        item.long = (long != LongValues::default()).then(|| Box::new(long));
    }
    if let Some(variants) = variants(item.kind.name()) {
        let variant = &variants.list[pick % variants.list.len()];
        let (first, width) = (variants.first, variants.width);
        item.spec.get_or_insert(Value::ZERO).set_bits(first, width, variant.number);
        item.mask.get_or_insert(Value::ZERO).set_bits(first, width, u128::MAX);
        let field = &variant.fields[pick % variant.fields.len()];
        item.last = Some(Value::ZERO);
        if let Some(spec) = &mut item.spec {
            spec.set_bits(field.first, field.width, pick as u128);
        }
    }
    item
}

fn any_item() -> impl Strategy<Value = Item> {
    let kinds: Vec<_> = ItemKind::all().collect();
    proptest::sample::select(kinds).prop_flat_map(|kind| {
        let value = || value(whole(kind));
        let long = [bytes(9), bytes(9), bytes(9)];
        (value(), value(), value(), long, any::<u16>()).prop_map(
            move |(spec, last, mask, long, pick)| {
                let item = Item { spec, last, mask, ..Item::any(kind) };
                completed(item, long, usize::from(pick))
            },
        )
    })
}

/// An action that only the shell uses, as the grammar makes it.
fn other_action() -> impl Strategy<Value = Action> {
    let kinds: Vec<_> = OtherActionKind::all().collect();
    let values = (any::<[u128; 16]>(), any::<u16>(), bytes(9));
    (proptest::sample::select(kinds), values).prop_map(|(kind, (values, number, bytes))| {
        let mut action: OtherAction = kind.zeroed();
        for (field, value) in action_fields(kind.name()).iter().zip(values) {
            let value = match field.form {
                Form::Word(words) => value % words.len() as u128,
                _ => value,
            };
            if field.width > 0 {
                set_bits_of(&mut action.conf, field.first, field.width, value);
            }
        }
        action.data = match keeps(kind.name()) {
            Keeps::Nothing => ActionData::None,
            Keeps::One => ActionData::Kept(0),
            Keeps::Numbered | Keeps::Number => ActionData::Kept(number.into()),
        };
        match kind.name() {
            "modify_field" if !bytes.is_empty() => action.data = ActionData::Bytes(bytes),
            "age_update" => set_bits_of(&mut action.conf, 25, 1, 1),
            "conntrack_update" => set_bits_of(&mut action.conf, 72 * 8 + 30, 2, number.into()),
            _ => (),
        }
        Action::Other(Box::new(action))
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let functions = HashFunction::ALL.map(|(function, _)| function).to_vec();
    let rss = (
        proptest::sample::select(functions),
        any::<u32>(),
        any::<u64>(),
        proptest::collection::vec(any::<u8>(), 0..5),
        0..=64u32,
        proptest::collection::vec(any::<u16>(), 0..5),
    );
    prop_oneof![
        proptest::sample::select(vec![Action::Void, Action::Flag, Action::Drop, Action::Passthru]),
        any::<u32>().prop_map(Action::Mark),
        any::<u16>().prop_map(Action::Queue),
        (0..3u32).prop_map(Action::Count),
        (0..1u32 << 24).prop_map(Action::Age),
        any::<u32>().prop_map(Action::Jump),
        any::<Option<u32>>().prop_map(Action::PortId),
        any::<u16>().prop_map(Action::RepresentedPort),
        any::<u16>().prop_map(Action::PortRepresentor),
        other_action(),
        rss.prop_map(|(func, level, types, key, len, queues)| {
            let null_key_len = if key.is_empty() { len } else { 0 };
            Action::Rss(Rss { func, level, types, key, null_key_len, queues })
        }),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let attributes = (any::<(u32, u32)>(), any::<(bool, bool, bool)>()).prop_map(
        |((group, priority), (ingress, egress, transfer))| Attributes {
            group,
            priority,
            ingress,
            egress,
            transfer,
        },
    );
    let pattern = proptest::collection::vec(any_item(), 0..6);
    let actions = proptest::collection::vec(any_action(), 0..4);
    (attributes, pattern, actions).prop_map(|(attributes, pattern, actions)| Rule {
        attributes,
        pattern,
        actions,
    })
}

proptest! {
    #[test]
    fn a_printed_rule_reads_as_the_same_rule(expected in any_rule()) {
        let text = print_rule(&expected);
        prop_assert_eq!(rule(&text), expected, "{}", text);
    }

    #[test]
    fn completion_is_never_refused(picks in proptest::collection::vec(any::<u8>(), 1..40)) {
        let world = CompletionContext { rules: vec![vec![1, 2]; 2], queues: 4 };
        let mut line = String::new();
        for pick in picks {
            let words = complete(&line, &world).1;
            let Some(word) = words.get(usize::from(pick) % words.len().max(1)) else { break };
            line += word;
            if let Err(error) = parse(&line, 4) {
                prop_assert!(error.place.is_empty(), "{}: {}", line, error.message());
            }
            line.push(' ');
        }
    }
}
