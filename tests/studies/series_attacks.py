"""An attack on all released numbers of a single case series by integer programming.

The attacker knows the rules, that everybody is observed for as long, and when the drugs are given.
The unknowns are the outcomes by interval of days and by the drugs of a person. Counts of cases and
windows, weeks around exposure, months, years and the time until observation ends are sums of them.
"""

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tests.studies.conftest import TinyOmop
from tests.studies.count_attacks import ANY, coarse_range, judged
from tests.studies.release_attacker import Unknowns, cell_range

from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.studies import CaseSeriesSettings, case_series
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.release.series_over_time import month_periods
from steropes.studies.sccs import CaseRules, ExposureWindow

DAYS, START, EXPOSED, SECOND, PROBE = 701, 300, 21, 100, 30
KINDS = [*itertools.product((True, False), repeat=2)]  # exposed to the first and second drug
# First and last day of each window, and the drug that it belongs to.
SPANS = {
    "exposure": (START, START + EXPOSED - 1, 0), "early": (START, START + 6, 0),
    "late": (START + 7, START + EXPOSED - 1, 0), "before": (START - 30, START - 1, 0),
    "second": (SECOND, SECOND + EXPOSED - 1, 1),
    "end of observation": (DAYS - PROBE, DAYS - 1, None)
}  # fmt: skip
CHOICES = (("exposure",), ("exposure", "before"), ("early", "late"), ("early", "late", "before"),
           ("exposure", "before", "second"))  # fmt: skip


def _window(name):
    first, last, drug = SPANS[name]
    begin = (START, SECOND)[drug]
    return ExposureWindow(
        name, (1 if drug == 0 else 9,), start=first - begin, end=last - begin, end_at="start",
        of_interest=name != "before",
    )  # fmt: skip


def exact_series(rng):
    """A case series of 20 to 150 cases, with the numbers of people and outcomes of each kind."""
    n = int(rng.integers(20, 150))
    windows = CHOICES[rng.integers(len(CHOICES))]
    shares = rng.choice([1.0, rng.uniform(0.5, 0.98)]), rng.uniform(0.1, 1) * ("second" in windows)
    young, twice = rng.choice([0, rng.uniform(0, 0.2)]), rng.choice([0, rng.uniform(0.02, 0.4)])
    together, first = rng.random() < 0.5, bool(rng.random() < 0.3)
    days = _weights(rng)
    people, outcomes = Counter(), Counter()
    with TemporaryDirectory() as name:
        omop = TinyOmop(Path(name))
        omop.concept(9, "another drug")
        for _ in range(n):
            shift = 0 if together else int(rng.integers(0, 400))
            kind = tuple(bool(rng.random() < share) for share in shares)
            old = rng.random() >= young
            person = omop.person(
                observed=(shift, shift + DAYS - 1), born=1950 if old else 1995
            )  # fmt: skip
            for drug, day, has in zip((1, 9), (START, SECOND), kind, strict=True):
                if has:
                    omop.drug(person, drug, shift + day, shift + day + EXPOSED - 1)
            of = sorted({int(d) for d in rng.choice(DAYS, 1 + (rng.random() < twice), p=days)})
            for day in of:
                omop.condition(person, 3, shift + day)
            key = kind if old else "young"
            people[key] += 1
            for day in of[:1] if first else of:
                outcomes[key, day] += 1
        settings = CaseSeriesSettings(
            CaseRules(3, min_age=30, first_outcome_only=first),
            tuple(_window(w) for w in windows), end_of_observation_days=PROBE, unblind=True,
        )  # fmt: skip
        study = case_series(omop.write(), settings, disclosure="none")
    return {"study": study, "people": people, "outcomes": outcomes, "together": together,
            "windows": (*windows, "end of observation"), "first": first}  # fmt: skip


def _weights(rng):
    """Probabilities of days, of which some windows, weeks or months have most."""
    weight = np.full(DAYS, rng.choice([1.0, 0.1, 0.01]))
    for _ in range(rng.integers(1, 5)):
        low = int(rng.choice([START, START - 30, SECOND, DAYS - 30, rng.integers(0, DAYS - 60)]))
        weight[low : low + int(rng.choice([7, 21, 30, 60]))] += rng.gamma(1.0) * 5
    return weight / weight.sum()


def released_series(exact, rules, _):
    """Release a case series."""
    return replace(exact["study"], rules=rules).release


class _Attack:
    """Unknown outcomes by kind and interval, and what is released of their sums."""

    def __init__(self, released, exact, rules):
        self.released, self.exact, self.rules = released, exact, rules
        self.x, self.truth, self.hidden = Unknowns(), {}, set()
        self.cuts = sorted(self._cuts())
        for kind in [*KINDS, "young"]:
            self._add(("people", kind), exact["people"][kind])
            for low, high in itertools.pairwise(self.cuts) if kind != "young" else [(0, DAYS)]:
                of = sum(exact["outcomes"][kind, day] for day in range(low, high))
                self._add(("outcomes", kind, low), of)
            outcomes = [(1, name) for name in self.cells(kinds=[kind])]
            more = 0 if exact["first"] else np.inf  # Everybody has an outcome.
            self.x.say([*outcomes, (-1, ("people", kind))], 0, more)

    def _cuts(self):
        """Days at which an interval begins: no released number divides the days between."""
        found = {0, DAYS}
        for name in self.exact["windows"]:
            found |= {SPANS[name][0], SPANS[name][1] + 1}
        for name, table in self.released.weeks.items():
            start = SECOND if name == "second" else START
            for week in table["week"] if len(table) else ():
                found |= {start + 7 * int(week), start + 7 * int(week) + 7}
        for bar in self.released.ends.to_dict("records"):
            found |= {self._last(bar["stop"]) + 1, self._last(bar["start"]) + 1}
        if self.exact["together"]:
            found |= set(self._months().values())
        return {day for day in found if 0 <= day <= DAYS}

    def _last(self, years):
        """The last day with as many years or more until observation ends."""
        return DAYS - 1 - math.ceil(years * DAYS_PER_YEAR)

    def _months(self):
        """The first day of each month, if all are observed on the same days."""
        p = self.exact["study"].population
        begin = np.datetime64(int(p.observed[0] + p.start[0]), "D")
        months = np.arange(begin.astype("M8[M]"), (begin + DAYS).astype("M8[M]") + 1)
        return {str(m): max(int((m.astype("M8[D]") - begin).astype(int)), 0) for m in months}

    def _add(self, name, n):
        self.x.add(name, 0, ANY)
        self.truth[name] = int(n)

    def cells(self, kinds=KINDS, low=0, high=DAYS):
        """The unknown outcomes of some kinds of people between two days."""
        days = {kind: self.cuts[:-1] if kind != "young" else [0] for kind in kinds}
        return [("outcomes", k, day) for k in kinds for day in days[k] if low <= day < high]

    def sum(self, names, low, high, seek=False):
        """State that a sum lies in a range; ``seek`` tells whether it is suppressed."""
        names = sorted(names, key=str)
        value, key = sum(self.truth[n] for n in names), ("sum", *names)
        assert low <= value <= high, (names, low, value, high)
        if key not in self.truth:
            self.truth[key] = value
            self.x.add(key, low, high)
            self.x.say([(1, key), *((-1, n) for n in names)], 0, 0)
        else:
            self.x.say([(1, key)], low, high)
        if value and (seek or self.rules.small(value)):
            self.hidden.add(key)
        return key

    def told(self, names, cell):
        """State a released count, which other counts may have made a bound."""
        if hasattr(cell, "limit"):
            cell = -cell.limit
        low, high = (0, ANY) if cell is None or cell != cell else cell_range(
            cell, self.rules.least, self.rules.rounds)  # fmt: skip
        low *= cell != -self.rules.least
        return self.sum(names, low, high, not (cell is not None and cell >= 0))

    def days(self, days, each, name):
        """State released days of so many for each person."""
        if days is None or not days > 0:
            return
        if not self.rules.rounds:
            self.x.say([(each, name)], days, days)
            return
        n = max(days / each, self.rules.least)  # The released number of people times a mean.
        factor = np.exp(0.51 * log_unit(int(n / 1.5), self.rules.least)) * 1.02
        self.x.say([(1, name)], n / factor - 4, n * factor + 4)

    def ratio(self, cells, ratio, share):
        """State that outcomes are a rounded ratio times those expected in a share of the time."""
        n, total = (sum(self.truth[c] for c in of) for of in (cells, self.cells()))
        step = log_unit(n, self.rules.least) if ratio else 0.0
        low, high = (ratio * share * end for end in
                     (math.exp(-0.51 * step) / 1.05, math.exp(0.51 * step) / 0.95))  # fmt: skip
        assert low * total - 1e-6 <= n <= high * total + 1e-6, (ratio, n, total, share)
        name = self.sum(cells, self.rules.least if ratio else 0, ANY if ratio else 0)
        of = self.sum(self.cells(), 0, ANY)
        self.x.say([(1, name), (-low, of)], -1e-6, np.inf)
        self.x.say([(1, name), (-high, of)], -np.inf, 1e-6)


def _people(kinds):
    return [("people", kind) for kind in kinds]


def attack_series(released, exact, rules):
    """Search for suppressed and small numbers of people and outcomes of a case series."""
    a = _Attack(released, exact, rules)
    kinds = [*KINDS, "young"]
    for line in released.attrition.to_dict("records"):
        if line["rule"].startswith("at age"):
            kinds = KINDS
        if line["rule"].startswith("any outcome") and exact["first"]:
            continue  # with further outcomes, which are no unknowns
        n = a.told(_people(kinds), line["subjects"])
        a.told(a.cells(kinds), line["events"])
        a.days(line["days"], DAYS, n)
    for name, counts in released.counts.items():
        first, last, drug = SPANS[name]
        kinds = KINDS if drug is None else [kind for kind in KINDS if kind[drug]]
        n = a.told(_people(kinds), counts.subjects)
        a.told(a.cells(kinds), counts.observed_events)
        a.told(a.cells(kinds, first, last + 1), counts.events)
        a.days(released.days[name], 1 + last - first, n)
        others = [kind for kind in KINDS if kind not in kinds]
        if others:
            a.sum(_people(others), 0, ANY)
    _weeks(a)
    _ends(a)
    if exact["together"]:
        _months(a)
        _years(a)
    _ratios(a)
    for terms, low, high in a.x.rows:
        value = sum(factor * a.truth[name] for factor, name in terms)
        slack = 1e-6 * max(1, abs(value))
        assert low - slack <= value <= high + slack, (terms, low, value, high)
    return judged(a.x, sorted(a.hidden, key=str), a.truth)


def _weeks(a):
    for name, table in a.released.weeks.items():
        drug, start = (1, SECOND) if name == "second" else (0, START)
        kinds = [kind for kind in KINDS if kind[drug]]
        for week, cell in zip(table["week"], table["outcomes"], strict=True):
            low = max(start + 7 * int(week), 0)
            if low < min(high := start + 7 * int(week) + 7, DAYS):
                a.sum(a.cells(kinds, low, high), *coarse_range(cell, a.rules), cell < 0)


def _ends(a):
    for bar in a.released.ends.to_dict("records"):
        low, high = a._last(bar["stop"]) + 1, a._last(bar["start"]) + 1
        if bar["start"] == a.released.ends["stop"].shift().iloc[-1]:  # The last bar is closed.
            low = a._last(bar["stop"])
        cells = a.cells(KINDS, low, high)
        if cells and low >= 0:
            parts = [coarse_range(bar[n], a.rules) for n in ("ended", "data_ended")]
            least, most = (sum(of) for of in zip(*parts, strict=True))
            if bar["stop"] == a.released.ends["stop"].iloc[-1]:  # Maybe with few longer times.
                a.sum(a.cells(KINDS, 0, high), least, ANY)
                least = max(least - a.rules.least + 1, 0)
            a.sum(cells, least, most, min(bar["ended"], bar["data_ended"]) < 0)


def _months(a):
    first, trend = a._months(), a.released.tables["sccs_time_trend"]
    monthly = a.exact["study"].monthly
    month = (12 * monthly["year"] + monthly["month"] - 1).to_numpy(np.int64)
    period = month_periods(month, monthly["observed"].to_numpy(float), a.rules)
    ratios = dict(zip(12 * trend["calendar_year"] + trend["calendar_month"] - 1, trend["ratio"],
                      strict=True))  # fmt: skip
    if period is None or not trend["ratio"].notna().any():
        return
    for k in np.unique(period):
        own = month[period == k]
        low, high = (first.get(_name(m), DAYS) for m in (own[0], own[-1] + 1))
        a.ratio(
            a.cells(KINDS, low, min(high, DAYS)), ratios[own[0]], (min(high, DAYS) - low) / DAYS
        )


def _name(month):
    return f"{month // 12:.0f}-{month % 12 + 1:02.0f}"


def _years(a):
    first = a._months()
    for year, ratio in a.released.yearly["expected"].items():
        low, high = (first.get(_name(12 * y), end) for y, end in ((year, 0), (year + 1, DAYS)))
        a.ratio(a.cells(KINDS, low, min(high, DAYS)), ratio, (min(high, DAYS) - low) / DAYS)


def _ratios(a):
    """Ratios with all digits are ratios of counts where everybody has the same windows."""
    names = a.exact["windows"]
    if {kind for kind, n in a.exact["people"].items() if n} - {"young"} not in (
        {(True, False)}, {(True, True)}
    ):  # fmt: skip
        return
    rest = [c for c in a.cells() if not any(SPANS[n][0] <= c[2] <= SPANS[n][1] for n in names)]
    days = {n: 1 + SPANS[n][1] - SPANS[n][0] for n in names}
    left = DAYS - sum(days.values())
    base = a.sum(rest, 0, ANY)
    for name, line in a.released.estimates.iterrows():
        rr = line["rr"]
        if name in names and 0 < rr < np.inf and rr != float(f"{rr:.3g}"):
            here = a.sum(a.cells(KINDS, SPANS[name][0], SPANS[name][1] + 1), 0, ANY)
            factor = rr * days[name] / left
            a.x.say([(1, here), (-factor * (1 - 1e-3), base)], 0, np.inf)
            a.x.say([(1, here), (-factor * (1 + 1e-3), base)], -np.inf, 0)
