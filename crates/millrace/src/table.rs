// SPDX-License-Identifier: BSD-3-Clause
//! Tables for people: columns as wide as what is in them.

use std::io::{self, Write};
use std::ops::Range;

/// Prints a table; columns in `numbers` are set flush right.
pub(crate) fn print<const N: usize>(
    out: &mut impl Write,
    headings: [&str; N],
    numbers: &Range<usize>,
    rows: &[[String; N]],
) -> io::Result<()> {
    let mut widths = headings.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    print_row(out, &widths, numbers, &headings.map(str::to_owned))?;
    rows.iter().try_for_each(|row| print_row(out, &widths, numbers, row))
}

fn print_row(
    out: &mut impl Write,
    widths: &[usize],
    numbers: &Range<usize>,
    cells: &[String],
) -> io::Result<()> {
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let cell = if numbers.contains(&column) {
            format!("  {cell:>width$}")
        } else {
            format!("  {cell:<width$}")
        };
        line.push_str(&cell);
    }
    writeln!(out, "{}", line.trim_end())
}
