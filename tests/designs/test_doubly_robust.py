"""Doubly robust estimates: definitions, cross-fitting, clusters, many outcomes and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression as SkLinear
from sklearn.linear_model import LogisticRegression as SkLogistic

import steropes
from steropes.designs import DoublyRobust, OutcomeAdaptiveLasso, balance_table
from steropes.designs.comparative.doubly_robust_effect_table import median_rule
from steropes.models.repeated_fits.cross_fitting import cross_fit

N = 500
rng = np.random.default_rng(8)
X = rng.standard_normal((N, 3))
E = 1 / (1 + np.exp(-0.7 * X[:, 0]))
A = (rng.random(N) < E).astype(int)
Y = A + X[:, 0] + rng.standard_normal(N)
B = (rng.random(N) < 1 / (1 + np.exp(1 - 0.5 * A - X[:, 0]))).astype(float)
COUNT = rng.poisson(np.exp(0.3 * A + 0.3 * X[:, 0])).astype(float)
M = np.column_stack([1 + X[:, 0], X[:, 0]])
PARTS = {"ate": (1.0, np.ones(N)), "att": (E, A), "atu": (1 - E, 1 - A)}


def estimate(found, measure="mean difference"):
    row = found.effects_.query("measure == @measure").iloc[0]
    return row["estimate"], row["se"]


@pytest.mark.parametrize("estimand", ["ate", "att", "atu"])
def test_augmented_means_are_those_of_the_formula(estimand):
    q, inside = PARTS[estimand]
    D = (
        q * (A / E * (Y - M[:, 0]) - (1 - A) / (1 - E) * (Y - M[:, 1]))
        + inside * (M[:, 0] - M[:, 1])
    ) / inside.mean()
    found = DoublyRobust(method="aipw", estimand=estimand, bound=0)
    found.fit(X, A, Y, score=E, means=M)
    value, se = estimate(found)
    assert value == pytest.approx(D.mean())
    own = (D - inside / inside.mean() * value) / N
    np.testing.assert_allclose(found.influence_["outcome"], own, atol=1e-12)
    assert se == pytest.approx(np.sqrt((own**2).sum()))


@pytest.mark.parametrize("estimand", ["ate", "att", "atu"])
@pytest.mark.parametrize("targeting", ["covariate", "weight"])
@pytest.mark.parametrize("y", [Y, B, COUNT], ids=["continuous", "binary", "count"])
def test_targeting_makes_the_mean_influence_zero(estimand, targeting, y):
    m = np.column_stack([np.full(N, y.mean())] * 2)
    found = DoublyRobust(estimand=estimand, targeting=targeting, bound=0)
    found.fit(X, A, y, score=E, means=m)
    influence = found.influence_["outcome"]
    assert abs(influence.sum()) < 1e-7 * np.abs(influence).sum()
    row = found.effects_.iloc[0]
    assert y.min() <= min(row["target"], row["comparator"])
    assert max(row["target"], row["comparator"]) <= y.max()


def test_scores_may_be_those_of_a_probit_model():
    """Cross-fitted as models of other packages are, and equal to those by hand."""
    fold = np.arange(N) % 2
    probit = steropes.CumulativeProbabilityModel(link="probit")
    found = DoublyRobust(treatment_model=probit, outcome_model=probit).fit(X, A, B, fold=fold)
    for k in (0, 1):
        own = clone(probit).fit(X[fold != k], A[fold != k]).predict(X[fold == k])
        np.testing.assert_allclose(found.score_[fold == k], own, atol=1e-7)
    with pytest.raises(steropes.DataError, match="not CoxRegression"):
        DoublyRobust(outcome_model=steropes.CoxRegression()).fit(X, A, B)


def test_a_score_of_zero_needs_a_bound():
    score = np.where(np.arange(N) == 7, 0.0, E)
    with pytest.raises(steropes.DataError, match=r"Row 7 .* set bound above 0"):
        DoublyRobust(method="aipw", bound=0).fit(X, A, Y, score=score, means=M)
    DoublyRobust(method="aipw").fit(X, A, Y, score=score, means=M)


def test_outcomes_are_a_table_of_any_library():
    given = {"score": E, "means": {"a": M, "b": M}}
    tables = pd.DataFrame({"a": Y, "b": B}), pl.DataFrame({"a": Y, "b": B})
    first, second = (DoublyRobust().fit(X, A, y, **given).effects_ for y in tables)
    pd.testing.assert_frame_equal(first, second)


def test_ratios_are_those_of_the_outcome():
    measures = {
        name: list(DoublyRobust(folds=2).fit(X, A, y).effects_["measure"])
        for name, y in (("binary", B), ("count", COUNT), ("number", Y))
    }
    assert measures == {
        "binary": ["risk difference", "risk ratio", "odds ratio"],
        "count": ["mean difference", "mean ratio"],
        "number": ["mean difference"],
    }


@pytest.mark.parametrize(
    "model",
    [
        steropes.LinearRegression(),
        steropes.LinearRegression(prior=steropes.Laplace(0.01)),
        steropes.PoissonRegression(prior=steropes.Normal(1.0)),
        steropes.LogisticRegression(prior=steropes.Laplace(0.2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_batch_of_folds_equals_single_fits(model):
    logistic = isinstance(model, steropes.LogisticRegression)
    y = B if logistic else COUNT
    part, fold = A == 1, np.column_stack([np.arange(N) % 3, np.arange(N) // 7 % 4])
    found = cross_fit(model, X, y, part, fold, "model")
    for r in range(2):
        for f in range(fold[:, r].max() + 1):
            held = fold[:, r] == f
            own = clone(model).fit(X[part & ~held], y[part & ~held])
            expected = own.predict_proba(X[held])[:, 1] if logistic else own.predict(X[held])
            np.testing.assert_allclose(found.means[held, r], expected, rtol=2e-6, atol=2e-6)


def test_tables_matrices_and_other_libraries_agree():
    fold = np.arange(N) % 2
    found = [
        estimate(DoublyRobust(treatment_model=e, outcome_model=m).fit(x, A, Y, fold=fold))
        for x, e, m in (
            (X, None, None),
            (pd.DataFrame(X, columns=list("abc")), None, None),
            (sparse.csr_array(X), None, None),
            (X, SkLogistic(C=np.inf, tol=1e-10, max_iter=1000), SkLinear()),
        )
    ]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-5)


def test_medians_over_repeats_follow_the_rule():
    assert median_rule([(1.0, 0.1), (2.0, 0.2), (4.0, 0.3)]) == (2.0, pytest.approx(np.sqrt(1.01)))
    found = DoublyRobust(repeats=3, folds=2).fit(X, A, Y)
    singles = []
    for r in range(3):
        fold = np.array([x.score for x in found._repeats[""].nuisances])[r]
        singles.append(
            estimate(DoublyRobust().fit(
                X, A, Y, score=fold, means=found._repeats[""].nuisances[r].means
            ))
        )  # fmt: skip
    assert estimate(found) == pytest.approx(median_rule(singles))


def test_folds_are_even_and_keep_clusters_whole():
    family = np.arange(N) // 2
    found = DoublyRobust(folds=4, method="aipw").fit(X, A, Y, clusters=family)
    again = DoublyRobust(folds=4, method="aipw").fit(X, A, Y, clusters=family)
    assert estimate(found) == estimate(again)
    summed = found.influence_["outcome"].groupby(family).sum()
    factor = len(summed) / (len(summed) - 1)
    assert estimate(found)[1] == pytest.approx(np.sqrt((summed**2).sum() * factor))
    assert found.effects_["errors"].iloc[0] == "influence function, cross-fitted, clustered"


def test_outcomes_share_folds_and_have_joint_intervals():
    outcomes = pd.DataFrame({"gain": Y, "ill": B, "visits": COUNT})
    found = DoublyRobust(folds=2, method="aipw").fit(X, A, outcomes)
    assert list(found.influence_) == ["gain", "ill", "visits"]
    joint = found.joint_intervals(draws=500)
    differences = found.effects_[found.effects_["measure"].str.endswith("difference")]
    np.testing.assert_allclose(joint["estimate"], differences["estimate"])
    assert (joint["lower"].to_numpy() < differences["lower"].to_numpy()).all()
    assert ((joint["p"] >= differences["p"].to_numpy() - 0.02) & (joint["p"] <= 1)).all()


def test_bounds_are_visible_and_their_effect_is_a_table():
    found = DoublyRobust(bound=0.2, method="aipw").fit(X, A, Y, score=E, means=M)
    assert found.overlap_["bounded"].sum() == ((E < 0.2) | (E > 0.8)).sum()
    table = found.truncation([0.0, 0.2])
    assert table["estimate"].iloc[1] == pytest.approx(estimate(found)[0])
    assert table["bounded"].tolist() == [0.0, pytest.approx(((E < 0.2) | (E > 0.8)).mean())]
    none = DoublyRobust(bound=0, method="aipw").fit(X, A, Y, score=E, means=M)
    assert table["estimate"].iloc[0] == pytest.approx(estimate(none)[0])
    assert DoublyRobust().fit(X, A, Y, score=E, means=M).bound_ == pytest.approx(
        5 / (np.sqrt(N) * np.log(N))
    )


def test_weights_of_people_are_repeated_people():
    times = np.arange(N) % 3
    rows = np.repeat(np.arange(N), times)
    for method in ("aipw", "tmle"):
        model = DoublyRobust(method=method, folds=1, bound=0.01)
        weighted = model.fit(X, A, B, sample_weight=times).effects_
        repeated = clone(model).fit(X[rows], A[rows], B[rows]).effects_
        np.testing.assert_allclose(weighted["estimate"], repeated["estimate"], rtol=1e-6)


def test_modifiers_of_the_effect_are_found():
    y = A * (1 + 2 * X[:, 1]) + rng.standard_normal(N)
    found = DoublyRobust(method="aipw").fit(X, A, y)
    table = found.modification(pd.DataFrame({"b": X[:, 1], "c": X[:, 2]}))
    assert table.loc["b", "lower"] < 2 < table.loc["b", "upper"]
    assert table.attrs["joint_p"] < 1e-6
    assert table.loc["c", "p"] > 1e-3


def test_subgroups_have_the_effects_of_regressions_on_them():
    y = A * (1 + (X[:, 1] > 0)) + X[:, 0] + rng.standard_normal(N)
    old, sex = (X[:, 1] > 0).astype(int), np.where(np.arange(N) % 3 == 0, "f", "m")
    found = DoublyRobust(method="aipw", folds=2).fit(X, A, y)
    labels = pl.DataFrame({"old": old, "sex": sex})
    table = found.subgroups(labels, X=X).set_index(["column", "level"])
    line = found.modification(pd.DataFrame({"old": old}))
    assert table.loc[("old", 0), "estimate"] == pytest.approx(line.loc["intercept", "coef"])
    assert table.loc[("old", 1), "difference"] == pytest.approx(line.loc["old", "coef"])
    assert table.loc[("old", 1), "difference_se"] == pytest.approx(line.loc["old", "se"], rel=0.02)
    parts = table.loc["old"]
    sizes = parts["target"] + parts["comparator"]
    whole = np.average(parts["estimate"], weights=sizes)
    assert whole == pytest.approx(found.effects_["estimate"].iloc[0])
    assert (table["joint_lower"] < table["lower"]).all()
    assert (table["p_adjusted"] >= table["p"] - 0.01).all()
    assert table.loc[("old", 1), "p_adjusted"] < 0.01
    assert (table.loc["sex", "p_adjusted"] > 0.05).all()
    inside = np.flatnonzero(old == 1)
    alone = balance_table(X[inside], A[inside], found.weights_[inside])
    assert table.loc[("old", 1), "largest_smd"] == pytest.approx(alone["smd_after"].abs().max())
    families = found.fit(X, A, y, clusters=np.arange(N) // 2).subgroups({"old": old})
    assert np.isfinite(families["difference_se"]).all()


def test_strata_of_baseline_risk_are_those_of_cross_fitted_means():
    found = DoublyRobust(folds=2).fit(X, A, {"b": B, "c": COUNT})
    groups = found.baseline_risk_groups(5, outcome="b")
    assert np.bincount(groups).tolist() == [0, *[N // 5] * 5]
    order = np.argsort(found.means_["b"][:, 1])
    assert (np.diff(groups[order]) >= 0).all()
    table = found.subgroups({"risk": groups}, outcome="b")
    assert table["level"].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(steropes.DataError, match="number must be a whole number of 2"):
        found.baseline_risk_groups(1)


@pytest.mark.slow
def test_many_modifiers_have_debiased_coefficients():
    noise = np.random.default_rng(4).standard_normal((N, 30))
    y = A * (1 + 2 * X[:, 1]) + np.random.default_rng(5).standard_normal(N)
    found = DoublyRobust(method="aipw", folds=2).fit(X, A, y)
    names = ["b", *(f"x{k}" for k in range(30))]
    columns = pd.DataFrame(np.column_stack([X[:, 1], noise]), columns=names)
    table = found.modification(columns, prior=steropes.Laplace())
    assert table.index.tolist() == names
    assert table.loc["b", "lower"] < 2 < table.loc["b", "upper"]
    assert table.loc["b", "p_adjusted"] < 1e-3
    assert (table["p_adjusted"].iloc[1:] > 0.01).all()
    assert (table["p_adjusted"] >= table["p"]).all()
    assert table.attrs["joint_p"] == table["p_adjusted"].min()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({}, "must be a data frame or a mapping"),
        ({"a": np.ones(N)}, "'a' has one level only"),
        ({"a": np.arange(3)}, "'a' has 3 rows and the fit"),
        ({"a": np.where(np.arange(N) == 7, np.nan, A)}, "'a' is missing in row 7"),
        ({"a": A}, "the subgroup 0 has people of one group only"),
    ],
)
def test_subgroups_that_cannot_be_used_are_refused(groups, words):
    found = DoublyRobust(method="aipw").fit(X, A, Y, score=E, means=M)
    with pytest.raises(steropes.DataError, match=words):
        found.subgroups(groups)


def test_missing_outcomes_need_a_model():
    y = np.where(np.arange(N) % 9 == 0, np.nan, Y)
    with pytest.raises(steropes.DataError, match=r"missing in 56 rows, first in row 0.*Logistic"):
        DoublyRobust().fit(X, A, y)
    model = DoublyRobust(missingness_model=steropes.LogisticRegression(), folds=2)
    assert estimate(model.fit(X, A, y))[0] == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize(
    ("settings", "given", "words"),
    [
        ({"method": "g"}, {}, "method must be one of 'aipw', 'tmle'"),
        ({"estimand": "ATO"}, {}, "ato|ATO"),
        ({"method": "aipw", "targeting": "weight"}, {}, "targeting is for method='tmle'"),
        ({"treatment_model": SkLogistic()}, {"score": E}, "no effect with score="),
        ({"outcome_model": SkLinear()}, {"means": M}, "no effect with means="),
        ({"folds": 0}, {}, "folds must be a whole number"),
        ({"folds": 1, "repeats": 2}, {}, "needs folds above 1"),
        ({"folds": 10**6}, {}, "at least as many rows"),
        ({"repeats": 10**9}, {}, "repeats must be at most 1,000"),
        ({"bound": 0.5}, {}, "bound must be"),
        ({}, {"score": np.full(N, 1.5)}, "score: row 0 .* no probability"),
        ({}, {"means": np.zeros(N)}, "means has shape"),
        ({}, {"fold": np.zeros(N, int)}, "two or more folds"),
        ({}, {"fold": np.arange(N) % 2, "clusters": np.arange(N) // 2}, "divides a cluster"),
        ({"outcome_model": steropes.CoxRegression()}, {}, "generalised linear model, not Cox"),
        (
            {"treatment_model": steropes.LogisticRegression(class_weight="balanced")},
            {},
            "class_weight",
        ),
    ],
)
def test_bad_settings_are_named(settings, given, words):
    with pytest.raises(steropes.DataError, match=words):
        DoublyRobust(**settings).fit(X, A, Y, **given)


def test_given_predictions_of_several_outcomes_need_names():
    outcomes = {"gain": Y, "ill": B}
    with pytest.raises(steropes.DataError, match="mapping from their names"):
        DoublyRobust().fit(X, A, outcomes, means=M)
    with pytest.raises(steropes.DataError, match="none of the outcome 'ill'"):
        DoublyRobust().fit(X, A, outcomes, means={"gain": M})


def test_results_need_a_fit():
    for call in (DoublyRobust().truncation, DoublyRobust().joint_intervals):
        with pytest.raises(NotFittedError):
            call()


def test_separated_scores_name_the_remedy():
    with pytest.raises(steropes.DataError, match=r"model of the treatment .*prior"):
        DoublyRobust().fit(np.column_stack([X, A]), A, Y)
    rare = np.zeros(N)
    rare[np.flatnonzero(A == 1)[0]] = 1.0
    with pytest.raises(steropes.DataError, match=r"outcome of the .* one class only"):
        DoublyRobust().fit(X, A, rare)


@pytest.mark.parametrize(
    "model", [DoublyRobust(), OutcomeAdaptiveLasso()], ids=lambda model: type(model).__name__
)
def test_rows_in_another_order_are_refused(model):
    table, y = pd.DataFrame(X), pd.Series(Y)
    with pytest.raises(steropes.DataError, match="order"):
        model.fit(table, A, y[::-1])
    with pytest.raises(steropes.DataError, match="order"):
        model.fit(table, pd.Series(A)[::-1], y)


def test_an_error_keeps_the_earlier_fit():
    found = DoublyRobust(folds=2).fit(X, A, Y)
    before = estimate(found)
    with pytest.raises(steropes.DataError, match="one value"):
        found.fit(X, A, np.ones(N))
    assert estimate(found) == before


PEOPLE = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "drug": A, "ill": B, "gain": Y})


def test_groups_are_compared_by_doubly_robust_methods():
    found = steropes.compare_groups(
        PEOPLE, treatment="drug", outcome="ill", covariates=["x", "z"], adjust=["aipw", "tmle"]
    )
    assert list(found.effects["method"].unique()) == ["unadjusted", "aipw", "tmle"]
    own = DoublyRobust(method="tmle").fit(PEOPLE[["x", "z"]], A, B).effects_
    rows = found.effects.query("method == 'tmle'")
    np.testing.assert_allclose(rows["estimate"], own["estimate"])
    assert isinstance(found.steps["tmle"], DoublyRobust)
    assert "tmle" in set(found.balance["method"])
    checks = found.diagnostics.query("method == 'tmle'").set_index("diagnostic")
    assert checks["passed"].all()
    assert checks.loc["people whose score is bounded", "value"] == 0


def test_own_objects_and_long_tables_are_compared():
    own = DoublyRobust(method="aipw", folds=2, outcome_model=SkLinear())
    found = steropes.compare_groups(
        PEOPLE, treatment="drug", outcome="gain", covariates=["x", "z"], adjust=own,
        estimand="ATT", level=0.9,
    )  # fmt: skip
    row = found.effects.iloc[-1]
    assert row["upper"] - row["lower"] == pytest.approx(2 * 1.6448536 * row["se"])
    assert found.steps["aipw"].estimand == "att"


@pytest.mark.slow
def test_long_tables_have_lasso_models():
    people = PEOPLE.assign(person=np.arange(N))
    records = people.melt("person", ["x", "z"], "covariate", "value")
    found = steropes.compare_groups(
        people, treatment="drug", outcome="gain", id="person", covariates=records, adjust="tmle"
    )
    step = found.steps["tmle"]
    assert isinstance(step.model_.prior_, steropes.Laplace)
    own = DoublyRobust().fit(PEOPLE[["x", "z"]], A, Y)
    row = found.effects.query("method == 'tmle'").iloc[0]
    assert row["estimate"] == pytest.approx(estimate(own)[0], abs=0.5 * row["se"])


def test_times_are_refused_with_the_remedy():
    people = PEOPLE.assign(time=np.arange(N) + 1.0)
    with pytest.raises(steropes.DataError, match=r"tmle: times .*Survival"):
        steropes.compare_groups(
            people, treatment="drug", time="time", event="ill", covariates=["x"],
            adjust=DoublyRobust(),
        )  # fmt: skip


def test_missing_outcomes_are_compared_with_a_model_of_missingness(tmp_path):
    people = PEOPLE.assign(pain=np.where(np.arange(N) % 4 == 0, np.nan, Y))
    roles = {"treatment": "drug", "outcome": "pain", "covariates": ["x"]}
    step = DoublyRobust(missingness_model=steropes.LogisticRegression(), folds=2)
    found = steropes.compare_groups(people, **roles, adjust=step)
    alone = DoublyRobust(missingness_model=steropes.LogisticRegression(), folds=2)
    alone.fit(people[["x"]], people["drug"], people["pain"])
    own = found.effects.query("method == 'tmle'").iloc[0]
    assert own["estimate"] == alone.effects_["estimate"].iloc[0]
    complete = steropes.compare_groups(people[people["pain"].notna()], **roles)
    rows = [x.effects.query("method == 'unadjusted'").iloc[0] for x in (found, complete)]
    assert rows[0]["estimate"] == rows[1]["estimate"]
    assert rows[0]["se"] == rows[1]["se"]
    found.write_report(tmp_path / "page.html")
    for adjust in ("weights", "tmle", [step, "weights"]):
        with pytest.raises(steropes.DataError, match=r"'pain' is missing in .* alone in"):
            steropes.compare_groups(people, **roles, adjust=adjust)
