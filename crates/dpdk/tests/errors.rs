// SPDX-License-Identifier: BSD-3-Clause
//! What fails says which port, why, and what DPDK logged about it.

use dpdk::{Eal, EalConfig, EalError, Mempool, Port, PortConfig, PortError};
use testkit::port::{eal_config, port_config};

#[test]
fn failures_name_the_port_and_keep_the_reason() {
    let far = EalConfig { lcores: vec![4095], ..eal_config(256) };
    assert!(matches!(Eal::init(&far), Err(EalError::CpuNotAllowed { cpu: 4095, .. })));
    let eal = Eal::init(&eal_config(256)).unwrap();

    for devargs in ["net_nonsense0", "eth1", "0000:18:00.2"] {
        let error = Port::probe(&eal, devargs).unwrap_err();
        assert!(matches!(error, PortError::NoDriver { .. }), "{error:?}");
        assert!(error.to_string().starts_with(&format!("port `{devargs}`: no driver")), "{error}");
    }
    let missing = "net_pcap0,rx_pcap=/nonexistent/a.pcap";
    let error = Port::probe(&eal, missing).unwrap_err();
    assert!(matches!(error, PortError::Probe { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(missing) && text.contains("No such file"), "{text}");

    let error = Port::probe(&eal, "net_af_packet0,iface=nonexistent0").unwrap_err();
    assert!(matches!(error, PortError::Probe { .. }), "{error:?}");

    // Drivers say nothing of their own about these.
    for (devargs, why, takes) in [
        ("net_null0,bogus=1", "does not say why", "size=<int>"),
        ("net_af_packet0", "net_af_packet0,iface=...", "iface=<string>"),
        ("net_pcap0,bogus=1", "does not say why", "rx_pcap=<string>"),
    ] {
        let text = Port::probe(&eal, devargs).unwrap_err().to_string();
        for part in [devargs, why, "its driver takes ", takes] {
            assert!(text.contains(part), "{part} not in {text}");
        }
        assert!(!text.contains("attach"), "{text}");
    }

    let pool = Mempool::new(&eal, "pool", 511, 2048, None).unwrap();
    let mut port = Port::probe(&eal, "net_ring0").unwrap();
    let has = port.info().max_rx_queues;
    let queues = PortConfig { tx_queues: 1, ..port_config(has + 1, 64, pool) };
    let error = port.configure(&queues).unwrap_err();
    let text = format!("has {has} receive queues, {} are needed", has + 1);
    assert!(error.to_string().contains(&text), "{error}");

    let error = Mempool::new(&eal, "huge", 10_000_000, 2048, None).unwrap_err();
    assert_eq!(error.errno, dpdk::Errno::NoMemory, "{error}");
}
