"""Cross-validation equals refitting each fold by hand, whatever the threads."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import LeaveOneGroupOut, RepeatedKFold

import reference
from simulators import FAMILIES, problem
from steropes import (
    BrokenAdaptiveRidge,
    CoxRegression,
    CrossValidation,
    DataError,
    ElasticNet,
    FusedLaplace,
    GroupLaplace,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)
from steropes.select.folds import cut, make_folds

MODELS = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
}
GRID = [0.003, 0.05, 1.0]


def data(family, seed=0, n=160, p=6):
    rng = np.random.default_rng(seed)
    X, y = problem(family, rng, n, p)
    label = {"linear": None, "logistic": y, "poisson": np.asarray(y) > 0}.get(family, y[1])
    w = rng.choice([0.0, 1.0, 1.0, 2.0], n)
    return X, y, None if label is None else np.asarray(label).astype(int), w


def outcome(family, y, rows=slice(None)):
    return Surv(y[0][rows], y[1][rows]) if family == "cox" else y[rows]


def log_likelihood(family, model, X, y, w, train_w):
    """Of rows with weights w, by the definitions of the scores."""
    eta = X @ model.coef_ + getattr(model, "intercept_", 0.0)
    loss, _ = reference.loss(family, eta, y, w)
    if family == "linear":
        variance = np.sum(train_w * (y - eta) ** 2) / train_w.sum()
        return -loss / variance - 0.5 * w.sum() * np.log(2 * np.pi * variance)
    return -loss


def by_hand(family, prior, grid, fold, scoring="held_out"):
    """Scores (variances, folds) by a separate fit of the training rows of each fold."""
    X, y, _, w = data(family)
    out = np.empty((len(grid), fold.max() + 1))
    for i, variance in enumerate(grid):
        for f in range(fold.max() + 1):
            train = np.flatnonzero(fold != f)
            m = MODELS[family](prior=prior.with_variance(variance), tol=1e-10).fit(
                X[train], outcome(family, y, train), sample_weight=w[train]
            )
            out_w, in_w = w * (fold == f), w * (fold != f)
            if scoring == "held_out":
                out[i, f] = log_likelihood(family, m, X, y, out_w, in_w)
            else:
                out[i, f] = log_likelihood(family, m, X, y, w, in_w) - log_likelihood(
                    family, m, X, y, in_w, in_w
                )
    return out


def folds_of_rows(cv, label, w):
    """The fold of each row; of one without weight none."""
    return cut(cv, label, None, w)[0][:, 0]


def scores(model):
    table = model.cv_results_
    return table[[c for c in table if c.startswith("fold")]].to_numpy()


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "prior",
    [
        Laplace(),
        Normal(),
        ElasticNet(1.0, 0.5),
        Laplace([1, 2, 3, 1, 2, 3.0], exclude=[2]),
        GroupLaplace([0, 0, 1, 1, 1, 2]),
        FusedLaplace([[0, 1, 2], [4, 5]]),
        BrokenAdaptiveRidge(),
    ],
    ids=["laplace", "normal", "elastic", "per column", "groups", "chains", "adaptive"],
)
def test_scores_are_those_of_naive_refits(family, prior):
    X, y, label, w = data(family)
    cv = CrossValidation(4, search=GRID, random_state=11, tol=1e-9)
    m = MODELS[family](prior=prior, cv=cv).fit(X, outcome(family, y), sample_weight=w)
    fold = folds_of_rows(cv, label, w)
    np.testing.assert_allclose(scores(m), by_hand(family, prior, GRID, fold), atol=2e-6)
    assert m.cv_results_["variance"].tolist() == GRID
    np.testing.assert_allclose(m.cv_results_["mean"], scores(m).mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        m.cv_results_["se"], scores(m).std(axis=1, ddof=1) / np.sqrt(4), rtol=1e-9
    )


def test_a_logistic_score_counts_the_held_out_rows_of_both_classes():
    """DESIGN: a score that sums only the cases' log p, the non-cases' log(1 − p) left out."""
    X, y, label, w = data("logistic")
    cv = CrossValidation(4, search=[0.05], random_state=11, tol=1e-9)
    m = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y, sample_weight=w)
    fold = folds_of_rows(cv, label, w)
    wrong, right = [], []
    for f in range(4):
        train = fold != f
        part = LogisticRegression(prior=Laplace(0.05)).fit(
            X[train], y[train], sample_weight=w[train]
        )
        log_p = part.predict_log_proba(X)
        held = w * ~train
        wrong.append(np.sum(held * y * log_p[:, 1]))
        right.append(np.sum(held * np.where(y == 1, log_p[:, 1], log_p[:, 0])))
    np.testing.assert_allclose(scores(m)[0], right, atol=1e-5)
    assert np.abs(scores(m)[0] - wrong).min() > 1.0


def test_both_scores_of_cox():
    for scoring in ("held_out", "difference"):
        X, y, label, w = data("cox")
        cv = CrossValidation(4, search=GRID, random_state=11, tol=1e-9, scoring=scoring)
        m = CoxRegression(prior=Laplace(), cv=cv).fit(X, outcome("cox", y), sample_weight=w)
        fold = folds_of_rows(cv, label, w)
        expected = by_hand("cox", Laplace(), GRID, fold, scoring)
        np.testing.assert_allclose(scores(m), expected, atol=2e-6)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_the_two_scores_agree_where_rows_are_independent(family):
    X, y, _, w = data(family)
    fits = [
        MODELS[family](
            prior=Laplace(),
            cv=CrossValidation(4, search=GRID, random_state=3, tol=1e-9, scoring=s),
        ).fit(X, y, sample_weight=w)
        for s in ("held_out", "difference")
    ]
    np.testing.assert_allclose(scores(fits[0]), scores(fits[1]), atol=1e-8)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [Laplace(), Normal(), ElasticNet(1.0, 1.0)])
def test_the_automatic_search_returns_a_variance_that_it_evaluated(family, prior):
    """DESIGN: a cross-validation search that returns a variance it never evaluated."""
    X, y, _, w = data(family, n=300)
    m = MODELS[family](prior=prior, cv=5, random_state=1).fit(
        X, outcome(family, y), sample_weight=w
    )
    table = m.cv_results_
    assert m.variance_ in table["variance"].to_numpy()
    assert m.variance_ == table["variance"][table["mean"].argmax()]
    assert m.prior_.variance == m.variance_
    assert m.converged_
    refit = MODELS[family](prior=m.prior_).fit(X, outcome(family, y), sample_weight=w)
    np.testing.assert_allclose(m.coef_, refit.coef_, atol=1e-6)
    # Nothing within a step of the best is better by more than 0.01 standard errors.
    near = [m.variance_ * f for f in (0.7, 0.9, 1.1, 1.4)]
    fold = CrossValidation(5, search=[m.variance_, *near], random_state=1, tol=1e-6)
    again = MODELS[family](prior=prior, cv=fold).fit(X, outcome(family, y), sample_weight=w)
    table = again.cv_results_
    at = table["mean"][table["variance"] == m.variance_].iloc[0]
    assert table["mean"].max() - at <= 0.05 * table["se"].max()


def test_the_default_tolerance_of_the_folds_is_far_below_the_noise_of_the_score():
    X, y, _, w = data("cox")
    fits = [
        CoxRegression(
            prior=Laplace(), cv=CrossValidation(5, search=GRID, random_state=0, tol=tol)
        ).fit(X, outcome("cox", y), sample_weight=w)
        for tol in (1e-3, 1e-9)
    ]
    error = np.abs(fits[0].cv_results_["mean"] - fits[1].cv_results_["mean"])
    assert (error < 0.01 * fits[1].cv_results_["se"]).all()


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_threads_change_no_bit_of_a_cross_validation(family):
    """DESIGN: results that depend on the number of threads."""
    X, y, _, w = data(family, n=400)
    fits = [
        MODELS[family](
            prior=Laplace(), cv=CrossValidation(5, repeats=2, random_state=5), n_jobs=jobs
        ).fit(X, outcome(family, y), sample_weight=w)
        for jobs in (1, 2)
    ]
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()
    assert fits[0].cv_results_.equals(fits[1].cv_results_)


def test_repeats_are_cut_anew_and_all_scored():
    X, y, _, _ = data("logistic")
    cv = CrossValidation(4, repeats=3, search=[0.1], random_state=2)
    m = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    assert scores(m).shape == (1, 12)
    assert len(np.unique(scores(m))) == 12
    first = LogisticRegression(
        prior=Laplace(), cv=CrossValidation(4, search=[0.1], random_state=2)
    ).fit(X, y)
    np.testing.assert_allclose(scores(m)[:, :4], scores(first), atol=1e-4)


def test_a_small_memory_changes_nothing_but_the_memory():
    X, y, _, w = data("cox")
    fits = [
        CoxRegression(
            prior=Laplace(),
            cv=CrossValidation(5, repeats=4, search=GRID, random_state=0, tol=1e-8, memory=m),
        ).fit(X, outcome("cox", y), sample_weight=w)
        for m in (4e9, 1.0)
    ]
    np.testing.assert_allclose(scores(fits[0]), scores(fits[1]), atol=1e-6)


def test_the_seed_decides_and_nothing_else():
    X, y, _, _ = data("logistic")
    a, b = (LogisticRegression(prior=Laplace(), cv=4, random_state=7).fit(X, y) for _ in range(2))
    assert a.cv_results_.equals(b.cv_results_)
    c = LogisticRegression(prior=Laplace(), cv=4, random_state=8).fit(X, y)
    assert not np.array_equal(scores(a), scores(c))


def test_a_cross_validation_leaves_nothing_behind():
    """DESIGN: a fit that changes another fit: the last fold's weights, a path's last variance."""
    X, y, _, w = data("cox")
    before = CoxRegression(prior=Laplace(0.1)).fit(X, outcome("cox", y), sample_weight=w)
    cv = CrossValidation(4, search=GRID, random_state=0)
    model = CoxRegression(prior=Laplace(7.0), cv=cv).fit(X, outcome("cox", y), sample_weight=w)
    assert model.prior == Laplace(7.0)
    assert model.cv == cv
    after = CoxRegression(prior=Laplace(0.1)).fit(X, outcome("cox", y), sample_weight=w)
    assert before.coef_.tobytes() == after.coef_.tobytes()
    model.set_params(cv=None, prior=Laplace(0.1)).fit(X, outcome("cox", y), sample_weight=w)
    assert not hasattr(model, "cv_results_")
    assert model.coef_.tobytes() == before.coef_.tobytes()


# -- folds -----------------------------------------------------------------------------------------


def test_folds_have_equal_sizes_and_spread_the_outcome():
    rng = np.random.default_rng(0)
    for n, share in ((103, 0.1), (1000, 0.02), (57, 0.5)):
        label = (rng.random(n) < share).astype(int)
        fold = make_folds(5, 3, label, None, n, 1)
        assert fold.shape == (n, 3)
        for r in range(3):
            assert np.ptp(np.bincount(fold[:, r], minlength=5)) <= 1
            assert np.ptp(np.bincount(fold[label == 1, r], minlength=5)) <= 1
        assert not np.array_equal(fold[:, 0], fold[:, 1])


def test_strata_stay_whole_in_a_fold():
    rng = np.random.default_rng(0)
    strata = rng.integers(0, 40, 300)
    _, strata = np.unique(strata, return_inverse=True)
    fold = make_folds(7, 2, rng.integers(0, 2, 300), strata, 300, 0)
    for r in range(2):
        for s in range(strata.max() + 1):
            assert len(np.unique(fold[strata == s, r])) == 1
    with pytest.raises(DataError, match="at least as many strata"):
        make_folds(50, 1, None, strata, 300, 0)


def test_splits_of_scikit_learn_are_folds():
    X, y, _, w = data("logistic")
    group = np.arange(len(X)) % 4
    splits = list(LeaveOneGroupOut().split(X, groups=group))
    cv = CrossValidation(splits, search=GRID, tol=1e-9)
    m = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(scores(m), by_hand("logistic", Laplace(), GRID, group), atol=2e-6)
    many = list(RepeatedKFold(n_splits=3, n_repeats=4, random_state=0).split(X))
    m = LogisticRegression(prior=Laplace(), cv=many).fit(X, y)
    assert scores(m).shape[1] == 12


@pytest.mark.parametrize(
    ("splits", "match"),
    [
        ([([0, 1], [1, 2, 3])], "row 1 in both"),
        ([([0, 1], [2])], "leaves row 3 out"),
        ([([0, 1, 2, 3], [])], "no test rows"),
        ([([0, 1, 1], [2, 3])], "Split 0 lists row 1 twice"),
        ([([0, 1], [2, 3]), ([2, -1, 3], [0, 1])], "Split 1 lists row 3 twice"),
        ([([0, 1], [2, 3, 3])], "lists row 3 twice"),
        ([(np.array([True, False]), [2, 3])], "mask of 2 rows, but X has 4"),
        ([([[0], [1]], [2, 3])], "numbers of rows"),
        ([], "no splits"),
        (3.5, "whole number"),
        ({1: 2}, "whole number or a list"),
    ],
)
def test_splits_are_checked(splits, match):
    with pytest.raises(DataError, match=match):
        LogisticRegression(prior=Laplace(), cv=CrossValidation(splits)).fit(np.eye(4), [0, 1, 0, 1])


def test_rows_that_no_split_tests_are_counted_in_a_warning():
    X, y = np.arange(8.0)[:, None], np.array([0, 1, 1, 0, 1, 0, 0, 1])
    splits = [([4, 5, 6, 7], [0, 1, 2, 3]), ([0, 1, 2, 3, 6, 7], [4, 5])]
    model = LogisticRegression(prior=Laplace(), cv=CrossValidation(splits, search=[0.1, 1.0]))
    with pytest.warns(UserWarning, match=r"2 of 8 rows .*the first is row 6"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, sample_weight=[1, 1, 1, 1, 1, 1, 0, 0])


def test_a_number_of_folds_gives_the_same_choice_in_every_call():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(80, 6)), rng.integers(0, 2, 80)
    model = LogisticRegression(prior=Laplace(), cv=5)
    first = model.fit(X, y).cv_results_
    pd.testing.assert_frame_equal(first, model.fit(X, y).cv_results_)
    other = model.set_params(random_state=3).fit(X, y).cv_results_
    assert not np.allclose(first["mean"].iloc[0], other["mean"].iloc[0])
    pd.testing.assert_frame_equal(other, model.fit(X, y).cv_results_)


def test_a_cross_validation_without_a_seed_draws_its_folds():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(80, 6)), rng.integers(0, 2, 80)
    model = LogisticRegression(prior=Laplace(), cv=CrossValidation(5, search=[0.1]))
    assert model.fit(X, y).cv_results_["mean"][0] != model.fit(X, y).cv_results_["mean"][0]


def test_more_folds_than_a_small_integer_holds_are_all_there():
    n = 40_000
    fold = make_folds(n, 1, None, None, n, 0)[:, 0]
    assert fold.min() == 0
    assert len(np.unique(fold)) == n


@pytest.mark.parametrize(
    "settings",
    [
        {"tol": np.inf}, {"tol": "a"}, {"tol": 0.0}, {"memory": np.nan}, {"memory": -1},
        {"folds": np.nan}, {"folds": np.inf}, {"folds": True}, {"folds": 1}, {"repeats": "two"},
        {"repeats": 0.5}, {"repeats": np.inf}, {"scoring": None}, {"scoring": ["held_out"]},
        {"search": [np.inf]}, {"search": [np.nan]}, {"search": None}, {"search": []},
    ],
    ids=repr,
)  # fmt: skip
def test_settings_of_a_cross_validation_that_make_no_sense_are_refused(settings):
    X, y, _, _ = data("logistic")
    with pytest.raises(DataError, match=next(iter(settings))):
        LogisticRegression(prior=Laplace(), cv=CrossValidation(**settings)).fit(X, y)


def test_folds_may_be_a_number_of_numpy():
    X, y, _, _ = data("logistic")
    fits = [
        LogisticRegression(prior=Laplace(), cv=CrossValidation(k, search=GRID, random_state=0))
        for k in (4, np.int64(4), 4.0)
    ]
    tables = [m.fit(X, y).cv_results_ for m in fits]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


def test_a_fold_far_from_the_others_is_fitted_too(rng):
    """In one fold a weak ridge alone holds the coefficients: its Hessian has to follow it."""
    X = np.zeros((36, 2))
    X[:9, 0], X[9:17, 1] = 1.0, 1e4
    y = np.zeros(36)
    y[[0, 9, 10, 11, 12, 35]] = 1.0
    fold = np.arange(36) % 3
    fold[[0, 35]] = 2  # the rest of the rows is separated but for the prior
    pairs = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    cv = CrossValidation(pairs, search=[1.0, 10.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = LogisticRegression(prior=Normal(), cv=cv).fit(X, y).cv_results_
    for f, (train, test) in enumerate(pairs):
        alone = LogisticRegression(prior=Normal(1.0), tol=1e-10).fit(X[train], y[train])
        eta = alone.linear_predictor(X[test])
        held = -np.logaddexp(0, np.where(y[test] == 1, -eta, eta)).sum()
        np.testing.assert_allclose(table[f"fold{f}"].iloc[0], held, rtol=0.01)
