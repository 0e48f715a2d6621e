// SPDX-License-Identifier: BSD-3-Clause
//! The flow shell: reads commands on flow rules, executes them on ports, and explains refusals.
//!
//! One grammar (`grammar`, over the tables of `fields`) reads commands, explains errors in them,
//! and completes them. `session` calls the ports; all other code only processes text.

mod answer;
mod by_id;
mod complete;
mod explain;
mod fields;
mod grammar;
mod headers;
mod help;
mod print;
mod reader;
mod session;
mod settings;

pub use answer::Answer;
pub use complete::{CompletionContext, complete};
pub use grammar::{Command, RuleName, RuleOptions, Setting, parse};
pub use help::help;
pub use print::print_rule;
pub use reader::SyntaxError;
pub use session::{OpenPort, Session};

#[cfg(test)]
mod testpmd;
#[cfg(test)]
mod tests;
