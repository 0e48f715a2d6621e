// SPDX-License-Identifier: BSD-3-Clause
//! Prints tables for users, with columns as wide as their contents.

use std::io::{self, Write};
use std::ops::Range;

/// Prints a table; columns in `numbers` are aligned right.
///
/// # Errors
/// If writing fails.
pub fn print<'a>(
    out: &mut impl Write,
    headings: impl AsRef<[&'a str]>,
    numbers: &Range<usize>,
    rows: &[impl AsRef<[String]>],
) -> io::Result<()> {
    let headings: Vec<_> = headings.as_ref().iter().map(|name| (*name).to_owned()).collect();
    let mut widths: Vec<_> = headings.iter().map(|name| name.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row.as_ref()) {
            *width = (*width).max(cell.chars().count());
        }
    }
    print_row(out, &widths, numbers, &headings)?;
    rows.iter().try_for_each(|row| print_row(out, &widths, numbers, row.as_ref()))
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
