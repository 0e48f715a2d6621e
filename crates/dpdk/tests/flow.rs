// SPDX-License-Identifier: BSD-3-Clause
//! Flow rules on a port that has none, and on the software NIC where it was built.

use dpdk::flow::{
    Action, Attributes, Cause, Count, ErrorKind, Item, ItemKind, OtherActionKind, OtherItem, Rss,
    Rule, TableStep, Value,
};
use dpdk::{Eal, Port, RxQueue, TxQueue};
use testkit::host::twin_driver_or_skip;
use testkit::port::{mempool, port_config, start_eal};

const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const ENOTSUP: i32 = 95;
const ENOENT: i32 = 2;

/// UDP from port `source` goes to queue 1 with a mark, and is counted.
fn udp_from(source: u16) -> Rule {
    let mut udp = Item::any(ItemKind::Udp);
    udp.spec = Some(Value::new(&source.to_be_bytes()));
    udp.mask = Some(Value::new(&[0xff; 2]));
    Rule {
        attributes: Attributes { ingress: true, ..Attributes::default() },
        pattern: vec![Item::any(ItemKind::Eth), Item::any(ItemKind::Ipv4), udp],
        actions: vec![Action::Queue(1), Action::Mark(7), Action::Count(0)],
    }
}

fn start(eal: &Eal, devargs: &str) -> (Port, (Vec<RxQueue>, Vec<TxQueue>)) {
    let name = devargs.replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let pool = mempool(eal, &name);
    let mut port = Port::probe(eal, devargs).unwrap();
    port.request_flow_queue(8);
    let queues = port_config(2, 64, pool);
    let queues = port.configure(&queues).unwrap();
    (port, queues)
}

/// EAL starts once in a process, so all is one test.
#[test]
fn rules_are_made_and_refusals_are_reported() {
    let eal = start_eal(256);
    without_rules(&eal);
    if twin_driver_or_skip().is_none() {
        return;
    }
    let (mut port, queues) = start(&eal, "net_twin0,wire=w");
    let (mut other, _others) = start(&eal, "net_twin1,wire=w");
    refusals(&mut port);
    life_of_rules(&mut port, &mut other);
    rules_by_templates(&mut port, queues);
}

/// A driver that knows nothing of rules.
fn without_rules(eal: &Eal) {
    let mut port = Port::probe(eal, "net_null0").unwrap();
    let rule = udp_from(1);
    for error in [
        port.flow_validate(&rule).unwrap_err(),
        port.flow_create(&rule).unwrap_err(),
        port.flow_flush().unwrap_err(),
        port.flow_isolate(true).unwrap_err(),
        port.flow_dump(None).unwrap_err(),
        port.flow_info().unwrap_err(),
    ] {
        assert_eq!((error.errno, error.kind, error.cause), (ENOSYS, ErrorKind::Unspecified, None));
        assert_eq!(error.to_string(), "error type 1 (cause unspecified): Function not implemented");
    }
    // DPDK itself answers here, and otherwise.
    assert_ne!(port.flow_aged().unwrap_err().errno, 0);
}

/// What the software NIC does not take: each way to leave out spec, last and mask is another one.
fn refusals(port: &mut Port) {
    let last = Item { last: Some(Value::ZERO), ..Item::any(ItemKind::Ipv4) };
    let mask = Item { mask: Some(Value::ZERO), ..Item::any(ItemKind::Ipv4) };
    let with_item = |item| {
        let mut rule = udp_from(1);
        rule.pattern[1] = item;
        rule
    };
    let with_action = |action| Rule { actions: vec![Action::Mark(1), action], ..udp_from(1) };
    let esp = OtherItem::all().find(|item| item.name() == "esp").unwrap();
    let esp = Item { spec: Some(Value::new(&[0, 0, 0, 1])), ..Item::any(ItemKind::Other(esp)) };
    let vf = OtherActionKind::all().find(|kind| kind.name() == "vf").unwrap();
    let far = Rss { queues: vec![0, 2], ..Rss::default() };
    for (rule, errno, kind, cause) in [
        (with_item(last), EINVAL, ErrorKind::ItemSpec, Cause::Item(1)),
        (with_item(mask.clone()), EINVAL, ErrorKind::ItemSpec, Cause::Item(1)),
        (with_item(Item::any(ItemKind::Meta)), ENOTSUP, ErrorKind::Item, Cause::Item(1)),
        (with_item(esp), ENOTSUP, ErrorKind::Item, Cause::Item(1)),
        (
            with_action(Action::Other(Box::new(vf.zeroed()))),
            ENOTSUP,
            ErrorKind::Action,
            Cause::Action(1),
        ),
        (with_action(Action::Queue(2)), EINVAL, ErrorKind::ActionConf, Cause::Action(1)),
        (with_action(Action::Rss(far)), EINVAL, ErrorKind::ActionConf, Cause::Action(1)),
    ] {
        let error = port.flow_validate(&rule).unwrap_err();
        assert_eq!((error.errno, error.kind, error.cause), (errno, kind, Some(cause)), "{error}");
        assert!(error.message.is_some(), "{error}");
        assert_eq!(port.flow_create(&rule).unwrap_err(), error);
    }
    let error = port.flow_create(&with_item(mask)).unwrap_err();
    // The software NIC has no indirect actions.
    let attributes = udp_from(1).attributes;
    let none = port.flow_indirect_create(attributes, &Action::Count(0)).unwrap_err();
    assert_eq!((none.errno, none.cause), (ENOSYS, None));
    assert!(error.of(Some(&udp_from(1))).contains(": item 2 (ipv4): "), "{error}");
}

fn life_of_rules(port: &mut Port, other: &mut Port) {
    port.flow_validate(&udp_from(1)).unwrap();
    let first = port.flow_create(&udp_from(1)).unwrap();
    let second = port.flow_create(&udp_from(2)).unwrap();
    assert_ne!(first.handle(), second.handle());
    let again = port.flow_create(&udp_from(1)).unwrap_err();
    assert_eq!(again.errno, EEXIST);
    let count = Count { hits: Some(0), bytes: Some(0) };
    assert_eq!(port.flow_query_count(&first, true), Ok(count));

    // A rule is nobody else's, and gone when it is gone.
    assert_eq!(other.flow_query_count(&first, false).unwrap_err().errno, ENOENT);
    assert_eq!(port.flow_destroy(first), Ok(()));
    let first = port.flow_create(&udp_from(1)).unwrap();
    port.flow_flush().unwrap();
    let third = port.flow_create(&udp_from(1)).unwrap();
    for gone in [first, second] {
        let (_, error) = port.flow_destroy(gone).unwrap_err();
        assert_eq!((error.errno, error.kind), (ENOENT, ErrorKind::Handle));
    }
    let (third, error) = other.flow_destroy(third).unwrap_err();
    assert_eq!(error.errno, ENOENT);
    port.flow_destroy(third).unwrap();
}

type Queues = (Vec<RxQueue>, Vec<TxQueue>);

/// As many results as were asked for.
fn results(port: &mut Port, count: usize) -> Vec<(u64, bool)> {
    port.flow_push().unwrap();
    let mut results = Vec::new();
    while results.len() < count {
        results.extend(port.flow_pull().unwrap().iter().map(|done| (done.number, done.is_good)));
    }
    results
}

fn rules_by_templates(port: &mut Port, (mut rx, mut tx): Queues) {
    assert_eq!(port.flow_queue(), Ok(8), "as was asked for");
    let info = port.flow_info().unwrap();
    assert!(info.queues > 0 && info.operations >= 4, "{info:?}");
    // Only a stopped port takes a queue.
    assert_eq!(port.flow_configure(4).unwrap_err().errno, EINVAL);
    port.set_started(false, (&mut rx, &mut tx)).unwrap();
    port.flow_configure(4).unwrap();
    port.set_started(true, (&mut rx, &mut tx)).unwrap();
    assert_eq!(port.flow_enqueue_create(&udp_from(1), 1).unwrap_err().errno, EINVAL);
    let unknown = Rule { pattern: vec![Item::any(ItemKind::Meta)], ..udp_from(1) };
    let (step, error) = port.flow_table_make(&unknown, 3).unwrap_err();
    assert_eq!(
        (step, error.errno, error.cause),
        (TableStep::PatternTemplate, ENOTSUP, Some(Cause::Item(0)))
    );
    assert_eq!(port.flow_table_make(&udp_from(1), 0).unwrap_err().0, TableStep::Table);
    port.flow_table_make(&udp_from(1), 3).unwrap();
    // Another table has other rules, and takes none from the first.
    let drops = |source| Rule { actions: vec![Action::Drop], ..udp_from(source) };
    port.flow_table_make(&drops(1), 1).unwrap();
    // The second is the first once more; only its result says so.
    for (number, source) in [(1, 1), (2, 1), (3, 3)] {
        port.flow_enqueue_create(&udp_from(source), number).unwrap();
    }
    assert_eq!(port.flow_enqueue_create(&udp_from(4), 1).unwrap_err().errno, EEXIST);
    // Drivers read rules by the table's templates.
    let (mut short, mut other, mut maskless) = (udp_from(4), udp_from(4), udp_from(4));
    short.pattern.pop();
    other.actions[0] = Action::Flag;
    maskless.pattern[2].mask = None;
    for rule in [short, other, maskless, Rule { actions: vec![], ..udp_from(4) }] {
        let error = port.flow_enqueue_create(&rule, 4).unwrap_err();
        assert_eq!((error.errno, error.kind), (EINVAL, ErrorKind::State));
    }
    assert_eq!(port.flow_enqueue_destroy(1).unwrap_err().errno, ENOENT, "it is not there yet");
    assert_eq!(results(port, 3), [(1, true), (2, false), (3, true)]);
    assert_eq!(port.flow_dump(None).unwrap().lines().count(), 2);
    assert_eq!(port.flow_create(&udp_from(3)).unwrap_err().errno, EEXIST);
    assert_eq!(port.flow_enqueue_destroy(2).unwrap_err().errno, ENOENT, "it was not made");
    port.flow_enqueue_create(&drops(7), 7).unwrap();
    port.flow_enqueue_destroy(1).unwrap();
    assert_eq!(port.flow_enqueue_destroy(1).unwrap_err().errno, ENOENT, "it is leaving");
    assert_eq!(results(port, 2), [(7, true), (1, true)]);
    assert_eq!(port.flow_tables_destroy().unwrap_err().errno, EBUSY, "it has a rule");
    // The driver would free the table.
    assert_eq!(port.flow_configure(4).unwrap_err().errno, EBUSY);
    assert_eq!(port.flow_table_make(&udp_from(1), 3).unwrap_err().1.errno, EBUSY);
    // A flush takes rules of tables too, and their names.
    port.flow_flush().unwrap();
    assert_eq!(port.flow_enqueue_destroy(3).unwrap_err().errno, ENOENT);
    port.flow_tables_destroy().unwrap();
    assert_eq!(port.flow_push().unwrap_err().errno, ENOENT);
}
