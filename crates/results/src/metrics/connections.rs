// SPDX-License-Identifier: BSD-3-Clause
//! Encodes the counters and latencies of stateful traffic. Names begin with
//! `millrace_gen_stateful_`.

use super::{Delays, Encoded, encode_counter, histogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The values of a scrape of stateful traffic.
#[derive(Clone, Debug, Default)]
pub struct ConnectionsScrape {
    /// Clients and servers. All have the same counters.
    pub ends: Vec<ConnectionsOfEnd>,
    /// Latencies, with their names.
    pub latencies: Vec<(&'static str, Delays)>,
}

/// Counters of clients or of servers.
#[derive(Clone, Debug, Default)]
pub struct ConnectionsOfEnd {
    /// `clients` or `servers`.
    pub name: &'static str,
    /// Counters, with their names.
    pub counters: Vec<(&'static str, u64)>,
    /// Connections that are open, or opening.
    pub open: u64,
}

impl ConnectionsScrape {
    /// Returns the metrics as text.
    pub fn into_text(self) -> String {
        let mut registry = Registry::with_prefix("millrace_gen_stateful");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes all");
        text
    }
}

impl ConnectionsScrape {
    fn encode_open(&self, out: &mut DescriptorEncoder<'_>) -> Encoded {
        let help = "Connections that are open, or opening";
        let mut metric = out.encode_descriptor("open", help, None, MetricType::Gauge)?;
        for end in &self.ends {
            metric.encode_family(&[("end", end.name)])?.encode_gauge(&end.open)?;
        }
        Ok(())
    }
}

impl Collector for ConnectionsScrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let out = &mut encoder;
        let counters = self.ends.first().map_or(&[][..], |end| &end.counters);
        for (number, (name, _)) in counters.iter().enumerate() {
            let help = name.replace('_', " ");
            let mut metric = out.encode_descriptor(name, &help, None, MetricType::Counter)?;
            for end in &self.ends {
                let label = [("end", end.name)];
                encode_counter(&mut metric.encode_family(&label)?, end.counters[number].1)?;
            }
        }
        self.encode_open(out)?;
        for (name, delays) in &self.latencies {
            let help = format!("Latency: {}", name.replace('_', " "));
            histogram(out, &format!("{name}_seconds"), &help, delays)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_counters_of_both_ends() {
        let end = |name, count| ConnectionsOfEnd {
            name,
            counters: vec![("attempted", count), ("no_answer", 0)],
            open: 3,
        };
        let mut setup = Delays::default();
        setup.add(1500, 4);
        let ends = vec![end("clients", 7), end("servers", 6)];
        let text = ConnectionsScrape { ends, latencies: vec![("setup", setup)] }.into_text();
        for line in [
            "# TYPE millrace_gen_stateful_attempted counter",
            "millrace_gen_stateful_attempted_total{end=\"clients\"} 7",
            "millrace_gen_stateful_attempted_total{end=\"servers\"} 6",
            "# HELP millrace_gen_stateful_no_answer no answer",
            "millrace_gen_stateful_open{end=\"clients\"} 3",
            "millrace_gen_stateful_setup_seconds_count 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert_eq!(ConnectionsScrape::default().into_text().lines().last(), Some("# EOF"));
    }
}
