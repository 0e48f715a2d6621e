// SPDX-License-Identifier: BSD-3-Clause
//! Formats Markdown tables with aligned columns.

/// Formats a table. The first column is aligned left, the others right.
pub(crate) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!(" {cell:<width$} |") } else { format!(" {cell:>width$} |") }
        });
        format!("|{}\n", cells.collect::<String>())
    };
    let rule = widths.iter().enumerate().map(|(column, width)| {
        let dashes = "-".repeat(width + 1);
        if column == 0 { format!("{dashes}-|") } else { format!("{dashes}:|") }
    });
    let rule = format!("|{}\n", rule.collect::<String>());
    line(&head) + &rule + &rows.iter().map(line).collect::<String>()
}
