// SPDX-License-Identifier: BSD-3-Clause
//! A port that resets itself: its queues and rules end, and it comes back as it was configured.

use dpdk::flow::{Action, Attributes, FlowRule, Item, ItemKind, Rule};
use dpdk::{Burst, Mempool, Port, PortError, Queues, Step};
use testkit::port::{mempool, port_config, start_eal_with_twin};
use testkit::process::wait_until;

const EIO: i32 = 5;
const ENOENT: i32 = 2;

fn rule() -> Rule {
    Rule {
        attributes: Attributes { ingress: true, ..Attributes::default() },
        pattern: vec![Item::any(ItemKind::Eth)],
        actions: vec![Action::Queue(1), Action::Mark(7)],
    }
}

/// A packet from one end to the other; its mark, if it arrived.
fn send(pool: &Mempool, from: &mut Queues, to: &mut Queues) -> Option<Option<u32>> {
    let mut burst = Burst::new();
    assert!(pool.alloc_bulk(&mut burst, 1));
    burst[0].write(&[0; 60]).unwrap();
    from.1[0].burst(&mut burst);
    burst.free_all();
    to.0.iter_mut().for_each(|rx| _ = rx.burst(&mut burst));
    burst.iter().next().map(wire::Packet::mark)
}

fn wait_for_event(port: &Port) {
    wait_until("the event of a reset", || port.resets().is_needed());
}

#[test]
fn a_port_comes_back_as_it_was_configured() {
    let Some(eal) = start_eal_with_twin() else { return };
    let pool = mempool(&eal, "reset");
    let queues = port_config(2, 64, pool);
    let start = |devargs: &str| {
        let mut port = Port::probe(&eal, devargs).unwrap();
        port.negotiate_marks().unwrap();
        let queues = port.configure(&queues).unwrap();
        (port, queues)
    };
    let (_sender, mut sending) = start("net_twin0,wire=w");
    let (mut port, mut receiving) = start("net_twin1,wire=w,reset_after=3");
    for _ in 0..2 {
        let made: FlowRule = port.flow_create(&rule()).unwrap();
        (0..3).for_each(|_| assert_eq!(send(&pool, &mut sending, &mut receiving), Some(Some(7))));
        wait_for_event(&port);
        assert!(!port.resets().is_down());
        assert_eq!(send(&pool, &mut sending, &mut receiving), None);
        assert_eq!(port.flow_create(&rule()).unwrap_err().errno, EIO);
        receiving = port.reset(receiving).unwrap();
        assert!(!port.resets().is_needed() && !port.resets().is_down());
        assert_eq!(port.flow_destroy(made).unwrap_err().1.errno, ENOENT);
        assert_eq!(port.flow_dump(None).unwrap(), "");
        assert_eq!(send(&pool, &mut sending, &mut receiving), Some(None));
        assert!(port.link().up);
        (0..2).for_each(|_| _ = send(&pool, &mut sending, &mut receiving));
        wait_for_event(&port);
        receiving = port.reset(receiving).unwrap();
    }
    assert_eq!((port.resets().begun(), port.times_reset()), (4, 4));
    drop((port, receiving));
    assert_eq!(pool.in_use(), 0);
    that_does_not_come_back(start("net_twin1,wire=w,reset_after=1,faults=reset-fails"));
    // What is left of such a port is in nobody's way.
    start("net_twin2");
}

fn that_does_not_come_back((mut port, queues): (Port, Queues)) {
    let before = port.stats();
    let mut queues = Some(queues);
    for begun in 1..4 {
        let error = port.reset(queues.take().unwrap_or_default()).unwrap_err();
        let PortError::Configure { step, .. } = error else { panic!("{error}") };
        assert_eq!(step, Step::Reset);
        assert!(port.resets().is_down() && !port.link().up);
        assert_eq!((port.resets().begun(), port.stats()), (begun, before));
        assert_eq!(port.times_reset(), 0);
    }
}
