"""An attack on all released numbers of a study of one question by integer programming.

The attacker knows the rules, that everybody is observed for the whole time at risk, and that pairs
are matched. Besides counts, person-time, rates, quantiles of follow-up, curves, shares of
covariates and the detectable ratio are equations and inequalities of outcomes by day.
"""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tests.studies.conftest import TinyOmop
from tests.studies.count_attacks import ANY, judged
from tests.studies.release_attacker import ARMS, Unknowns, cell_range

from steropes.designs.effects.events_and_curves_by_arm import DAYS_PER_YEAR
from steropes.studies import StudySettings, comparative_study
from steropes.studies.disclosure import share_unit
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.one_question.study_result_rows import attrition_lines
from steropes.studies.report.study_json_and_csv import study_numbers
from steropes.studies.specifications.one_question_specification import MAIN

DAYS = 30
WHEN = ("all", "matched")
QUANTILES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9}


def exact_question(rng):
    """A study of 30 to 300 people, of whom some had the outcome before, all at risk for 30 days."""
    n, share = int(rng.integers(30, 300)), rng.uniform(0.2, 0.8)
    risks, before = rng.uniform(0, 0.4, 2), rng.uniform(0, 0.1)
    last = int(rng.choice([5, 15, DAYS]))
    with TemporaryDirectory() as name:
        omop = TinyOmop(Path(name))
        omop.concept(70, "thing")
        for _ in range(n):
            arm = int(rng.random() > share)
            person = omop.person(
                **{ARMS[arm]: 0}, observed=(-1000 if rng.random() < 0.97 else -100, 900),
                born=int(rng.choice([1940, 1975])), sex=int(rng.choice([8507, 8532])),
            )  # fmt: skip
            if rng.random() < before:
                omop.condition(person, 3, -20)
            elif rng.random() < risks[arm]:
                omop.condition(person, 3, int(rng.integers(1, last + 1)))
            if rng.random() < 0.3 + 0.3 * arm:
                omop.condition(person, 70, -5)
        settings = StudySettings(
            1, 2, 3, risk_days=DAYS, unblind=True, tie_orders=0, min_people=3, folds=3,
            caliper=float(rng.choice([0.2, 1.0])),
        )  # fmt: skip
        return comparative_study(omop.write(), settings, disclosure="none")


def released_question(exact, rules, _):
    """Release a study as JSON values."""
    return study_numbers(replace(exact, rules=rules).release)


class _Attack:
    """Unknown outcomes by day, people and covariates, and what is released of their sums."""

    def __init__(self, numbers, exact, rules):
        self.numbers, self.rules, self.x = numbers, rules, Unknowns()
        self.truth, self.hidden = {}, []
        of = exact.people[exact.people["time"].notna()]
        kept = {"all": of, "matched": exact.matched} if exact.matching_done else {"all": of}
        self.people = {
            (arm, when): people[people["treated"] == (arm == "target")]
            for when, people in kept.items() for arm in ARMS
        }  # fmt: skip
        self.ends = self._days()

    def _days(self):
        """Days at which anything is told: no released number divides the days between."""
        found = {0, DAYS}
        for line in self.numbers["follow_up"]:
            for name in QUANTILES:
                found |= {int(line[name]) - 1, int(line[name])}
        for curve in self.numbers["survival"].values():
            found |= {int(t) for t in (*curve["time"], *curve["at_risk"]["time"])}
        return sorted(day for day in found if 0 <= day <= DAYS)

    def add(self, name, n, cell=None, seek=False):
        """Add an unknown with what a released cell says about it."""
        low, high = cell_range(cell, self.rules.least, self.rules.rounds, most=ANY)
        if isinstance(cell, str) and not self.rules.rounds and n > high - self.rules.least:
            low = max(low, high - self.rules.least + 1)  # Most bounds are that near.
        assert low <= n <= high, (name, low, n, high, cell)
        self.x.add(name, low, high)
        self.truth[name] = int(n)
        if seek and n and not isinstance(cell, int):
            self.hidden.append(name)

    def say(self, terms, low, high):
        """State a range of a sum, which must hold for the truth."""
        value = sum(factor * self.truth[name] for factor, name in terms)
        slack = 1e-9 * max(1.0, abs(value))
        assert low - slack <= value <= high + slack, (terms, low, value, high)
        self.x.say(terms, low - slack, high + slack)

    def bins(self, arm, when, until):
        """The outcomes up to and including a day."""
        return [(1, (arm, when, "day", d)) for d in self.ends[1:] if d <= until]


def attack_question(numbers, exact, rules):
    """Search for suppressed numbers of people, outcomes and covariates of all tables together."""
    a = _Attack(numbers, exact, rules)
    _attrition(a, exact)
    for (arm, when), of in a.people.items():
        _outcomes(a, arm, when, of)
        _covariates(a, exact, arm, when, of)
    for arm in ARMS if "matched" in {when for _, when in a.people} else ():
        _inside(a, arm)
    _follow_up(a)
    _curves(a)
    _totals(a)
    return judged(a.x, a.hidden, a.truth)


def _attrition(a, exact):
    shown, own = a.numbers["attrition"], attrition_lines(exact.exact, MAIN)
    for arm in ARMS:
        for k, (line, real) in enumerate(zip(shown, own, strict=True)):
            a.add((arm, "left", k), real[arm], line[arm], True)
            if k:
                gone = own[k - 1][arm] - real[arm]
                cell = line[f"{arm}_dropped"]
                if isinstance(cell, int) and a.rules.rounds:
                    cell = None  # a difference of rounded counts
                known = isinstance(cell, int)
                a.add((arm, "dropped", k), gone, cell if known else None, True)
                a.say([(1, (arm, "left", k - 1)), (-1, (arm, "left", k)),
                       (-1, (arm, "dropped", k))], 0, 0)  # fmt: skip


def _outcomes(a, arm, when, of):
    line = next(
        r for r in a.numbers["rates"] if (r["analysis"], r["arm"]) == (when, arm)
    )  # fmt: skip
    had = of[of["event"] == 1]
    a.add((arm, when), len(of), line["people"], True)
    a.add((arm, when, "events"), len(had), line["events"], True)
    last = len(a.numbers["attrition"]) - (1 if when == "matched" else 2)
    if ("target", "matched") not in a.people:
        last = len(a.numbers["attrition"]) - 1
    a.say([(1, (arm, when)), (-1, (arm, "left", last))], 0, 0)
    a.add((arm, when, "days"), int(of["time"].sum()))
    terms = [(1, (arm, when, "days")), (-DAYS, (arm, when))]
    low, high = list(terms), list(terms)
    for first, end in itertools.pairwise(a.ends):
        name = (arm, when, "day", end)
        a.add(name, int(had["time"].between(first + 1, end).sum()))
        low.append((DAYS - first - 1, name))
        high.append((DAYS - end, name))
    a.say(low, 0, np.inf)
    a.say(high, -np.inf, 0)
    a.say([(1, (arm, when, "events")), *((-f, n) for f, n in a.bins(arm, when, DAYS))], 0, 0)
    a.say([(1, (arm, when)), (-1, (arm, when, "events"))], 0, np.inf)
    _person_time(a, arm, when, line)


def _person_time(a, arm, when, line):
    years, days = line["person_years"], (arm, when, "days")
    if years is None or not years > 0:
        return
    if a.rules.rounds:  # Released people times a rounded mean.
        factor = math.exp(0.51 * log_unit(line["people"], a.rules.least)) * 1.02
        mean = years * DAYS_PER_YEAR / line["people"]
        a.say([(1, days), (-mean * factor, (arm, when))], -np.inf, 0)
        a.say([(1, days), (-mean / factor, (arm, when))], 0, np.inf)
    else:
        slack = 5.1e-6 * years * DAYS_PER_YEAR
        a.say([(1, days)], years * DAYS_PER_YEAR - slack, years * DAYS_PER_YEAR + slack)
    if line["rate"] is not None and not a.rules.rounds:
        cases = line["rate"] / 1000 * years
        a.say([(1, (arm, when, "events"))], cases * (1 - 1e-4), cases * (1 + 1e-4))


def _covariates(a, exact, arm, when, of):
    """Shares of both sexes, which add up, of both ages and of a condition."""
    name = f"{arm}_{'before' if when == 'all' else 'after'}"
    if a.numbers["balance"] is None or exact.covariates is None:
        return
    shares = exact.balance
    for line in a.numbers["balance"]["covariates"]:
        own = line["covariate"]
        if not own.startswith(("gender", "condition")) or own not in shares.index:
            continue
        mean = shares.loc[own, name]
        if mean is None or not 0 <= mean <= 1:
            continue
        n, key = round(float(mean) * len(of)), (arm, when, own)
        a.add(key, n)
        a.say([(1, (arm, when)), (-1, key)], 0, np.inf)
        _share(a, key, (arm, when), line[name], len(of))
        if n and (a.rules.small(n) or a.rules.small(len(of) - n)):
            a.hidden.append(key)
    sexes = [(arm, when, f"gender: {sex}") for sex in ("Male", "Female")]
    if all(key in a.truth for key in sexes):
        a.say([(1, (arm, when)), *((-1, key) for key in sexes)], 0, 0)


def _share(a, key, whole, cell, size):
    """State what a released share says about a number of people."""
    if cell is None:
        return
    least = a.rules.least
    if isinstance(cell, str):
        above, n = cell.startswith(">"), a.truth[key]
        rest = [(1, whole), (-1, key)] if above else [(1, key)]
        small = a.rules.small(a.truth[whole] - n if above else n)
        a.say(rest, *((1, least - 1) if small else (0, ANY)))
    elif cell in (0.0, 1.0):
        a.say([(1, key), (-cell, whole)], 0, 0)
    elif a.rules.rounds:  # The ratio of two rounded counts.
        people = a.rules.rounded(a.truth[whole])
        middle = round(cell * people)
        if abs(a.rules.rounded(a.truth[key]) - middle) <= 1:
            a.say([(1, key)], middle - 4, middle + 4)
    else:
        unit = share_unit(size, least)
        if abs(a.truth[key] / size - cell) <= 0.5 * unit + 1e-9:
            a.say([(1, key), (-cell - 0.5 * unit, whole)], -np.inf, 0)
            a.say([(1, key), (-cell + 0.5 * unit, whole)], 0, np.inf)


def _inside(a, arm):
    """State that the matched are some of all."""
    names = [(), ("events",), *(("day", d) for d in a.ends[1:])]
    own = [key[2:] for key in a.truth if key[:2] == (arm, "matched") and len(key) == 3]
    names += [key for key in own if key[0] not in ("events", "days")]
    names = [key for key in names if (arm, "all", *key) in a.truth]
    for name in names:
        a.say([(1, (arm, "all", *name)), (-1, (arm, "matched", *name))], 0, np.inf)
    rest = [(1, (arm, "all")), (-1, (arm, "matched"))]
    for name in names[1:]:
        gone = [(-1, (arm, "all", *name)), (1, (arm, "matched", *name))]
        a.say([*rest, *gone], 0, np.inf)


def _follow_up(a):
    """A quantile is between two people, whose places follow from the number of people."""
    for line in a.numbers["follow_up"]:
        arm, when = line["arm"], line["analysis"]
        for name, p in QUANTILES.items():
            q = int(line[name])
            if q < DAYS:
                until = a.bins(arm, when, q)
                a.say([*until, (-p, (arm, when))], -p, np.inf)
            before = a.bins(arm, when, q - 1)
            if before:
                a.say([*before, (-p, (arm, when))], -np.inf, 1 - p)


def _curves(a):
    for arm, curve in a.numbers["survival"].items():
        if (arm, "matched") not in a.people:
            continue
        whole, least = (arm, "matched"), a.rules.least
        step = log_unit(a.truth[whole], least) if a.rules.rounds else 0.0
        before = []
        for t, s in zip(curve["time"], curve["survival"], strict=True):
            until = a.bins(arm, "matched", t)
            half = 1e-3 if a.rules.rounds else 0.51e-4
            low = (1 - s) * math.exp(-0.51 * step) / 1.01 ** bool(step) - half
            high = (1 - s) * math.exp(0.51 * step) * 1.01 ** bool(step) + half
            n = sum(a.truth[name] for _, name in until)
            if low * a.truth[whole] <= n <= high * a.truth[whole]:
                a.say([*until, (-low, whole)], 0, np.inf)
                a.say([*until, (-high, whole)], -np.inf, 0)
            else:  # the remaining outcomes have joined the last step
                assert t == curve["time"][-1], (arm, t, s, n)
            a.say([*until, *((-f, name) for f, name in before)], least, np.inf)
            before = until
        marks = curve["at_risk"]
        for t, there in zip(marks["time"], marks["people"], strict=True):
            if isinstance(there, int) and t > 0 and t - 1 in a.ends:
                gone = a.bins(arm, "matched", t - 1)
                low, high = cell_range(there, least, a.rules.rounds)
                a.say([(1, whole), *((-f, name) for f, name in gone)], low - least, high + least)


def _totals(a):
    """Both arms together, and the outcomes of the detectable ratio."""
    if ("target", "matched") in a.people:
        a.say([(1, ("target", "matched")), (-1, ("comparator", "matched"))], 0, 0)
    for line in a.numbers["hazard_ratios"]:
        when = "all" if line["analysis"] == "crude" else "matched"
        if ("target", when) not in a.people:
            continue
        for cell, name in ((line["people"], ()), (line["events"], ("events",))):
            parts = [(1, (arm, when, *name)) for arm in ARMS]
            n = sum(a.truth[p] for _, p in parts)
            low, high = cell_range(cell, a.rules.least, a.rules.rounds, most=ANY)
            if isinstance(cell, str):
                low = 0
            a.say(parts, min(low, n), max(high, n))
    found = next(d for d in a.numbers["diagnostics"] if d["key"] == "detectable")["value"]
    if found is not None and ("target", "matched") in a.people and math.isfinite(found):
        cases = 4 * (2.8015852 / math.log(found)) ** 2
        n = sum(a.truth[arm, "matched", "events"] for arm in ARMS)
        if abs(cases - n) < 0.02 * n:
            parts = [(1, (arm, "matched", "events")) for arm in ARMS]
            slack = 0.01 if cases < 200 else 0.001 * cases
            if abs(cases - n) <= slack:
                a.say(parts, cases - slack, cases + slack)
