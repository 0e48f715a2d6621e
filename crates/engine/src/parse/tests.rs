// SPDX-License-Identifier: BSD-3-Clause
//! Parser tests.
