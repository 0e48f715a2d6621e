// SPDX-License-Identifier: BSD-3-Clause
//! The programmer, and engines with it, on the model of a NIC that goes wrong.

mod account;
mod bump;
mod equivalence;
mod port;
mod price;
mod traffic;
