"""Conditional models against R's clogit, statsmodels and each other; weights, folds, refusals."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import gammaln
from sklearn.base import clone

from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    CrossValidation,
    DataError,
    Laplace,
    Normal,
    SelfControlledCaseSeries,
    SeparationError,
    Surv,
)

DATA = Path(__file__).parent / "data"
REFERENCE = json.loads((DATA / "clogit.json").read_text())  # made by reference.R beside it
METHODS = ("exact", "efron", "breslow")
FORMULAS = {
    "infert": ("infert", "case", ["spontaneous", "induced"], "stratum"),
    "education": ("infert", "case", ["age", "spontaneous", "induced"], "education"),
    "logan": ("logan", "professional", ["father", "black"], "education"),
}


def read(name):
    file, y, columns, strata = FORMULAS[name]
    table = pd.read_csv(DATA / f"{file}.csv")
    return table[columns], table[y].to_numpy(), table[strata].to_numpy()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FORMULAS)
def test_clogit_of_r(name, method):
    X, y, strata = read(name)
    model = ConditionalLogisticRegression(method=method).fit(X, y, strata=strata)
    expected = REFERENCE[f"{name}-{method}"]
    assert model.converged_
    np.testing.assert_allclose(model.coef_, expected["coef"], rtol=1e-7)
    np.testing.assert_allclose(model.summary()["se"], expected["se"], rtol=1e-7)
    np.testing.assert_allclose(model.log_likelihood_, expected["loglik"], rtol=1e-11)


@pytest.mark.parametrize("method", METHODS[1:])
def test_weighted_clogit_of_r(method):
    X, y, strata = read("education")
    w = 1 + np.arange(1, len(y) + 1) % 3
    model = ConditionalLogisticRegression(method=method).fit(X, y, strata=strata, sample_weight=w)
    expected = REFERENCE[f"weighted-{method}"]
    np.testing.assert_allclose(model.coef_, expected["coef"], rtol=1e-7)
    np.testing.assert_allclose(model.summary()["se"], expected["se"], rtol=1e-7)
    np.testing.assert_allclose(model.log_likelihood_, expected["loglik"], rtol=1e-11)


def matched(rng, sets=60, size=6, p=4):
    n = sets * size
    strata = np.repeat(np.arange(sets), size)
    X = rng.normal(size=(n, p))
    y = (X @ np.linspace(-0.6, 0.6, p) + rng.normal(size=n) > 0.5).astype(int)
    return X, y, strata


def counts(rng, people=50, p=4):
    strata = np.repeat(np.arange(people), rng.integers(1, 8, people))
    n = len(strata)
    X = (rng.random((n, p)) < 0.4).astype(float)
    days = rng.integers(1, 90, n).astype(float)
    baseline = rng.gamma(1.0, 0.02, people)[strata]
    y = rng.poisson(baseline * days * np.exp(X @ np.linspace(-0.5, 0.8, p)))
    return X, y, strata, days


def test_conditional_logit_of_statsmodels(rng):
    from statsmodels.discrete.conditional_models import ConditionalLogit

    X, y, strata = matched(rng)
    spread = pd.Series(y).groupby(strata).transform(np.ptp) > 0
    X, y, strata = X[spread], y[spread], strata[spread]
    model = ConditionalLogisticRegression().fit(X, y, strata=strata)
    other = ConditionalLogit(y, X, groups=strata)
    fit = other.fit(start_params=model.coef_, disp=False)
    np.testing.assert_allclose(model.coef_, fit.params, atol=1e-6)
    np.testing.assert_allclose(model.summary()["se"], fit.bse, rtol=1e-4)
    np.testing.assert_allclose(model.log_likelihood_, other.loglike(model.coef_), rtol=1e-11)
    assert np.abs(other.score(model.coef_)).max() < 1e-6


def test_conditional_poisson_of_statsmodels(rng):
    from statsmodels.discrete.conditional_models import ConditionalPoisson

    X, y, strata, days = counts(rng)
    # statsmodels drops the strata with equal counts above zero too, which do carry information.
    spread = pd.Series(y).groupby(strata).transform(np.ptp) > 0
    X, y, strata, days = X[spread], y[spread], strata[spread], days[spread]
    model = ConditionalPoissonRegression().fit(X, y, strata=strata, exposure=days)
    other = ConditionalPoisson(y, X, groups=strata, offset=np.log(days))
    fit = other.fit(start_params=model.coef_, disp=False)
    np.testing.assert_allclose(model.coef_, fit.params, atol=1e-6)
    np.testing.assert_allclose(model.summary()["se"], fit.bse, rtol=1e-4)
    np.testing.assert_allclose(model.log_likelihood_, other.loglike(model.coef_), rtol=1e-11)


def test_poisson_regression_with_a_dummy_for_each_person(rng):
    import statsmodels.api as sm

    X, y, strata, days = counts(rng)
    assert y.max() > 1  # several events in one interval too
    model = SelfControlledCaseSeries().fit(X, y, strata=strata, exposure=days)
    keep = np.isin(strata, np.unique(strata[y > 0]))
    dummies = pd.get_dummies(strata[keep]).to_numpy(float)
    full = np.hstack([X[keep], dummies])
    fit = sm.GLM(y[keep], full, family=sm.families.Poisson(), offset=np.log(days[keep])).fit(
        tol=1e-14, maxiter=200
    )
    np.testing.assert_allclose(model.coef_, fit.params[: X.shape[1]], atol=1e-9)
    np.testing.assert_allclose(model.summary()["se"], fit.bse[: X.shape[1]], rtol=1e-7)


def test_one_to_one_pairs_are_cox_regression_and_logistic_regression_of_differences(rng):
    import statsmodels.api as sm

    X = rng.normal(size=(200, 3))
    strata = np.repeat(np.arange(100), 2)
    y = np.tile([1, 0], 100)
    X[::2] += 0.3
    fits = [ConditionalLogisticRegression(method=m).fit(X, y, strata=strata) for m in METHODS]
    cox = CoxRegression().fit(X, Surv(np.ones(200), y), strata=strata)
    logit = sm.Logit(np.ones(100), X[::2] - X[1::2]).fit(disp=False, tol=1e-12)
    for model in [*fits, cox]:
        np.testing.assert_allclose(model.coef_, logit.params, atol=1e-8)
        np.testing.assert_allclose(model.summary()["se"], logit.bse, rtol=1e-7)
        np.testing.assert_allclose(model.log_likelihood_, logit.llf, rtol=1e-11)


def test_efron_is_not_breslow_with_tied_cases(rng):
    X, y, strata = matched(rng)
    a, b, c = (
        ConditionalLogisticRegression(method=m).fit(X, y, strata=strata).coef_ for m in METHODS
    )
    assert np.abs(a - b).max() > 1e-3
    assert np.abs(b - c).max() > 1e-3


@pytest.mark.parametrize("prior", [None, Laplace(0.05), Normal(0.1)])
def test_a_stratum_s_weight_is_so_many_strata(prior, rng):
    X, y, strata = matched(rng)
    w = rng.integers(0, 4, 60)
    copies = [(k, c) for k in range(60) for c in range(w[k])]
    again = np.concatenate([np.flatnonzero(strata == k) for k, _ in copies])
    labels = np.repeat(np.arange(len(copies)), 6)
    weighted = ConditionalLogisticRegression(prior=prior)
    weighted.fit(X, y, strata=strata, sample_weight=w[strata])
    repeated = ConditionalLogisticRegression(prior=prior).fit(X[again], y[again], strata=labels)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)
    np.testing.assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_, rtol=1e-10)
    np.testing.assert_allclose(weighted.summary(), repeated.summary(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("prior", [None, Laplace(0.05)])
@pytest.mark.parametrize("family", ["poisson", "breslow"])
def test_a_row_s_weight_is_so_many_rows(family, prior, rng):
    if family == "poisson":
        X, y, strata, days = counts(rng)
        model, extra = ConditionalPoissonRegression(prior=prior), {"exposure": days}
    else:
        X, y, strata = matched(rng)
        model, extra = ConditionalLogisticRegression(method="breslow", prior=prior), {}
    w = rng.integers(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), w)
    repeated = clone(model).fit(
        X[again], y[again], strata=strata[again], **{k: v[again] for k, v in extra.items()}
    )
    weighted = model.fit(X, y, strata=strata, sample_weight=w, **extra)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)
    np.testing.assert_allclose(weighted.summary(), repeated.summary(), rtol=1e-6, atol=1e-9)


def families(rng):
    X, y, strata = matched(rng)
    for method in METHODS:
        yield ConditionalLogisticRegression(method=method, prior=Laplace(0.05)), X, y, strata, {}
    X, y, strata, days = counts(rng)
    yield SelfControlledCaseSeries(prior=Laplace(0.05)), X, y, strata, {"exposure": days}


def test_rows_in_another_order_and_strata_with_other_labels(rng):
    for model, X, y, strata, extra in families(rng):
        a = clone(model).fit(X, y, strata=strata, **extra)
        order = rng.permutation(len(y))
        labels = np.array([f"set {x * 7919 % 1009}" for x in strata], dtype=object)
        b = clone(model).fit(
            X[order], y[order], strata=labels[order], **{k: v[order] for k, v in extra.items()}
        )
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
        np.testing.assert_allclose(a.log_likelihood_, b.log_likelihood_, rtol=1e-11)


def test_offsets_shift_the_predictor_and_sparse_or_table_input_changes_nothing(rng):
    for model, X, y, strata, extra in families(rng):
        offset = 0.3 * X[:, 0]
        shifted = (
            clone(model).set_params(prior=None).fit(X, y, strata=strata, offset=offset, **extra)
        )
        plain = clone(model).set_params(prior=None).fit(X, y, strata=strata, **extra)
        np.testing.assert_allclose(shifted.coef_ + np.array([0.3, 0, 0, 0]), plain.coef_, atol=1e-7)
        dense = clone(model).fit(X, y, strata=strata, **extra)
        for other in (sparse.csr_array(X), pd.DataFrame(X)):
            again = clone(model).fit(other, y, strata=pd.Series(strata), **extra)
            np.testing.assert_allclose(dense.coef_, again.coef_, atol=1e-8)
        loaded = pickle.loads(pickle.dumps(dense))
        np.testing.assert_array_equal(loaded.predict(X), dense.predict(X))
        np.testing.assert_allclose(dense.predict(X), X @ dense.coef_, atol=1e-12)


def test_cross_validation_keeps_strata_whole_and_scores_them_by_themselves(rng):
    for model, X, y, strata, extra in families(rng):
        cv = CrossValidation(3, search=[0.02, 0.2], random_state=1, tol=1e-7)
        fitted = clone(model).set_params(cv=cv, tol=1e-7).fit(X, y, strata=strata, **extra)
        from steropes.data import check_strata
        from steropes.select.folds import make_folds

        codes = check_strata(strata, len(y))
        fold = make_folds(3, 1, (y > 0).astype(int), codes, len(y), 1)[:, 0]
        assert all(len(set(fold[strata == s])) == 1 for s in np.unique(strata))
        for _, row in fitted.cv_results_.iterrows():
            for f in range(3):
                train, test = fold != f, fold == f
                part = {k: v[train] for k, v in extra.items()}
                one = clone(model).set_params(prior=Laplace(row["variance"]))
                one.fit(X[train], y[train], strata=strata[train], **part)
                offset = X[test] @ one.coef_ + np.log(extra.get("exposure", np.ones(len(y)))[test])
                flat = clone(model).set_params(prior=Laplace(1e-30), max_iter=2)
                held = flat.fit(
                    X[test],
                    y[test],
                    strata=strata[test],
                    offset=offset,
                    **({"exposure": np.ones(test.sum())} if extra else {}),
                )
                assert not held.coef_.any()
                expected = held.log_likelihood_
                if extra:  # a score has the constant of the multinomial too
                    counts = np.bincount(np.unique(strata[test], return_inverse=True)[1], y[test])
                    expected += gammaln(counts + 1).sum() - gammaln(y[test] + 1).sum()
                np.testing.assert_allclose(row[f"fold{f}"], expected, atol=1e-4)
        assert fitted.variance_ in fitted.cv_results_["variance"].to_numpy()


def test_cross_validation_searches_by_itself(rng):
    for model, X, y, strata, extra in families(rng):
        fitted = clone(model).set_params(cv=3, random_state=0).fit(X, y, strata=strata, **extra)
        assert fitted.converged_
        assert fitted.variance_ in fitted.cv_results_["variance"].to_numpy()


def test_fits_leave_the_input_and_each_other_alone(rng):
    for model, X, y, strata, extra in families(rng):
        before = X.copy(), y.copy(), strata.copy()
        first = clone(model).fit(X, y, strata=strata, **extra).coef_
        w = np.ones(len(y))
        w[strata == strata[0]] = 0.0
        clone(model).fit(X, y, strata=strata, sample_weight=w, **extra)
        again = clone(model).fit(X, y, strata=strata, **extra).coef_
        np.testing.assert_allclose(again, first, atol=1e-13)  # BLAS may round in another order
        for a, b in zip(before, (X, y, strata), strict=True):
            np.testing.assert_array_equal(a, b)


def test_refusals(rng):
    X, y, strata = matched(rng)
    exact = ConditionalLogisticRegression()
    w = np.ones(len(y))
    informative = next(s for s in np.unique(strata) if 0 < y[strata == s].sum() < 6)
    w[np.flatnonzero(strata == informative)[2]] = 2.5
    with pytest.raises(DataError, match=r"varies within the stratum of row .*1 and 2\.5"):
        exact.fit(X, y, strata=strata, sample_weight=w)
    with pytest.raises(DataError, match="needs strata"):
        exact.fit(X, y)
    with pytest.raises(DataError, match="row 3 is 2"):
        exact.fit(X, np.where(np.arange(len(y)) == 3, 2, y), strata=strata)
    with pytest.raises(DataError, match="no use for exposure"):
        exact.fit(X, y, strata=strata, exposure=w)
    with pytest.raises(DataError, match="method must be"):
        ConditionalLogisticRegression(method="approximate").fit(X, y, strata=strata)
    with pytest.raises(DataError, match="No stratum carries information"):
        exact.fit(X, np.zeros(len(y)), strata=strata)
    counts_ = ConditionalPoissonRegression()
    with pytest.raises(DataError, match="exposure must be positive; row 0"):
        counts_.fit(X, y, strata=strata, exposure=np.arange(len(y)))
    with pytest.raises(DataError, match="y must be at least 0"):
        counts_.fit(X, y - 1.0, strata=strata)
    for model in (exact, counts_, ConditionalLogisticRegression(method="efron")):
        # A column that is constant within every stratum, and one that separates.
        with pytest.raises(SeparationError, match="x1"):
            model.fit(np.column_stack([X[:, 0], strata * 1.0]), y, strata=strata)
        with pytest.raises(SeparationError, match="x1"):
            model.fit(np.column_stack([X[:, 0], y * 1.0]), y, strata=strata)
