// SPDX-License-Identifier: BSD-3-Clause
//! Draws the comparison as one HTML file: table, bars, and figures over time. The file refers to no
//! other, follows the reader's choice of light or dark, and is also well-formed XML.

use crate::demo::comparison::table::HEADINGS;
use crate::demo::comparison::{ARTICLE, Comparison, NOTHING_MARKED, Run, Sample, Speedup};
use maud::{Markup, html};
use results::page::{figure, legend, page_of};
use results::plot::{Bar, Chart, Line, NotDrawn, OFF, ON, STAGES, Scale, bars};

/// Returns the page.
pub(crate) fn page(comparison: &Comparison) -> Result<String, NotDrawn> {
    let loads = comparison.loads().into_iter().map(|load| of_load(comparison, load));
    let loads = loads.collect::<Result<Vec<_>, _>>()?;
    let main = html! {
        (results(comparison))
        (in_bars(comparison)?)
        @for load in loads { (load) }
    };
    Ok(page_of("Millrace: offload, measured", [heading(comparison), main, about(comparison)]))
}

fn heading(comparison: &Comparison) -> Markup {
    html! {
        h1 { "Offload, measured" }
        p.lead {
            "A bump in the wire with one worker, under the loads of the FlowTable article: first \
             the worker tracks every packet in software, then the NIC marks the packets of \
             connections that have rules."
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

fn results(comparison: &Comparison) -> Markup {
    let gains = comparison.loads().into_iter().map(|load| (load, comparison.pair(load)));
    html! {
        div.gains {
            @for (load, pair) in gains {
                @if let Some(pair) = pair { (gain(load, Speedup::of(pair))) }
            }
        }
        h2 { "Results" }
        div.wide {
            table {
                thead { tr { @for heading in HEADINGS { th { (heading) } } } }
                tbody {
                    @for run in &comparison.runs {
                        tr class=(run.offload_word()) {
                            @for cell in run.cells() { td { (cell) } }
                        }
                    }
                }
            }
        }
        p.note {
            "Mb/s count the whole wire, preamble and gap included. Measured in the second half of \
             each run of " (comparison.seconds) " s; before that most rules are made. " (ARTICLE)
        }
        @for run in comparison.runs.iter().filter(|run| !run.summary.ledger.balanced) {
            p.warning { (name(run)) ": the ledger is not balanced, so packets are missing" }
        }
    }
}

fn gain(load: &str, Speedup { throughput, cpu, cycles, is_marked }: Speedup) -> Markup {
    let tiles = [("throughput", throughput), ("cpu", cpu), ("cycles per packet", cycles)];
    html! {
        section {
            h2 { (load) ", with offload" }
            @for (name, ratio) in tiles {
                div { b { (format!("{ratio:.2}×")) } (name) }
            }
            @if !is_marked { p.note { (NOTHING_MARKED) } }
        }
    }
}

fn name(run: &Run) -> String {
    format!("{}, {}", run.load, run.offload_word())
}

fn in_bars(comparison: &Comparison) -> Result<Markup, NotDrawn> {
    let of = |value: fn(&Run) -> f64| {
        let bar = |run: &Run| {
            let colour = if run.offload { ON } else { OFF };
            Bar { name: name(run), parts: vec![(colour, value(run))] }
        };
        comparison.runs.iter().map(bar).collect::<Vec<_>>()
    };
    let both_ways = bars("Mb/s", 1, &of(|run| run.measured.up_mbps + run.measured.down_mbps))?;
    let cpu = bars("%", 1, &of(|run| run.measured.cpu_percent))?;
    let stacked = comparison.runs.iter().map(|run| Bar {
        name: name(run),
        parts: STAGES
            .into_iter()
            .zip(&run.measured_stages)
            .map(|(c, stage)| (c, stage.1))
            .collect(),
    });
    let stages = bars("cycles", 2, &stacked.collect::<Vec<_>>())?;
    let names = comparison.runs.first().map(|run| run.measured_stages.as_slice());
    let names = names.unwrap_or_default().iter().map(|(name, _)| *name);
    let keys = names.zip(STAGES);
    Ok(html! {
        h2 { "Side by side" }
        (legend([("without offload", OFF), ("with offload", ON)]))
        div.charts {
            (figure("Throughput, up and down", &both_ways))
            (figure("CPU utilisation of the worker", &cpu))
        }
        (legend(keys))
        div.charts { (figure("Cycles of a packet by stage", &stages)) }
    })
}

fn of_load(comparison: &Comparison, load: &str) -> Result<Markup, NotDrawn> {
    let runs: Vec<_> = comparison.runs.iter().filter(|run| run.load == load).collect();
    let ends = runs.iter().filter_map(|run| run.samples.last()).map(|sample| sample.at_s);
    let until = ends.fold(0.1, f64::max);
    let chart = |title, least, of_both: bool, value: fn(&Sample) -> Option<f64>| {
        let lines = runs.iter().filter(|run| of_both || run.offload).map(|run| {
            let point = |sample: &Sample| Some((sample.at_s, value(sample)?));
            let points = run.samples.iter().filter_map(point).collect();
            Line { colour: if run.offload { ON } else { OFF }, is_wide: false, points }
        });
        let (scale, lines) = (Scale::From0 { least }, lines.collect());
        Chart { time: "s", title, until, scale, bands: Vec::new(), lines }.draw()
    };
    let mbps = |sample: &Sample| Some(sample.rates.up_mbps + sample.rates.down_mbps);
    Ok(html! {
        h2 { (load) " over time" }
        (legend([("without offload", OFF), ("with offload", ON)]))
        div.charts {
            (figure("Throughput, up and down", &chart("Mb/s", 0.0, true, mbps)?))
            (figure("CPU utilisation of the worker",
                &chart("%", 100.0, true, |sample| Some(sample.rates.cpu_percent))?))
            (figure("Cycles of a packet",
                &chart("cycles", 0.0, true, |sample| Some(sample.rates.cycles_per_packet))?))
            (figure("Packets counted by the NIC's mark",
                &chart("%", 100.0, false, |sample| Some(sample.rates.marked_percent))?))
            (figure("Rules installed, both ports",
                &chart("rules", 1.0, false, |sample| Some(sample.rules as f64))?))
            (figure("Time to make a rule, average of a step",
                &chart("µs", 1.0, false, |sample| sample.rates.insert_us)?))
        }
    })
}

fn about(comparison: &Comparison) -> Markup {
    let Comparison { version, dpdk, processor, personality, speed, policy, .. } = comparison;
    let seed = comparison.seed.to_string();
    let rows = [
        ("Millrace", *version),
        ("DPDK", dpdk.trim_start_matches("DPDK ")),
        ("processor", processor.as_deref().unwrap_or("not known")),
        ("personality", personality),
        ("speed of each link", speed),
        ("offload", policy),
        ("seed of the traffic", &seed),
    ];
    html! {
        dl { @for (name, value) in rows { dt { (name) } dd { (value) } } }
    }
}
