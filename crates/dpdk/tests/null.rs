// SPDX-License-Identifier: BSD-3-Clause
//! A `net_null` port from EAL to close, on a worker lcore, with every mbuf accounted for.

use dpdk::{Burst, Eal, EalConfig, Mempool, Port, PortError, SymmetricRss};
use testkit::port::{eal_config, mempool, port_config};
use wire::Packet;

#[test]
fn a_null_port_from_start_to_close() {
    let cpu = std::thread::available_parallelism().unwrap().get() - 1;
    let config = EalConfig { lcores: vec![cpu], ..eal_config(256) };
    let mut eal = Eal::init(&config).unwrap();
    assert!(Eal::init(&config).is_err(), "EAL starts once");
    assert!(dpdk::version().starts_with("DPDK "), "{}", dpdk::version());
    assert!(dpdk::tsc_hz(&eal) > 1_000_000);
    let pool = mempool(&eal, "null");
    assert!(Mempool::new(&eal, "null", 1023, 2048, None).is_err(), "the name is taken");

    let mut port = Port::probe(&eal, "net_null0,size=60").unwrap();
    assert_eq!(port.info().driver, "net_null");
    assert_eq!(port.info().mtu, 1500);
    let again = Port::probe(&eal, "net_null0,size=60").unwrap_err();
    assert_eq!(again, PortError::InUse { port: "net_null0,size=60".to_owned() });

    let queues = port_config(1, 512, pool);
    let (mut rx, mut tx) = port.configure(&queues).unwrap();
    assert_eq!(port.info().rss, SymmetricRss::None, "one queue needs no spreading");
    assert!(port.link().up);
    assert!(!port.removed());
    let (mut rx, mut tx) = (rx.remove(0), tx.remove(0));

    let lcore = eal.take_lcores().remove(0);
    assert_eq!((lcore.cpu(), lcore.id()), (cpu, 1));
    let job = lcore.launch(move || {
        let mut burst = Burst::new();
        assert_eq!(tx.burst(&mut burst), 0);
        let mut sent = 0;
        for _ in 0..10_000 {
            assert_eq!(rx.burst(&mut burst), 64);
            assert!(burst.iter().all(|mbuf| mbuf.frame_len() == 60 && mbuf.head().len() == 60));
            assert_eq!(burst.retain(|i| i % 4 != 0), 16);
            sent += tx.burst(&mut burst);
            assert!(burst.is_empty());
        }
        sent
    });
    let (sent, lcore) = job.join();
    assert_eq!(sent, 480_000);
    let stats = port.stats();
    assert_eq!((stats.ipackets, stats.opackets), (640_000, 480_000));

    // The lcore is idle again, and the port, closed with its last queue, can be opened again.
    drop(port);
    assert_eq!(lcore.launch(|| 7).join().0, 7);
    let again = Port::probe(&eal, "net_null0,size=60").unwrap();
    assert_eq!(again.stats(), Default::default());
    assert_eq!(pool.in_use(), 0);
}
