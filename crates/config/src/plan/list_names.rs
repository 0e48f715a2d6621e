// SPDX-License-Identifier: BSD-3-Clause
//! Spells the settings of access lists.

use super::settings::{Show, spelled};
use crate::lists::{DEFAULT_ACTION, DIRECTION, KIND, ListKind, PORT};
use acl::Action;
use engine::{ListDirection, Side};

impl Show for Side {
    fn show(&self) -> serde_json::Value {
        spelled(PORT, self)
    }
}

impl Show for ListDirection {
    fn show(&self) -> serde_json::Value {
        spelled(DIRECTION, self)
    }
}

impl Show for ListKind {
    fn show(&self) -> serde_json::Value {
        spelled(KIND, self)
    }
}

impl Show for Action {
    fn show(&self) -> serde_json::Value {
        spelled(DEFAULT_ACTION, self)
    }
}
