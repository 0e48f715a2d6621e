// SPDX-License-Identifier: BSD-3-Clause
//! Charts as SVG, to stand inside of a page: its style sheet turns the colours named here into
//! those of a light or a dark page. A chart without a point is an empty one.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt;

/// Size of a chart in its own units; the page stretches it.
const SIZE: (u32, u32) = (580, 240);
/// What the page paints in its ink.
const INK: RGBColor = RGBColor(0, 0, 0);

/// Colours by what they stand for, as the page knows them.
pub(super) const OFF: RGBColor = RGBColor(0xb4, 0x53, 0x09);
pub(super) const ON: RGBColor = RGBColor(0x1d, 0x4e, 0xd8);
/// Of stages, in their order.
pub(super) const STAGES: [RGBColor; 9] = [
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

/// A colour as plotters writes it.
pub(super) fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// A square of a colour, for a legend.
pub(super) fn key(colour: RGBColor) -> String {
    let fill = hex(colour);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">{}</svg>"#,
        format_args!(r#"<rect width="1" height="1" fill="{fill}"/>"#)
    )
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Drawing into a string fails only if a chart asks for what cannot be.
pub(super) type Outcome = Result<String, NotDrawn>;

/// A chart that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a chart cannot be drawn: {0}")]
pub(crate) struct NotDrawn(String);

fn not_drawn(error: impl fmt::Display) -> NotDrawn {
    NotDrawn(error.to_string())
}

/// One line of a chart over time.
pub(super) struct Line {
    pub(super) colour: RGBColor,
    /// Seconds and value.
    pub(super) points: Vec<(f64, f64)>,
}

/// Values over so many seconds. `least` is what the upper end of their scale must at least be.
pub(super) fn over_time(unit: &str, until: f64, least: f64, lines: &[Line]) -> Outcome {
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let top = values.fold(least, f64::max) * 1.05;
    let mut svg = String::new();
    {
        let area: Area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..until, 0.0..top.max(f64::MIN_POSITIVE))
            .map_err(not_drawn)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.12))
            .axis_style(INK.mix(0.4))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 15))
            .x_labels(6)
            .y_labels(5)
            .x_desc("s")
            .y_desc(unit)
            .y_label_formatter(&|value| in_short(*value))
            .draw()
            .map_err(not_drawn)?;
        for Line { colour, points } in lines {
            let style = colour.stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(not_drawn)?;
        }
        area.present().map_err(not_drawn)?;
    }
    Ok(svg)
}

/// A bar of a bar chart: parts side by side.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) parts: Vec<(RGBColor, f64)>,
}

impl Bar {
    fn total(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum()
    }
}

/// Space of a bar, and what is left around all of them.
const BAR: u32 = 34;
const AROUND: u32 = 56;

/// Bars across, one below the other, each with its sum behind it; as wide as so many charts.
pub(super) fn bars(unit: &str, charts: u32, bars: &[Bar]) -> Outcome {
    let count = bars.len() as f64;
    let top = bars.iter().map(Bar::total).fold(f64::MIN_POSITIVE, f64::max);
    let size = (SIZE.0 * charts, BAR * bars.len() as u32 + AROUND);
    let mut svg = String::new();
    {
        let area: Area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(112)
            .build_cartesian_2d(0.0..top * 1.18, count..0.0)
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
            for (colour, value) in &bar.parts {
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

/// At most five digits: `0.25`, `19.9`, `9980`, `19684`, `25 k`.
fn in_short(value: f64) -> String {
    let decimals = match value.abs() {
        ..0.0005 => 0,
        0.0005..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    if value.abs() >= 20_000.0 {
        return format!("{:.0} k", value / 1e3);
    }
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
