// SPDX-License-Identifier: BSD-3-Clause
//! Draws charts as SVG for a page. The page's style sheet replaces the colours named here by those
//! of a light or a dark page. A chart without points is empty.

pub mod categories;

use crate::units;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt;
use std::ops::Range;

/// A colour.
pub type Colour = RGBColor;

/// Size of a chart in its own units; the page stretches it.
const SIZE: (u32, u32) = (580, 240);
/// Colour that the page replaces by its text colour.
const INK: RGBColor = RGBColor(0, 0, 0);

/// Colour of runs without offload.
pub const OFF: Colour = RGBColor(0xb4, 0x53, 0x09);
/// Colour of runs with offload.
pub const ON: Colour = RGBColor(0x1d, 0x4e, 0xd8);
/// Colour of runs in which the NIC forwards packets by itself.
pub const BYPASS: Colour = RUNS[2];
/// Colour of runs in which the worker chooses.
pub const AUTOMATIC: Colour = RUNS[3];
/// Colours of runs, in their order. The page has a light and a dark variant of each.
pub const RUNS: [Colour; 8] = [
    ON,
    OFF,
    RGBColor(0x15, 0x80, 0x3d),
    RGBColor(0xbe, 0x12, 0x3c),
    RGBColor(0x7e, 0x22, 0xce),
    RGBColor(0x0e, 0x74, 0x90),
    RGBColor(0xdb, 0x27, 0x77),
    RGBColor(0x64, 0x74, 0x8b),
];
/// Colours of stages, in their order.
pub const STAGES: [Colour; 9] = [
    RGBColor(0x64, 0x74, 0x8b),
    RGBColor(0x1d, 0x4e, 0xd8),
    RGBColor(0x0e, 0x74, 0x90),
    RGBColor(0x15, 0x80, 0x3d),
    RGBColor(0xca, 0x8a, 0x04),
    RGBColor(0xbe, 0x12, 0x3c),
    RGBColor(0x94, 0xa3, 0xb8),
    RGBColor(0x7e, 0x22, 0xce),
    RGBColor(0xdb, 0x27, 0x77),
];

/// Returns a colour as charts write it: `#1D4ED8`.
pub fn hex(RGBColor(r, g, b): Colour) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Returns a square of a colour, for a legend.
pub(crate) fn key(colour: Colour) -> String {
    let fill = hex(colour);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">{}</svg>"#,
        format_args!(r#"<rect width="1" height="1" fill="{fill}"/>"#)
    )
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The SVG of a chart, or the reason why it cannot be drawn.
pub type Outcome = Result<String, NotDrawn>;

/// A chart that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a chart cannot be drawn: {0}")]
pub struct NotDrawn(String);

fn not_drawn(error: impl fmt::Display) -> NotDrawn {
    NotDrawn(error.to_string())
}

/// A line over time.
pub struct Line {
    /// Colour of the line.
    pub colour: Colour,
    /// True if the line is wide and pale, to lie below another one.
    pub is_wide: bool,
    /// Seconds and value.
    pub points: Vec<(f64, f64)>,
}

/// A range of values over time.
pub struct Band {
    /// Colour of the band, which is drawn as a pale shade of it.
    pub colour: Colour,
    /// Seconds, lower and upper value.
    pub points: Vec<(f64, f64, f64)>,
}

/// A scale of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Linear from 0 to the greatest value, at least to `least`.
    From0 {
        /// Least upper end.
        least: f64,
    },
    /// Nanoseconds: logarithmic if the greatest is ten times the least, or more.
    Nanoseconds,
}

/// The greatest value, and number of seconds, that a chart shows; greater ones are drawn at it. On
/// longer axes, `plotters` may search for labels for ever.
const MOST: f64 = 1e15;
/// The least upper end of an axis, for the same reason.
const LEAST: f64 = 1e-9;

/// Returns a point with its values clamped to the range of a chart; `None` if one is not finite.
fn bounded<const N: usize>(values: [f64; N]) -> Option<[f64; N]> {
    let is_drawn = values.iter().all(|value| value.is_finite());
    is_drawn.then(|| values.map(|value| value.clamp(-MOST, MOST)))
}

/// Returns the upper end of an axis that starts at 0.
fn upper_end(end: f64) -> f64 {
    // A chart of zeros has an axis, too.
    if end >= LEAST { end.min(MOST * 1.2) } else { 1.0 }
}

/// An axis of values: their range, scale and labels.
struct Axis {
    range: Range<f64>,
    is_logarithmic: bool,
    labels: usize,
    scale: Scale,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64> + Clone) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        let (low, high) = (values.fold(f64::INFINITY, f64::min).max(1.0), most.max(1.0));
        let (is_logarithmic, range) = match scale {
            Scale::From0 { least } => (false, 0.0..upper_end(most.max(least) * 1.05)),
            Scale::Nanoseconds if high / low >= 10.0 => {
                (true, low.log10().floor()..high.log10().ceil())
            }
            Scale::Nanoseconds => (false, 0.0..high * 1.05),
        };
        let labels = if is_logarithmic { (range.end - range.start) as usize + 1 } else { 7 };
        Self { range, is_logarithmic, labels, scale }
    }

    /// Returns the place of a value on the axis, clamped to its ends.
    fn place(&self, value: f64) -> f64 {
        let place = if self.is_logarithmic { value.max(1.0).log10() } else { value };
        place.clamp(self.range.start, self.range.end)
    }

    fn label(&self, place: f64) -> String {
        let value = if self.is_logarithmic { 10_f64.powf(place) } else { place };
        match self.scale {
            Scale::From0 { .. } => in_short(value),
            Scale::Nanoseconds => units::duration(value.round() as u64),
        }
    }
}

/// A chart of values over time.
pub struct Chart<'a> {
    /// Title of the time axis, with its unit.
    pub time: &'a str,
    /// Title of the axis of values, with its unit.
    pub title: &'a str,
    /// Seconds that the chart covers.
    pub until: f64,
    /// The scale of values.
    pub scale: Scale,
    /// Bands, below the lines.
    pub bands: Vec<Band>,
    /// Lines, the first one at the bottom.
    pub lines: Vec<Line>,
}

impl Chart<'_> {
    /// Returns the chart as SVG.
    ///
    /// Leaves out points with values that are not finite.
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub fn draw(&self) -> Outcome {
        let line = |line: &Line| {
            let points = line.points.iter().filter_map(|(at, value)| bounded([*at, *value]));
            Line { points: points.map(|[at, value]| (at, value)).collect(), ..*line }
        };
        let band = |band: &Band| {
            let points = band.points.iter().filter_map(|(at, a, b)| bounded([*at, *a, *b]));
            Band { points: points.map(|[at, a, b]| (at, a, b)).collect(), ..*band }
        };
        let lines: Vec<Line> = self.lines.iter().map(line).collect();
        let bands: Vec<Band> = self.bands.iter().map(band).collect();
        self.draw_bounded(&lines, &bands)
    }

    fn draw_bounded(&self, lines: &[Line], bands: &[Band]) -> Outcome {
        let of_bands = bands.iter().flat_map(|band| &band.points);
        let of_bands = of_bands.flat_map(|(_, low, high)| [*low, *high]);
        let of_lines = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let axis = Axis::new(self.scale, of_lines.chain(of_bands));
        let until = upper_end(self.until);
        let place = |at: f64, value: f64| (at.clamp(0.0, until), axis.place(value));
        let mut svg = String::new();
        {
            let area: Area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            let mut chart = ChartBuilder::on(&area)
                .margin(8)
                .margin_right(16)
                .x_label_area_size(36)
                .y_label_area_size(88)
                .build_cartesian_2d(0.0..until, axis.range.clone())
                .map_err(not_drawn)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(INK.mix(0.12))
                .axis_style(INK.mix(0.4))
                .label_style(("sans-serif", 15))
                .axis_desc_style(("sans-serif", 15))
                .x_labels(11)
                .y_labels(axis.labels)
                .x_desc(self.time)
                .y_desc(self.title)
                .x_label_formatter(&|seconds| in_short(*seconds))
                .y_label_formatter(&|place| axis.label(*place))
                .draw()
                .map_err(not_drawn)?;
            for band in bands.iter().filter(|band| !band.points.is_empty()) {
                let upper = band.points.iter().map(|(at, _, high)| place(*at, *high));
                let lower = band.points.iter().rev().map(|(at, low, _)| place(*at, *low));
                let edge: Vec<_> = upper.chain(lower).collect();
                let shade = Polygon::new(edge, band.colour.mix(0.15).filled());
                chart.draw_series([shade]).map_err(not_drawn)?;
            }
            for Line { colour, is_wide, points } in lines {
                let style = match is_wide {
                    true => colour.mix(0.3).stroke_width(7),
                    false => colour.stroke_width(2),
                };
                let points = points.iter().map(|(at, value)| place(*at, *value));
                chart.draw_series(LineSeries::new(points, style)).map_err(not_drawn)?;
            }
            area.present().map_err(not_drawn)?;
        }
        Ok(svg)
    }
}

/// A bar of a bar chart, made of parts side by side.
pub struct Bar {
    /// Label of the bar.
    pub name: String,
    /// Lengths of its parts.
    pub parts: Vec<(Colour, f64)>,
}

impl Bar {
    fn total(&self) -> f64 {
        self.lengths().map(|(_, length)| length).sum()
    }

    /// Returns the parts of the bar. A length that is negative or not finite becomes 0.
    fn lengths(&self) -> impl Iterator<Item = (Colour, f64)> {
        let length = |length: f64| bounded([length]).map_or(0.0, |[length]| length.max(0.0));
        self.parts.iter().map(move |(colour, part)| (*colour, length(*part)))
    }
}

/// Height of a bar with the space around it.
const BAR: u32 = 34;
const AROUND: u32 = 56;
/// Least width of the names of bars, and the width of one of their characters.
const NAMES: u32 = 112;
const NAME_CHARACTER: u32 = 8;

/// Draws horizontal bars, one below the other, each followed by its sum. The drawing is as wide as
/// `charts` charts.
///
/// # Errors
/// If the bars cannot be drawn.
pub fn bars(unit: &str, charts: u32, bars: &[Bar]) -> Outcome {
    let count = bars.len() as f64;
    let top = upper_end(bars.iter().map(Bar::total).fold(0.0, f64::max) * 1.18);
    let size = (SIZE.0 * charts, BAR * bars.len() as u32 + AROUND);
    let longest = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or_default();
    let names = (NAME_CHARACTER * longest as u32 + 16).max(NAMES);
    let mut svg = String::new();
    {
        let area: Area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(names)
            .build_cartesian_2d(0.0..top, count..0.0)
            .map_err(not_drawn)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.12))
            .axis_style(INK.mix(0.4))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 15))
            .x_labels(5)
            .x_desc(unit)
            .x_label_formatter(&|value| in_short(*value))
            .draw()
            .map_err(not_drawn)?;
        let label = ("sans-serif", 15).into_font().color(&INK);
        for (place, bar) in bars.iter().enumerate() {
            let (above, below) = (place as f64 + 0.14, place as f64 + 0.86);
            let mut from = 0.0;
            for (colour, value) in bar.lengths() {
                let corners = [(from, above), (from + value, below)];
                let part = Rectangle::new(corners, colour.filled());
                chart.draw_series([part]).map_err(not_drawn)?;
                from += value;
            }
            let (_, y) = chart.backend_coord(&(0.0, place as f64 + 0.34));
            let (x, _) = chart.backend_coord(&(from, 0.0));
            area.draw_text(&in_short(from), &label, (x + 6, y)).map_err(not_drawn)?;
            area.draw_text(&bar.name, &label, (8, y)).map_err(not_drawn)?;
        }
        area.present().map_err(not_drawn)?;
    }
    Ok(svg)
}

/// Writes a number with up to four digits and a prefix, so that numbers of one axis look alike:
/// `0.25`, `19.9`, `980`, `1.5 k`, `19.68 k`, `2 M`.
fn in_short(value: f64) -> String {
    let (value, prefix) = match value.abs() {
        999_950.0.. => (value / 1e6, " M"),
        999.95.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        ..0.0005 => 0,
        ..99.995 => 2,
        ..999.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{short}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGE: [f64; 14] = [
        0.0,
        -1.0,
        1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        f64::EPSILON,
        1e-12,
        1e16,
        1e300,
    ];

    #[test]
    fn numbers_of_an_axis_look_alike() {
        let axis = [0.0, 5_000.0, 10_000.0, 12_500.0, 15_000.0, 20_000.0].map(in_short);
        assert_eq!(axis, ["0", "5 k", "10 k", "12.5 k", "15 k", "20 k"]);
        let others = [0.25, 19.9, 100.0, 999.9, 999.99, 19_684.0, 999_990.0, 2e6, -1500.0];
        let texts = ["0.25", "19.9", "100", "999.9", "1 k", "19.68 k", "1 M", "2 M", "-1.5 k"];
        assert_eq!(others.map(in_short), texts);
    }

    #[test]
    fn charts_of_any_values_are_drawn() {
        for (a, b, c) in STRANGE.into_iter().flat_map(|a| {
            STRANGE.into_iter().flat_map(move |b| STRANGE.into_iter().map(move |c| (a, b, c)))
        }) {
            for scale in [Scale::From0 { least: 0.0 }, Scale::Nanoseconds] {
                let points = vec![(a, b), (0.0, 1.0), (b, c)];
                let lines = vec![Line { colour: ON, is_wide: false, points }];
                let bands = vec![Band { colour: OFF, points: vec![(a, b, c), (c, a, b)] }];
                let chart = Chart { time: "s", title: "v", until: a, scale, bands, lines };
                let svg = chart.draw().unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{a} {b} {c}: {svg}");
            }
        }
        for (a, b) in STRANGE.into_iter().flat_map(|a| STRANGE.map(|b| (a, b))) {
            let bar = Bar { name: "bar".to_owned(), parts: vec![(ON, a), (OFF, b)] };
            bars("unit", 1, &[bar]).unwrap();
        }
    }
}
