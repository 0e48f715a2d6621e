// SPDX-License-Identifier: BSD-3-Clause
//! Makes an HTML page of a run of stateful traffic: its figures, and plots over time.

use crate::page::{figure, legend, page_of};
use crate::plot::{Band, Chart, Colour, Line, NotDrawn, RUNS, Scale};
use maud::{Markup, html};

/// Maximum number of steps that a plot shows.
const STEPS_MAX: usize = 400;
/// Names of the latencies, in their order.
pub const LATENCIES: [&str; 3] = ["setup", "first byte", "response"];

/// A run of stateful traffic.
#[derive(Clone, Debug, Default)]
pub struct ConnectionsRun {
    /// Names and values of its figures.
    pub figures: Vec<[String; 2]>,
    /// Its intervals.
    pub steps: Vec<ConnectionsStep>,
}

/// An interval of clients, or of servers if they are alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionsStep {
    /// Seconds from the start.
    pub start_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Connections that were opened, that were established, and that failed.
    pub attempted: u64,
    /// See above.
    pub established: u64,
    /// See above.
    pub failed: u64,
    /// Connections that are open at the end.
    pub open: u64,
    /// Median and 99 % of each of the [`LATENCIES`], in nanoseconds.
    pub latencies: [Option<[f64; 2]>; 3],
}

impl ConnectionsRun {
    /// Returns the page.
    ///
    /// # Errors
    /// If a plot cannot be drawn.
    pub fn page(&self, title: &str) -> Result<String, NotDrawn> {
        let header = html! {
            h1 { (title) }
            p.lead { "Connections opened, established, open and failed, and their latencies." }
        };
        let main = html! {
            div.runs {
                h2 { "Figures" }
                div.wide {
                    table.figures {
                        tbody {
                            @for [name, value] in &self.figures {
                                tr { th scope="row" { (name) } td { (value) } }
                            }
                        }
                    }
                }
                h2 { "Over time" }
                (self.plots()?)
            }
        };
        Ok(page_of(title, [header, main, html! { p { "Written by Millrace." } }]))
    }

    fn plots(&self) -> Result<Markup, NotDrawn> {
        let steps = self.steps.chunks(self.steps.len().div_ceil(STEPS_MAX).max(1));
        let steps: Vec<_> = steps.filter_map(|it| it.iter().copied().reduce(join)).collect();
        let Some(until) = steps.last().map(|last| last.start_s + last.length_s) else {
            return Ok(html! { p.note { "There are no intervals in these results." } });
        };
        let chart = |title: &str, scale, bands, lines| {
            Chart { time: "time in s", title, until, scale, bands, lines }.draw()
        };
        let count = |title: &str, value: &[&dyn Fn(&ConnectionsStep) -> f64]| {
            let lines = value
                .iter()
                .zip(RUNS)
                .map(|(value, colour)| line(&steps, colour, |step| Some(value(step))));
            chart(title, Scale::From0 { least: 1.0 }, Vec::new(), lines.flatten().collect())
        };
        let per_second = |count: u64, step: &ConnectionsStep| count as f64 / step.length_s;
        let rates = count(
            "connections per second",
            &[&|step| per_second(step.established, step), &|step| per_second(step.attempted, step)],
        )?;
        let open = count("connections", &[&|step| step.open as f64])?;
        let failed = count("connections per second", &[&|step| per_second(step.failed, step)])?;
        let mut bands = Vec::new();
        let mut lines = Vec::new();
        for (number, colour) in (0..LATENCIES.len()).zip(RUNS) {
            let point = |step: &ConnectionsStep| {
                let [median, most] = step.latencies[number]?;
                let end = step.start_s + step.length_s;
                Some([(step.start_s, median, most), (end, median, most)])
            };
            bands.push(Band { colour, points: steps.iter().filter_map(point).flatten().collect() });
            lines.extend(line(&steps, colour, |step| step.latencies[number].map(|it| it[0])));
        }
        bands.retain(|band| !band.points.is_empty());
        let joined = self.steps.len().div_ceil(STEPS_MAX);
        let of_joined = match joined {
            ..=1 => String::new(),
            _ => format!("; the largest of {joined} intervals"),
        };
        let caption = format!("Latency: median (line) up to 99 % (shade){of_joined}");
        let latency = match lines.is_empty() {
            true => None,
            false => Some(chart("latency", Scale::Nanoseconds, bands, lines)?),
        };
        Ok(html! {
            div.charts {
                (legend(["established", "attempted"].into_iter().zip(RUNS)))
                (figure("Connections established, and attempted, each second", &rates))
                (figure("Open connections", &open))
                (figure("Failed connections each second", &failed))
                (legend(LATENCIES.into_iter().zip(RUNS)))
                @match latency {
                    Some(svg) => (figure(&caption, &svg)),
                    None => p.note { "No latency was measured." },
                }
            }
        })
    }
}

/// Returns the line of a value with a step for each interval that has it.
fn line(
    steps: &[ConnectionsStep],
    colour: Colour,
    value: impl Fn(&ConnectionsStep) -> Option<f64>,
) -> Option<Line> {
    let point = |step: &ConnectionsStep| {
        let value = value(step)?;
        Some([(step.start_s, value), (step.start_s + step.length_s, value)])
    };
    let points: Vec<_> = steps.iter().filter_map(point).flatten().collect();
    (!points.is_empty()).then_some(Line { colour, is_wide: false, points })
}

/// Joins two intervals: adds counts up, and takes the larger latencies.
fn join(a: ConnectionsStep, b: ConnectionsStep) -> ConnectionsStep {
    let most = |number: usize| {
        let both = [a.latencies[number], b.latencies[number]].into_iter().flatten();
        both.reduce(|a, b| [a[0].max(b[0]), a[1].max(b[1])])
    };
    ConnectionsStep {
        start_s: a.start_s,
        length_s: a.length_s + b.length_s,
        attempted: a.attempted + b.attempted,
        established: a.established + b.established,
        failed: a.failed + b.failed,
        open: b.open,
        latencies: std::array::from_fn(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(start: u32) -> ConnectionsStep {
        ConnectionsStep {
            start_s: f64::from(start),
            length_s: 1.0,
            attempted: 100,
            established: 90,
            failed: 10,
            open: 50,
            latencies: [Some([1e5, 2e5]), None, Some([1e6, 3e6])],
        }
    }

    #[test]
    fn a_page_has_figures_and_plots() {
        let figures = vec![["clients: attempted".to_owned(), "<1>".to_owned()]];
        let steps = (0..1000).map(step).collect();
        let page = ConnectionsRun { figures, steps }.page("millrace gen").unwrap();
        assert!(crate::page::is_ours(&page));
        assert_eq!(page.matches("<figure").count(), 4);
        assert!(page.contains("&lt;1&gt;") && page.contains("first byte"));
        let joined = join(step(0), ConnectionsStep { latencies: [None; 3], ..step(1) });
        assert_eq!((joined.length_s, joined.attempted, joined.open), (2.0, 200, 50));
        assert_eq!(joined.latencies, step(0).latencies);
    }

    #[test]
    fn a_run_without_intervals_or_latencies_has_a_page() {
        let page = ConnectionsRun::default().page("empty").unwrap();
        assert!(page.contains("no intervals"), "{page}");
        let steps = vec![ConnectionsStep { latencies: [None; 3], ..step(0) }];
        let page = ConnectionsRun { figures: Vec::new(), steps }.page("few").unwrap();
        assert!(page.contains("No latency was measured"), "{page}");
    }
}
