// SPDX-License-Identifier: BSD-3-Clause
//! Makes the HTML page of the benchmark: rate over configurations for each lifetime of connections,
//! the table, and how devices were set up.

use super::article::{PUBLISHED, Published};
use super::text::HEADINGS;
use super::{ConntrackResults, Lifetime, Point, Row};
use crate::confidence::own_interval;
use crate::page::{figure, legend, page_of};
use crate::plot::categories::{Series, Value, draw};
use crate::plot::{Colour, NotDrawn, RUNS};
use crate::schema::Origin;
use maud::{Markup, html};

/// Returns the page of these results; with the lines of the article if wanted.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn page(results: &ConntrackResults, with_article: bool) -> Result<String, NotDrawn> {
    let charts = Lifetime::ALL.map(|profile| Chart::new(results, profile, with_article));
    let drawn = charts.iter().map(Chart::draw).collect::<Result<Vec<_>, _>>()?;
    let header = html! {
        h1 { "Connection tracking compared" }
        p.lead {
            "Connections per second that each device sustains with at most "
            (results.error_threshold) " % of failed connections and lost packets."
            @if results.is_interrupted { " The command was interrupted." }
        }
    };
    let main = html! {
        div.runs {
            div.charts { @for chart in &drawn { (chart) } }
            h2 { "Measurements" }
            (table(results, with_article))
            h2 { "Set-up" }
            @for set_up in &results.set_ups {
                h3 { (set_up.name) }
                pre { (set_up.lines.join("\n")) }
            }
            (facts(results))
        }
    };
    let footer = html! { p { "Written by Millrace." } };
    Ok(page_of("Connection tracking compared", [header, main, footer]))
}

/// The chart of a lifetime.
struct Chart {
    profile: Lifetime,
    /// Configurations on the x axis.
    sizes: Vec<String>,
    lines: Vec<(String, Series)>,
}

/// A line in the chart: device, and whether it tracks connections.
fn line_of(point: &Point) -> String {
    let no_tracking = if point.tracking == Some(false) { ", no tracking" } else { "" };
    format!("{}{no_tracking}", point.device_name())
}

/// Returns the configurations in the order of their cpus, each once.
fn sizes(rows: &[&Row], published: &[&Published]) -> Vec<String> {
    let of_rows = rows.iter().filter_map(|row| row.point.size());
    let known = published.iter().flat_map(|it| it.rates).map(|(size, _)| (*size).to_owned());
    let mut sizes: Vec<String> = of_rows.chain(known).collect();
    let numbers = |size: &String| -> Vec<u32> {
        size.split(|it: char| !it.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    sizes.sort_by_cached_key(numbers);
    sizes.dedup();
    sizes
}

fn value(row: &Row) -> Option<Value> {
    let value = row.cps?;
    let interval = own_interval(row.rates());
    Some(Value { value, interval, is_at_least: row.is_at_least })
}

impl Chart {
    fn new(results: &ConntrackResults, profile: Lifetime, with_article: bool) -> Self {
        let is_shown = |row: &&Row| row.point.profile == profile && row.point.size().is_some();
        let rows: Vec<&Row> = results.rows.iter().filter(is_shown).collect();
        let published: Vec<_> =
            PUBLISHED.iter().filter(|it| with_article && it.profile == profile).collect();
        let sizes = sizes(&rows, &published);
        let mut names: Vec<String> = Vec::new();
        for name in rows.iter().map(|row| line_of(&row.point)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let colour = |number: usize| RUNS[number % RUNS.len()];
        let measured = names.iter().enumerate().map(|(number, name)| {
            let at = |size: &String| {
                let is_it = |row: &&&Row| {
                    line_of(&row.point) == *name && row.point.size().as_ref() == Some(size)
                };
                rows.iter().find(is_it).and_then(|row| value(row))
            };
            let values = sizes.iter().map(at).collect();
            (name.clone(), Series { colour: colour(number), is_dashed: false, values })
        });
        let article = published.iter().enumerate().map(|(number, it)| {
            let at = |size: &String| {
                let (_, value) = it.rates.iter().find(|(known, _)| known == size)?;
                Some(Value { value: *value, interval: None, is_at_least: false })
            };
            let colour = colour(names.len() + number);
            let values = sizes.iter().map(at).collect();
            (it.name.to_owned(), Series { colour, is_dashed: true, values })
        });
        let lines = measured.chain(article).collect();
        Self { profile, sizes, lines }
    }

    fn draw(&self) -> Result<Markup, NotDrawn> {
        let caption = format!("Connections per second, {}", self.profile.name());
        let series: Vec<&Series> = self.lines.iter().map(|(_, series)| series).collect();
        let svg = draw("connections/s", &self.sizes, &series)?;
        let keys = self.lines.iter().map(|(name, series)| {
            let dashed = if series.is_dashed { " (dashed)" } else { "" };
            (format!("{name}{dashed}"), series.colour)
        });
        let keys: Vec<(String, Colour)> = keys.collect();
        let mut values = series.iter().flat_map(|series| &series.values).flatten();
        let has_bounds = values.any(|value| value.is_at_least);
        Ok(html! {
            div {
                (figure(&caption, &svg)) (legend(keys))
                @if has_bounds { p { "Rings are lower bounds: the device may sustain more." } }
            }
        })
    }
}

fn table(results: &ConntrackResults, with_article: bool) -> Markup {
    html! {
        div.wide {
            table.figures {
                thead { tr { @for name in HEADINGS { th scope="col" { (name) } } } }
                tbody {
                    @for cells in results.cells(with_article) {
                        tr { @for cell in cells { td { (cell) } } }
                    }
                }
            }
        }
    }
}

fn facts(results: &ConntrackResults) -> Markup {
    let Origin { millrace, dpdk, command, hostname, host, .. } = &results.origin;
    let facts = [
        ("host", hostname.clone().unwrap_or_default()),
        ("processor", host.cpu.clone().unwrap_or_default()),
        ("kernel", host.kernel.clone().unwrap_or_default()),
        ("Millrace, DPDK", format!("{millrace}, {dpdk}")),
        ("command", command.join(" ")),
        ("seconds of a measurement", results.seconds.to_string()),
        ("searches of a row", results.repeat.to_string()),
    ];
    html! {
        div.wide {
            table.facts {
                tbody {
                    @for (name, value) in &facts {
                        tr { th scope="row" { (name) } td { (value) } }
                    }
                }
            }
        }
    }
}
