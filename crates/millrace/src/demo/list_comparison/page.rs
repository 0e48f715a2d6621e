// SPDX-License-Identifier: BSD-3-Clause
//! Draws the comparison of access lists as one HTML file: tables and bars.

use crate::demo::list_comparison::table::HEADINGS;
use crate::demo::list_comparison::{ListComparison, ListRun, OF_ARTICLE, depth_meaning};
use crate::demo::load::depth_name;
use maud::{Markup, html};
use results::page::{figure, legend, page_of};
use results::plot::{Bar, Colour, NotDrawn, OFF, ON, RUNS, STAGES, bars};

/// Returns the page.
pub(crate) fn page(comparison: &ListComparison) -> Result<String, NotDrawn> {
    let depths = comparison.depths().map(of_depth).collect::<Result<Vec<_>, _>>()?;
    let main = html! {
        div.runs { @for depth in depths { (depth) } }
        p.note { (comparison.seconds) " s of each run are measured. " (OF_ARTICLE) }
        @for run in comparison.runs.iter().filter(|run| !run.summary.ledger.balanced) {
            p.warning { (name(run)) ": the ledger is not balanced, so packets are missing" }
        }
    };
    Ok(page_of("Millrace: access lists, measured", [heading(comparison), main, about(comparison)]))
}

fn heading(comparison: &ListComparison) -> Markup {
    html! {
        h1 { "Access lists, measured" }
        p.lead {
            "A bump in the wire with one worker, under the load of the article about VPP: "
            (results::units::thousands(comparison.flows.into()))
            " UDP flows of 64-byte packets. First without access list, then with lists of several \
             sizes in software, then with a list whose rules the NIC has: it marks the packets of \
             each."
        }
        aside {
            strong { "What these figures are" }
            ul { @for caveat in comparison.caveats() { li { (caveat) } } }
        }
        @if comparison.interrupted {
            p.warning { "Ended before its time: what there was until then." }
        }
    }
}

fn of_depth(runs: &[ListRun]) -> Result<Markup, NotDrawn> {
    let tracking = runs[0].title.tracking;
    let bar =
        |run: &ListRun| Bar { name: name(run), parts: vec![(colour(run), run.measured.mpps)] };
    let throughput = bars("Mpps", 1, &runs.iter().map(bar).collect::<Vec<_>>())?;
    let stacked = |run: &ListRun| {
        let stages = STAGES.into_iter().zip(&run.measured_stages);
        Bar { name: name(run), parts: stages.map(|(colour, stage)| (colour, stage.1)).collect() }
    };
    let cycles = bars("cycles", 1, &runs.iter().map(stacked).collect::<Vec<_>>())?;
    let stages = runs[0].measured_stages.iter().map(|(name, _)| *name).zip(STAGES);
    Ok(html! {
        h2 { "tracking = \"" (depth_name(tracking)) "\": " (depth_meaning(tracking)) }
        div.gains { @for gain in ListComparison::gains(runs) {
            section {
                h2 { (gain.marked.title.list()) ", marks of " (gain.marked.title.decided_by()) }
                @match gain.ratios() {
                    None => p.note { "no comparison (cpu taken away)" },
                    Some(ratios) => @for (ratio, what) in ratios.into_iter().zip(RATIOS) {
                        div { b { (format!("{ratio:.2}×")) } (what) }
                    },
                }
            }
        } }
        (table(runs))
        (legend([("no list", NONE), ("list in software", OFF), ("list in the NIC", ON)]))
        div.charts { (figure("Throughput of the worker", &throughput)) }
        (legend(stages))
        div.charts { (figure("Cycles of a packet by stage", &cycles)) }
    })
}

/// What [`Gain::ratios`](super::Gain::ratios) are.
const RATIOS: [&str; 3] =
    ["of software with the list", "of no list", "software with the list, of no list"];

fn table(runs: &[ListRun]) -> Markup {
    html! {
        div.wide {
            table.lists {
                thead { tr { @for heading in HEADINGS { th { (heading) } } th {} } }
                tbody {
                    @for run in runs {
                        tr {
                            @for cell in run.cells(runs) { td { (cell) } }
                            td { (run.not_comparable().unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

/// Colour of runs without list.
const NONE: Colour = RUNS[7];

fn colour(run: &ListRun) -> Colour {
    match (run.title.rules, &run.title.personality) {
        (0, _) => NONE,
        (_, None) => OFF,
        (_, Some(_)) => ON,
    }
}

fn name(run: &ListRun) -> String {
    match run.title.decided_by() {
        "" => run.title.list(),
        by => format!("{}, {by}", run.title.list()),
    }
}

fn about(comparison: &ListComparison) -> Markup {
    let ListComparison { version, dpdk, processor, .. } = comparison;
    let names: Vec<_> = comparison.personalities.iter().map(|played| &*played.name).collect();
    let names = names.join(", ");
    let seed = comparison.seed.to_string();
    let rows = [
        ("Millrace", *version),
        ("DPDK", dpdk.trim_start_matches("DPDK ")),
        ("processor", processor.as_deref().unwrap_or("not known")),
        ("personalities", &names),
        ("seed of the traffic", &seed),
    ];
    html! {
        dl { @for (name, value) in rows { dt { (name) } dd { (value) } } }
    }
}
