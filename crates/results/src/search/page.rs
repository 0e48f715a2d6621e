// SPDX-License-Identifier: BSD-3-Clause
//! Makes the HTML page of searches: answers, trials over time, loss over load, and all trials.

use super::text::{HEADINGS, at_lower_bounds, bursts, cells};
use super::{OneSearch, SearchResults, SearchTrial, TrialKind, Verdict, load};
use crate::page::{figure, legend, page_of};
use crate::plot::{Chart, Colour, Line, NotDrawn, RUNS, Scale};
use crate::units;
use maud::{Markup, html};

/// Colours of loads that the device sustains, does not sustain, and undecided ones.
const COLOURS: [(Verdict, &str, Colour); 3] = [
    (Verdict::Lower, "sustained", RUNS[2]),
    (Verdict::Upper, "not sustained", RUNS[3]),
    (Verdict::Undecided, "undecided", RUNS[7]),
];
/// Length of the mark of a trial, as a share of the axis.
const MARK: f64 = 0.012;

/// Returns the page of these results.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn page(results: &SearchResults) -> Result<String, NotDrawn> {
    let header = html! {
        h1 { "Highest load" }
        p.lead { (lead(results)) }
    };
    let plots = results.searches.iter().map(|search| plots(results, search));
    let plots = plots.collect::<Result<Vec<_>, _>>()?;
    let main = html! {
        div.runs {
            h2 { "Answers" }
            (answers(results))
            @for (search, plots) in results.searches.iter().zip(&plots) {
                h2 { (title(search)) }
                (legend(COLOURS.map(|(_, name, colour)| (name, colour))))
                (plots)
                (trials(results, search))
            }
            h2 { "To repeat it" }
            (facts(results))
        }
    };
    let footer = html! { p { "Written by Millrace." } };
    Ok(page_of("Highest load", [header, main, footer]))
}

fn lead(results: &SearchResults) -> String {
    let goals: Vec<_> = results.goals.iter().map(|goal| goal.name.as_str()).collect();
    format!(
        "Searches from {} to {} at {}, for {}.",
        load(results.min_load, &results.unit),
        load(results.max_load, &results.unit),
        results.ports,
        goals.join(", ")
    )
}

fn title(search: &OneSearch) -> String {
    let of_size = search.size.map_or(String::new(), |size| format!(", {size} bytes"));
    format!("Search {}{of_size}", search.number)
}

fn answers(results: &SearchResults) -> Markup {
    html! {
        div.wide {
            table.figures {
                thead { tr { @for name in HEADINGS { th scope="col" { (name) } } } }
                tbody {
                    @for search in &results.searches {
                        @for answer in &search.answers {
                            tr {
                                @for cell in cells(search, answer, results.unit_of(search)) {
                                    td { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @for search in &results.searches {
            @if let Some(found) = &search.back_to_back {
                p { (title(search)) ", back to back: " (bursts(found, results.unit_of(search))) }
            }
            @for line in at_lower_bounds(search) {
                p { (title(search)) ", " (line) }
            }
        }
    }
}

/// Returns the unit of an axis of loads, and the load of one unit.
fn axis_unit(unit: &str, most: f64) -> (String, f64) {
    match (unit, most) {
        ("%", _) | (_, ..1e3) => (unit.to_owned(), 1.0),
        (_, ..1e6) => (format!("k{unit}"), 1e3),
        (_, ..1e9) => (format!("M{unit}"), 1e6),
        _ => (format!("G{unit}"), 1e9),
    }
}

fn is_counted(trial: &SearchTrial) -> bool {
    trial.kind == TrialKind::Counted
}

/// Returns what is known at the end about the load of a trial.
fn verdict_at_end(search: &OneSearch, of: &SearchTrial, goal: usize) -> Verdict {
    let at_load = search.trials.iter().rfind(|trial| is_counted(trial) && trial.load == of.load);
    let verdict = at_load.and_then(|trial| trial.verdicts.get(goal));
    verdict.copied().unwrap_or(Verdict::Undecided)
}

fn colour(verdict: Verdict) -> Colour {
    COLOURS.iter().find(|(of, ..)| *of == verdict).map_or(RUNS[7], |(.., colour)| *colour)
}

fn plots(results: &SearchResults, search: &OneSearch) -> Result<Markup, NotDrawn> {
    let counted = || search.trials.iter().filter(|trial| is_counted(trial));
    let most = counted().map(|trial| trial.load).fold(0.0, f64::max);
    let (unit, one) = axis_unit(results.unit_of(search), most);
    let end = counted().map(|trial| trial.start_s + trial.whole_s).fold(0.0, f64::max);
    let mut figures = Vec::new();
    // Trials have a verdict for each answer of their search.
    for (number, answer) in search.answers.iter().enumerate() {
        let colour = |trial| colour(verdict_at_end(search, trial, number));
        let over_time = counted().map(|trial| {
            let from = trial.start_s;
            let until = from + trial.whole_s.max(end * MARK);
            let points = vec![(from, trial.load / one), (until, trial.load / one)];
            Line { colour: colour(trial), is_wide: false, points }
        });
        let lines: Vec<Line> = over_time.collect();
        let caption = format!("Load of trials over time, goal {}", answer.goal);
        figures.push((caption, chart("time in s", &unit, end, lines)?));
        let over_load = counted().map(|trial| {
            let (at, loss) = (trial.load / one, trial.loss_ratio * 100.0);
            let half = most / one * MARK / 2.0;
            let points = vec![(at - half, loss), (at + half, loss)];
            Line { colour: colour(trial), is_wide: false, points }
        });
        let lines: Vec<Line> = over_load.collect();
        let axis = format!("load in {unit}");
        let caption = format!("Loss over load, goal {}", answer.goal);
        figures.push((caption, chart(&axis, "% lost", most / one * (1.0 + MARK), lines)?));
    }
    Ok(html! {
        div.charts { @for (caption, svg) in &figures { (figure(caption, svg)) } }
    })
}

fn chart(axis: &str, title: &str, until: f64, lines: Vec<Line>) -> Result<String, NotDrawn> {
    let scale = Scale::From0 { least: 0.0 };
    Chart { time: axis, title, until, scale, bands: Vec::new(), lines }.draw()
}

const TRIAL_HEADINGS: [&str; 10] =
    ["from, s", "load", "length", "intended", "unsent", "lost", "loss", "p99", "bounds", "tester"];

fn trials(results: &SearchResults, search: &OneSearch) -> Markup {
    let unit = results.unit_of(search);
    html! {
        details {
            summary { (search.trials.len()) " trials" }
            div.wide {
                table.figures {
                    thead { tr { @for name in TRIAL_HEADINGS { th scope="col" { (name) } } } }
                    tbody {
                        @for trial in &search.trials {
                            tr {
                                @for cell in trial_cells(unit, search, trial) { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn trial_cells(unit: &str, search: &OneSearch, trial: &SearchTrial) -> [String; 10] {
    let bounds = search.answers.iter().zip(&trial.verdicts).map(|(answer, verdict)| {
        let name = COLOURS.iter().find(|(of, ..)| of == verdict).map_or("", |(_, name, _)| name);
        format!("{} {name}", answer.goal)
    });
    let bounds: Vec<String> = bounds.collect();
    let setup = trial.connections.as_ref().and_then(|it| it.setup);
    let setup = setup.map(|setup| (setup.p99_us * 1e3) as u64);
    let p99 = trial.latency.as_ref().map(|latency| latency.p99_ns).or(setup).map(units::duration);
    [
        format!("{:.2}", trial.start_s),
        load(trial.load, unit),
        format!("{:.2} s", trial.duration_s),
        units::thousands(trial.intended),
        units::thousands(trial.unsent),
        units::thousands(trial.lost),
        units::percent(trial.loss_ratio * 100.0),
        p99.unwrap_or_default(),
        match trial.kind {
            TrialKind::Counted => bounds.join(", "),
            TrialKind::WarmUp => "warm-up".to_owned(),
            TrialKind::Repeated => "made again".to_owned(),
        },
        trial.tester.join("; "),
    ]
}

fn facts(results: &SearchResults) -> Markup {
    let host = &results.host;
    let facts = [
        ("command", results.command.join(" ")),
        ("Millrace", results.version.clone()),
        ("DPDK", results.dpdk.clone()),
        ("started", units::date(results.started_unix_s as u64)),
        ("processor", host.cpu.clone().unwrap_or_default()),
        ("kernel", host.kernel.clone().unwrap_or_default()),
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
