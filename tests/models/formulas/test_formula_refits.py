"""Estimators with a formula: copies keep it, and whatever refits fits its columns alone."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    permutation_test_score,
)

import steropes
from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)

FAMILIES = [*(name for name in EVERY if name != "cox by step"), "multinomial"]
TERMS = "rcs(x0, 3) + x1 + scale(x2) + label"


def problem(family, rng, n=240):
    """A class, its settings, a formula, and a table with the outcome and columns of noise."""
    X = rng.standard_normal((n, 4))
    c = case(family, rng, n, 4, X=X)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(4)])
    table["label"] = rng.choice(["a", "b", "c"], n)
    y = c.y
    if y.dtype.names:
        table["time"], table["event"] = y["time"], y["event"].astype(int)
        left = "Surv(time, event)"
        if "entry" in y.dtype.names:
            table["entry"] = y["entry"]
            left = "Surv(time, event, entry=entry)"
    else:
        table["y"], left = y, "y"
    right, extras = TERMS, dict(c.extras)
    for name, column in (("strata", "s"), ("offset", "o")):
        if name in extras:
            table[column] = extras.pop(name)
            right += f" + {name}({column})"
    fit = {}
    if "exposure" in extras:
        table["t"] = extras.pop("exposure")
        fit["exposure"] = "t"
    assert not extras
    settings = dict(c.settings)
    if settings.pop("time_varying", None):
        settings["time_varying"] = {"x1": 1}
    return c.model, settings, f"{left} ~ {right}", table, fit


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_a_formula_is_a_setting_of_every_estimator(family, rng):
    model, settings, formula, table, fit = problem(family, rng)
    by_name = model.from_formula(formula, table, prior=Normal(1.0), **settings, **fit)
    by_setting = model(formula=formula, prior=Normal(1.0), **settings).fit(table, **fit)
    assert by_name.get_params()["formula"] == formula
    refits = [
        by_setting,
        clone(by_name).fit(table, **fit),
        copy.deepcopy(by_name).fit(table, **fit),
        pickle.loads(pickle.dumps(by_name)).fit(table, **fit),
        model(prior=Normal(1.0), **settings).set_params(formula=formula).fit(table, **fit),
        by_name.fit(pl.from_pandas(table), **fit),
    ]
    expected = np.asarray(refits[0].coef_)
    for other in refits[1:]:
        np.testing.assert_allclose(other.coef_, expected, rtol=1e-9, atol=1e-12)
        assert other.formula_ == formula
        assert repr(clone(other)) == repr(clone(by_name))
    names = by_name.coef_names_
    assert any("x0'" in name for name in names)
    assert not any("y" in name or "x3" in name for name in names)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_of_held_out_rows_are_those_of_separate_fits(family, rng):
    model, settings, formula, table, fit = problem(family, rng)
    estimator = model(formula=formula, prior=Normal(1.0), **settings)
    folds = KFold(2)
    if not hasattr(estimator, "score"):
        with pytest.raises(TypeError, match="score"):
            cross_val_score(estimator, table)
        return
    if fit or family in ("conditional exact", "pooled", "pooled change"):
        fits = estimator.fit(table, **fit)
        assert np.isfinite(fits.score(table))
        if fit:
            return
    found = cross_val_score(estimator, table, cv=folds, error_score="raise")
    expected = [
        model.from_formula(formula, table.iloc[train], prior=Normal(1.0), **settings).score(
            table.iloc[test]
        )
        for train, test in folds.split(table)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


GROUPED = [
    "linear", "logistic", "multinomial", "poisson", "gamma", "cox", "cox strata", "fine gray",
    "cumulative",
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("family", GROUPED)
def test_validation_by_group_fits_the_formula_to_the_other_groups(family, rng):
    model, settings, formula, table, _ = problem(family, rng)
    table["site"] = np.arange(len(table)) % 3
    if "t" in table:
        formula += " + offset(np.log(t))"
    estimator = model(formula=formula, prior=Normal(1.0), **settings)
    by_name = steropes.validate_by_group(estimator, table, groups="site")
    given = steropes.validate_by_group(estimator, table, groups=table["site"])
    pd.testing.assert_frame_equal(by_name, given)
    # The same by hand, from the matrices of each fit.
    others, there = table[table.site != 1], table[table.site == 1]
    fitted = model.from_formula(formula, others, prior=Normal(1.0), **settings)
    plain = clone(estimator).set_params(formula=None)
    if "strata" in formula or family == "multinomial":
        return
    both = pd.concat([fitted.design_matrix(others), fitted.design_matrix(there)])
    both.index = range(len(both))
    rows = pd.concat([others, there])
    y = Surv(rows["time"], rows["event"]) if "time" in rows else rows["y"].to_numpy()
    offset = rows.get("o", None)
    if "t" in rows:
        offset = np.log(rows["t"]) + offset
    again = steropes.validate_by_group(
        plain, both, y, (rows["site"] == 1).to_numpy(),
        offset=None if offset is None else offset.to_numpy(),
    )  # fmt: skip
    np.testing.assert_allclose(
        by_name.iloc[1].to_numpy(float), again.iloc[1].to_numpy(float), rtol=1e-6
    )


def test_noise_has_no_concordance_in_groups_left_out(rng):
    n = 600
    table = pd.DataFrame({"z": rng.standard_normal(n), "site": np.arange(n) % 3})
    table["time"], table["event"] = rng.exponential(size=n), 1
    model = CoxRegression.from_formula("Surv(time, event) ~ z", table)
    found = steropes.validate_by_group(model, table, groups="site")
    assert (abs(found["concordance"] - 0.5) < 0.08).all()


@pytest.mark.sampled
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "pooled change"])
def test_paths_of_coefficients_are_those_of_the_columns(family, rng):
    model, settings, formula, table, fit = problem(family, rng)
    fitted = model.from_formula(formula, table, prior=Normal(1.0), **settings, **fit)
    path = steropes.coefficient_path(fitted, table, variances=[0.5, 1.0], **fit)
    last = path.iloc[-1].to_numpy()
    np.testing.assert_allclose(last, np.ravel(fitted._estimated), rtol=1e-6, atol=1e-9)


def test_links_are_compared_on_the_columns_of_the_formula(rng):
    _, _, formula, table, _ = problem("cumulative", rng)
    model = CumulativeProbabilityModel(formula=formula)
    found = steropes.compare_links(model, table, links=["logit", "probit"])
    fitted = CumulativeProbabilityModel.from_formula(formula, table, link="probit")
    expected = fitted.log_likelihood_
    assert found.loc["probit", "log_likelihood"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "family", ["linear", "logistic", "poisson", "cox", "cox strata", "fine gray", "gamma"]
)
def test_many_outcomes_have_the_covariates_of_the_formula(family, rng):
    model, settings, formula, table, fit = problem(family, rng)
    fitted = model.from_formula(formula, table, prior=Normal(1.0), **settings, **fit)
    y = Surv(table["time"], table["event"]) if "time" in table else table["y"]
    for estimator in (fitted, model(prior=Normal(1.0), formula="~" + formula.partition("~")[2])):
        found = steropes.fit_many(estimator, table, {"one": y, "two": y}, **fit)
        one = found[found.outcome == "two"].set_index("coefficient")["coef"]
        expected = fitted.summary()["coef"]
        np.testing.assert_allclose(one[expected.index], expected, rtol=1e-6, atol=1e-9)
        assert len(one) == len(expected)


def test_many_outcomes_refuse_what_would_make_an_outcome_a_covariate(rng):
    table = pd.DataFrame(rng.standard_normal((60, 3)), columns=["y", "z", "x"])
    with pytest.raises(DataError, match="outcomes included"):
        steropes.fit_many(LinearRegression(formula="y ~ ."), table, {"z": table["z"]})
    found = steropes.fit_many(LinearRegression(formula="~ ."), table[["x"]], {"z": table["z"]})
    assert found["coefficient"].tolist() == ["intercept", "x"]
    with pytest.raises(DataError, match="offset is in the formula and of outcome 'z'"):
        steropes.fit_many(
            LinearRegression(formula="~ offset(x)"), table,
            {"z": {"y": table["z"], "offset": table["x"]}},
        )  # fmt: skip


def test_a_formula_without_intercept_or_with_steps_holds_in_many_outcomes(rng):
    n = 150
    table = pd.DataFrame({"x": rng.standard_normal(n), "y": rng.standard_normal(n) + 3})
    found = steropes.fit_many(LinearRegression(formula="~ 0 + x"), table, {"y": table["y"]})
    assert found["coefficient"].tolist() == ["x"]
    table["time"], table["event"] = rng.exponential(size=n), 1
    model = CoxRegression.from_formula("Surv(time, event) ~ step(x, [0.5])", table)
    y = Surv(table["time"], table["event"])
    found = steropes.fit_many(model, table, {"death": y})
    np.testing.assert_allclose(found["coef"], model.summary()["coef"], rtol=1e-8)


def test_searches_and_predictions_of_scikit_learn_use_the_formula(rng):
    n = 200
    table = pd.DataFrame({"x": rng.standard_normal(n), "z": rng.standard_normal(n)})
    table["y"] = (table["x"] + rng.logistic(size=n) > 0).astype(int)
    estimator = LogisticRegression(formula="y ~ rcs(x, 4)", prior=Normal(1.0))
    grid = {"prior": [Normal(0.01), Normal(1.0)], "formula": ["y ~ x", "y ~ rcs(x, 4)"]}
    search = GridSearchCV(estimator, grid, cv=3, error_score="raise").fit(table)
    assert search.best_estimator_.coef_names_[0] == "x"
    assert search.predict(table).shape == (n,)
    folds = StratifiedKFold(3)
    y = table["y"]
    auc = cross_validate(estimator, table, y, cv=folds, scoring="roc_auc", error_score="raise")
    assert (auc["test_score"] < 0.95).all()
    risk = cross_val_predict(estimator, table, y, cv=folds, method="predict_proba")
    assert risk.shape == (n, 2)


def test_permuted_outcomes_are_refused_or_permute_the_outcome(rng):
    table = pd.DataFrame(rng.standard_normal((90, 2)), columns=["y", "x"])
    with pytest.raises(DataError, match="is not the outcome 'y'"):
        permutation_test_score(
            LinearRegression(formula="y ~ x"), table, table["y"], cv=3, n_permutations=2
        )  # fmt: skip
    _, scores, _ = permutation_test_score(
        LinearRegression(formula="~ x"), table, table["y"], cv=3, n_permutations=3
    )  # fmt: skip
    assert len(set(scores)) == 3


def test_codings_are_learnt_from_the_rows_of_each_refit(rng):
    table = pd.DataFrame({"x": rng.uniform(0, 1, 300), "y": rng.standard_normal(300)})
    table.loc[150:, "x"] += 5
    model = LinearRegression.from_formula("y ~ rcs(x, 3)", table)
    first, again = table.iloc[:150], clone(model).fit(table.iloc[:150])
    expected = LinearRegression.from_formula(model.formula, first)
    np.testing.assert_array_equal(again.coef_, expected.coef_)
    assert not np.allclose(again.design_matrix(first), model.design_matrix(first))


def test_a_fit_with_a_formula_refuses_what_it_cannot_use(rng):
    table = pd.DataFrame(rng.standard_normal((30, 2)), columns=["y", "x"])
    estimator = LinearRegression(formula="y ~ x")
    with pytest.raises(DataError, match="takes a table with its columns"):
        estimator.fit(table.to_numpy(), table["y"])
    with pytest.raises(DataError, match="is not the outcome 'y'"):
        estimator.fit(table, table["x"])
    estimator.fit(table, table["y"])
    with pytest.raises(DataError, match="no outcome before"):
        LinearRegression(formula="~ x").fit(table)
    one = LinearRegression(formula="~ x").fit(table, table["y"])
    np.testing.assert_array_equal(one.coef_, estimator.coef_)
    with pytest.raises(DataError, match="requires y to be passed"):
        one.score(table)
    with pytest.raises(DataError, match="requires y to be passed"):
        LinearRegression().fit(table[["x"]], table["y"]).score(table[["x"]])
    assert estimator.score(table) == one.score(table, table["y"])
    with pytest.raises(DataError, match="trusted=True"):
        clone(estimator).set_params(formula="y ~ x.abs()").fit(table)
    trusted = clone(estimator).set_params(formula="y ~ x.abs()", trusted=True).fit(table)
    assert clone(trusted).fit(table).coef_ == trusted.coef_


def test_the_score_of_rates_uses_the_exposure_of_the_fit(rng):
    _, _, formula, table, fit = problem("poisson", rng)
    model = PoissonRegression.from_formula(formula, table, **fit)
    assert model.score(table) == model.score(table, exposure=table["t"])
    assert model.score(table) != model.score(table, exposure=np.ones(len(table)))
