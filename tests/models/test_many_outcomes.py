"""Many outcomes over one X are the fits of each, in one table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from every_family import case
from steropes import (
    CoxRegression,
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    SeparationError,
    Surv,
    fit_many,
)
from steropes.design_matrix import as_design
from steropes.fit import fits_of_many_outcomes as outcome_batches
from steropes.models.fitting.row_arguments import FitInputs
from tuning import tune

N = 200


def drawn(rng, family, count=11):
    """X and outcomes with their own weights and offsets, each differently frequent."""
    X = np.column_stack([rng.random(N) < 0.4, rng.normal(5.0, 2.0, size=(N, 3))]).astype(float)
    outcomes = {}
    for k in range(count):
        eta = X @ rng.normal(size=4) * 0.3 - rng.uniform(1.5, 3.0)
        if family == "linear":
            y = eta + rng.normal(size=N)
        elif family == "logistic":
            y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
        else:
            y = rng.poisson(np.exp(np.clip(eta, -5, 2))).astype(float)
        y[:20] = np.arange(20) % 2
        outcomes[f"o{k}"] = {
            "y": y,
            "sample_weight": rng.integers(0, 3, N).astype(float),
            "offset": rng.normal(size=N) * 0.2 if k % 2 else None,
        }
    return X, outcomes


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_survival_outcomes_that_go_together_are_fits_of_their_own(ties, rng):
    X = rng.normal(3.0, 2.0, size=(N, 4))
    outcomes = {}
    for k in range(9):
        time = np.ceil(rng.exponential(20 * np.exp(-0.2 * X[:, k % 4])))
        event = (rng.random(N) < 0.6).astype(int)
        entry = np.minimum(rng.integers(0, 3, N), time - 1) if k % 2 else None
        outcomes[f"o{k}"] = {
            "y": Surv(time, event, entry=entry),
            "sample_weight": rng.integers(0, 3, N).astype(float),
            "offset": rng.normal(size=N) * 0.2 if k % 3 else None,
            "strata": rng.integers(0, 2, N) if k > 6 else None,
        }
    model = CoxRegression(prior=Laplace(0.05), ties=ties)
    table = fit_many(model, X, outcomes).set_index("outcome")
    assert table["converged"].all()
    for name, given in outcomes.items():
        alone = CoxRegression(prior=Laplace(0.05), ties=ties).fit(X, **given)
        np.testing.assert_allclose(table.loc[name, "coef"], alone.coef_, atol=1e-8)


@pytest.mark.sampled
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("prior", [None, Laplace(0.02, exclude=[0]), Normal(0.1)])
@pytest.mark.parametrize(
    ("family", "model"),
    [
        ("linear", LinearRegression),
        ("logistic", LogisticRegression),
        ("poisson", PoissonRegression),
    ],
)
def test_each_outcome_is_a_fit_of_its_own(family, model, prior, store, rng):
    X, outcomes = drawn(rng, family)
    table = fit_many(model(prior=prior), store(X), outcomes, level=0.9)
    assert len(table) == 11 * 5
    assert table.converged.all()
    for name, given in list(outcomes.items())[1::3]:  # of the first group of lanes and the second
        alone = model(prior=prior).fit(X, **{k: v for k, v in given.items() if v is not None})
        part = table[table.outcome == name].set_index("coefficient")
        own = alone.summary(0.9)
        assert list(part.index) == list(own.index)
        for column in own:
            np.testing.assert_allclose(part[column], own[column], rtol=1e-5, atol=1e-6)
        assert ("bootstrap()" in part.note.iloc[0]) == (prior is not None and "Lap" in repr(prior))


def sparse_problem(rng, family):
    """Sparse columns of all units, of which few matter to each of ten outcomes."""
    n, p = 600, 40
    X = (rng.random((n, p)) < rng.uniform(0.05, 0.6, p)) * 10.0 ** rng.integers(-3, 4, p)
    units = X.max(axis=0)
    outcomes = {}
    for k in range(10):
        eta = X[:, 3 * k : 3 * k + 3] @ (1.0 / units[3 * k : 3 * k + 3]) - 1.0
        if family == "cox":
            time = rng.exponential(np.exp(-eta))
            outcomes[f"o{k}"] = Surv(np.ceil(9 * np.minimum(time, 1)), time < 1)
        else:
            outcomes[f"o{k}"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return X, outcomes, Laplace(0.1 / units**2)


@pytest.mark.sampled
@pytest.mark.parametrize(("most", "many"), [(10_000, 500), (5, 500), (10_000, 1), (5, 1)])
@pytest.mark.parametrize(("family", "model"), [("cox", CoxRegression), ("y", LogisticRegression)])
def test_sparse_columns_of_any_unit_whatever_goes_together(
    family, model, most, many, rng, monkeypatch
):
    # With many near columns a group passes through intermediate penalties.
    tune(monkeypatch, outcome_batches, "OUTCOMES", max_columns=most, min_near_columns=many)
    X, outcomes, prior = sparse_problem(rng, family)
    table = fit_many(model(prior=prior), sparse.csc_matrix(X), outcomes).set_index("outcome")
    assert table["converged"].all()
    for name, y in outcomes.items():
        alone = model(prior=prior).fit(X, y)
        rows = table.loc[name]
        found = rows["coef"][rows["coefficient"] != "intercept"].to_numpy()
        unit = X.max(axis=0)
        np.testing.assert_allclose(found * unit, alone.coef_ * unit, atol=1e-7)
        assert 0 < np.count_nonzero(alone.coef_) < X.shape[1]


def test_rows_without_an_outcome_are_left_out_of_it_alone(rng):
    X, outcomes = drawn(rng, "logistic", 3)
    frame = pd.DataFrame({name: given["y"] for name, given in outcomes.items()})
    frame.loc[150:, "o1"] = np.nan
    table = fit_many(LogisticRegression(), X, frame).set_index(["outcome", "coefficient"])
    short = LogisticRegression().fit(X[:150], frame["o1"][:150]).summary()
    whole = LogisticRegression().fit(X, frame["o2"]).summary()
    np.testing.assert_allclose(table.loc["o1", "se"], short["se"], rtol=1e-6)
    np.testing.assert_allclose(table.loc["o2", "coef"], whole["coef"], rtol=1e-6)
    assert frame["o1"].isna().sum() == 50


def test_rows_without_an_outcome_are_left_out_where_all_weigh_the_same(rng):
    X, y = rng.normal(size=(30, 2)), np.append(np.nan, np.arange(29) % 2)
    found = fit_many(LogisticRegression(), X, {"a": y}, sample_weight=2)
    expected = LogisticRegression().fit(X[1:], y[1:], sample_weight=2).summary()
    np.testing.assert_allclose(found[["coef", "se"]], expected[["coef", "se"]], rtol=1e-6)


def test_an_outcome_that_cannot_be_fitted_says_why_and_holds_up_no_other(rng):
    X, outcomes = drawn(rng, "logistic", 3)
    outcomes["none"] = np.zeros(N)
    outcomes["separated"] = (X[:, 0] * (np.arange(N) % 2)).astype(int)
    table = fit_many(LogisticRegression(), X, outcomes).set_index("outcome")
    assert table.loc["none", "coef"].isna().all()
    assert "one class only" in table.loc["none", "note"].iloc[0]
    assert "no finite maximum" in table.loc["separated", "note"].iloc[0]
    assert not table.loc["separated", "converged"].any()
    alone = LogisticRegression().fit(X, **{**outcomes["o0"], "offset": None})
    np.testing.assert_allclose(table.loc["o0", "coef"], alone.summary()["coef"], rtol=1e-6)


def test_other_families_and_searches_go_one_after_another(rng):
    c = case("cox", rng)
    times = {"a": c.y, "b": Surv(c.y["time"][::-1].copy(), c.y["event"][::-1].copy())}
    table = fit_many(CoxRegression(), c.X, times).set_index("outcome")
    np.testing.assert_allclose(table.loc["a", "coef"], c.fit().coef_)
    X, outcomes = drawn(rng, "logistic", 2)
    model = LogisticRegression(prior=Laplace(), cv=3, random_state=1)
    table = fit_many(model, X, outcomes).set_index("outcome")
    given = {k: v for k, v in outcomes["o1"].items() if v is not None}
    alone = LogisticRegression(prior=Laplace(), cv=3, random_state=1).fit(X, **given)
    np.testing.assert_allclose(table.loc["o1", "coef"][1:], alone.coef_, rtol=1e-6)
    assert not hasattr(model, "coef_")


@pytest.mark.usefixtures("eager_threads")
def test_no_digit_depends_on_the_number_of_threads(rng):
    X, outcomes = drawn(rng, "logistic")
    one, two = (fit_many(LogisticRegression(n_jobs=k), X, outcomes) for k in (1, 2))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@pytest.mark.parametrize(
    ("outcomes", "match"),
    [
        ({}, "must be a mapping"),
        ([1, 0], "must be a mapping"),
        ({"a": {"weights": 1, "y": 0}}, "it has 'weights'"),
        ({"a": {"offset": 1}}, "needs y"),
        ({1: [0, 1, 1], "1": [0, 0, 1]}, "Two outcomes are called '1'"),
        (pd.DataFrame(np.eye(3)[:, :2], columns=["a", "a"]), "Two outcomes are called 'a'"),
        (pd.DataFrame(index=range(3)), "must be a mapping"),
    ],
)
def test_what_makes_no_sense_is_refused(outcomes, match, rng):
    with pytest.raises(DataError, match=match):
        fit_many(LogisticRegression(), np.ones((3, 1)), outcomes)
    with pytest.raises(DataError, match="estimator must be"):
        fit_many(LogisticRegression, np.ones((3, 1)), {"a": [0, 1, 1]})


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_outcomes_may_be_a_table_of_any_library(library, rng):
    X = rng.normal(size=(30, 2))
    Y = {"a": np.arange(30) % 2.0, "b": np.arange(30) // 2 % 2.0}
    missing = {name: [None, *y[1:]] for name, y in Y.items()}
    module = pytest.importorskip(library)
    table = module.DataFrame(missing) if library == "polars" else module.table(missing)
    expected = fit_many(LogisticRegression(), X[1:], {name: y[1:] for name, y in Y.items()})
    found = fit_many(LogisticRegression(), X, table)
    assert found["outcome"].tolist() == expected["outcome"].tolist()
    if library == "pyarrow":  # polars has no table with the same name twice
        with pytest.raises(DataError, match="Two outcomes are called 'a'"):
            fit_many(LogisticRegression(), X, table.rename_columns(["a", "a"]))
    np.testing.assert_allclose(found["coef"], expected["coef"], rtol=1e-6)


@pytest.mark.parametrize("prior", [None, Laplace(0.1)])
def test_outcomes_with_the_labels_of_x_in_another_order_are_refused(prior, rng):
    X = pd.DataFrame(rng.normal(size=(30, 2)), index=[f"p{i}" for i in range(30)])
    Y = pd.DataFrame({"a": np.arange(30) % 2, "b": np.arange(30) // 2 % 2}, index=X.index)
    with pytest.raises(DataError, match=r"Outcome 'a'.*different orders"):
        fit_many(LogisticRegression(prior=prior), X, Y[::-1])
    weight = pd.Series(1.0, X.index)[::-1]
    outcomes = {"a": Y["a"], "b": {"y": Y["b"], "sample_weight": weight}}
    with pytest.raises(DataError, match=r"Outcome 'b'.*X and sample_weight"):
        fit_many(LogisticRegression(prior=prior), X, outcomes)


def test_labels_of_any_type_may_be_missing_in_a_list(rng):
    X = rng.normal(size=(40, 2))
    labels = ["yes" if v else "no" for v in rng.random(40) < 0.5]
    outcomes = {"list": [None, *labels[1:]], "series": pd.Series([None, *labels[1:]])}
    table = fit_many(LogisticRegression(), X, outcomes).set_index("outcome")
    alone = LogisticRegression().fit(X[1:], labels[1:]).summary()
    for name in outcomes:
        np.testing.assert_allclose(table.loc[name, "coef"], alone["coef"], rtol=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [1, 2, 7, 21])
def test_separation_names_the_columns_that_the_fit_alone_names(seed):
    """Two columns run away, each by itself: where a fit ends says which comes first."""
    rng = np.random.default_rng(seed)
    X = (rng.random((120, 12)) < 0.2).astype(float)
    X[:, 0], X[:, 1] = rng.normal(3.0, 1.0, 120), rng.normal(size=120)
    outcomes = {}
    for k in range(4):
        eta = X @ (0.4 * rng.normal(size=12)) - 0.5
        y = rng.poisson(np.exp(np.clip(eta, -5, 3))).astype(float)
        y[(X[:, 3] > 0) | (X[:, 4] > 0)] = 0.0
        outcomes[f"o{k}"] = y
    model = PoissonRegression(prior=Laplace(1.0, exclude=[0, 1, 3, 4]), n_jobs=1)
    notes = fit_many(model, X, outcomes).groupby("outcome")["note"].first()
    for name, y in outcomes.items():
        with pytest.raises(SeparationError) as alone:
            model.fit(X, y)
        assert set(alone.value.columns) >= {"x3", "x4"}
        assert notes[name] == str(alone.value)


class Silent(LogisticRegression):
    """Whatever it does otherwise."""

    def fit(self, X, y, **given):
        self.calls.append(y)
        return super().fit(X, y, **given)


class Same(LogisticRegression):
    """As its parent, and it says so."""

    _batched_outcomes = "laplace"


def test_a_subclass_fits_each_outcome_itself_unless_it_says_that_they_go_together(rng, monkeypatch):
    X, outcomes = drawn(rng, "logistic", 3)
    prior, calls = Laplace(0.1), []
    Silent.calls = calls
    tables = [fit_many(kind(prior=prior), X, outcomes) for kind in (Silent, LogisticRegression)]
    assert len(calls) == 3
    np.testing.assert_allclose(tables[0]["coef"], tables[1]["coef"], atol=1e-6)

    def alone(*_):
        raise AssertionError("they go together")

    monkeypatch.setattr(LogisticRegression, "fit", alone)
    pd.testing.assert_frame_equal(fit_many(Same(prior=prior), X, outcomes), tables[1])


def test_a_problem_may_have_the_columns_of_another(rng):
    X, outcomes = drawn(rng, "logistic", 2)
    design, models = as_design(X), [LogisticRegression(), LogisticRegression()]
    given = [FitInputs(outcomes[k]["y"]) for k in outcomes]
    first, second = (m._make_problem(design, g) for m, g in zip(models, given, strict=True))
    assert first.design is not second.design
    beside = models[1]._make_problem(design, given[1], first)
    assert beside.design is first.design
    assert beside.n_free == 1
    assert beside.likelihood is not first.likelihood
