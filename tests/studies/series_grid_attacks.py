"""An attack on all released counts of a grid of case series by integer programming.

The attacker knows the rules, and that everybody is observed for as long and exposed once for three
weeks. The unknowns are the outcomes by block of days, exposure, age and order; all counts of all
analyses are sums of them.
"""

import itertools
import math
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
from tests.studies.conftest import TinyOmop
from tests.studies.count_attacks import ANY, coarse_range, judged
from tests.studies.release_attacker import Unknowns, cell_range

from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.grids.sccs_grid import (
    CaseSeriesDesign,
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
    run_case_series_grid,
)
from steropes.studies.sccs.specification.case_series_settings import ExposureWindow

DAYS, START, EXPOSED, PROBE = 701, 300, 21, 30
WEEKS = range(-4, 8)
DURING = ("week 0", "week 1", "week 2")
# Days of each block relative to the start of exposure; all other days are the rest.
BLOCKS = {
    "two days": (-30, -29), **{f"week {w}": (7 * w, 7 * w + 6) for w in WEEKS},
    "probe": (DAYS - START - PROBE, DAYS - START - 1),
}  # fmt: skip
BEFORE = ("two days", *(f"week {w}" for w in range(-4, 0)))
WINDOWS = {
    "exposure": DURING, "short": DURING[:2], "early": DURING[:1], "late": DURING[1:],
    "pre-exposure": BEFORE, "end of observation": ("probe",),
}  # fmt: skip
PLACES = (*BLOCKS, "rest")
YOUNG, OLD = 1985, 1950


def _window(name, start, end):
    return ExposureWindow(name, (), start=start, end=end, end_at="start", of_interest=True)


BASE, BARE, SHORT, SPLIT, FIRST, OF_OLD, OF_YOUNG = ANALYSES = range(1, 8)
GRID = CaseSeriesGrid(
    (SeriesQuestion(1, 3),),
    (
        SeriesAnalysis(BASE, "base", {}),
        SeriesAnalysis(BARE, "without pre-exposure", {"pre_exposure_days": 0}),
        SeriesAnalysis(SHORT, "two weeks", {"risk_end": 13, "risk_end_at": "start"}),
        SeriesAnalysis(
            SPLIT, "split", {}, windows=(_window("early", 0, 6), _window("late", 7, 20))
        ),
        SeriesAnalysis(FIRST, "first outcome", {"first_outcome_only": True}),
        SeriesAnalysis(OF_OLD, "old", {"min_age": 40}),
        SeriesAnalysis(OF_YOUNG, "young", {"max_age": 39}),
    ),
)


def _place(day):
    return next((b for b, (low, high) in BLOCKS.items() if low <= day <= high), "rest")


def exact_series_grid(rng):
    """Exact tables of a grid of 20 to 130 cases, and the numbers of people and outcomes."""
    n, exposed = int(rng.integers(20, 130)), rng.choice([1.0, rng.uniform(0.5, 0.98)])
    old, twice = rng.uniform(0.3, 1), rng.choice([0.0, rng.uniform(0.02, 0.4)])
    weight = rng.dirichlet(rng.uniform(0.2, 2, len(PLACES)))
    weight = (weight + np.eye(len(PLACES))[-1]) / 2
    people, outcomes = Counter(), Counter()
    with TemporaryDirectory() as name:
        omop = TinyOmop(Path(name))
        for _ in range(n):
            shift, kind = int(rng.integers(0, 400)), (rng.random() < exposed, rng.random() < old)
            person = omop.person(
                observed=(shift, shift + DAYS - 1), born=OLD if kind[1] else YOUNG
            )  # fmt: skip
            people[kind] += 1
            if kind[0]:
                omop.drug(person, 1, shift + START, shift + START + EXPOSED - 1)
            of = {_day(rng, weight) for _ in range(2 if rng.random() < twice else 1)}
            for k, day in enumerate(sorted(of)):
                omop.condition(person, 3, shift + START + day)
                place = _place(day)
                if not kind[0] and place != "probe":
                    place = "rest"
                outcomes[(place, *kind, k == 0)] += 1
        run_case_series_grid(omop.write(), GRID, name)
        with duckdb.connect(str(Path(name) / "results.duckdb"), read_only=True) as db:
            tables = [t for (t,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
            exact = {t: db.execute(f"SELECT * FROM {t}").df() for t in tables}
    return {**exact, "people": people, "outcomes": outcomes}


def _day(rng, weight):
    place = PLACES[rng.choice(len(PLACES), p=weight)]
    if place != "rest":
        low, high = BLOCKS[place]
        return int(rng.integers(low, high + 1))
    return int(rng.choice([rng.integers(-START, -30), rng.integers(56, 371)]))


def released_series_grid(exact, rules, _):
    """Release the tables of a grid."""
    tables = {k: t for k, t in exact.items() if k not in ("people", "outcomes")}
    return CaseSeriesDesign(GRID).release(tables, rules)


class _Attack:
    """The unknown numbers of people and outcomes, and what is released of their sums."""

    def __init__(self, exact, rules):
        self.x, self.rules, self.truth, self.hidden = Unknowns(), rules, {}, set()
        self.numbers = {"people": exact["people"], "outcomes": exact["outcomes"]}
        kinds = [*itertools.product((True, False), repeat=2)]
        for kind in kinds:
            self._cell("people", kind)
            for first in (True, False):
                places = PLACES if kind[0] else ("probe", "rest")
                for place in places:
                    self._cell("outcomes", (place, *kind, first))
        for kind in kinds:  # Everybody has a first outcome, and few have a second one.
            firsts = [("outcomes", c) for c in self.cells("outcomes", kind=kind, first=True)]
            more = [("outcomes", c) for c in self.cells("outcomes", kind=kind, first=False)]
            self.x.say([(1, ("people", kind)), *((-1, c) for c in firsts)], 0, 0)
            self.x.say([(1, ("people", kind)), *((-1, c) for c in more)], 0, np.inf)

    def _cell(self, what, key):
        self.x.add((what, key), 0, ANY)
        self.truth[what, key] = self.numbers[what][key]

    def cells(self, what, kind=None, places=None, first=None, exposed=None, old=None):
        """The cells of a sum."""
        if what == "people":
            keys = [key[1] for key in self.truth if key[0] == what]
            return [k for k in keys if exposed in (None, k[0]) and old in (None, k[1])]
        return [
            k for k in [key[1] for key in self.truth if key[0] == what]
            if (kind is None or k[1:3] == kind)
            and (places is None or k[0] in places) and first in (None, k[3])
            and exposed in (None, k[1]) and old in (None, k[2])
        ]  # fmt: skip

    def sum(self, what, low, high, seek, **of):
        """State that a sum lies in a range; ``seek`` tells whether it is suppressed."""
        name = ("sum", what, *sorted(of.items()))
        cells = self.cells(what, **of)
        value = sum(self.truth[what, c] for c in cells)
        assert low <= value <= high, (name, low, value, high)
        if name not in self.truth:
            self.truth[name] = value
            self.x.add(name, low, high)
            self.x.say([(1, name), *((-1, (what, c)) for c in cells)], 0, 0)
        else:
            self.x.say([(1, name)], low, high)
        if seek and value:
            self.hidden.add(name)
        return name

    def told(self, what, cell, **of):
        """State a released count of few analyses."""
        low, high = (0, ANY) if cell != cell else cell_range(
            cell, self.rules.least, self.rules.rounds)  # fmt: skip
        low *= cell != -self.rules.least  # A zero is withheld where it narrows another count.
        return self.sum(what, low, high, not cell >= 0, **of)

    def days(self, days, each, name):
        """State released days of so many for each person."""
        if not days > 0:
            return
        if not self.rules.rounds:
            self.x.say([(each, name)], days, days)
            return
        # The released number of people times a rounded mean.
        n = max(days / each, self.rules.least)
        factor = np.exp(0.51 * log_unit(int(n / 1.5), self.rules.least)) * 1.02
        self.x.say([(1, name)], n / factor - 4, n * factor + 4)


def attack_series_grid(released, exact, rules):
    """Search for suppressed and small numbers of people and outcomes of all analyses together."""
    a = _Attack(exact, rules)
    of_analysis = {
        **{k: {} for k in ANALYSES}, FIRST: {"first": True}, OF_OLD: {"old": True},
        OF_YOUNG: {"old": False},
    }  # fmt: skip
    names = exact["sccs_covariate"].set_index(["analysis_id", "covariate_id"])["covariate_name"]
    for line in released["sccs_result"].to_dict("records"):
        own = of_analysis[line["analysis_id"]]
        people = {k: v for k, v in own.items() if k != "first"}
        n = a.told("people", line["outcome_subjects"], **people)
        a.days(line["observed_days"], DAYS, n)
        a.told("outcomes", line["outcome_events"], **own)
        if (line["analysis_id"], line["covariate_id"]) not in names.index:
            a.told("people", 0, **people, exposed=True)  # The note says so.
            continue
        inside = {**own, "exposed": True}
        n = a.told("people", line["covariate_subjects"], **{**people, "exposed": True})
        window = WINDOWS[_name(names, line)]
        a.days(line["covariate_days"], 7 * len(window), n)
        a.told("outcomes", line["covariate_outcomes"], **inside, places=window)
    for line in released["sccs_attrition"].to_dict("records"):
        if line["description"] == "having the covariate of interest":
            own = {**of_analysis[line["analysis_id"]], "exposed": True}
            n = a.told("people", line["outcome_subjects"],
                       **{k: v for k, v in own.items() if k != "first"})  # fmt: skip
            a.told("outcomes", line["outcome_events"], **own)
            a.days(line["observed_days"], DAYS, n)
        elif line["sequence_number"] == 1:
            a.told("people", line["outcome_subjects"])
            a.told("outcomes", line["outcome_events"])
    weeks = released["sccs_time_to_event"]
    for line in weeks[weeks["week"].isin([*WEEKS])].to_dict("records"):
        own = of_analysis[line["analysis_id"]]
        cell, few = line["outcomes"], line["outcomes"] < 0
        a.sum("outcomes", *coarse_range(cell, rules), few, **{**own, "exposed": True},
              places=(f"week {line['week']}",))  # fmt: skip
    _ratios(a, released, names, of_analysis)
    _small_ones(a, of_analysis)
    for terms, low, high in a.x.rows:
        value = sum(factor * a.truth[name] for factor, name in terms)
        slack = 1e-6 * max(1, abs(value))
        assert low - slack <= value <= high + slack, (terms, low, value, high)
    return judged(a.x, sorted(a.hidden, key=str), a.truth)


def _name(names, line):
    name = names[line["analysis_id"], line["covariate_id"]]
    return "short" if name == "exposure" and line["analysis_id"] == SHORT else name


def _ratios(a, released, names, of_analysis):
    """State ratios with all digits, which are ratios of counts where everybody is exposed."""
    if a.numbers["people"][False, True] + a.numbers["people"][False, False]:
        return
    for analysis, of in released["sccs_covariate_result"].groupby("analysis_id"):
        own = of_analysis[int(analysis)]
        windows = {k: WINDOWS[_name(names, line)] for k, line in
                   enumerate(of.to_dict("records"))}  # fmt: skip
        used = [b for blocks in windows.values() for b in blocks]
        rest = tuple(p for p in PLACES if p not in used)
        days = {b: 1 + high - low for b, (low, high) in BLOCKS.items()}
        days["rest"] = DAYS - sum(days.values())
        base = a.sum("outcomes", 0, ANY, False, **own, places=rest)
        for line, window in zip(of.to_dict("records"), windows.values(), strict=True):
            rr = line["rr"]
            if not (math.isfinite(rr) and rr > 0) or rr == float(f"{rr:.3g}"):
                continue
            here = a.sum("outcomes", 0, ANY, False, **own, places=window)
            factor = rr * sum(days[b] for b in window) / sum(days[b] for b in rest)
            for sign, bound in ((1, factor * (1 + 1e-3)), (-1, factor * (1 - 1e-3))):
                a.x.say([(sign, here), (-sign * bound, base)], -np.inf, 0)


def _small_ones(a, of_analysis):
    """Seek also small numbers that no table contains."""
    few = a.rules.small
    for own in of_analysis.values():
        for window in WINDOWS.values():
            name = a.sum("outcomes", 0, ANY, False, **own, places=window)
            if few(a.truth[name]):
                a.hidden.add(name)
    for what, of in itertools.product(
        ("people", "outcomes"),
        ({"exposed": False}, {"old": False}, {"old": False, "exposed": True}),
    ):
        name = a.sum(what, 0, ANY, False, **of)
        if few(a.truth[name]):
            a.hidden.add(name)
    name = a.sum("outcomes", 0, ANY, False, first=False)
    if few(a.truth[name]):
        a.hidden.add(name)
