// SPDX-License-Identifier: BSD-3-Clause
//! Prints what is wrong with a configuration or with options.

use config::Problems;
use report::output::write_line;
use std::io;

/// Prints each problem on a line of its own, after the name of the program as all other messages.
/// `check` prints them without it, in the form that editors read: FILE:LINE:COLUMN.
pub(super) fn print_problems(problems: &Problems) {
    for problem in problems.to_string().lines() {
        write_line(io::stderr(), format_args!("millrace: {problem}"));
    }
}
