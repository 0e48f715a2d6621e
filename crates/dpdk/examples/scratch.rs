//! s
use dpdk::*;
use std::process::Command;
use wire::Packet;
fn ip(a: &str) {
    assert!(Command::new("ip").args(a.split(' ')).status().unwrap().success());
}
fn main() {
    ip("link add name x0 type veth peer name x1");
    for i in ["x0", "x1"] {
        ip(&format!("link set {i} addrgenmode none"));
        ip(&format!("link set {i} up"));
    }
    let eal =
        Eal::init(&EalConfig { no_huge: true, memory_mb: 256, ..Default::default() }).unwrap();
    let pool = Mempool::new(&eal, "p", 1023, 2048, None).unwrap();
    let q = PortConfig { rx_queues: 1, tx_queues: 1, rxd: 256, txd: 256, mempools: vec![pool] };
    let kind = std::env::args().nth(1).unwrap();
    let mut a = Port::probe(
        &eal,
        &if kind == "pcap" {
            "net_pcap0,iface=x0".to_string()
        } else {
            "net_af_packet0,iface=x0".into()
        },
    )
    .unwrap();
    let mut b = Port::probe(
        &eal,
        &if kind == "pcap" {
            "net_pcap1,iface=x1".to_string()
        } else {
            "net_af_packet1,iface=x1".into()
        },
    )
    .unwrap();
    let (mut arx, mut atx) = a.configure(&q).unwrap();
    let (mut brx, _btx) = b.configure(&q).unwrap();
    println!("{:?} {:?}", a.info(), a.link());
    let mut go = |what: &str| {
        let mut burst = Burst::new();
        let mut s = 0;
        for _ in 0..20 {
            assert!(pool.alloc_bulk(&mut burst, 1));
            let mut f = vec![0x22u8; 12];
            f.extend([0x88, 0xa8, 0, 100, 0x81, 0, 0, 200, 8, 0]);
            f.extend([0u8; 60]);
            burst[0].write(&f).unwrap();
            s += atx[0].burst(&mut burst);
            burst.free_all();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut n = 0;
        while brx[0].burst(&mut burst) > 0 {
            n += burst.len();
            if n <= 20 && what == "up" {
                println!("  {:x?}", &burst[0].head()[12..22]);
            }
            burst.free_all();
        }
        arx[0].burst(&mut burst);
        burst.free_all();
        println!("{what}: sent {s} got {n} in_use {}", pool.in_use());
    };
    let show = |a: &Port, b: &Port| {
        println!(
            "  a {:?} {} {:?}\n  b {:?} {} {:?}",
            a.link(),
            a.removed(),
            a.stats(),
            b.link(),
            b.removed(),
            b.stats()
        )
    };
    go("up");
    show(&a, &b);
    ip("link set x1 down");
    go("peer down");
    show(&a, &b);
    ip("link set x1 up");
    go("up again");
    show(&a, &b);
    ip("link del x0");
    go("deleted");
    show(&a, &b);
    for i in 0..60 {
        let _ = i;
        go("more");
    }
    show(&a, &b);
}
