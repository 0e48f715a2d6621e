// SPDX-License-Identifier: BSD-3-Clause
//! Defines devices and their configurations, and starts a device with a generator at its ports.
//! Both are other processes, which end with this one.

use super::kernel::Router;
use super::millrace::Instance;
use super::ovs::{Installation, Switch};
use crate::cmd::bench::serving_generator::{ServingGenerator, Wiring};
use crate::tester::RemoteTester;
use anyhow::{Context, bail};
use results::conntrack::{CABLE, Lifetime, Point, SetUp};
use std::sync::atomic::AtomicBool;

/// Connections that the table of a device has room for, as in the article.
pub(super) const CAPACITY: u32 = 5_000_000;
/// Seconds that the device keeps a connection without packets, in states without another value.
const SHORT_TIMEOUT_S: u32 = 1;
/// Seconds that it keeps an established TCP connection, and UDP with an answer.
const LONG_TIMEOUT_S: u32 = 30;
/// Timeouts of the article's zone, in seconds.
pub(super) const TIMEOUTS: [(&str, u32); 9] = [
    ("tcp_syn_sent", SHORT_TIMEOUT_S),
    ("tcp_syn_recv", SHORT_TIMEOUT_S),
    ("tcp_established", LONG_TIMEOUT_S),
    ("tcp_fin_wait", SHORT_TIMEOUT_S),
    ("tcp_time_wait", SHORT_TIMEOUT_S),
    ("tcp_close", SHORT_TIMEOUT_S),
    ("udp_first", SHORT_TIMEOUT_S),
    ("udp_single", SHORT_TIMEOUT_S),
    ("udp_multiple", LONG_TIMEOUT_S),
];

/// Returns how long a connection lingers in the device's table after its end, in seconds, if this
/// share of them is UDP.
pub(super) fn linger_s(udp_percent: f64) -> f64 {
    let udp = udp_percent / 100.0;
    (1.0 - udp) * f64::from(SHORT_TIMEOUT_S) + udp * f64::from(LONG_TIMEOUT_S)
}

/// A kind of device, as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Dut {
    /// None: the generator's ports are joined
    Cable,
    /// `millrace run` over memif
    Millrace,
    /// Open vSwitch with DPDK over memif
    Ovs,
    /// Linux, which routes between two veth pairs
    Kernel,
    /// The user's own device between two ports
    External,
}

/// A device to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    Cable,
    Millrace,
    Ovs(Installation),
    Kernel,
    /// Between the ports with these names.
    External {
        ports: String,
        /// Options of the generator there.
        options: Vec<String>,
    },
}

impl Device {
    /// Returns the name of the device in the JSON.
    fn kind(&self) -> &'static str {
        match self {
            Self::Cable => CABLE,
            Self::Millrace => "millrace",
            Self::Ovs(_) => "ovs",
            Self::Kernel => "kernel",
            Self::External { .. } => "external",
        }
    }

    /// Fails if this host lacks a program or a privilege that the device needs.
    pub(super) fn require(&self) -> anyhow::Result<()> {
        match self {
            Self::Ovs(installation) => installation.require().context("--dut ovs"),
            Self::Kernel => Router::require().context("--dut kernel"),
            Self::Cable | Self::Millrace | Self::External { .. } => Ok(()),
        }
    }

    /// True if this program starts the device, and so knows how it is configured.
    pub(super) fn is_ours(&self) -> bool {
        !matches!(self, Self::Cable | Self::External { .. })
    }

    /// Returns the options of the generator at the device. It has this cpu, unless the user has
    /// chosen another one.
    fn generator_options(&self, cpu: u32) -> Vec<String> {
        match self {
            Self::External { options, .. } if !options.is_empty() => options.clone(),
            _ => vec!["--cpus".to_owned(), cpu.to_string()],
        }
    }

    /// True if the device can have fewer queues at each port than cpus.
    fn can_share_queues(&self) -> bool {
        matches!(self, Self::Ovs(_))
    }
}

/// A device and how it is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) device: Device,
    pub(super) has_tracking: bool,
    /// Cpus of the device.
    pub(super) cpus: u32,
    /// Queues of each of its ports.
    pub(super) queues: u32,
}

impl Configuration {
    /// Returns the configurations of a device with these numbers of cpus and of queues, first those
    /// with tracking. Queues are never more than cpus, and fewer only where the device can share
    /// them.
    pub(super) fn all(device: &Device, cpus: &[u32], queues: &[u32]) -> Vec<Self> {
        let of = |has_tracking, cpus, queues| {
            let device = device.clone();
            Self { device, has_tracking, cpus, queues }
        };
        if !device.is_ours() {
            return vec![of(true, 0, 0)];
        }
        let pairs = cpus.iter().flat_map(|cpus| queues.iter().map(move |queues| (*cpus, *queues)));
        let can_run = |(cpus, queues): &(u32, u32)| {
            cpus == queues || queues < cpus && device.can_share_queues()
        };
        let mut pairs: Vec<_> = pairs.filter(can_run).collect();
        // A number that is written twice is measured once.
        pairs.sort_unstable();
        pairs.dedup();
        let all = [true, false].into_iter();
        all.flat_map(|it| pairs.iter().map(move |(cpus, queues)| of(it, *cpus, *queues))).collect()
    }

    /// Returns the configuration with the lifetime of connections.
    pub(super) fn point(&self, profile: Lifetime) -> Point {
        let is_ours = self.device.is_ours();
        let device_version = match &self.device {
            Device::Ovs(installation) => Some(installation.name.clone()),
            _ => None,
        };
        Point {
            profile,
            device: self.device.kind().to_owned(),
            device_version,
            tracking: is_ours.then_some(self.has_tracking),
            cpus: is_ours.then_some(self.cpus),
            queues: is_ours.then_some(self.queues),
        }
    }

    /// Returns what this host lacks to run the configuration, of `here` cpus.
    pub(super) fn lacks(&self, here: usize) -> Option<String> {
        let needed = self.cpus as usize + 1;
        (needed > here).then(|| format!("needs {needed} cpus, {here} here"))
    }

    /// True if the device's count of connections must agree with the generator's.
    pub(super) fn is_counted(&self) -> bool {
        self.device.is_ours() && self.has_tracking
    }
}

/// Cpus of this host, and who has them.
pub(super) struct Placement {
    /// Cpus of the device, as many as the configuration says.
    pub(super) device: Vec<u32>,
    pub(super) generator: u32,
    /// The others.
    pub(super) spare: Vec<u32>,
}

impl Placement {
    fn new(of: &Configuration, cpus: &[u32]) -> anyhow::Result<Self> {
        let count = of.cpus as usize;
        let (Some(device), Some([generator, spare @ ..])) = (cpus.get(..count), cpus.get(count..))
        else {
            bail!("needs {} cpus, {} here", count + 1, cpus.len());
        };
        Ok(Self { device: device.to_vec(), generator: *generator, spare: spare.to_vec() })
    }

    /// Returns a mask of these cpus in hexadecimal digits, with `separator` between groups of 32.
    pub(super) fn mask(cpus: &[u32], separator: &str) -> String {
        let highest = cpus.iter().max().copied().unwrap_or_default();
        let group = |number: u32| {
            let of_group = cpus.iter().filter(|cpu| *cpu / u32::BITS == number);
            of_group.fold(0, |mask, cpu| mask | 1_u32 << (cpu % u32::BITS))
        };
        let first = highest / u32::BITS;
        let rest = (0..first).rev().map(|number| format!("{separator}{:08x}", group(number)));
        std::iter::once(format!("{:x}", group(first))).chain(rest).collect()
    }
}

/// A device that runs.
pub(super) trait Running {
    /// Returns how to set the device up by hand.
    fn set_up(&self) -> Vec<String>;

    /// Returns the number of connections in the device's table; `None` if it has none. Fails if the
    /// device has ended.
    fn count(&mut self) -> anyhow::Result<Option<u64>>;
}

/// A device with a generator at its ports. Dropping the value ends both, the generator first.
pub(super) struct Bench {
    generator: ServingGenerator,
    device: Option<Box<dyn Running>>,
}

impl Bench {
    /// Starts both. `cpus` are those of this host, best first.
    pub(super) fn start(
        of: &Configuration,
        cpus: &[u32],
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let placement = Placement::new(of, cpus)?;
        let (device, wiring) = start_device(of, &placement, interrupted)
            .with_context(|| format!("cannot start the device {}", of.device.kind()))?;
        let options = of.device.generator_options(placement.generator);
        let generator = ServingGenerator::start(&wiring, &options);
        let generator = generator.context("cannot start the generator")?;
        Ok(Self { generator, device })
    }

    /// Returns a tester that drives the generator.
    pub(super) fn tester(&self) -> anyhow::Result<RemoteTester> {
        self.generator.tester()
    }

    /// Returns how the device is set up; `None` if there is nothing to say.
    pub(super) fn set_up(&self, point: &Point) -> Option<SetUp> {
        let lines = self.device.as_ref()?.set_up();
        Some(SetUp { name: point.name(), lines })
    }

    /// Returns the number of connections in the device's table; `None` if it has none, or if nobody
    /// knows.
    pub(super) fn count(&mut self) -> anyhow::Result<Option<u64>> {
        self.device.as_mut().map_or(Ok(None), |device| device.count())
    }
}

type Started = (Option<Box<dyn Running>>, Wiring);

fn start_device(
    of: &Configuration,
    placement: &Placement,
    interrupted: &AtomicBool,
) -> anyhow::Result<Started> {
    Ok(match &of.device {
        Device::Cable => (None, Wiring::cable()),
        Device::External { ports, .. } => (None, Wiring::ports(ports)),
        Device::Millrace => {
            let device = Instance::start(of, placement, interrupted)?;
            let wiring = device.wiring(of);
            (Some(Box::new(device)), wiring)
        }
        Device::Ovs(installation) => {
            let device = Switch::start(installation, of, placement, interrupted)?;
            let wiring = device.wiring(of);
            (Some(Box::new(device)), wiring)
        }
        Device::Kernel => {
            let device = Router::start(of, placement)?;
            let wiring = device.wiring();
            (Some(Box::new(device)), wiring)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(device: &Device) -> Vec<String> {
        let all = Configuration::all(device, &[1, 2, 4], &[1, 2, 4]);
        let tracked = all.iter().filter(|it| it.has_tracking);
        tracked.filter_map(|it| it.point(Lifetime::Short).size()).collect()
    }

    #[test]
    fn only_open_vswitch_has_fewer_queues_than_cpus() {
        assert_eq!(sizes(&Device::Millrace), ["1C/1Q", "2C/2Q", "4C/4Q"]);
        assert_eq!(sizes(&Device::Kernel), ["1C/1Q", "2C/2Q", "4C/4Q"]);
        let ovs = Device::Ovs(Installation::default());
        assert_eq!(sizes(&ovs), ["1C/1Q", "2C/1Q", "2C/2Q", "4C/1Q", "4C/2Q", "4C/4Q"]);
        let external = Configuration::all(
            &Device::External { ports: "a,b".to_owned(), options: vec![] },
            &[1, 2],
            &[1, 2],
        );
        let [one] = &external[..] else { panic!("{external:?}") };
        let point = one.point(Lifetime::Long);
        assert_eq!((point.tracking, point.size()), (None, None), "nobody knows");
    }

    #[test]
    fn a_device_needs_a_cpu_beside_the_generator() {
        let of =
            |cpus| Configuration { device: Device::Kernel, has_tracking: true, cpus, queues: 1 };
        assert_eq!(of(0).lacks(1), None);
        assert_eq!(of(1).lacks(2), None);
        assert_eq!(of(2).lacks(2).unwrap(), "needs 3 cpus, 2 here");
        assert!(Placement::new(&of(2), &[0, 1]).is_err());
        let placement = Placement::new(&of(2), &[5, 4, 9, 1]).unwrap();
        assert_eq!((placement.device, placement.generator), (vec![5, 4], 9));
        assert_eq!(placement.spare, [1]);
        assert_eq!(Placement::mask(&[5, 4, 0], ","), "31");
        assert_eq!(Placement::mask(&[32, 3, 130], ","), "4,00000000,00000000,00000001,00000008");
        assert_eq!(Placement::mask(&[33, 31], ""), "280000000");
    }

    #[test]
    fn connections_linger_for_their_timeout() {
        assert!((linger_s(1.0) - 1.29).abs() < 1e-9);
        assert!((linger_s(0.0) - 1.0).abs() < 1e-9);
    }
}
