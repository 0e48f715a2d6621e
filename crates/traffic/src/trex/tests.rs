// SPDX-License-Identifier: BSD-3-Clause
//! Compares parts of the importer with simple models.

use super::decimal::Decimal;
use super::pace::Pace;
use super::pool::{Distribution, Pool, TupleMaker};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::Ipv4Addr;

fn pool(distribution: Distribution, first: u32, len: u32) -> Pool {
    let [first, last] = [first, first + len - 1].map(Ipv4Addr::from_bits);
    Pool { name: "p".to_owned(), distribution, first, last }
}

fn distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        Just(Distribution::Sequential),
        Just(Distribution::Random),
        Just(Distribution::Normal)
    ]
}

fn maker(clients: Pool, servers: Pool, burst: u64, ports: u64) -> TupleMaker {
    let (first_port, salt) = (1024, 7);
    TupleMaker { clients, servers, burst, first_pair: 3, first_port, ports, salt }
}

proptest! {
    #[test]
    fn flows_start_at_the_floor_of_the_exact_time(
        cps in 1u64..5_000_000_000_000,
        multiplier in 1u64..5_000_000_000,
        part in 1u64..1000,
        more in 0u64..1000,
        burst in 1u32..9,
    ) {
        let decimal = |millionths: u64| {
            format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000).parse().unwrap()
        };
        let whole = part + more;
        let mut pace = Pace::new(decimal(cps), decimal(multiplier), (part, whole), burst);
        for number in 0..200u128 {
            // Both sides of number * burst * 10^9 * 10^12 * whole / (cps * multiplier * part).
            let length = number * u128::from(burst) * 10u128.pow(21) * u128::from(whole);
            let rate = u128::from(cps) * u128::from(multiplier) * u128::from(part);
            prop_assert_eq!(u128::from(pace.now_ns()), length / rate, "burst {}", number);
            pace.advance();
        }
    }

    #[test]
    fn addresses_stay_in_their_pool(
        distribution in distribution(),
        first in 0u32..u32::MAX - 70_000,
        len in 1u32..70_000,
        number: u64,
        salt: u64,
    ) {
        let pool = pool(distribution, first, len);
        let address = pool.address(number, salt);
        prop_assert!((first..first + len).contains(&address));
    }

    #[test]
    fn odd_addresses_are_counted(
        first in 1u32..10,
        len in 1u32..50,
        from in 0u64..200,
        more in 0u64..200,
    ) {
        let pool = pool(Distribution::Sequential, first, len);
        let odd = (from..from + more).filter(|number| pool.address(*number, 0) % 2 == 1).count();
        prop_assert_eq!(pool.count_odd(from, from + more), odd as f64);
    }

    #[test]
    fn odd_clients_are_counted(
        len in 1u32..50,
        burst in 1u64..6,
        first in 0u64..100,
        count in 0u64..100,
    ) {
        let clients = pool(Distribution::Sequential, 5, len);
        let maker = maker(clients.clone(), clients, burst, 600);
        let odd = (first..first + count).filter(|flow| maker.tuple(*flow).client % 2 == 1).count();
        prop_assert_eq!(maker.odd_clients(first, count), odd as f64);
    }

    #[test]
    fn tuples_differ_as_often_as_promised(
        clients in 1u32..20,
        servers in 1u32..20,
        burst in 1u64..6,
        rounds in 1u64..5,
    ) {
        let clients = pool(Distribution::Sequential, 0x1000_0001, clients);
        let servers = pool(Distribution::Sequential, 0x3000_0001, servers);
        let maker = maker(clients, servers, burst, rounds * burst);
        let promised = maker.distinct(true) as u64;
        let tuples: HashSet<_> = (0..promised).map(|flow| maker.tuple(flow)).collect();
        prop_assert_eq!(tuples.len() as u64, promised);
        prop_assert_eq!(maker.tuple(0), maker.tuple(promised), "no promise is too low");
    }

    #[test]
    fn a_template_needs_no_more_ports_than_its_flows_use(
        len in 1u32..20,
        burst in 1u64..6,
        first_pair in 0u64..40,
        flows in 1u64..300,
    ) {
        let clients = pool(Distribution::Sequential, 0x1000_0001, len);
        let ports = TupleMaker::ports_for(&clients, first_pair, flows, burst);
        let maker = TupleMaker { first_pair, ..maker(clients.clone(), clients, burst, ports) };
        let tuples = (0..flows).map(|flow| maker.tuple(flow));
        let pairs: HashSet<_> = tuples.map(|it| (it.client, it.client_port)).collect();
        prop_assert_eq!(pairs.len() as u64, flows);
    }
}

#[test]
fn a_normal_pool_has_its_mean_and_its_deviation() {
    let pool = pool(Distribution::Normal, 0, 6000);
    let numbers = 0..40_000u64;
    let count = 40_000.0;
    let values: Vec<f64> = numbers.map(|number| pool.address(number, 3).into()).collect();
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
    assert!((mean - 3000.0).abs() < 30.0, "{mean}");
    assert!((variance.sqrt() - 1000.0).abs() < 30.0, "{}", variance.sqrt());
}

#[test]
fn a_random_pool_gives_every_address() {
    let pool = pool(Distribution::Random, 10, 100);
    let seen: HashSet<u32> = (0..5000).map(|number| pool.address(number, 0)).collect();
    assert_eq!(seen.len(), 100);
}

#[test]
fn the_slowest_rate_does_not_overflow() {
    let mut pace = Pace::new(Decimal::LEAST, Decimal::LEAST, (1, u64::from(u32::MAX)), 65535);
    for _ in 0..3 {
        pace.advance();
    }
    assert_eq!(pace.now_ns(), u64::MAX);
    let fast = (u64::from(u32::MAX), u64::from(u32::MAX));
    let mut pace = Pace::new(Decimal::MAX, super::MULTIPLIER_MAX, fast, 1);
    for _ in 0..1000 {
        pace.advance();
    }
    assert_eq!(pace.now_ns(), 0, "a million flows begin in a nanosecond");
}
