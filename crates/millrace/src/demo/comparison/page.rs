// SPDX-License-Identifier: BSD-3-Clause
//! Draws the comparison as one HTML file: table, bars, and figures over time. The file refers to no
//! other, follows the reader's choice of light or dark, and is also well-formed XML.

use crate::demo::comparison::table::{HEADINGS, OF_ARTICLE};
use crate::demo::comparison::why::why;
use crate::demo::comparison::{Comparison, Played, Run, Speedup, not_comparable, pairs};
use crate::demo::load::Mode;
use crate::demo::readings::Sample;
use maud::{Markup, html};
use results::page::{figure, legend, page_of};
use results::plot::{
    AUTOMATIC, BYPASS, Bar, Chart, Colour, Line, NotDrawn, OFF, ON, STAGES, Scale, bars,
};

/// Returns the page.
pub(crate) fn page(comparison: &Comparison) -> Result<String, NotDrawn> {
    let parts = comparison.personalities.iter().map(|played| of_personality(comparison, played));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let main = html! {
        div.runs { @for part in parts { (part) } }
        (remarks(comparison))
    };
    Ok(page_of("Millrace: offload, measured", [heading(comparison), main, about(comparison)]))
}

fn heading(comparison: &Comparison) -> Markup {
    html! {
        h1 { "Offload, measured" }
        p.lead {
            "A bump in the wire with one worker, under the loads of the FlowTable article and two \
             more: first the worker tracks every packet in software, then the NIC marks the \
             packets of connections that have rules, then it forwards them by itself, if it can."
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

fn of_personality(comparison: &Comparison, played: &Played) -> Result<Markup, NotDrawn> {
    let loads: Vec<_> = comparison.loads(played).collect();
    let over_time = loads.iter().map(|runs| of_load(runs)).collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        h2 { (played.name) ": " (played.title) }
        div.gains {
            @for pair in loads.iter().flat_map(|runs| pairs(runs)) { (gain(pair)) }
        }
        (results(&loads))
        (in_bars(&loads.concat())?)
        @for load in over_time { (load) }
    })
}

fn results(loads: &[Vec<&Run>]) -> Markup {
    html! {
        h2 { "Results" }
        div.wide {
            table.modes {
                thead { tr { @for heading in HEADINGS { th { (heading) } } th {} } }
                tbody {
                    @for runs in loads {
                        @for run in runs {
                            tr class=(run.mode.name()) {
                                @for cell in run.cells() { td { (cell) } }
                                td { (run.taken().unwrap_or_default()) }
                            }
                        }
                        @for published in runs[0].load.article() {
                            tr.article { @for cell in published.cells() { td { (cell) } } td {} }
                        }
                    }
                }
            }
        }
    }
}

fn remarks(comparison: &Comparison) -> Markup {
    html! {
        p.note {
            "Mb/s count the whole wire, preamble and gap included. " (comparison.seconds)
            " s of each run are measured, once no more rules are being installed. " (OF_ARTICLE)
        }
        @for omission in comparison.omissions() { p.note { (omission) } }
        @for run in comparison.runs.iter().filter(|run| !run.summary.ledger.balanced) {
            p.warning { (name(run)) ": the ledger is not balanced, so packets are missing" }
        }
    }
}

fn gain(pair: [&Run; 2]) -> Markup {
    let Speedup { throughput, cpu, cycles } = Speedup::of(pair);
    let tiles = [("throughput", throughput), ("cpu", cpu), ("cycles per packet", cycles)];
    html! {
        section {
            h2 { (pair[1].load.name()) ", with " (pair[1].mode.name()) }
            @if let Some(reason) = not_comparable(pair) {
                p.note { "no comparison (" (reason) ")" }
            } @else {
                @for (name, ratio) in tiles {
                    div { b { (format!("{ratio:.2}×")) } (name) }
                }
                @for sentence in why(pair) { p.note { (sentence) } }
            }
        }
    }
}

fn name(run: &Run) -> String {
    format!("{}, {}", run.load.name(), run.mode.name())
}

fn colour(mode: Mode) -> Colour {
    match mode {
        Mode::Off => OFF,
        Mode::Marks => ON,
        Mode::Bypass => BYPASS,
        Mode::Automatic => AUTOMATIC,
    }
}

/// Returns the legend of the modes of some runs.
fn modes(runs: &[&Run]) -> Markup {
    let has = |mode: &Mode| runs.iter().any(|run| run.mode == *mode);
    legend(Mode::ALL.into_iter().filter(has).map(|mode| (mode.name(), colour(mode))))
}

fn in_bars(runs: &[&Run]) -> Result<Markup, NotDrawn> {
    let of = |value: fn(&Run) -> f64| {
        let bar = |run: &&Run| Bar { name: name(run), parts: vec![(colour(run.mode), value(run))] };
        runs.iter().map(bar).collect::<Vec<_>>()
    };
    let both_ways = bars("Mb/s", 1, &of(|run| run.measured.up_mbps + run.measured.down_mbps))?;
    let cpu = bars("%", 1, &of(|run| run.measured.cpu_percent))?;
    let stacked = runs.iter().map(|run| {
        let stages = STAGES.into_iter().zip(&run.measured_stages);
        Bar { name: name(run), parts: stages.map(|(colour, stage)| (colour, stage.1)).collect() }
    });
    let stages = bars("cycles", 2, &stacked.collect::<Vec<_>>())?;
    let names = runs.first().map(|run| run.measured_stages.as_slice());
    let names = names.unwrap_or_default().iter().map(|(name, _)| *name);
    let keys = names.zip(STAGES);
    let is_known = runs.iter().any(|run| run.energy.nj_per_packet.is_some());
    let energy = || bars("nJ", 1, &of(|run| run.energy.nj_per_packet.unwrap_or_default()));
    let energy = is_known.then(energy).transpose()?;
    Ok(html! {
        h2 { "Side by side" }
        (modes(runs))
        div.charts {
            (figure("Throughput, up and down", &both_ways))
            (figure("CPU utilisation of the worker", &cpu))
        }
        (legend(keys))
        div.charts { (figure("Cycles of a packet by stage", &stages)) }
        @if let Some(energy) = energy {
            div.charts { (figure("Energy of the processor packages for a packet", &energy)) }
        }
    })
}

fn of_load(runs: &[&Run]) -> Result<Markup, NotDrawn> {
    let ends = runs.iter().filter_map(|run| run.samples.last()).map(|sample| sample.at_s);
    let until = ends.fold(0.1, f64::max);
    let chart = |title, least, of_all: bool, value: fn(&Sample) -> Option<f64>| {
        let lines = runs.iter().filter(|run| of_all || run.offload).map(|run| {
            let point = |sample: &Sample| Some((sample.at_s, value(sample)?));
            let points = run.samples.iter().filter_map(point).collect();
            Line { colour: colour(run.mode), is_wide: false, points }
        });
        let (scale, lines) = (Scale::From0 { least }, lines.collect());
        Chart { time: "s", title, until, scale, bands: Vec::new(), lines }.draw()
    };
    let mbps = |sample: &Sample| Some(sample.rates.up_mbps + sample.rates.down_mbps);
    Ok(html! {
        h2 { (runs[0].load.name()) " over time" }
        (modes(runs))
        div.charts {
            (figure("Throughput, up and down", &chart("Mb/s", 0.0, true, mbps)?))
            (figure("CPU utilisation of the worker",
                &chart("%", 100.0, true, |sample| Some(sample.rates.cpu_percent))?))
            (figure("Cycles of a packet",
                &chart("cycles", 0.0, true, |sample| Some(sample.rates.cycles_per_packet))?))
            (figure("Packets counted by the NIC's mark",
                &chart("%", 100.0, false, |sample| Some(sample.rates.marked_percent))?))
            (figure("Packets that the NIC forwarded by itself",
                &chart("%", 100.0, false, |sample| Some(sample.rates.bypassed_percent))?))
            (figure("Rules installed, both ports",
                &chart("rules", 1.0, false, |sample| Some(sample.rules as f64))?))
            (figure("Time to make a rule, average of a step",
                &chart("µs", 1.0, false, |sample| sample.rates.insert_us)?))
        }
    })
}

fn about(comparison: &Comparison) -> Markup {
    let Comparison { version, dpdk, processor, speed, policy, .. } = comparison;
    let names: Vec<_> = comparison.personalities.iter().map(|played| &*played.name).collect();
    let names = names.join(", ");
    let seed = comparison.seed.to_string();
    let rows = [
        ("Millrace", *version),
        ("DPDK", dpdk.trim_start_matches("DPDK ")),
        ("processor", processor.as_deref().unwrap_or("not known")),
        ("personality", &names),
        ("speed of each link", speed),
        ("offload", policy),
        ("seed of the traffic", &seed),
    ];
    html! {
        dl { @for (name, value) in rows { dt { (name) } dd { (value) } } }
    }
}
