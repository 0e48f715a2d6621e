// SPDX-License-Identifier: BSD-3-Clause
//! A port keeps frames until the time that they carry, in their order.

use dpdk::{Burst, Eal, Mempool, Port, PortConfig, PortError, Queues, SendTime, Step};
use testkit::port::{mempool, port_config, start_eal_with_twin};
use wire::Packet;

const TXD: usize = 64;
const MS: u64 = 1_000_000;

struct Bench {
    field: SendTime,
    pool: Mempool,
    ports: [Port; 2],
    queues: [Queues; 2],
}

fn config(pool: Mempool, sends_on_time: bool) -> PortConfig {
    PortConfig { txd: TXD as u16, sends_on_time, ..port_config(1, 512, pool) }
}

impl Bench {
    fn new(eal: &Eal, pool: Mempool) -> Self {
        let field = SendTime::reserve(eal).unwrap();
        let mut ports = [0, 1].map(|n| Port::probe(eal, &format!("net_twin{n},wire=w")).unwrap());
        assert!(ports.iter().all(|port| port.info().can_send_on_time));
        let mut is_sender = [true, false].into_iter();
        let queues = ports
            .each_mut()
            .map(|port| port.configure(&config(pool, is_sender.next().unwrap())).unwrap());
        Self { field, pool, ports, queues }
    }

    fn now(&self) -> u64 {
        self.ports[0].read_clock().unwrap()
    }

    /// Sends numbered frames with these times; how many the port took.
    fn send(&mut self, times: &[Option<u64>]) -> usize {
        let mut burst = Burst::new();
        assert!(self.pool.alloc_bulk(&mut burst, times.len()));
        for ((mbuf, time), number) in burst.iter_mut().zip(times).zip(0..) {
            mbuf.write(&[number; 60]).unwrap();
            time.iter().for_each(|ticks| self.field.set(mbuf, *ticks));
        }
        self.queues[0].1[0].burst(&mut burst)
    }

    /// Numbers of the frames that have come.
    fn receive(&mut self) -> Vec<u8> {
        let mut burst = Burst::new();
        self.queues[1].0[0].burst(&mut burst);
        burst.iter().map(|mbuf| mbuf.head()[0]).collect()
    }

    /// Receives frames with these numbers. None may come while the clock stands before its time.
    fn receive_on_time(&mut self, expected: &[(u8, u64)]) {
        let mut left = expected;
        while !left.is_empty() {
            let numbers = self.receive();
            let now = self.now();
            for number in numbers {
                let (wanted, due) = left[0];
                assert_eq!(number, wanted);
                assert!(due <= now, "frame {number} came too early, at {now} and not {due}");
                left = &left[1..];
            }
        }
    }
}

#[test]
fn a_port_keeps_frames_until_their_time() {
    let Some(eal) = start_eal_with_twin() else { return };
    let pool = mempool(&eal, "times");
    let mut bench = Bench::new(&eal, pool);
    let due = bench.now() + 2 * MS;
    assert_eq!(bench.send(&[Some(due)]), 1);
    bench.receive_on_time(&[(0, due)]);

    // Times that are over, and frames without one, are no reason to wait.
    let now = bench.now();
    assert_eq!(bench.send(&[Some(now), None, Some(0), None]), 4);
    assert_eq!(bench.receive(), [0, 1, 2, 3]);

    keeps_their_order(&mut bench);
    takes_what_it_has_room_for(&mut bench);
    let Bench { ports: [sender, receiver], queues, .. } = bench;
    drop((sender, receiver, queues));
    assert_eq!(pool.in_use(), 0);
    refuses_where_it_cannot(&eal, pool);
}

fn keeps_their_order(bench: &mut Bench) {
    let now = bench.now();
    let due = now + MS;
    assert_eq!(bench.send(&[Some(due), None, Some(now + MS / 2), Some(due + MS)]), 4);
    bench.receive_on_time(&[(0, due), (1, due), (2, due), (3, due + MS)]);
}

fn takes_what_it_has_room_for(bench: &mut Bench) {
    let in_a_minute = bench.now() + 60_000 * MS;
    assert_eq!(bench.send(&[Some(in_a_minute); TXD - 4]), TXD - 4);
    assert_eq!(bench.send(&[None; 10]), 4);
    assert_eq!(bench.send(&[None; 10]), 0);
    assert!(bench.receive().is_empty());
    let before = bench.ports[0].stats();
    // The frames that wait are lost when the port is stopped, and counted.
    let (rx, tx) = &mut bench.queues[0];
    bench.ports[0].set_started(false, (rx, tx)).unwrap();
    assert_eq!(bench.pool.in_use(), 0);
    bench.ports[0].set_started(true, (rx, tx)).unwrap();
    let after = bench.ports[0].stats();
    assert_eq!(after.oerrors - before.oerrors, TXD as u64);
    assert_eq!(bench.send(&[None]), 1);
    assert_eq!(bench.receive(), [0]);
    assert_eq!(bench.ports[0].stats().opackets - before.opackets, 1);
    // Those that still wait when it is closed are freed.
    assert_eq!(bench.send(&[Some(in_a_minute); 3]), 3);
}

fn refuses_where_it_cannot(eal: &Eal, pool: Mempool) {
    let mut port = Port::probe(eal, "net_null0").unwrap();
    assert!(!port.info().can_send_on_time);
    let PortError::Configure { step, .. } = port.configure(&config(pool, true)).unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(step, Step::Configure);
}
