// SPDX-License-Identifier: BSD-3-Clause
//! The program; everything is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    millrace::main()
}
