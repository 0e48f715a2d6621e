// SPDX-License-Identifier: BSD-3-Clause
//! Options that say how many connections there are, and what they do together.

use anyhow::bail;
use search::parse_number;
use stateful::{Profile, ROUNDS_MAX, Target};

/// Largest difference of a number of messages from a whole one.
const ROUNDING_MAX: f64 = 0.01;

/// What stateful traffic is to reach.
#[derive(clap::Args)]
pub(super) struct TargetArgs {
    /// Open N connections a second, such as 500, 10k or 1.5M; by default the profile's number
    ///
    /// The templates of the profile keep their shares.
    #[arg(long, value_name = "N", value_parser = number, requires = "stateful")]
    cps: Option<f64>,
    /// Keep N connections open: a new one follows each that ends
    ///
    /// They are opened at the rate of --cps, or of the profile, until there are N.
    #[arg(long, value_name = "N", value_parser = number, requires = "stateful")]
    connections: Option<f64>,
    /// Close N connections a second, the oldest first, once all of --connections are open
    ///
    /// Clients keep their connections after their last action until then. Without --cps, they are
    /// opened at this rate if the profile's is lower.
    #[arg(long, value_name = "N", value_parser = number, requires = "connections")]
    churn: Option<f64>,
    /// Complete N transactions a second: requests that are answered
    ///
    /// Sets the rate of connections; with --cps, the number of messages of each. Connections that
    /// stay open (see --connections) exchange their messages at regular times.
    #[arg(long, value_name = "N", value_parser = number, requires = "stateful",
          conflicts_with = "throughput")]
    tps: Option<f64>,
    /// Carry N bits of payload a second, in both directions together, such as 500M or 10G
    ///
    /// In the way of --tps.
    #[arg(long, value_name = "N", value_parser = number, requires = "stateful")]
    throughput: Option<f64>,
    /// Let each connection exchange its messages N times, 1 to 65535
    ///
    /// The actions of both ends are repeated, up to the first one that waits for the end or closes.
    #[arg(long, value_name = "N", requires = "stateful",
          value_parser = clap::value_parser!(u16).range(1..))]
    messages: Option<u16>,
}

/// Reads a number that is more than 0.
pub(super) fn number(text: &str) -> Result<f64, String> {
    match parse_number(text)? {
        number if number > 0.0 => Ok(number),
        _ => Err("must be more than 0".to_owned()),
    }
}

impl TargetArgs {
    /// Returns the number of connections that are kept open.
    pub(super) fn connections(&self) -> Option<f64> {
        self.connections
    }

    /// Changes a profile so that its connections do what the options say.
    pub(super) fn apply(&self, profile: &mut Profile) -> anyhow::Result<()> {
        if let Some(count) = self.connections {
            profile.keep_open(count as u64);
        }
        match (self.target(), self.connections) {
            (Some(target), Some(_)) => {
                profile.pace_messages(target, self.messages.unwrap_or(ROUNDS_MAX))?;
            }
            (Some(target), None) => self.set_rate(profile, target)?,
            (None, _) => repeat(profile, self.messages)?,
        }
        if let Some(churn) = self.churn {
            profile.release_oldest(churn);
        }
        let rates = self.cps.zip(self.churn);
        if let Some((cps, churn)) = rates.filter(|(cps, churn)| cps < churn) {
            bail!("--cps {cps} is below --churn {churn}: fewer would be opened than closed");
        }
        Ok(())
    }

    /// Repeats the messages of connections so that their rate and the target agree.
    fn set_rate(&self, profile: &mut Profile, target: Target) -> anyhow::Result<()> {
        let once = profile.rate_of(target);
        if once == 0.0 {
            bail!("{}: the connections of the profile have no such messages", self.option());
        }
        let count = match (self.cps, self.messages) {
            (Some(_), Some(_)) => {
                bail!("--cps, --messages, {}: two of them determine the third", self.option());
            }
            (Some(cps), None) => Some(self.whole(target.rate() / (once * cps / profile.cps()))?),
            (None, messages) => messages,
        };
        repeat(profile, count)
    }

    fn whole(&self, count: f64) -> anyhow::Result<u16> {
        let whole = count.round();
        if !(1.0..=f64::from(ROUNDS_MAX)).contains(&whole)
            || (count - whole).abs() > count * ROUNDING_MAX
        {
            bail!(
                "--cps, {}: each connection would exchange its messages {count:.2} times, which \
                 must be a whole number from 1 to {ROUNDS_MAX}",
                self.option()
            );
        }
        Ok(whole as u16)
    }

    fn target(&self) -> Option<Target> {
        self.tps.map(Target::Transactions).or(self.throughput.map(Target::PayloadBits))
    }

    fn option(&self) -> &'static str {
        if self.tps.is_some() { "--tps" } else { "--throughput" }
    }

    /// Returns the rate of connections as a multiple of that of the profile.
    pub(super) fn multiplier(&self, profile: &Profile) -> f64 {
        let least = self.churn.map_or(1.0, |churn| (churn / profile.cps()).max(1.0));
        match (self.cps, self.connections, self.target()) {
            (Some(cps), ..) => cps / profile.cps(),
            (None, None, Some(target)) => target.rate() / profile.rate_of(target),
            _ => least,
        }
    }
}

/// Repeats messages. Programs that need not be repeated may be such that cannot.
fn repeat(profile: &mut Profile, count: Option<u16>) -> anyhow::Result<()> {
    match count {
        None | Some(1) => Ok(()),
        Some(count) => Ok(profile.repeat_messages(count)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "[[template]]\nport = 80\ncps = 200\n\
        client = [{ send = 20 }, { receive = 80 }]\nserver = [{ receive = 20 }, { send = 80 }]\n";

    #[derive(clap::Parser)]
    struct Options {
        #[arg(long)]
        stateful: bool,
        #[command(flatten)]
        targets: TargetArgs,
    }

    fn read(words: &str) -> TargetArgs {
        let words = format!("gen --stateful {words}");
        <Options as clap::Parser>::parse_from(words.split_whitespace()).targets
    }

    /// Returns the connections and the transactions each second.
    fn rates(words: &str) -> Result<[f64; 2], String> {
        let targets = read(words);
        let mut profile = Profile::from_toml(PROFILE, &|_| Err(String::new())).unwrap();
        targets.apply(&mut profile).map_err(|error| error.to_string())?;
        let multiplier = targets.multiplier(&profile);
        let transactions = profile.rate_of(Target::Transactions(1.0));
        Ok([profile.cps(), transactions].map(|rate| (rate * multiplier).round()))
    }

    #[test]
    fn two_of_rate_messages_and_target_determine_the_third() {
        assert_eq!(rates(""), Ok([200.0, 200.0]));
        assert_eq!(rates("--messages 5"), Ok([200.0, 1000.0]));
        assert_eq!(rates("--tps 5k"), Ok([5000.0, 5000.0]));
        assert_eq!(rates("--tps 5k --messages 10"), Ok([500.0, 5000.0]));
        assert_eq!(rates("--tps 5k --cps 50"), Ok([50.0, 5000.0]));
        assert_eq!(rates("--throughput 8M"), Ok([10_000.0, 10_000.0]));
        assert_eq!(rates("--throughput 8M --cps 1k"), Ok([1000.0, 10_000.0]));
    }

    #[test]
    fn targets_that_contradict_each_other_are_refused() {
        let refused = |words: &str| rates(words).unwrap_err();
        assert!(refused("--tps 5k --cps 50 --messages 9").ends_with("determine the third"));
        assert!(refused("--tps 50 --cps 100").contains("would exchange its messages 0.50 times"));
        assert!(refused("--tps 250 --cps 100").contains("would exchange its messages 2.50 times"));
        let short = refused("--tps 1M --connections 100");
        assert!(
            short.contains("every 100 µs") && short.contains("keep 10 times as many"),
            "{short}"
        );
    }
}
