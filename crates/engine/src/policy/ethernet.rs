// SPDX-License-Identifier: BSD-3-Clause
//! Judges a frame that is not IP by the lists of its way through the pair.

use super::NO_RULE;
use crate::api::{AccessLists, Side};
use acl::Frame;

/// What the lists say about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameJudgement {
    /// Counters of the rules that decided, of each list on the way; [`NO_RULE`] if there is none,
    /// or the frame did not come so far.
    pub(crate) rules: [u32; 2],
    pub(crate) permits: bool,
}

impl AccessLists {
    /// True if frames that arrive at this side and are not IP are judged.
    #[inline(always)]
    pub(crate) fn judges_frames(&self, side: Side) -> bool {
        self.ethernet.chains[side as usize] != [None; 2]
    }

    /// True if a frame that cannot be compared with rules is dropped: a rule that might match it
    /// denies, or the default of a list.
    pub(crate) fn denies_unread_frames(&self, side: Side) -> bool {
        let lists = self.ethernet.chains[side as usize].iter().flatten();
        lists.into_iter().any(|list| self.ethernet.lists[*list].denies)
    }

    /// Judges a frame that arrives at this side. Calls `count` with the counter of each rule that
    /// only counts the frame.
    pub(crate) fn judge_frame(
        &self,
        side: Side,
        frame: &Frame,
        count: &mut impl FnMut(u32),
    ) -> FrameJudgement {
        let mut judgement = FrameJudgement { rules: [NO_RULE; 2], permits: true };
        for (index, counter) in self.ethernet.chains[side as usize].iter().zip(&mut judgement.rules)
        {
            let Some(searched) = index.and_then(|index| self.ethernet.lists.get(index)) else {
                continue;
            };
            let (list, first) = (&*searched.list, searched.first_rule);
            let decision = searched.search.find(list, frame, &mut |rule| count(first + rule));
            *counter = first + decision.rule.unwrap_or(list.rules.len() as u32);
            if !decision.action.permits() {
                judgement.permits = false;
                break;
            }
        }
        judgement
    }
}
