#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints what MLRsearch 1.2.1 of PyPI finds on simulated devices: searches.txt.

    pip install MLRsearch==1.2.1
    crates/search/tests/searches.py > crates/search/tests/searches.txt

The devices are those of crates/search/tests/searches.rs, with the same arithmetic.
"""

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

MIN_LOAD, MAX_LOAD = 1e3, 1e7
GOLDEN = 0.6180339887498949

# Loss ratio, exceed ratio, width, initial trial, final trial, sum of durations.
GOALS = {
    "ndr": (0.0, 0.5, 0.005, 1.0, 1.0, 21.0),
    "pdr": (0.005, 0.5, 0.005, 1.0, 1.0, 21.0),
    "rfc2544": (0.0, 0.0, 0.005, 1.0, 60.0, 60.0),
    "tst009": (0.0, 0.5, 0.005, 1.0, 60.0, 120.0),
    "cps": (0.0002, 0.0, 0.005, 1.0, 30.0, 30.0),
    "quick": (0.001, 0.5, 0.02, 0.5, 0.5, 3.5),
}


class Device(AbstractMeasurer):
    """Loses packets by its kind, limit and a further number."""

    def __init__(self, kind, limit, further):
        self.kind, self.limit, self.further = kind, limit, further
        self.trials = {}

    def loss(self, load):
        """Returns the share that the next trial at a load loses."""
        number = self.trials.get(load, 0) + 1
        self.trials[load] = number
        if self.kind == "hard":
            return max(0.0, 1.0 - self.limit / load)
        if self.kind == "noisy":
            # The share of bad trials goes from 0 to 1 within `further` around the limit.
            share = (load / self.limit - 1.0) / self.further + 0.5
            return 0.01 if number * GOLDEN % 1.0 < share else 0.0
        # Inverted: loses 1 % from the limit to 1.4 of it, nothing up to `further`; above,
        # only 1.2 of the limit come back.
        if load < self.limit or self.limit * 1.4 <= load < self.further:
            return 0.0
        return 0.01 if load < self.further else 1.0 - self.limit * 1.2 / load

    def measure(self, intended_duration, intended_load):
        """Measures, in no time."""
        count = 10**12
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=count,
            loss_count=round(count * self.loss(intended_load)),
        )


def search(device, names):
    """Prints the bounds and the throughput of each goal."""
    fields = (
        "loss_ratio exceed_ratio relative_width initial_trial_duration "
        "final_trial_duration duration_sum"
    ).split()
    goals = [SearchGoal(**dict(zip(fields, GOALS[name])), fail_fast=False) for name in names]
    config = Config(
        goals=goals,
        min_load=MIN_LOAD,
        max_load=MAX_LOAD,
        search_duration_max=60.0,
        warmup_duration=None,
    )
    result = MultipleLossRatioSearch(config=config).search(
        measurer=Device(*device), debug=lambda _: None
    )
    shown = []
    for goal in goals:
        found = result[goal]
        bounds = [found.relevant_lower_bound, found.relevant_upper_bound]
        values = [None if value is None else float(value) for value in bounds]
        throughput = found.conditional_throughput
        values.append(None if throughput is None else float(throughput))
        shown.append(" ".join("-" if value is None else repr(value) for value in values))
    kind, limit, further = device
    print(f"{kind} {limit!r} {further!r};{' '.join(names)};{';'.join(shown)}")


def main():
    """Prints all searches."""
    print("# What MLRsearch 1.2.1 of PyPI finds on simulated devices, by searches.py.")
    print("# device, its numbers; goals; for each goal: lower bound, upper bound, throughput")
    every = list(GOALS)
    sets = [["ndr"], ["ndr", "pdr"], ["quick"], ["cps"], ["rfc2544"], ["tst009"], every]
    for names in sets:
        for limit in [1500.0, 41700.0, 977000.0, 1e6, 2.345678e6, 9.7e6]:
            search(("hard", limit, 0.0), names)
        for limit in [50e3, 2e6, 7.5e6]:
            search(("noisy", limit, 0.004), names)
        for limit in [30e3, 2e6]:
            search(("inverted", limit, limit * 2.0), names)
        search(("hard", 2e7, 0.0), names)
        search(("hard", 500.0, 0.0), names)


if __name__ == "__main__":
    main()
