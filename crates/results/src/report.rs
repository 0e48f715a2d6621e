// SPDX-License-Identifier: BSD-3-Clause
//! Makes an HTML page of generator runs: figures side by side, plots over time, and the same values
//! in tables.

use crate::page::{figure, legend, page_of};
use crate::plot::{Band, Chart, Colour, Line, NotDrawn, RUNS, Scale};
use crate::run::{Point, Run};
use crate::side_by_side::{self, Cell};
use crate::units;
use maud::{Markup, html};

/// Maximum number of runs on a page: there are no more colours.
pub const RUNS_MAX: usize = RUNS.len();
/// Maximum number of steps that a plot shows.
const STEPS_MAX: usize = 400;

/// Returns the page of one run or several. Runs beyond [`RUNS_MAX`] have figures but no plots.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn page(title: &str, runs: &[Run]) -> Result<String, NotDrawn> {
    let shown: Vec<_> =
        runs.iter().zip(RUNS).map(|(run, colour)| Shown::new(run, colour)).collect();
    let header = html! {
        h1 { (title) }
        p.lead { (lead(runs)) }
    };
    let main = html! {
        div.runs {
            h2 { "Figures" }
            (figures(runs))
            h2 { "Over time" }
            @if runs.len() > 1 {
                (legend(shown.iter().map(|shown| (&shown.run.name, shown.colour))))
            }
            (plots(&shown)?)
            h2 { "Values over time" }
            @for shown in &shown { (steps(shown)) }
            h2 { "Runs" }
            @for run in runs { (facts(run)) }
        }
    };
    let footer = html! {
        p { "Written by Millrace. In brackets: the difference from the first run." }
    };
    Ok(page_of(title, [header, main, footer]))
}

fn lead(runs: &[Run]) -> String {
    match runs {
        [_] => "Packets sent, packets received, losses and latency of one run of the generator."
            .to_owned(),
        _ => format!("{} runs of the generator, compared with the first one.", runs.len()),
    }
}

/// A run in the colour of its plots.
struct Shown<'a> {
    run: &'a Run,
    colour: Colour,
    /// At most [`STEPS_MAX`].
    points: Vec<Point>,
}

impl<'a> Shown<'a> {
    fn new(run: &'a Run, colour: Colour) -> Self {
        let points = run.points.chunks(run.points.len().div_ceil(STEPS_MAX).max(1));
        Self { run, colour, points: points.map(together).collect() }
    }

    /// Returns lines of a value, with a step for each interval. Intervals without the value
    /// separate the lines.
    fn lines(&self, is_wide: bool, value: impl Fn(&Point) -> Option<f64>) -> Vec<Line> {
        let stretches = self.points.chunk_by(|a, b| value(a).is_some() == value(b).is_some());
        let lines = stretches.map(|stretch| {
            let step = |point: &Point| {
                let value = value(point)?;
                Some([(point.start_s, value), (point.end_s(), value)])
            };
            let points: Vec<_> = stretch.iter().filter_map(step).flatten().collect();
            Line { colour: self.colour, is_wide, points }
        });
        lines.filter(|line| !line.points.is_empty()).collect()
    }

    /// Returns bands from the median (or mean) to the greatest latency.
    fn bands(&self) -> Vec<Band> {
        let stretches = self.points.chunk_by(|a, b| a.max.is_some() == b.max.is_some());
        let bands = stretches.map(|stretch| {
            let step = |point: &Point| {
                let (low, high) = (point.p50.or(point.mean)?, point.max?);
                Some([(point.start_s, low, high), (point.end_s(), low, high)])
            };
            let points: Vec<_> = stretch.iter().filter_map(step).flatten().collect();
            Band { colour: self.colour, points }
        });
        bands.filter(|band| !band.points.is_empty()).collect()
    }
}

/// Joins intervals: adds packets up, and takes the maxima of latencies and gaps.
fn together(points: &[Point]) -> Point {
    points.iter().copied().reduce(join).unwrap_or_default()
}

fn join(a: Point, b: Point) -> Point {
    let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    let sum = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(|a, b| a + b);
    Point {
        start_s: a.start_s,
        length_s: b.end_s() - a.start_s,
        sent: a.sent + b.sent,
        received: a.received + b.received,
        stamped: sum(a.stamped, b.stamped),
        lost: sum(a.lost, b.lost),
        mean: most(a.mean, b.mean),
        p50: most(a.p50, b.p50),
        p99: most(a.p99, b.p99),
        max: most(a.max, b.max),
        gap: most(a.gap, b.gap),
    }
}

fn figures(runs: &[Run]) -> Markup {
    let cell = |cell: &Cell| {
        html! {
            td {
                (cell.value)
                @if !cell.difference.is_empty() { " " small { "(" (cell.difference) ")" } }
            }
        }
    };
    html! {
        div.wide {
            table.figures {
                thead {
                    tr {
                        th scope="col" { "figure" }
                        @for run in runs { th scope="col" { (run.name) } }
                    }
                }
                tbody {
                    @for row in side_by_side::rows(runs) {
                        tr {
                            th scope="row" { (row.name) }
                            @for value in &row.cells { (cell(value)) }
                        }
                    }
                }
            }
        }
    }
}

fn plots(shown: &[Shown]) -> Result<Markup, NotDrawn> {
    let ends = shown.iter().filter_map(|shown| shown.points.last());
    let until = ends.map(Point::end_s).fold(0.0, f64::max);
    if until <= 0.0 {
        return Ok(html! { p.note { "There are no intervals in these results." } });
    }
    let chart = |title, scale, bands: Vec<Band>, lines: Vec<Line>| {
        Chart { time: "time in s", title, until, scale, bands, lines }.draw()
    };
    let lines = |is_wide, value: fn(&Point) -> Option<f64>| {
        shown.iter().flat_map(|shown| shown.lines(is_wide, value)).collect::<Vec<_>>()
    };
    let from_0 = Scale::From0 { least: 0.0 };
    let mut rate = lines(true, |point| Some(point.sent_rate()));
    rate.extend(lines(false, |point| Some(point.received_rate())));
    let rates = rate.iter_mut().flat_map(|line| &mut line.points);
    let rates: Vec<_> = rates.map(|(_, rate)| rate).collect();
    let (unit, one) = units::rate_unit(rates.iter().map(|rate| **rate).fold(0.0, f64::max));
    rates.into_iter().for_each(|rate| *rate /= one);
    let rate = chart(unit, from_0, Vec::new(), rate)?;
    let loss = lines(false, Point::loss_percent);
    let is_lossless = loss.iter().flat_map(|line| &line.points).all(|point| point.1 == 0.0);
    let loss = match (loss.is_empty(), is_lossless) {
        (true, _) => Err("Nothing was verified: losses are not known."),
        (false, true) => Err("No packet was lost."),
        _ => Ok(chart("% of packets", from_0, Vec::new(), loss)?),
    };
    let mut latency = lines(true, |point| point.p99);
    latency.extend(lines(false, |point| point.p50.or(point.mean)));
    let bands = shown.iter().flat_map(Shown::bands).collect();
    let latency = match latency.is_empty() {
        true => Err("No latency was measured."),
        false => Ok(chart("latency", Scale::Nanoseconds, bands, latency)?),
    };
    let gaps = lines(false, |point| point.gap.filter(|gap| *gap > 0.0));
    let gaps = match gaps.is_empty() {
        true => Err("Gaps were not measured."),
        false => Ok(chart("longest gap", Scale::Nanoseconds, Vec::new(), gaps)?),
    };
    Ok(html! {
        div.charts {
            (figure("Rate: received (line) and sent (wide, pale)", &rate))
            (figure_or_note("Loss, by the interval in which packets were sent", loss))
            (figure_or_note(
                "Latency: median (line), 99 % (wide, pale), up to the greatest (shade)",
                latency
            ))
            (figure_or_note("Longest time between two polls of the receiver", gaps))
        }
        p.note {
            "In runs with more than " (STEPS_MAX) " intervals, each step joins several: packets \
             are added up, and the greatest latencies and gaps are shown. CSV files of other \
             programs may have only the mean latency, which is shown in place of the median."
        }
    })
}

fn figure_or_note(caption: &str, svg: Result<String, &str>) -> Markup {
    match svg {
        Ok(svg) => figure(caption, &svg),
        Err(note) => html! { figure { figcaption { (caption) } p { (note) } } },
    }
}

const STEP_HEADINGS: [&str; 9] =
    ["from, s", "to, s", "sent", "received", "loss", "p50", "p99", "greatest", "gap"];

fn steps(shown: &Shown) -> Markup {
    html! {
        details {
            summary { (shown.run.name) ", " (shown.points.len()) " steps" }
            div.wide {
                table.figures {
                    thead { tr { @for name in STEP_HEADINGS { th scope="col" { (name) } } } }
                    tbody {
                        @for point in &shown.points {
                            tr { @for cell in step(point) { td { (cell) } } }
                        }
                    }
                }
            }
        }
    }
}

fn step(point: &Point) -> [String; 9] {
    let ns = |value: Option<f64>| {
        value.map_or(String::new(), |value| units::duration(value.round() as u64))
    };
    [
        format!("{:.2}", point.start_s),
        format!("{:.2}", point.end_s()),
        units::packet_rate(point.sent_rate()),
        units::packet_rate(point.received_rate()),
        point.loss_percent().map_or(String::new(), units::percent),
        ns(point.p50.or(point.mean)),
        ns(point.p99),
        ns(point.max),
        ns(point.gap),
    ]
}

fn facts(run: &Run) -> Markup {
    html! {
        h3 { (run.name) }
        div.wide {
            table.facts {
                tbody {
                    @for (name, value) in &run.facts {
                        tr { th scope="row" { (name) } td { (value) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
