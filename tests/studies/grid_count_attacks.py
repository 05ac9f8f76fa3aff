"""An attack on all released counts of a comparative grid by integer programming.

The attacker knows the rules, which people of an analysis are also those of another one, that pairs
are matched, and that everybody is at risk for the same number of days.
"""

import itertools

import numpy as np
import pandas as pd
from tests.studies.count_attacks import ANY, coarse_range, judged
from tests.studies.release_attacker import ARMS, Unknowns, cell_range

from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.release.grid_counts import released_counts
from steropes.studies.release.grid_effects import released_grid_effects

DAYS = 30
EXPOSURES = pd.DataFrame([{"target_comparator_id": 1, "target_id": 1, "comparator_id": 2}])
CRUDE, MATCHED, TRIMMED, BOTH = ANALYSES = (1, 2, 3, 4)
# The analyses whose people are among those of another one.
INSIDE = ((MATCHED, CRUDE), (TRIMMED, CRUDE), (BOTH, TRIMMED))
RULES_OF = {CRUDE: (), MATCHED: ("Matched",), TRIMMED: ("Trimmed",), BOTH: ("Trimmed", "Matched")}
COVARIATE = 9


def exact_grid(rng):
    """Exact tables of a grid of four analyses and one to three outcomes of 30 to 400 people."""
    people = {arm: int(rng.integers(15, 200)) for arm in ARMS}
    kept = {arm: rng.random(n) < rng.uniform(0.6, 1) for arm, n in people.items()}
    results, attrition, subgroups = [], [], []
    for outcome in range(1, int(rng.integers(2, 4))):
        rates = rng.uniform(0.02, 0.5, 2)
        had = {arm: rng.random(n) < rng.uniform(0, 0.1) for arm, n in people.items()}
        case = {a: rng.random(people[a]) < r for a, r in zip(ARMS, rates, strict=True)}
        level = {a: (rng.random(people[a]) < rng.uniform(0.05, 0.6)).astype(int) for a in ARMS}
        for analysis in ANALYSES:
            left = {arm: np.flatnonzero(~had[arm]) for arm in ARMS}
            steps = {arm: [people[arm], len(left[arm])] for arm in ARMS}
            for rule in RULES_OF[analysis]:
                if rule == "Trimmed":
                    left = {arm: of[kept[arm][of]] for arm, of in left.items()}
                else:  # Some find no partner.
                    pairs = int(rng.uniform(0.7, 1) * min(map(len, left.values())))
                    left = {arm: rng.permutation(of)[:pairs] for arm, of in left.items()}
                for arm in ARMS:
                    steps[arm].append(len(left[arm]))
            key = {"target_comparator_id": 1, "outcome_id": outcome, "analysis_id": analysis}
            line = dict(key)
            for arm in ARMS:
                cases = int(case[arm][left[arm]].sum())
                line |= _counted(arm, len(left[arm]), cases)
                names = ("Original", "No prior outcome", *RULES_OF[analysis])
                attrition += [
                    {**key, "exposure_id": 1 + ARMS.index(arm), "sequence_number": k,
                     "description": name, "subjects": n}
                    for k, (name, n) in enumerate(zip(names, steps[arm], strict=True))
                ]  # fmt: skip
            results.append({**line, **_effect(line)})
            for number in (0, 1):
                own = dict(key) | {"interaction_covariate_id": COVARIATE, "level": number}
                for arm in ARMS:
                    inside = left[arm][level[arm][left[arm]] == number]
                    own |= _counted(arm, len(inside), int(case[arm][inside].sum()))
                subgroups.append({**own, **_effect(own)})
    return {
        "cm_result": pd.DataFrame(results), "cm_attrition": pd.DataFrame(attrition),
        "subgroup": pd.DataFrame(subgroups),
    }  # fmt: skip


def _counted(arm, people, cases):
    return {f"{arm}_subjects": people, f"{arm}_outcomes": cases, f"{arm}_days": DAYS * people,
            f"{arm}_informative": cases}  # fmt: skip


def _effect(line):
    cases = [max(line[f"{arm}_outcomes"], 0.5) for arm in ARMS]
    se, log = float(sum(1 / n for n in cases) ** 0.5), float(np.log(cases[0] / cases[1]))
    ends = np.exp([log, log - 1.96 * se, log + 1.96 * se])
    return {"rr": ends[0], "ci_95_lb": ends[1], "ci_95_ub": ends[2], "p": 0.5, "one_sided_p": 0.5,
            "log_rr": log, "se_log_rr": se, "llr": 0.1}  # fmt: skip


def released_grid(exact, rules, _):
    """Release counts of results, attrition and subgroups."""
    counts = released_counts(
        exact["cm_result"], exact["cm_attrition"], EXPOSURES, [MATCHED, BOTH, TRIMMED, CRUDE], rules
    )
    empty = pd.DataFrame(columns=["target_comparator_id", "outcome_id", "analysis_id"])
    names = ("cm_interaction_result", "effect_by_period", "cm_likelihood_profile",
             "absolute_effect", "note")  # fmt: skip
    effects = released_grid_effects({**dict.fromkeys(names, empty), **exact}, counts, rules)
    return {"cm_result": counts.results, "cm_attrition": counts.attrition,
            "subgroup": effects.subgroups}  # fmt: skip


def count_range(cell, rules, near=True):
    """The exact counts of a cell of a grid; a bound is near a released count if ``near``."""
    if cell != cell:
        return 0, ANY
    low, high = cell_range(cell, rules.least, rules.rounds)
    if rules.rounds:
        return coarse_range(cell, rules)
    return max(low, high - rules.least + 2) if cell < 0 and near else low, high


def attack_grid(released, exact, rules):
    """Search for hidden numbers of people and outcomes of all analyses together."""
    x, hidden, truth = Unknowns(), [], {}
    x.same, x.included = set(), []

    def add(name, cell, n, near=True):
        low, high = count_range(cell, rules, near and cell not in before)
        assert low <= n <= high, (name, cell, n)
        x.add(name, low, high)
        truth[name] = int(n)
        if not cell >= 0 and n:
            hidden.append(name)

    # Where the drop of a rule is hidden, the limit is the number of people before the rule.
    left = released["cm_attrition"]
    of = ["outcome_id", "analysis_id", "exposure_id"]
    last = left["sequence_number"] == left.groupby(of)["sequence_number"].transform("max")
    before = {-abs(int(n)) for n in left.loc[~last, "subjects"]}
    result, own = released["cm_result"], exact["cm_result"]
    levels, own_levels = released["subgroup"], exact["subgroup"]
    at = {(o, a): i for i, (o, a) in enumerate(own[["outcome_id", "analysis_id"]].to_numpy())}
    for (outcome, analysis), i in at.items():
        for arm in ARMS:
            for what in ("subjects", "outcomes"):
                column = f"{arm}_{what}"
                whole = (outcome, analysis, column)
                add(whole, result[column].iloc[i], own[column].iloc[i], what == "subjects")
                parts = [(*whole, level) for level in (0, 1)]
                for level, part in enumerate(parts):
                    k = 2 * i + level
                    add(part, levels[column].iloc[k], own_levels[column].iloc[k], False)
                x.say([(1, whole), *((-1, part) for part in parts)], 0, 0)
            for place in (whole[:2], *((*whole[:2], level) for level in (0, 1))):
                names = [(*place[:2], f"{arm}_{what}", *place[2:]) for what in
                         ("subjects", "outcomes")]  # fmt: skip
                x.say([(1, names[0]), (-1, names[1])], 0, np.inf)
            days, n = result[f"{arm}_days"].iloc[i], result[f"{arm}_subjects"].iloc[i]
            if days > 0 and n > 0:
                slack = np.exp(0.51 * log_unit(int(n), rules.least)) * 1.02 if rules.rounds else 1
                ends = days / DAYS * (1 / slack), days / DAYS * slack
                wide = n / rules.least if rules.rounds else 0  # People are rounded, too.
                x.say([(1, (outcome, analysis, f"{arm}_subjects"))], ends[0] - wide - 6,
                      ends[1] + wide + 6)  # fmt: skip
        if "Matched" in RULES_OF[analysis]:
            x.say([(1, (outcome, analysis, f"{ARMS[0]}_subjects")),
                   (-1, (outcome, analysis, f"{ARMS[1]}_subjects"))], 0, 0)  # fmt: skip
        for inner, outer in INSIDE:
            if analysis == outer:
                _inside(x, (outcome, inner), (outcome, outer))
    _attrition(x, add, released["cm_attrition"], exact["cm_attrition"])
    for people, cases in x.included:
        numbers = {x.known(name) for name in people}
        if len(numbers) == 1 and numbers != {None} and {x.known(name) for name in cases} != {None}:
            x.same |= {*cases}  # The outcomes of the same people are released in another analysis.
    hidden = [name for name in hidden if name not in x.same]  # Each number once.
    for terms, low, high in x.rows:
        value = sum(factor * truth[name] for factor, name in terms)
        assert low - 1e-6 <= value <= high + 1e-6, (terms, low, value, high)
    return judged(x, hidden, truth)


def _inside(x, inner, outer):
    """State that the people of an analysis are some of those of another one."""
    for arm, level in itertools.product(ARMS, ((), (0,), (1,))):
        people, cases = (
            [(1, (*outer, f"{arm}_{what}", *level)), (-1, (*inner, f"{arm}_{what}", *level))]
            for what in ("subjects", "outcomes")
        )
        x.say(people, 0, np.inf)
        x.say(cases, 0, np.inf)
        x.say([*people, *((-f, n) for f, n in cases)], 0, np.inf)
        x.included.append(([name for _, name in people], [name for _, name in cases]))


def _attrition(x, add, shown, own):
    """Add the people after each rule, which are the same where earlier rules are."""
    seen = {}
    for i, line in enumerate(own.to_dict("records")):
        outcome, analysis = line["outcome_id"], line["analysis_id"]
        exposure, number = line["exposure_id"], line["sequence_number"]
        name = ("left", outcome, analysis, exposure, number)
        add(name, shown["subjects"].iloc[i], line["subjects"])
        earlier = (exposure, outcome if number else 0, (*RULES_OF[analysis],)[: max(number - 1, 0)]
                   if line["description"] != "Matched" else analysis, number)  # fmt: skip
        if earlier in seen:
            x.say([(1, name), (-1, seen[earlier])], 0, 0)
            x.same.add(name)
        seen[earlier] = name
        if number:
            x.say([(1, (*name[:4], number - 1)), (-1, name)], 0, np.inf)
        if number == len(RULES_OF[analysis]) + 1:
            arm = ARMS[exposure - 1]
            x.same.add(name)
            x.say([(1, name), (-1, (outcome, analysis, f"{arm}_subjects"))], 0, 0)
