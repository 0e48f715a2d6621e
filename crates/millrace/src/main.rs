// SPDX-License-Identifier: BSD-3-Clause
//! Calls the library, which has the whole program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    millrace::main()
}
