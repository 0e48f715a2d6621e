// SPDX-License-Identifier: BSD-3-Clause
//! Options that say how many connections there are, and what they do together.

use anyhow::bail;
use search::parse_number;
use stateful::{Counter, Profile, ROUNDS_MAX, Target, Template};

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

/// What follows from the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Rate of connections as a multiple of that of the profile.
    pub(super) multiplier: f64,
    /// Most connections that an end has at a time, if it is known.
    pub(super) records: Option<f64>,
}

impl TargetArgs {
    /// Changes a profile so that its connections do what the options say.
    pub(super) fn apply(&self, profile: &mut Profile) -> anyhow::Result<Plan> {
        if let Some(count) = self.connections {
            profile.keep_open(count.max(1.0) as u64);
        }
        let mut period_s = None;
        match (self.target(), self.connections) {
            (Some(_), Some(_)) if self.messages.is_some() && self.churn.is_some() => {
                bail!("--churn closes connections, and so does --messages: leave out one of them");
            }
            (Some(target), Some(_)) => {
                period_s = Some(profile.pace_messages(target, self.messages)?);
            }
            (Some(target), None) => self.set_rate(profile, target)?,
            (None, _) => repeat(profile, self.messages)?,
        }
        if let Some(churn) = self.churn {
            profile.release_oldest(churn);
        }
        Ok(Plan {
            multiplier: self.rate(profile, period_s)? / profile.cps(),
            records: self.connections.map(|count| self.records(profile, count, period_s)),
        })
    }

    /// Returns the rate at which connections are opened.
    fn rate(&self, profile: &Profile, period_s: Option<f64>) -> anyhow::Result<f64> {
        let (cps, count) = (self.cps, self.connections.unwrap_or(0.0));
        if let (None, None, Some(target)) = (cps, self.connections, self.target()) {
            return Ok(profile.cps() * target.rate() / profile.rate_of(target));
        }
        // So many end each second.
        let churn = self.churn.map(|churn| (churn, "--churn"));
        let ending = match (period_s, self.messages) {
            (Some(period_s), Some(messages)) => {
                Some((count / (period_s * f64::from(messages)), "--messages"))
            }
            _ => churn,
        };
        if let (Some(cps), Some((ending, option))) = (cps, ending) {
            // Rounding must not refuse what is just enough.
            if cps < ending * 0.999 {
                bail!("--cps {cps} is too low: with {option}, {ending:.0} close each second");
            }
        }
        // All are open after one period, if that is a second or more.
        let opening = period_s.map_or(0.0, |period_s| count / period_s.max(1.0));
        let least = ending.map_or(opening, |(ending, _)| ending.max(opening));
        Ok(cps.unwrap_or_else(|| least.max(profile.cps())))
    }

    /// Returns the most connections that an end has at a time.
    fn records(&self, profile: &Profile, count: f64, period_s: Option<f64>) -> f64 {
        // Those that have closed may keep their records for a while. Servers over UDP wait for the
        // messages that a released client would have sent, and its tuple rests as long.
        let rest_ms = |it: &Template| it.rest_ms(&profile.timeouts, Counter::Completed);
        let longest_s = f64::from(profile.templates.iter().map(rest_ms).max().unwrap_or(0)) / 1e3;
        let waiting = period_s.and(self.churn).unwrap_or(0.0) * longest_s;
        count * 1.05 + waiting
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
        let plan = targets.apply(&mut profile).map_err(|error| error.to_string())?;
        let transactions = profile.rate_of(Target::Transactions(1.0));
        Ok([profile.cps(), transactions].map(|rate| (rate * plan.multiplier).round()))
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

    /// As fast as connections close, and so that all are open after a period.
    #[test]
    fn open_connections_are_opened_fast_enough() {
        let cps = |words: &str| rates(words).map(|[cps, _]| cps);
        assert_eq!(cps("--connections 100k --tps 50k"), Ok(50_000.0));
        assert_eq!(cps("--connections 100k --tps 50k --cps 1k"), Ok(1000.0));
        assert_eq!(cps("--connections 100 --tps 50 --churn 7k"), Ok(7000.0));
        assert_eq!(cps("--connections 100k --tps 50k --messages 5 --cps 10k"), Ok(10_000.0));
        let refused = |words: &str| rates(words).unwrap_err();
        let slow = refused("--connections 100k --tps 50k --messages 5 --cps 9k");
        assert!(slow.ends_with("with --messages, 10000 close each second"), "{slow}");
        let slow = refused("--connections 100k --churn 5k --cps 4k");
        assert!(slow.ends_with("with --churn, 5000 close each second"), "{slow}");
    }

    #[test]
    fn targets_that_contradict_each_other_are_refused() {
        let refused = |words: &str| rates(words).unwrap_err();
        assert!(refused("--tps 5k --cps 50 --messages 9").ends_with("determine the third"));
        assert!(refused("--tps 50 --cps 100").contains("would exchange its messages 0.50 times"));
        assert!(refused("--tps 250 --cps 100").contains("would exchange its messages 2.50 times"));
        assert!(
            refused("--connections 9 --tps 5 --messages 2 --churn 1").contains("leave out one")
        );
        let short = refused("--tps 1M --connections 100");
        assert!(
            short.contains("every 100 µs") && short.contains("keep 10 times as many"),
            "{short}"
        );
    }
}
