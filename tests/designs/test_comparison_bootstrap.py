"""Bootstrap of whole comparisons: draws as replicates, seeds, and ratios that draws lack."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.designs.comparison_arguments import COVARIATES, NAMES, only

from steropes import compare_groups
from steropes.designs import EntropyBalancing, Matching, PropensityWeights
from steropes.designs.comparative.adjustments import adjust_groups
from steropes.designs.comparative.comparison_bootstrap import (
    copies,
    draws_of_people,
    resampled_weights,
)
from steropes.designs.comparative.comparison_input_table import people_to_compare
from steropes.designs.comparative.marginal_effects import marginal_effects, marginal_values
from steropes.designs.comparative.standardization import StandardizedModel, standardized_effects


def test_a_ratio_that_many_draws_lack_has_no_bootstrap_error():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.normal(size=60), "drug": np.arange(60) % 2})
    people["died"] = np.isin(np.arange(60), [0, 3, 5, 9, 21]) * 1
    found = compare_groups(
        people, treatment="drug", outcome="died", covariates=["age"], adjust="entropy", bootstrap=20
    )
    assert np.isnan(only(found, "unadjusted", "risk ratio")[1])
    assert np.isfinite(only(found, "unadjusted", "risk difference")[1])
    errors = found.effects.query("method == 'unadjusted'").set_index("measure")["errors"]
    assert errors["risk difference"] == "bootstrap of people, 20 draws"
    lacking = 20 - int(errors["risk ratio"].split(", ")[1].split(" of 20 draws")[0])
    assert lacking > 2
    assert errors["risk ratio"].endswith(f"(in {lacking} a group had no event)")


@pytest.mark.parametrize(
    ("way", "draws", "units"),
    [("matching", 60, "matched sets"), ("weights", 8, "people"), ("standardization", 8, "people")],
)
def test_a_bootstrap_of_the_whole_procedure(lalonde, way, draws, units):
    some = {**NAMES, "covariates": COVARIATES[:2] + COVARIATES[3:], "estimand": "ATT"}
    plain = compare_groups(lalonde, **some, adjust=way)
    found = compare_groups(lalonde, **some, adjust=way, bootstrap=draws)
    value, error = only(found, way, "mean difference")
    expected = only(plain, way, "mean difference")
    assert value == expected[0]
    assert expected[1] / 2 < error < expected[1] * 2
    own = found.effects.query("method == @way")
    assert own["errors"].unique().tolist() == [f"bootstrap of {units}, {draws} draws"]


STEPS = [
    PropensityWeights(estimand="ato"),
    PropensityWeights(trim=0.05, truncate=0.95, stabilized=True),
    EntropyBalancing(estimand="ate"),
    EntropyBalancing(estimand="att"),
    Matching(method="strata", exact=["married"]),
]


@pytest.mark.sampled
@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("outcome", ["number", "time"])
def test_draws_as_replicates_of_one_problem_are_those_of_single_fits(lalonde, step, outcome):
    rng = np.random.default_rng(1)
    people = lalonde.assign(
        time=np.ceil(rng.exponential(20, len(lalonde))), event=rng.integers(0, 3, len(lalonde))
    )
    parts = {"outcome": "re78"} if outcome == "number" else {"time": "time", "event": "event"}
    none = dict.fromkeys(["outcome", "time", "event", "entry", "target", "id", "cluster"])
    table = people_to_compare(
        people, treatment="treat", covariates=COVARIATES, missing="error", **{**none, **parts}
    )
    at = 15.0 if outcome == "time" else None
    fitted = adjust_groups(table, "way", clone(step))
    for drawn in resampled_weights(table, fitted, draws_of_people(table.n, 3, 0)):
        rows, weights = drawn
        own = table.take(rows)
        values = marginal_values(own.outcome, own.target == 1, weights, at, "efron", 0.0)
        alone = marginal_effects(own, adjust_groups(own, "way", clone(step)), at, "efron", 0.95)
        assert {key[0] for key in values} == {row.measure for row in alone}
        for row in alone:
            value = values[row.measure, row.scale]
            assert value == pytest.approx(row.value, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("interactions", [True, False])
@pytest.mark.parametrize("outcome", ["re78", "employed"])
def test_draws_of_an_outcome_model_are_those_of_single_fits(lalonde, outcome, interactions):
    people = lalonde.assign(employed=(lalonde.re78 > 0) * 1)
    none = dict.fromkeys(["time", "event", "entry", "target", "id", "cluster"])
    table = people_to_compare(
        people, treatment="treat", covariates=["age", "married", "re75"], missing="error",
        outcome=outcome, **none,
    )  # fmt: skip
    draws = draws_of_people(table.n, 3, 0)
    found = StandardizedModel(table, "att", interactions).values_of_draws(draws)
    for k, values in enumerate(found):
        own = table.take(copies(draws, k))
        alone = standardized_effects(own, "att", interactions, None, "efron", 0.95)
        assert len(values) == len(alone)
        for row in alone:
            assert values[row.measure, row.scale] == pytest.approx(row.value, rel=1e-3)


def test_bootstrap_draws_depend_on_the_seed_only(lalonde):
    some = {**NAMES, "covariates": ["age"], "bootstrap": 3}
    first, second, other = (
        compare_groups(lalonde, **some, random_state=seed).effects["se"].tolist()
        for seed in (1, 1, 2)
    )
    assert first == second != other
