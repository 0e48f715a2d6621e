// SPDX-License-Identifier: BSD-3-Clause
//! Seeded traffic.
#![forbid(unsafe_code)]
