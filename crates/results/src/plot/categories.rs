// SPDX-License-Identifier: BSD-3-Clause
//! Draws values over named categories: a line per series, with intervals.

use super::{Area, Axis, Colour, INK, Outcome, SIZE, Scale, bounded, not_drawn};
use plotters::prelude::*;

/// A value, and the ends of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The value.
    pub value: f64,
    /// The interval, if it is known.
    pub interval: Option<[f64; 2]>,
    /// True for a lower bound, which is drawn as a ring.
    pub is_at_least: bool,
}

/// A line over categories.
pub struct Series {
    /// Colour of the line.
    pub colour: Colour,
    /// True for a dashed line, which also spans gaps.
    pub is_dashed: bool,
    /// A value for each category; `None` makes a gap.
    pub values: Vec<Option<Value>>,
}

/// Radius of the circle at a value, and half of the width of the ends of an interval.
const CIRCLE: i32 = 4;
const END: f64 = 0.04;
/// Length of a dash and of the space after it.
const DASH: (u32, u32) = (6, 5);

impl Series {
    /// Returns the values that can be drawn, with their places.
    fn places(&self) -> impl Iterator<Item = (usize, Value)> + '_ {
        let values = self.values.iter().enumerate();
        values.filter_map(|(at, value)| {
            let value = (*value)?;
            bounded([value.value]).map(|[bounded]| (at, Value { value: bounded, ..value }))
        })
    }

    /// Returns the values in runs without gaps.
    fn runs(&self) -> Vec<Vec<(usize, f64)>> {
        let mut runs: Vec<Vec<(usize, f64)>> = Vec::new();
        for (at, Value { value, .. }) in self.places() {
            match runs.last_mut() {
                Some(run) if self.is_dashed || run.last().is_some_and(|it| it.0 + 1 == at) => {
                    run.push((at, value));
                }
                _ => runs.push(vec![(at, value)]),
            }
        }
        runs
    }

    /// Returns the interval of a value; `None` if it cannot be drawn.
    fn interval(of: &Value) -> Option<[f64; 2]> {
        bounded(of.interval?)
    }
}

/// Draws series over `names`. `title` is that of the axis of values, with its unit.
///
/// # Errors
/// If the chart cannot be drawn.
pub fn draw(title: &str, names: &[String], series: &[&Series]) -> Outcome {
    let values = series.iter().flat_map(|one| one.places()).flat_map(|(_, it)| {
        let [low, high] = Series::interval(&it).unwrap_or([it.value; 2]);
        [it.value, low, high]
    });
    let values: Vec<f64> = values.collect();
    let axis = Axis::new(Scale::From0 { least: 0.0 }, values.into_iter());
    let place = |at: usize, value: f64| (at as f64 + 0.5, axis.place(value));
    let mut svg = String::new();
    {
        let area: Area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(36)
            .y_label_area_size(88)
            .build_cartesian_2d(0.0..names.len().max(1) as f64, axis.range.clone())
            .map_err(not_drawn)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.12))
            .axis_style(INK.mix(0.4))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 15))
            .x_labels(0)
            .y_labels(axis.labels)
            .y_desc(title)
            .y_label_formatter(&|place| axis.label(*place))
            .draw()
            .map_err(not_drawn)?;
        for one in series.iter().copied() {
            let style = one.colour.stroke_width(2);
            for run in one.runs() {
                let points = run.iter().map(|(at, value)| place(*at, *value));
                if one.is_dashed {
                    let line = DashedLineSeries::new(points, DASH.0, DASH.1, style);
                    chart.draw_series(line).map_err(not_drawn)?;
                } else {
                    chart.draw_series(LineSeries::new(points, style)).map_err(not_drawn)?;
                }
            }
            for (at, value) in one.places() {
                let filled = one.colour.filled();
                let of_circle = if value.is_at_least { style } else { filled };
                let circle = Circle::new(place(at, value.value), CIRCLE, of_circle);
                chart.draw_series([circle]).map_err(not_drawn)?;
                let Some(ends) = Series::interval(&value) else { continue };
                let [(x, low), (_, high)] = ends.map(|end| place(at, end));
                let end = |y| vec![(x - END, y), (x + END, y)];
                let lines = [vec![(x, low), (x, high)], end(low), end(high)];
                let lines = lines.map(|points| PathElement::new(points, style));
                chart.draw_series(lines).map_err(not_drawn)?;
            }
        }
        let label = ("sans-serif", 15).into_font().color(&INK);
        for (at, name) in names.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(at as f64 + 0.5, axis.range.start));
            // About half of the width of the text.
            let x = x - 4 * name.chars().count() as i32;
            area.draw_text(name, &label, (x, y + 8)).map_err(not_drawn)?;
        }
        area.present().map_err(not_drawn)?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::ON;

    fn series(values: &[Option<f64>], is_dashed: bool) -> Series {
        let value =
            |it: &Option<f64>| it.map(|value| Value { value, interval: None, is_at_least: false });
        Series { colour: ON, is_dashed, values: values.iter().map(value).collect() }
    }

    #[test]
    fn a_gap_ends_a_line_unless_it_is_dashed() {
        let values = [Some(1.0), Some(2.0), None, Some(3.0), Some(f64::NAN)];
        assert_eq!(series(&values, false).runs(), [vec![(0, 1.0), (1, 2.0)], vec![(3, 3.0)]]);
        assert_eq!(series(&values, true).runs(), [[(0, 1.0), (1, 2.0), (3, 3.0)]]);
    }

    #[test]
    fn values_and_intervals_of_any_size_are_drawn() {
        let names = ["1C/1Q".to_owned(), "2C/2Q".to_owned()];
        for value in [0.0, 1.0, f64::NAN, f64::INFINITY, 1e300, -1.0, 5e-324] {
            for interval in [None, Some([0.5, 1.5]), Some([f64::NEG_INFINITY, value])] {
                let values = vec![Some(Value { value, interval, is_at_least: value > 0.5 }), None];
                let series = Series { colour: ON, is_dashed: false, values };
                let svg = draw("v", &names, &[&series]);
                let svg = svg.unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("2C/2Q"));
            }
        }
        draw("v", &[], &[]).unwrap();
    }
}
