// SPDX-License-Identifier: BSD-3-Clause
//! An in-process cable: both directions, every queue, and what a full one gives back.

use dpdk::{Burst, Eal, Mempool, ring_cable};
use testkit::port::{eal_config, port_config};
use wire::Packet;

#[test]
fn what_one_end_sends_the_other_receives() {
    let eal = Eal::init(&eal_config(256)).unwrap();
    let pool = Mempool::new(&eal, "cable", 4095, 2048, None).unwrap();
    let (mut a, mut b) = ring_cable(&eal, "cable0", 2, 255).unwrap();
    let queues = port_config(2, 256, pool);
    let (mut a_rx, mut a_tx) = a.configure(&queues).unwrap();
    let (mut b_rx, mut b_tx) = b.configure(&queues).unwrap();

    let mut burst = Burst::new();
    for queue in [0, 1] {
        for (tx, rx) in [(&mut a_tx, &mut b_rx), (&mut b_tx, &mut a_rx)] {
            assert!(pool.alloc_bulk(&mut burst, 10));
            for (i, mbuf) in burst.iter_mut().enumerate() {
                mbuf.write(&[i as u8; 1514][..60 + i]).unwrap();
            }
            assert_eq!(tx[queue].burst(&mut burst), 10);
            assert!(burst.is_empty());
            assert_eq!(rx[1 - queue].burst(&mut burst), 0, "the other queue stays empty");
            assert_eq!(rx[queue].burst(&mut burst), 10);
            for (i, mbuf) in burst.iter().enumerate() {
                assert_eq!(mbuf.head(), &[i as u8; 1514][..60 + i]);
                assert_eq!(mbuf.frame_len(), 60 + i);
            }
            assert_eq!(burst.free_all(), 10);
        }
    }
    assert_eq!(pool.in_use(), 0);

    // A full cable takes what fits; the rest stays with the sender, in order.
    let mut sent = 0;
    while burst.is_empty() {
        assert!(pool.alloc_bulk(&mut burst, 64));
        for mbuf in burst.iter_mut() {
            mbuf.write(&sent_so_far(sent)).unwrap();
        }
        sent += a_tx[0].burst(&mut burst);
    }
    assert_eq!(sent, 255);
    assert_eq!(burst.len(), 1);
    assert_eq!(burst[0].head(), sent_so_far(192));
    assert_eq!(pool.in_use(), 256);

    // A room of 63 is not overrun, and what lies in the cable is freed with it.
    assert_eq!(b_rx[0].burst(&mut burst), 63);
    assert_eq!((burst.len(), burst.room()), (64, 0));
    assert_eq!(burst.free_all(), 64);
    drop((a, b, a_rx, a_tx, b_rx));
    assert_eq!(pool.in_use(), 192, "one queue still holds the cable");
    drop(b_tx);
    assert_eq!(pool.in_use(), 0);
}

fn sent_so_far(count: usize) -> [u8; 60] {
    [count as u8; 60]
}
