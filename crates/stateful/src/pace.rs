// SPDX-License-Identifier: BSD-3-Clause
//! How many connections of a template are due.

/// A constant rate, after a linear ramp from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Connections each second.
    rate: f64,
    begin_ns: u64,
    ramp_ns: u64,
    /// Connections that were due at `begin_ns`.
    before: f64,
}

const SECOND_NS: f64 = 1e9;

impl Pace {
    pub(crate) fn new(rate: f64, begin_ns: u64, ramp_ns: u64) -> Self {
        Self { rate, begin_ns, ramp_ns, before: 0.0 }
    }

    /// Returns the number of connections that are due by `now_ns`.
    #[inline(always)]
    pub(crate) fn due(&self, now_ns: u64) -> f64 {
        let elapsed = now_ns.saturating_sub(self.begin_ns) as f64 / SECOND_NS;
        let ramp = self.ramp_ns as f64 / SECOND_NS;
        let seconds = match elapsed < ramp {
            true => elapsed * elapsed / (2.0 * ramp),
            false => elapsed - ramp / 2.0,
        };
        self.before + seconds * self.rate
    }

    /// Returns the rate after the ramp.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// Changes the rate from `now_ns` on, without a ramp.
    pub(crate) fn set_rate(&mut self, rate: f64, now_ns: u64) {
        *self = Self { rate, begin_ns: now_ns, ramp_ns: 0, before: self.due(now_ns) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_due_by_rate_and_ramp() {
        let mut pace = Pace::new(100.0, 1_000_000_000, 2_000_000_000);
        let due = |pace: &Pace, seconds: f64| pace.due((seconds * 1e9) as u64);
        assert_eq!(due(&pace, 0.5), 0.0);
        assert_eq!(due(&pace, 2.0), 25.0);
        assert_eq!(due(&pace, 3.0), 100.0);
        assert_eq!(due(&pace, 5.0), 300.0);
        pace.set_rate(10.0, 5_000_000_000);
        assert_eq!(due(&pace, 6.0), 310.0);
    }
}
