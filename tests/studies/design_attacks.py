"""Attacks on released tables of case-only designs, target trials and scans by integer programs.

The attacker knows the design, the rules of release, and how many windows or people are compared.
"""

import itertools
from collections import Counter
from datetime import date

import numpy as np
import pandas as pd
from tests.studies.count_attacks import ANY, coarse_range
from tests.studies.release_attacker import Unknowns, cell_range

from steropes.designs.case_only import case_crossover, case_time_control, nested_case_control
from steropes.designs.surveillance import tree_scan_people
from steropes.errors import DataError, SeparationError
from steropes.studies.case_only import CaseOnlyStudy, OmopCaseOnly
from steropes.studies.case_only.released_ratios import _step
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.monitoring.tree_scan_release import released_cuts, released_people
from steropes.studies.target_trials import OmopTrial
from steropes.studies.target_trials.emulated_trial import fit_trial
from steropes.studies.target_trials.released_trial import released_trial, trial_people

SOURCES = CohortSources(drugs={1: ConceptSet((1,))}, conditions={3: ConceptSet((3,))})
Z = 1.959963984540054


def found(x, hidden, exact):
    """Count hidden numbers of few people, those with one possible value and those with two."""
    counted = Counter()
    for name in hidden:
        low, high = x.range_of(name)
        if high - low < 2 or not low <= exact[name] <= high:
            low, high = x.range_of(name, presolve=False)
        assert low <= exact[name] <= high, (name, low, exact[name], high)
        counted["suppressed"] += 1
        counted["exact"] += low == high
        counted["two"] += high - low == 1
    return counted


# -- case–crossover and case–time–control ----------------------------------------------------------


def windows_of(rng, n, references):
    """The exposure of each window of people: the last one is before the event."""
    share = rng.uniform(0.05, 0.5, 2)
    window = rng.random(n) < share[0]
    others = rng.random((n, references)) < share[1]
    return np.column_stack([others, window])


def drug_table(ids, exposed):
    """Exposures on one day of each exposed window."""
    rows, cols = np.nonzero(exposed)
    last = exposed.shape[1] - 1
    return pd.DataFrame({"id": ids[rows], "start": 300 - 60 * (last - cols)})


def crossover(rng, controls=False):
    """A case–crossover or case–time–control of 20 to 150 people, and its windows by group."""
    references = int(rng.integers(1, 4)) if not controls else 1
    while True:
        sizes = [int(rng.integers(20, 150)) for _ in range(1 + controls)]
        exposed = [windows_of(rng, n, references) for n in sizes]
        ids = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        late = [np.arange(n) < rng.integers(0, n // 4 + 1) for n in sizes]
        start = np.concatenate([np.where(own, 290, 0) for own in late])
        people = pd.DataFrame({"id": np.concatenate(ids), "start": start, "end": 400})
        drugs = pd.concat([drug_table(*pair) for pair in zip(ids, exposed, strict=True)])
        events = [pd.DataFrame({"id": own, "day": 300}) for own in ids]
        days = [-60 * (k + 1) for k in range(references)]
        try:
            if controls:
                result = case_time_control(*events, drugs, people, references=days)
            else:
                result = case_crossover(events[0], drugs, people, references=days)
        except (DataError, SeparationError):
            continue
        kept = [e[~own] for e, own in zip(exposed, late, strict=True)]
        return result, kept


def attack_crossover(result, exposed, rules):
    """Search for small numbers of sets by the exposure of their windows."""
    design = "case-time-control" if len(exposed) > 1 else "case-crossover"
    release = CaseOnlyStudy(OmopCaseOnly(SOURCES, (1,), 3, design), result, rules).release
    table, attrition = release["case_only_estimates"], release["case_only_attrition"]
    rows = attrition.set_index("rule")["events"]
    total = Counter()
    for g, own in enumerate(exposed):
        kind = ("cases", "controls")[g]
        line = table[table["kind"] == kind].iloc[0].to_dict()
        if "rounded" in line["note"]:
            exact_line = result.estimates[result.estimates["kind"] == kind].iloc[0]
            line["step"] = _step(exact_line, rules)
        of = rows[[str(r).startswith("controls") == bool(g) for r in rows.index]]
        total += attack_group(own, line, of.iloc[-1], rules, bool(g))
    return total


def attack_group(exposed, line, sets, rules, control):
    """Search the sets of cases or of controls."""
    m = exposed.shape[1] - 1
    others = "exposed_controls" if "exposed_controls" in line else "exposed_references"
    x, least = Unknowns(), rules.least
    case, k = exposed[:, -1], exposed[:, :-1].sum(axis=1)
    cells = [(c, j) for c in (0, 1) for j in range(m + 1)]
    exact = {cell: int(((case == cell[0]) & (k == cell[1])).sum()) for cell in cells}
    for cell in cells:
        x.add(cell, 0, 1000)
    sums = {
        "exposed_cases": [(1, (1, j)) for j in range(m + 1)],
        others: [(j, (c, j)) for c, j in cells],
        "discordant_sets": [(1, (c, j)) for c, j in cells if 0 < c + j < m + 1],
    }
    text = str(sets)
    if text.startswith("<"):
        low, high = (0, int(text[1:]) - 1)
    elif control:
        low, high = coarse_range(int(text), rules)
    else:
        low, high = int(text) - 2, int(text) + (3 if rules.rounds else 2)
    x.say([(1, cell) for cell in cells], low, high)
    coarse = {}
    for c, j in cells:
        coarse.setdefault((c, 0 if j == 0 else 2 if j == m else 1), []).append((c, j))
    shown = bool(line["exposed_cases"])
    if shown:
        for name, terms in sums.items():
            cell = cell_of(line[name])
            rounded = "rounded" in line["note"]
            of = coarse_range(cell, rules) if rounded else cell_range(cell, least, rules.rounds)
            x.say(terms, *of)
        for key, own in coarse.items():  # Cells are zero or many.
            x.add(("many", key), 0, 1)
            x.say([*((1, c) for c in own), (-least, ("many", key))], 0, np.inf)
            x.say([*((1, c) for c in own), (-1000, ("many", key))], -np.inf, 0)
        say_ratio(x, line, m)
    small = [cell for cell in cells if 0 < exact[cell] < least]
    return found(x, small, exact)


def crossover_of_two(rng):
    """A case–crossover of two exposures in one model, and the sets by exposure of both windows."""
    while True:
        n = int(rng.integers(30, 200))
        ids, share = np.arange(n), rng.uniform(0.1, 0.5, 2)
        together = rng.random(n) < rng.uniform(0, 0.5)
        exposed = []
        for k in range(2):
            own = rng.random((n, 2)) < share[k]
            exposed.append(np.where(together[:, None] & bool(k), exposed[0] if k else own, own))
        drugs = pd.concat(
            [drug_table(ids, of).assign(drug=name)
             for name, of in zip("ab", exposed, strict=True)]
        )  # fmt: skip
        people = pd.DataFrame({"id": ids, "start": 0, "end": 400})
        events = pd.DataFrame({"id": ids, "day": 300})
        try:
            result = case_crossover(events, drugs, people, references=[-60], exposure="drug")
        except (DataError, SeparationError):
            continue
        # The reference and the case window of each exposure, as whole numbers.
        return result, np.column_stack([of.astype(int) for of in exposed])


def attack_of_two(result, sets, rules):
    """Search for small numbers of sets by the exposures of both windows.

    The scores of both ratios, at all ratios that have the released digits, are statements.
    """
    design = OmopCaseOnly(SOURCES, (1, 2), 3, "case-crossover")
    release = CaseOnlyStudy(design, result, rules).release
    lines = release["case_only_estimates"].set_index("covariate").to_dict("index")
    cells = [*itertools.product((0, 1), repeat=4)]  # a and b: reference, case
    exact = {cell: int((sets == cell).all(axis=1).sum()) for cell in cells}
    x = Unknowns()
    for cell in cells:
        x.add(cell, 0, 1000)
    n = int(release["case_only_attrition"]["events"].iloc[-1])
    x.say([(1, cell) for cell in cells], n - 2, n + (3 if rules.rounds else 2))
    if all(line["exposed_cases"] for line in lines.values()):
        for k, name in enumerate("ab"):
            _counts_of(x, lines[name], k, cells, rules)
        _scores(x, lines, cells, result, rules)
    for terms, low, high in x.rows:
        value = sum(factor * exact[cell] for factor, cell in terms)
        assert low - 1e-6 <= value <= high + 1e-6, (terms, low, value, high)
    return found(x, [cell for cell in cells if 0 < exact[cell] < rules.least], exact)


def _counts_of(x, line, k, cells, rules):
    """State the counts of one exposure."""
    rounded = "rounded" in line["note"]
    terms = {
        "exposed_references": [(1, c) for c in cells if c[2 * k]],
        "exposed_cases": [(1, c) for c in cells if c[2 * k + 1]],
        "discordant_sets": [(1, c) for c in cells if c[2 * k] != c[2 * k + 1]],
    }
    for name, of in terms.items():
        cell = cell_of(line[name])
        x.say(of, *(coarse_range(cell, rules) if rounded
                    else cell_range(cell, rules.least, rules.rounds)))  # fmt: skip


def _scores(x, lines, cells, result, rules):
    """State that the score of each exposure is zero for some ratios with the released digits."""
    ends = []
    for name in "ab":
        line = lines[name]
        step = 0.0
        if "rounded" in line["note"]:
            step = _step(result.estimates.loc[name], rules)
        ends.append(np.log(rounded_range(float(line["ratio"]), step)))
    for k in range(2):
        low, high = [], []
        for cell in cells:
            difference = np.array([cell[1] - cell[0], cell[3] - cell[2]])
            scores = [difference[k] / (1 + np.exp(difference @ beta))
                      for beta in itertools.product(*ends)]  # fmt: skip
            low.append((min(scores), cell))
            high.append((max(scores), cell))
        x.say(low, -np.inf, 0)
        x.say(high, 0, np.inf)


def cell_of(text):
    """Read a released count."""
    return text if str(text).startswith("<") else int(text)


def rounded_range(value, step=0.0):
    """The numbers that three significant digits, or a step of the logarithm, stand for."""
    if step:
        return value * np.exp(-0.505 * step), value * np.exp(0.505 * step)
    half = 0.5001 * 10.0 ** (np.floor(np.log10(value)) - 2)
    return value - half, value + half


def say_ratio(x, line, m):
    """State that the score is zero within the digits of the ratio, and the information fits.

    Of a rounded ratio the attacker is told the step.
    """
    step = line.get("step", 0.0)
    low, high = rounded_range(float(line["ratio"]), step)

    def share(s, r):
        return s * r / (s * r + m + 1 - s)

    members = {s: [(1, s - 1)] * (s > 0) + [(0, s)] * (s <= m) for s in range(1, m + 1)}
    cases = [(1.0, (1, s - 1)) for s in range(1, m + 1)]
    for r, bounds in ((low, (0, np.inf)), (high, (-np.inf, 0))):
        expected = [(-share(s, r), cell) for s, own in members.items() for cell in own]
        x.say([*cases, *expected], *bounds)
    ends = [rounded_range(float(line[name]), step) for name in ("lower", "upper")]
    width = [max(np.log(ends[1][0] / ends[0][1]), 1e-6), np.log(ends[1][1] / ends[0][0])]
    most, least = ((2 * Z / w) ** 2 for w in width)
    spread = {s: sorted(share(s, r) * (1 - share(s, r)) for r in (low, high)) for s in members}
    for s, (small, _) in spread.items():  # The largest value may be within the range.
        if share(s, low) < 0.5 < share(s, high):
            spread[s] = [small, 0.25]
    for side, bounds in ((1, (least, np.inf)), (0, (-np.inf, most))):
        x.say([(spread[s][side], c) for s, own in members.items() for c in own], *bounds)


# -- nested case–control ---------------------------------------------------------------------------


def nested(rng):
    """A nested case–control of 20 to 100 cases with one to four controls each, and its sets."""
    m = int(rng.integers(1, 5))
    while True:
        cases = int(rng.integers(20, 100))
        people = pd.DataFrame({"id": range(400), "start": 0, "end": 2000})
        events = pd.DataFrame({"id": range(cases), "day": 500 + np.arange(cases)})
        has = rng.random(400) < rng.uniform(0.05, 0.5)
        has[:cases] |= rng.random(cases) < rng.uniform(0, 0.3)
        drugs = pd.DataFrame({"id": np.flatnonzero(has), "start": 300, "end": 1999})
        try:
            result = nested_case_control(events, drugs, people, controls_per_case=m)
        except (DataError, SeparationError):
            continue
        rows = result.sets.sort_values(["set", "case"])
        return result, rows["exposed"].to_numpy(int).reshape(-1, m + 1)


def attack_nested(result, exposed, rules):
    """Search for small numbers of sets by the exposure of the case and of the controls."""
    question = OmopCaseOnly(SOURCES, (1,), 3, "nested-case-control")
    release = CaseOnlyStudy(question, result, rules).release
    line = release["case_only_estimates"].iloc[0].to_dict()
    if "rounded" in line["note"]:
        line["step"] = _step(result.estimates.iloc[0], rules)
    sets = release["case_only_attrition"]["events"].iloc[-1]
    return attack_group(exposed, line, sets, rules, False)


# -- target trials -----------------------------------------------------------------------------


class Names:
    """Names of cohorts."""

    def name(self, cohort):
        return f"cohort {cohort}"


def person_periods(rng):
    """Person-time of 60 to 300 people in six periods, who may start treatment in any."""
    rows = []
    start, risk = rng.uniform(0.05, 0.3), rng.uniform(0.01, 0.12)
    for person in range(int(rng.integers(60, 300))):
        treated, begun = 0, False
        for period in range(6):
            eligible = not begun
            treated = int(begun or rng.random() < start)
            begun = bool(treated)
            ill = int(rng.random() < risk)
            lost = int(not ill and rng.random() < 0.1)
            rows.append((person, period, treated, ill, lost, int(eligible)))
            if ill or lost:
                break
    names = ["person_id", "period", "treated", "outcome", "censored", "eligible"]
    return pd.DataFrame(rows, columns=names)


def attack_trial(rng, rules):
    """Search for few people of an arm with the outcome, or whose follow-up ends in a period."""
    trial = OmopTrial(SOURCES, 1, 3, date(2010, 1, 1), date(2010, 6, 29))
    while True:
        table = person_periods(rng)
        try:
            result = fit_trial(table, trial, Names())
        except (DataError, SeparationError):
            continue
        break
    people = trial_people(table, trial)
    tables = released_trial(result, people, trial, rules)
    arms = tables["target_trial_people"].set_index("strategy")
    weights = tables["target_trial_weights"].set_index("time")
    last = int(people.at_risk["time"].max())
    x, exact, hidden = Unknowns(), {}, []
    for arm in arms.index:
        own = people.at_risk[people.at_risk["strategy"] == arm].set_index("time")["people"]
        terms = [(1, (arm, k)) for k in range(1, last + 1)]
        for k in range(1, last + 1):
            exact[arm, k] = int(own.get(k, 0) - own.get(k + 1, 0))
            x.add((arm, k), 0, 1000)
        exact[arm, "events"] = int(people.arms.set_index("strategy").loc[arm, "events"])
        cells = {name: cell_of(arms.loc[arm, name]) for name in arms.columns}
        x.say(terms, *cell_range(cells["people"], rules.least, rules.rounds))
        x.add((arm, "events"), *cell_range(cells["people_with_outcome"], rules.least, rules.rounds))
        x.say([*terms, (-1, (arm, "events"))], 0, np.inf)
        for k in weights.index:
            at = weights.loc[k, f"at_risk_{arm.replace(' ', '_')}"]
            x.say(terms[k - 1 :], *coarse_range(int(at), rules))
        hidden += [n for n in [(arm, k) for k in range(1, last + 1)] + [(arm, "events")]
                   if 0 < exact[n] < rules.least]  # fmt: skip
    return found(x, hidden, exact)


# -- scans -----------------------------------------------------------------------------------------

TREE = pd.DataFrame({"node": ["a", "b", "c", "x", "top"], "parent": ["x", "x", "top", "top", None]})
BELOW = {"a": "a", "b": "b", "c": "c", "x": "ab", "top": "abc"}


def attack_scan(rng, rules):
    """Search for small numbers of people of each arm with a condition in a scan of pairs."""
    pairs = int(rng.integers(15, 150))
    risks = rng.uniform(0, 0.3, (2, 3))
    has = [rng.random((pairs, 3)) < own for own in risks]
    person, column = np.nonzero(np.vstack(has))
    if not len(person):
        return Counter()
    records = pd.DataFrame(
        {"person": person, "node": np.array(list("abc"))[column],
         "exposed": (person < pairs).astype(int)}
    )  # fmt: skip
    scan = tree_scan_people(records, TREE, probability=0.5, replicates=9)
    table = released_cuts(scan, disclosure=rules).set_index("node")
    people = released_people(pd.DataFrame({"rule": ["matched"], "target": [pairs]}), rules)
    x, exact, hidden = Unknowns(), {}, []
    masks = range(8)
    for arm, own in enumerate(has):
        at = own @ np.array([1, 2, 4])
        for mask in masks:
            x.add((arm, mask), 0, 1000)
        low, high = coarse_range(int(people["target"].iloc[0].lstrip("<")), rules)
        x.say([(1, (arm, mask)) for mask in masks], low, high)
        for node, leaves in BELOW.items():
            bits = sum(1 << "abc".index(leaf) for leaf in leaves)
            inside = [mask for mask in masks if mask & bits]
            name = (arm, node)
            exact[name] = int(np.isin(at, inside).sum())
            x.add(name, 0, 1000)
            x.say([(1, name), *((-1, (arm, mask)) for mask in inside)], 0, 0)
            low, high, known = 0, ANY, False  # Few, none, or withheld.
            if node in table.index:
                cases, events = (int(table.loc[node, c]) for c in ("cases", "events"))
                cell = cases if arm == 0 else (events - cases if events >= 0 else -rules.least)
                low, high = coarse_range(cell, rules)
                known = cell >= 0
            x.say([(1, name)], low, high)
            if not known and 0 < exact[name] < rules.least:
                hidden.append(name)
    x.say([(1, (0, mask)) for mask in masks] + [(-1, (1, mask)) for mask in masks], 0, 0)
    return found(x, hidden, exact)
