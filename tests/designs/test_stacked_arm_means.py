"""Means of both treatments with errors that include the estimation of all models."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, Laplace, LogisticRegression, PoissonRegression, compare_groups
from steropes.designs import DoublyRobust, PropensityWeights

LASSO = LogisticRegression(prior=Laplace())


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    treatment = (rng.random(120) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    count = rng.poisson(np.exp(0.3 * X[:, 1] + 0.5 * treatment)).astype(float)
    return X, treatment, {"count": count, "any": (count > 0) * 1.0, "number": count + X[:, 0]}


@pytest.mark.sampled
@pytest.mark.parametrize("method", ["aipw", "ipwra"])
@pytest.mark.parametrize(
    ("outcome", "estimand", "model"),
    [("number", "ate", None), ("any", "att", None), ("count", "atc", PoissonRegression())],
)
def test_influences_are_derivatives_in_the_weights_of_people(
    drawn, method, outcome, estimand, model
):
    X, treatment, y = drawn

    def fitted(w):
        settings = {"method": method, "estimand": estimand, "outcome_model": model}
        unfitted = DoublyRobust(folds=1, errors="stacked", **settings)
        return unfitted.fit(X, treatment, y[outcome], sample_weight=w)

    found = fitted(np.ones(120)).influence_["outcome"].to_numpy()
    for person in (0, 17, 60):
        both = []
        for step in (1e-4, -1e-4):
            w = np.ones(120)
            w[person] = np.exp(step)
            both.append(fitted(w).effects_["estimate"].iloc[0])
        assert found[person] == pytest.approx((both[0] - both[1]) / 2e-4, abs=1e-7)


def test_regression_with_weights_is_a_method_of_comparisons(drawn):
    X, treatment, y = drawn
    people = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "drug": treatment, "any": y["any"]})
    found = compare_groups(
        people, treatment="drug", outcome="any", covariates=["a", "b"],
        adjust=["ipwra", DoublyRobust(method="aipw", folds=1, errors="stacked")],
    )  # fmt: skip
    rows = found.effects.query("measure == 'odds ratio'").set_index("method")
    assert rows.loc["ipwra", "errors"] == rows.loc["aipw", "errors"]
    w = PropensityWeights().fit(X, treatment).weights_
    means = []
    for arm in (1, 0):
        model = LogisticRegression().fit(X, y["any"], sample_weight=w * (treatment == arm))
        means.append(model.predict_proba(X)[:, 1].mean())
    assert rows.loc["ipwra", ["target", "comparator"]].tolist() == pytest.approx(means, rel=1e-7)
    assert found.diagnostics["method"].isin(["ipwra"]).any()


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"method": "ipwra"}, {}, "errors='stacked' and folds=1"),
        ({"method": "tmle", "errors": "stacked"}, {}, "method='aipw' or 'ipwra' with folds=1"),
        ({"errors": "sandwich"}, {}, "'influence' or 'stacked'"),
        ({"folds": 1, "errors": "stacked", "bound": 0.1}, {}, "has no 'bound'"),
        ({"folds": 1, "errors": "stacked"}, {"score": np.full(120, 0.5)}, "has no 'score'"),
        ({"folds": 1, "errors": "stacked", "treatment_model": LASSO}, {}, "the model has a prior"),
        ({"folds": 1, "errors": "stacked", "outcome_model": LASSO}, {}, "without a prior"),
        ({"folds": 1, "errors": "stacked"}, {"weight_model": PropensityWeights()}, "be fitted"),
    ],
)  # fmt: skip
def test_stacked_errors_refuse_what_they_do_not_include(drawn, settings, given, message):
    X, treatment, y = drawn
    with pytest.raises(DataError, match=message):
        DoublyRobust(**{"method": "aipw", **settings}).fit(X, treatment, y["any"], **given)


def test_weights_of_other_people_or_populations_are_refused(drawn):
    X, treatment, y = drawn
    model = DoublyRobust(method="aipw", folds=1, errors="stacked")
    for weights, message in (
        (PropensityWeights(estimand="att").fit(X, treatment), "give both the same"),
        (PropensityWeights(truncate=0.9).fit(X, treatment), "no trim, truncate"),
        (PropensityWeights().fit(X[:100], treatment[:100]), "100 people and X 120"),
    ):
        with pytest.raises(DataError, match=message):
            model.fit(X, treatment, y["any"], weight_model=weights)
    missing = np.where(np.arange(120) == 5, np.nan, y["number"])
    with pytest.raises(DataError, match="missing in 1 rows, first in row 5"):
        model.fit(X, treatment, missing)
    with pytest.raises(DataError, match="bound"):
        model.fit(X, treatment, y["number"]).truncation()
