// SPDX-License-Identifier: BSD-3-Clause
//! What NICs do with packets by themselves, and ways to ask them.

pub(crate) mod advice;
pub(crate) mod flow;
pub(crate) mod probe;
