// SPDX-License-Identifier: BSD-3-Clause
//! Advises on a rule that a NIC refused, by the facts in the NIC's personality.
//!
//! `instead` finds a rule close to the refused one and tries it on the model. `facts` lists what
//! the NIC accepts at the place of the error. Neither calls the NIC.

mod facts;
mod instead;
pub mod model;

use dpdk::flow::Rule;
use twin::Personality;

use model::ModelRule;

/// Advice on a refused rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    /// What the NIC accepts, one line for each fact.
    pub(crate) facts: Vec<String>,
    /// A similar rule that the NIC accepts according to its personality, if there is one.
    pub(crate) instead: Option<Rule>,
}

/// Returns advice on a rule that a port with `queues` receive queues refused.
pub(crate) fn advise(personality: &Personality, rule: &Rule, queues: u16) -> Advice {
    let Some(modelled) = ModelRule::of(rule) else {
        let facts = vec![format!(
            "the rule has items or actions that the facts about {} do not cover",
            personality.title
        )];
        return Advice { facts, instead: None };
    };
    let refusal = modelled.judged(personality, queues).err();
    let facts = facts::of(personality, &modelled, refusal);
    let instead = refusal.and_then(|_| instead::find(personality, rule, queues));
    Advice { facts, instead }
}

/// Returns the personality of a port's NIC: the one in the devargs of the software NIC, or the one
/// that belongs to a hardware driver. `None` if there is none for the driver.
pub fn personality_of_port(devargs: &str, driver: &str) -> Option<Result<Personality, String>> {
    let name = match driver {
        "net_twin" => {
            let arguments = devargs.split(',').filter_map(|argument| argument.split_once('='));
            let given = arguments.into_iter().find(|(name, _)| *name == "personality");
            given.map_or("ideal", |(_, value)| value)
        }
        "net_i40e" => "x710",
        "net_ice" => "e810",
        "mlx5_pci" | "mlx5_eth" => "cx5",
        "net_ntnic" => "ntnic",
        "net_ntacc" => "ntacc",
        "net_nfb" => "n6010",
        _ => return None,
    };
    Some(Personality::named(name).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests;
