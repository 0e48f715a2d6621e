// SPDX-License-Identifier: BSD-3-Clause
//! Tests the project itself: rules of the source text, documents against the program, installation.

mod docs;
mod install;
mod layers;
mod profile;
mod tidy;
mod words;
