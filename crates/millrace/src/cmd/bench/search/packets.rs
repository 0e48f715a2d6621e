// SPDX-License-Identifier: BSD-3-Clause
//! Searches with packets: one search for each frame size.

use super::generator::Generator;
use super::loads::{Traffic, Unit};
use super::{CalibrationPorts, SearchArgs, calibration};
use crate::cmd::bench::generator_options::{PACKET_OPTIONS, kept_by_cable};
use crate::ports::PortNames;
use anyhow::Context;
use results::search::{Calibration, SearchResults};
use std::sync::atomic::AtomicBool;

impl SearchArgs {
    /// Searches with all sizes. After an error, `results` have what was found before.
    pub(super) fn search_packets(
        &self,
        results: &mut SearchResults,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        let mut seed = self.seed;
        let sizes = self.sizes.iter().map(|size| Some(*size));
        let sizes: Vec<_> = if self.sizes.is_empty() { vec![None] } else { sizes.collect() };
        // Streams that are refused are refused before the first trial.
        let streams = self.streams_or_default();
        let traffic = sizes
            .into_iter()
            .map(|size| Ok((size, Traffic::new(self.min_load.0, &streams, size)?)));
        let traffic = traffic.collect::<anyhow::Result<Vec<_>>>()?;
        for (size, traffic) in &traffic {
            let mut generator = Generator {
                ports: self.ports(),
                traffic,
                options: &self.generator_options,
                seed,
                links: [None; 2],
                interrupted,
            };
            if self.min_load.0 == Unit::LinkPercent {
                generator.learn_links()?;
            }
            let calibration = self.calibrate(&generator, *size)?;
            self.search_repeatedly(&mut generator, (*size, calibration), results)?;
            seed = generator.seed;
        }
        Ok(())
    }

    /// Measures what the tester sustains without the device, with the streams of `generator`.
    fn calibrate(
        &self,
        generator: &Generator,
        size: Option<u32>,
    ) -> anyhow::Result<Option<Calibration>> {
        let kept = kept_by_cable(&self.generator_options, PACKET_OPTIONS);
        let (ports, options) = match &self.calibrate {
            CalibrationPorts::None => return Ok(None),
            CalibrationPorts::Ports(ports) => (ports.as_str(), &self.generator_options),
            CalibrationPorts::Cable if self.ports().parse::<PortNames>()?.count() == 2 => {
                ("net_ring0,net_ring1", &kept)
            }
            CalibrationPorts::Cable => ("net_ring0", &kept),
        };
        let mut tester = Generator { ports, options, ..*generator };
        let progress = |line: &str| self.report(size, line);
        let calibration = calibration::calibrate(self.plan(), ports, &mut tester, &progress);
        calibration.context("--calibrate").map(Some)
    }
}
