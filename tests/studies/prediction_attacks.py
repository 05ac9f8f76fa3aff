"""Attacks on all released counts of a prediction model or validation by integer programming.

The attacker knows the design, the rules, and which numbers of people add up to which others, also
between tables.
"""

import copy
import itertools
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from tests.studies.count_attacks import ANY, coarse_range, judged
from tests.studies.release_attacker import Unknowns
from tests.studies.strategus.small_modules import PREDICTION_DESIGN

from steropes.designs.prediction_measures.prediction_calibration import recalibrated
from steropes.designs.prediction_measures.prediction_performance import GENDERS, age_group
from steropes.studies.prediction.model_validation import ValidationResult
from steropes.studies.prediction.prediction_models import PredictionResult
from steropes.studies.prediction.prediction_population import TEST as TESTED
from steropes.studies.prediction.prediction_population import Population, divided
from steropes.studies.prediction.unsuppressed_prediction_performance import performance_tables
from steropes.studies.release.prediction_people import rules_of_entries
from steropes.studies.release.prediction_release import released_result
from steropes.studies.strategus_plans.prediction_plan import prediction_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts
from steropes.studies.strategus_plans.validation_plan import IN_THE_LARGE, WEAK, ValidationDesign

COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3)))
WITH = {"all": "", "cases": "with_outcome_", "others": "with_no_outcome_"}


@cache
def design(test):
    """A design with a share of people whom the model is tested in, and two folds."""
    values = copy.deepcopy(PREDICTION_DESIGN)
    values["splitSettings"] |= {"test": test, "train": 1 - test, "nfold": 2}
    return prediction_plan({"modelDesignList": [values]}, ("settings",), COHORTS).designs[0]


def fitted(score, outcome, training):
    """Risks with such log odds but for an intercept, which sum to the outcomes in training data."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        risk = 1 / (1 + np.exp(-score - middle))
        fewer = risk[training].sum() < outcome[training].sum()
        low, high = (middle, high) if fewer else (low, middle)
    return risk


def random_prediction(rng):
    """Exact results of a model of 60 to 500 people with ages, sexes and a condition."""
    made = design(float(rng.choice([0.0, 0.25, 0.5])))
    population, score, columns = random_people(rng)
    outcome = population.outcome
    group = divided(outcome, made.split)
    training, tested = np.flatnonzero(group > 0), np.flatnonzero(group == TESTED)
    risk = fitted(score, outcome, training)
    parts = {"Train": (training, risk[training]), "CV": (training, risk[training])}
    if len(tested):
        parts["Test"] = (tested, risk[tested])
    none = pd.Series(dtype=float)
    return PredictionResult(
        most_entries=1, attrition=population.attrition,
        covariates=summary(columns, outcome), **performance_tables(parts, population),
        design=made, variance=0.1, intercept=-2.0, converged=True, coefficients=none, scales=none,
    )  # fmt: skip


def random_people(rng):
    """People with an outcome, a score of their risk, and 0/1 covariates by number."""
    n = int(rng.integers(60, 500))
    cases = int(np.clip(rng.binomial(n, rng.uniform(0.1, 0.6)), 22, n - 22))
    groups = int(rng.integers(2, 5))
    age = 40 + 5 * rng.choice(groups, n, p=rng.dirichlet(rng.uniform(0.4, 3, groups)))
    gender = rng.choice([*GENDERS], n, p=(share := rng.uniform(0.05, 0.95), 1 - share))
    condition = rng.random(n) < rng.uniform(0.02, 0.5)
    score = 0.1 * (age - 40) + condition + rng.normal(size=n)
    outcome = np.zeros(n, int)
    outcome[np.argsort(score + rng.gumbel(size=n))[n - cases :]] = 1
    people = pd.DataFrame({"person_id": np.arange(n), "age": age, "gender_id": gender})
    steps = []
    for left in (n + int(rng.integers(0, 30)), n):
        steps.append({"description": "", "target_count": left, "unique_people": left,
                      "outcomes": cases, "outcome_people": cases})  # fmt: skip
    columns = {1000 * k + 3: age == 5 * k for k in range(8, 8 + groups)}
    columns |= {g * 1000 + 1: gender == g for g in GENDERS} | {7210: condition}
    return Population(people, outcome, pd.DataFrame(steps)), score, columns


def random_validation(rng):
    """Exact results of one or two models of other people, as they are and recalibrated."""
    population, score, columns = random_people(rng)
    outcome, everybody = population.outcome, np.arange(len(population.outcome))
    parts, backwards = {}, []
    for k in range(1, int(rng.integers(2, 4))):
        scale, noise = rng.uniform(0.4, 2.0), rng.normal(size=len(score)) * rng.uniform(0, 1)
        odds = rng.normal(-1, 1) + scale * (score + noise)
        risk = expit(odds)
        parts[f"{k}|Validation"] = everybody, risk
        moved = odds + logit(outcome.mean()) - logit(risk.mean())
        parts[f"{k}|{IN_THE_LARGE}"] = everybody, expit(moved)
        _, (intercept, gradient) = recalibrated(risk, outcome)
        if gradient > 0:
            parts[f"{k}|{WEAK}"] = everybody, expit(intercept + gradient * odds)
        else:
            backwards.append(k)
    made = ValidationDesign(1, 1, 2, None, None, (), (IN_THE_LARGE, WEAK), True, ())
    return ValidationResult(
        most_entries=1, attrition=population.attrition, covariates=summary(columns, outcome),
        **performance_tables(parts, population), design=made, reversed=tuple(backwards),
    )  # fmt: skip


def summary(columns, outcome):
    """Summarise 0/1 covariates of people with and without the outcome."""
    rows = []
    for number, has in columns.items():
        row = {"covariate_id": number, "covariate_name": "", "binary": True,
               "covariate_value": 0.1}  # fmt: skip
        for kind, own in (("all", outcome >= 0), ("cases", outcome == 1), ("others", outcome == 0)):
            name = WITH[kind]
            row |= {f"{name}covariate_count": int(has[own].sum()), f"{name}people": int(own.sum()),
                    f"{name}covariate_mean": has[own].mean(),
                    f"{name}covariate_st_dev": has[own].std()}  # fmt: skip
        if row["covariate_count"]:
            rows.append(row)
    return pd.DataFrame(rows)


def evaluations_of(exact):
    """The parts of the people, each with the further evaluations of the same people and order.

    Parts of a prediction model make up all people, and those of a validation are all people.
    """
    names = [*dict.fromkeys(exact.statistics["evaluation"])]
    if "Train" in names:
        return {name: [] for name in ("Train", "Test") if name in names}
    return {
        name: [other for other in names if other != name and exact.order_of(other) == name]
        for name in names
        if exact.order_of(name) == name
    }


class _Counts:
    """All counts of a model as unknown numbers."""

    def __init__(self, rules):
        self.rules, self.x, self.hidden, self.truth = rules, Unknowns(), [], {}

    def add(self, name, cell, exact, fewest=0):
        """Add a released cell, or one of which nothing is known (NaN)."""
        low, high = coarse_range(cell, self.rules)
        self.x.add(name, max(low, fewest), high)
        self.truth[name] = int(exact)
        if not cell >= 0 and exact:
            self.hidden.append(name)

    def again(self, name, cell):
        """Add another released cell of the same number."""
        low, high = coarse_range(cell, self.rules)
        self.x.say([(1, name)], low, high)

    def total(self, whole, parts):
        """State that parts add up to a total."""
        self.x.say([(1, whole), *((-1, part) for part in parts)], 0, 0)

    def fewer(self, part, whole):
        """State that some are part of others."""
        self.x.say([(1, whole), (-1, part)], 0, np.inf)

    def judged(self):
        """Count suppressed and recovered cells."""
        for terms, low, high in self.x.rows:  # The attacker says nothing that is not true.
            names = [name for _, name in terms]
            if all(name in self.truth for name in names):
                value = sum(factor * self.truth[name] for factor, name in terms)
                assert low - 1e-6 <= value <= high + 1e-6, (terms, low, value, high)
        return judged(self.x, self.hidden, self.truth)


def released_prediction(exact, rules, _):
    """Release a model."""
    return released_result(exact, rules)


def attack_prediction(released, exact, rules):
    """Search for suppressed numbers of people with and without the outcome of one model."""
    rules = rules_of_entries(exact, rules)
    of = _Counts(rules)
    own, shown = exact.attrition, released["plp_attrition"]
    for i in range(len(own)):
        of.add(("people", i), shown["target_count"].iloc[i], own["target_count"].iloc[i])
        of.add(("cases", i), shown["outcomes"].iloc[i], own["outcomes"].iloc[i])
        of.fewer(("cases", i), ("people", i))
    of.fewer(("people", 1), ("people", 0))
    last = {kind: (kind, len(own) - 1) for kind in ("people", "cases")}
    parts = evaluations_of(exact)
    # Those that make up everybody.
    wholes = [[*parts]] if "Train" in parts else [[name] for name in parts]
    for name, again in parts.items():
        _add_part(of, name, last, released, exact)
        _add_demographics(of, name, [*again, *(["CV"] if name == "Train" else [])], released, exact)
        _add_calibration(of, name, again, released, exact)
        for evaluation in (name, *again):
            _add_thresholds(of, name, evaluation, released, exact)
    for kind, whole in last.items():
        for names in wholes:
            of.total(whole, [(kind, name) for name in names])
    _add_covariates(of, last, wholes, released, exact)
    return of.judged()


def _add_part(of, name, last, released, exact):
    """Add the sizes of a random part, which follow from those of all people and its share."""
    share = exact.evaluated.split.test
    value = exact.statistics.set_index(["evaluation", "metric"])["value"][name]
    shown = released["plp_evaluation_statistics"].set_index(["evaluation", "metric"])["value"]
    few = shown[name, "outcomeCount"] < 0
    cases = shown[name, "outcomeCount"] if few else np.nan  # Others follow from all people.
    of.add(("people", name), np.nan, value["populationSize"])
    of.add(("cases", name), cases, value["outcomeCount"])
    of.hidden.remove(("people", name))
    if not few:
        of.hidden.remove(("cases", name))
    if name == "Test":
        cases, others = [(1, last["cases"])], [(1, last["people"]), (-1, last["cases"])]
        tested = [(1, ("cases", name))], [(1, ("people", name)), (-1, ("cases", name))]
        for whole, part in zip((cases, others), tested, strict=True):
            of.x.say([*((share * f, n) for f, n in whole), *((-f, n) for f, n in part)], -1e-6, 1)


def _rows(table, name):
    return table[table["evaluation"] == name]


def _add_demographics(of, name, again, released, exact):
    """Add ages and sexes of a part, of which everybody has one."""
    keys = ["age_group", "gen_group"]
    shown = _rows(released["plp_demographic_summary"], name).set_index(keys)
    own = _rows(exact.demographics, name).set_index(keys)
    assert {*shown.index} <= {*own.index}
    names = {"people": "person_count_at_risk", "cases": "person_count_with_outcome"}
    for kind, column in names.items():
        for key, n in own[column].items():
            there = key in shown.index
            cell = shown.at[key, column] if there else np.nan
            of.add((kind, name, key), cell, n, int(there and kind == "people"))
            if not there:
                of.x.say([(1, (kind, name, key))], 0, of.rules.least - 1)
            if kind == "cases":
                of.fewer((kind, name, key), ("people", name, key))
        of.total((kind, name), [(kind, name, key) for key in own.index])
    for evaluation in again:
        table = _rows(released["plp_demographic_summary"], evaluation).set_index(keys)
        for kind, column in names.items():
            for key in shown.index:
                of.again((kind, name, key), table.at[key, column])
    for evaluation in (name, *again):
        if evaluation == "Train" or evaluation.endswith(WEAK):
            table = _rows(released["plp_demographic_summary"], evaluation).set_index(keys)
            _add_mean_risks(of, name, table, own)


def _add_mean_risks(of, name, shown, own):
    """State that risks of groups sum to the number with the outcome, as those of regressions do."""
    terms, slack = [(-1, ("cases", name))], []
    unit = 0.5 * max(of.rules.least / max(own["person_count_at_risk"].sum(), 1), 0.002) * 2.5
    for key in own.index:
        person = ("people", name, key)
        mean = shown["average_predicted_probability"].get(key, np.nan)
        if mean == mean:
            terms.append((mean, person))
            slack.append((unit, person))
        else:
            slack.append((1, person))
    # The released risks are shifted to the released number, which is near the exact one.
    near = of.rules.least
    of.x.say([*terms, *slack], -near, np.inf)


def _add_calibration(of, name, again, released, exact):
    """Add tenths of the people by risk, and who of them has the outcome."""
    shown = _rows(released["plp_calibration_summary"], name)
    own = _rows(exact.calibration, name)
    assert len(shown) == len(own)
    columns = ("person_count_at_risk", "person_count_with_outcome")
    for i, (people, cases) in enumerate(own[[*columns]].itertuples(index=False)):
        at = (name, "tenth", i)
        of.add(("people", *at), np.nan, people)
        of.hidden.remove(("people", *at))
        of.x.say([(1, ("people", *at)), (-0.1, ("people", name))], -2, 2)
        of.add(("cases", *at), shown[columns[1]].iloc[i], cases)
        of.fewer(("cases", *at), ("people", *at))
        for evaluation in again:
            table = _rows(released["plp_calibration_summary"], evaluation)
            if len(table) == len(own):
                of.again(("cases", *at), table[columns[1]].iloc[i])
    for kind in ("people", "cases"):
        of.total((kind, name), [(kind, name, "tenth", i) for i in range(len(own))])


def _add_thresholds(of, name, evaluation, released, exact):
    """Add classifications, which are sums over the tenths above or below a threshold."""
    table = _rows(released["plp_threshold_summary"], evaluation)
    strata = _rows(released["plp_calibration_summary"], evaluation)
    starts = strata["prediction_threshold"].to_numpy()
    own = _rows(exact.thresholds, evaluation)
    for i, line in enumerate(table.to_dict("records")):
        place = (evaluation, "from", i)
        for kind, column in (("cases", "true_positive_count"), ("others", "false_positive_count")):
            low, high = coarse_range(line[column], of.rules)
            # The released number is at most that of all.
            of.x.add((kind, *place), low, high if line[column] < line[
                "true_count" if kind == "cases" else "false_count"] else ANY)  # fmt: skip
        inside = [k for k, start in enumerate(starts) if start >= line["prediction_threshold"]]
        around = [k for k, start in enumerate(np.append(starts[1:], 1)) if
                  start >= line["prediction_threshold"] * 0.999]  # fmt: skip
        for tenths, sign in ((inside[1:], 1), (around, -1)):
            sums = [(-sign, ("cases", name, "tenth", k)) for k in tenths]
            of.x.say([(sign, ("cases", *place)), *sums], 0, np.inf)
            sums = [(-f, n) for f, n in sums] + [
                (-sign, ("people", name, "tenth", k)) for k in tenths
            ]
            of.x.say([(sign, ("others", *place)), *sums], 0, np.inf)
        of.fewer(("cases", *place), ("cases", name))
    assert len(table) <= len(own)


def _add_covariates(of, last, wholes, released, exact):
    """Add covariates of people with and without the outcome, some of which exclude each other."""
    shown = released["plp_covariate_summary"].set_index("covariate_id")
    own = exact.covariates.set_index("covariate_id")
    for number in own.index:
        for kind, name in WITH.items():
            column = f"{name}covariate_count"
            of.add((kind, number), shown.at[number, column], own.at[number, column],
                   int(kind == "all"))  # fmt: skip
        of.total(("all", number), [("cases", number), ("others", number)])
        of.fewer(("all", number), last["people"])
        of.fewer(("cases", number), last["cases"])
    names = {"all": "people", "cases": "cases"}
    for analysis in (1, 3):
        levels = [number for number in own.index if number % 1000 == analysis]
        for kind, whole in names.items():
            of.total(last[whole], [(kind, number) for number in levels])
        for number in levels:
            at = number // 1000
            same = GENDERS[at] if analysis == 1 else age_group(5 * at)
            for (kind, whole), parts in itertools.product(names.items(), wholes):
                groups = [n for n in of.truth if n[0] == whole and len(n) == 3
                          and n[1] in parts and same in n[2]]  # fmt: skip
                of.total((kind, number), groups)
