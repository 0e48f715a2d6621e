// SPDX-License-Identifier: BSD-3-Clause
//! The part of a command line that makes a plan: a file, flags, or both.

use super::Plan;
use crate::config::{Config, Fault, Pair, Place, Problem, Problems, Written, split_pair};
use crate::host::Cpus;
use std::path::PathBuf;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// Configuration file (TOML)
    config: Option<PathBuf>,
    /// A wire between two ports, each a PCI address or a vdev with its arguments; instead of the
    /// pairs of the file. Arguments may hold commas: B begins where a device name follows one
    #[arg(long = "pair", value_name = "A,B")]
    pairs: Vec<String>,
    /// Workers per pair on cpus that the program chooses, instead of the workers of the file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: Option<u32>,
}

impl PlanArgs {
    /// The plan, or all that is wrong with it.
    pub(crate) fn plan(&self, cpus: &Cpus) -> Result<Plan, Problems> {
        let file = self.config.as_ref().map(|path| path.display().to_string());
        let file = file.unwrap_or_default();
        let mut config = match self.read_file() {
            Ok(config) => config,
            Err(problem) => return Err(Problems { file, list: vec![problem] }),
        };
        if !self.pairs.is_empty() {
            config.pairs.clear();
        }
        for (index, text) in self.pairs.iter().enumerate() {
            let place = Place::Flag { flag: "--pair" };
            let (a, b) = match split_pair(text) {
                Ok((a, b)) => {
                    (Some(Written { value: a, place }), Some(Written { value: b, place }))
                }
                Err(error) => {
                    let key = format!("pair[{index}]");
                    config.problems.push(Problem { place, key, fault: error.into() });
                    (None, None)
                }
            };
            let (workers, rx_descriptors, tx_descriptors) = (None, None, None);
            config.pairs.push(Pair { a, b, workers, rx_descriptors, tx_descriptors });
        }
        if let Some(value) = self.workers {
            config.workers = Some(Written { value, place: Place::Flag { flag: "--workers" } });
            config.pairs.iter_mut().for_each(|pair| pair.workers = None);
        }
        Plan::new(config, cpus).map_err(|list| Problems { file, list })
    }

    fn read_file(&self) -> Result<Config, Problem> {
        let Some(path) = &self.config else { return Ok(Config::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| {
            let fault = Fault::Unreadable(error.to_string());
            Problem { place: Place::Whole {}, key: String::new(), fault }
        })?;
        Ok(Config::read(&text))
    }
}
