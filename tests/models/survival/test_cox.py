"""Cox regression: known equivalences, other libraries, folds, extremes, refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes.backends import get_backend
from steropes.infer.concordance import concordance_index
from steropes.likelihoods import event_time_bins
from steropes.likelihoods.cox_likelihood import CoxLikelihood
from steropes.solve.hessian import hessian
from survival_reference import cox_loss


def people(seed, n=150, p=3, ties=True, late=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    time = rng.exponential(size=n) * np.exp(-X[:, 0] * 0.7) * 8
    time = np.ceil(time) if ties else time + 1e-3
    event = rng.random(n) < 0.6
    entry = time - rng.integers(1, 12, n) if late else None
    return X, time, event.astype(int), entry


def test_breslow_equals_efron_without_ties():
    X, time, event, _ = people(0, ties=False)
    y = steropes.Surv(time, event)
    one, two = (steropes.CoxRegression(ties=t).fit(X, y) for t in ("efron", "breslow"))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-10)
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-14)


def test_efron_is_not_breslow_with_ties():
    """A predecessor's `efron` silently fitted Breslow."""
    X, time, event, _ = people(0)
    y = steropes.Surv(time, event)
    for ties in ("efron", "breslow"):
        m = steropes.CoxRegression(ties=ties).fit(X, y)
        assert m.log_likelihood_ == pytest.approx(-cox_loss(X @ m.coef_, time, event, ties=ties))
    one, two = (steropes.CoxRegression(ties=t).fit(X, y) for t in ("efron", "breslow"))
    assert abs(one.coef_ - two.coef_).max() > 1e-3


def test_one_case_in_each_stratum_is_conditional_logistic():
    from statsmodels.discrete.conditional_models import ConditionalLogit

    rng = np.random.default_rng(1)
    n, k = 80, 3
    strata = np.repeat(np.arange(n), k)
    X = rng.normal(size=(n * k, 3))
    case = np.zeros((n, k), int)
    case[np.arange(n), [rng.choice(k, p=p) for p in _softmax(X @ [1, -0.5, 0], n, k)]] = 1
    case = case.ravel()
    m = steropes.CoxRegression().fit(X, steropes.Surv(2.0 - case, case), strata=strata)
    r = ConditionalLogit(case, X, groups=strata).fit(method="newton", disp=False)
    np.testing.assert_allclose(m.coef_, r.params, atol=1e-7)
    np.testing.assert_allclose(m.summary()["se"], r.bse, rtol=1e-5)
    assert m.log_likelihood_ == pytest.approx(r.llf, rel=1e-10)


def _softmax(eta, n, k):
    e = np.exp(eta.reshape(n, k))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("late", [False, True])
def test_integer_weights_are_repeats_with_breslow(late):
    X, time, event, entry = people(2, late=late)
    w = np.random.default_rng(0).integers(0, 4, len(X))
    one = steropes.CoxRegression(ties="breslow")
    one.fit(X, steropes.Surv(time, event, entry), sample_weight=w)
    at = np.repeat(np.arange(len(X)), w)
    y = steropes.Surv(time[at], event[at], None if entry is None else entry[at])
    two = steropes.CoxRegression(ties="breslow").fit(X[at], y)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(one.vcov().to_numpy(), two.vcov().to_numpy(), rtol=1e-8)


def test_rows_of_weight_zero_are_not_there():
    X, time, event, entry = people(3, late=True)
    w = (np.random.default_rng(0).random(len(X)) < 0.7).astype(float)
    for ties in ("efron", "breslow"):
        y = steropes.Surv(time, event, entry)
        one = steropes.CoxRegression(ties=ties).fit(X, y, sample_weight=w)
        two = steropes.CoxRegression(ties=ties).fit(X[w > 0], y[w > 0])
        np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)
        np.testing.assert_allclose(one.vcov().to_numpy(), two.vcov().to_numpy(), rtol=1e-8)
        np.testing.assert_allclose(
            one.vcov("robust").to_numpy(), two.vcov("robust").to_numpy(), rtol=1e-7
        )
        a, b = one.checks.proportionality("identity"), two.checks.proportionality("identity")
        assert a["df"].tolist() == b["df"].tolist()
        a, b = (
            one.curves.baseline_hazard(),
            two.curves.baseline_hazard(),
        )  # no steps where no event counts
        np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-7)


def test_entry_times_are_not_durations():
    """A predecessor collapsed start and stop to a duration."""
    X, time, event, entry = people(4, late=True)
    m = steropes.CoxRegression().fit(X, steropes.Surv(time, event, entry))
    expected = -cox_loss(X @ m.coef_, time, event, entry=entry)
    assert m.log_likelihood_ == pytest.approx(expected, rel=1e-12)
    short = steropes.CoxRegression().fit(X, steropes.Surv(time - entry, event))
    assert abs(m.coef_ - short.coef_).max() > 0.01


@pytest.mark.parametrize("late", [False, True])
def test_agreement_with_lifelines(late):
    from lifelines import CoxPHFitter

    X, time, event, entry = people(5, late=late)
    d = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        t=time, e=event, s=np.random.default_rng(0).integers(0, 3, len(X))
    )
    y = steropes.Surv(time, event, entry)
    if late:
        d["entry"] = entry
    m = steropes.CoxRegression().fit(d[["a", "b", "c"]], y, strata=d["s"])
    r = CoxPHFitter().fit(
        d, "t", "e", strata=["s"], entry_col="entry" if late else None,
        fit_options={"precision": 1e-12, "r_precision": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(m.coef_, r.params_.to_numpy(), atol=1e-6)
    np.testing.assert_allclose(m.summary()["se"], r.standard_errors_.to_numpy(), rtol=1e-5)


def test_agreement_with_scikit_survival():
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.metrics import concordance_index_censored

    X, time, event, _ = people(6)
    y = np.array(list(zip(event == 1, time, strict=True)), [("status", bool), ("days", float)])
    for ties in ("efron", "breslow"):
        m = steropes.CoxRegression(ties=ties).fit(X, y)
        r = CoxPHSurvivalAnalysis(ties=ties, tol=1e-12, n_iter=200).fit(X, y)
        np.testing.assert_allclose(m.coef_, r.coef_, atol=1e-6)
    score = m.predict(X)
    expected = concordance_index_censored(event == 1, time, score, tied_tol=0)[0]
    assert m.validation.concordance(X, y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("late", [False, True])
def test_concordance_by_its_definition(late):
    rng = np.random.default_rng(7)
    n = 120
    time = rng.integers(1, 20, n).astype(float)
    entry = time - rng.integers(1, 9, n) if late else np.full(n, -np.inf)
    event, score = rng.integers(0, 2, n), rng.integers(0, 9, n).astype(float)
    strata, w = rng.integers(0, 3, n), rng.uniform(0.5, 2, n)
    good = total = 0.0
    for i in np.flatnonzero(event):
        outlives = (time > time[i]) | ((time == time[i]) & (event == 0))
        j = np.flatnonzero(outlives & (entry < time[i]) & (strata == strata[i]))
        total += w[i] * w[j].sum()
        good += w[i] * (w[j] * ((score[j] < score[i]) + 0.5 * (score[j] == score[i]))).sum()
    got = concordance_index(score, time, event, entry if late else None, strata, w)
    assert got == pytest.approx(good / total, rel=1e-12)


@pytest.mark.sampled
@pytest.mark.parametrize("scoring", ["held_out", "difference"])
@pytest.mark.parametrize("late", [False, True])
def test_cross_validation_is_naive_refits(scoring, late):
    X, time, event, entry = people(8, n=90, late=late)
    y = steropes.Surv(time, event, entry)
    strata = np.arange(90) % 2
    fold = np.random.default_rng(0).integers(0, 3, 90)
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    cv = steropes.CrossValidation(splits, search=[0.02, 0.3], scoring=scoring, tol=1e-8)
    m = steropes.CoxRegression(prior=steropes.Normal(1.0), cv=cv).fit(X, y, strata=strata)

    def log_likelihood(b, at):
        late_entry = None if entry is None else entry[at]
        return -cox_loss(X[at] @ b, time[at], event[at], None, late_entry, strata[at])

    for v in (0.02, 0.3):
        expected = []
        for train, test in splits:
            r = steropes.CoxRegression(prior=steropes.Normal(v), tol=1e-10)
            b = r.fit(X[train], y[train], strata=strata[train]).coef_
            held = log_likelihood(b, test)
            whole = log_likelihood(b, np.arange(90)) - log_likelihood(b, train)
            expected.append(held if scoring == "held_out" else whole)
        row = m.cv_results_[np.isclose(m.cv_results_["variance"], v)].iloc[0]
        np.testing.assert_allclose(
            row[["fold0", "fold1", "fold2"]].to_numpy(float), expected, rtol=1e-6
        )


def test_order_of_rows_and_labels_of_strata_do_not_matter():
    X, time, event, entry = people(9, late=True)
    strata = np.arange(len(X)) % 4
    y = steropes.Surv(time, event, entry)
    one = steropes.CoxRegression().fit(X, y, strata=strata)
    by = np.random.default_rng(0).permutation(len(X))
    labels = [("z", 1), "a", 2.5, "m"]
    two = steropes.CoxRegression().fit(X[by], y[by], strata=[labels[s] for s in strata[by]])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-10)
    a = one.predict_survival(X[:6], [2, 5], strata=strata[:6])
    b = two.predict_survival(X[:6], [2, 5], strata=[labels[s] for s in strata[:6]])
    np.testing.assert_allclose(a, b, rtol=1e-9)


def test_covariates_far_from_zero():
    """The baseline at X = 0 is out of reach; curves and fits are not."""
    X, time, event, _ = people(10)
    y = steropes.Surv(time, event)
    one = steropes.CoxRegression().fit(X, y)
    two = steropes.CoxRegression().fit(X + 5000.0, y)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-7)
    a, b = one.predict_survival(X, [1, 5, 9]), two.predict_survival(X + 5000.0, [1, 5, 9])
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_offsets_by_the_thousand():
    X, time, event, _ = people(11)
    y = steropes.Surv(time, event)
    one = steropes.CoxRegression().fit(X, y)
    two = steropes.CoxRegression().fit(X, y, offset=np.full(len(X), 2000.0))
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)
    # Of each stratum its own shift: strata may be as far apart as they like.
    strata = np.arange(len(X)) % 3
    three = steropes.CoxRegression().fit(X, y, strata=strata)
    four = steropes.CoxRegression().fit(X, y, strata=strata, offset=1e4 * strata)
    np.testing.assert_allclose(three.coef_, four.coef_, atol=1e-8)


def test_late_entry_after_a_giant_has_left_keeps_its_digits():
    """Risk sets after one with exp(η) larger by 1e12: nothing is left of a difference of sums."""
    X, time, event, entry = people(12, late=True)
    entry = np.maximum(entry, 0.0)
    entry = np.minimum(entry, time - 0.5)
    far = (np.arange(6) * 0.1 + time.max() + 1)[:, None]
    Z = np.vstack([X, np.zeros((6, 3))])
    t = np.append(time, far + 0.5)
    e = np.append(event, np.ones(6, int))
    s = np.append(entry, far)
    offset = np.append(np.zeros(len(X)), np.full(6, 28.0))
    y = steropes.Surv(t, e, s)
    one = steropes.CoxRegression().fit(Z, y, offset=offset)
    two = steropes.CoxRegression().fit(X, steropes.Surv(time, event, entry))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-8)
    np.testing.assert_allclose(one.vcov().to_numpy(), two.vcov().to_numpy(), rtol=1e-9)


@pytest.mark.parametrize("n_strata", [1, 40, 900])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_merged_curvature_is_near_the_exact_one_and_positive(n_strata, ties):
    rng = np.random.default_rng(13)
    n, p = 3000, 6
    X = rng.normal(size=(n, p))
    time = rng.exponential(size=n)
    time = np.round(time, 2) if ties == "efron" else time
    event = (rng.random(n) < 0.7).astype(int)
    strata = rng.integers(0, n_strata, n)
    backend = get_backend("cpu")
    model = CoxLikelihood(time, event, backend, None, strata, ties)
    assert n_strata == 1 or model.risk.m > 1.5 * event_time_bins.HAZARD_BINS.min_bins
    eta = (X @ np.full(p, 0.5))[model.order][:, None]
    bound = model.weigh(np.ones((n, 1)))
    rows = steropes.as_design(X).by_rows(np.arange(p), model.order, backend)
    exact = hessian(rows, model.curvature(eta, bound, exact=True))
    near = hessian(rows, model.curvature(eta, bound))
    ratio = np.linalg.eigvals(np.linalg.solve(exact, near)).real
    assert ratio.min() > 0.6
    assert ratio.max() < 1.6


def test_merging_keeps_the_weight_of_each_stratum():
    rng = np.random.default_rng(14)
    start = np.array([0, 5, 5, 400, 1000])
    mass = rng.random(1000) * (rng.random(1000) < 0.9)
    merged = event_time_bins.merge(mass, start, 50)
    for a, b in zip(start[:-1], start[1:], strict=True):
        assert merged[a:b].sum() == pytest.approx(mass[a:b].sum())
    assert np.all(mass[merged > 0] > 0)
    assert np.count_nonzero(merged) <= 50 + 4


def test_strata_by_the_thousand_reach_the_optimum():
    rng = np.random.default_rng(15)
    n, p = 4000, 12
    X = (rng.random((n, p)) < 0.3).astype(float)
    time, event = rng.exponential(size=n), np.ones(n, int)
    strata = rng.permutation(np.arange(n) // 2)
    m = steropes.CoxRegression(tol=1e-10).fit(X, steropes.Surv(time, event), strata=strata)
    assert m.converged_
    assert m.n_iter_ <= 8
    by = np.lexsort((-time, strata))  # in each pair the later one first
    a, b = by[1::2], by[::2]
    d = X[a] - X[b]
    np.testing.assert_allclose(d.T @ (1 / (1 + np.exp(d @ m.coef_))), 0, atol=1e-6)


def test_predictions_and_refusals():
    X, time, event, _ = people(16)
    y = steropes.Surv(time, event)
    with pytest.raises(steropes.DataError, match="ties"):
        steropes.CoxRegression(ties="exact").fit(X, y)
    m = steropes.CoxRegression().fit(X, y)
    S = m.predict_survival(X, [0, 3, time.max(), 1e9])
    assert np.all(S[:, 0] == 1)
    assert np.all(np.diff(S[:, :3]) <= 0)
    assert np.isnan(S[:, 3]).all()
    with pytest.raises(steropes.DataError, match="leave strata out"):
        m.predict_survival(X, [1], strata=np.zeros(len(X)))
    with pytest.raises(steropes.DataError, match="transform"):
        m.checks.proportionality("cube")
    with pytest.raises(steropes.DataError, match="leave time out"):
        m.predict(X, time=3)
    lasso = steropes.CoxRegression(prior=steropes.Laplace(1.0)).fit(X, y)
    with pytest.raises(steropes.DataError, match="no standard errors"):
        lasso.vcov("robust")
    with pytest.raises(steropes.DataError, match="Under a Laplace prior an estimate has no"):
        lasso.checks.proportionality()
    with pytest.raises(steropes.DataError, match="comparable"):
        m.validation.concordance(X[:3], steropes.Surv([1, 2, 3], [0, 0, 0]))


def test_a_pickle_predicts_and_says_what_it_has_lost():
    X, time, event, _ = people(17)
    m = steropes.CoxRegression().fit(X, steropes.Surv(time, event))
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(m.predict_survival(X, [4]), again.predict_survival(X, [4]))
    pd.testing.assert_frame_equal(
        m.curves.baseline_hazard(level=None), again.curves.baseline_hazard(level=None)
    )
    with pytest.raises(steropes.DataError, match="unpickled"):
        again.checks.proportionality()


def test_nothing_passed_in_is_changed():
    X, time, event, entry = people(18, late=True)
    y, w, strata = steropes.Surv(time, event, entry), np.ones(len(X)), np.arange(len(X)) % 3
    kept = [x.copy() for x in (X, y, w, strata)]
    m = steropes.CoxRegression(time_varying={"x1": [4]}).fit(X, y, sample_weight=w, strata=strata)
    m.checks.proportionality()
    m.vcov("robust", cluster=strata)
    m.validation.concordance(X, y, strata=strata)
    m.predict_survival(X, [3], strata=strata)
    for now, before in zip((X, y, w, strata), kept, strict=True):
        np.testing.assert_array_equal(now, before)


def test_proportionality_under_a_normal_prior_is_that_without_it_to_first_order():
    X, time, event, entry = people(21, late=True)
    X = np.column_stack([X, X[:, 0]])  # which only the prior tells apart
    y, strata = steropes.Surv(time, event, entry), np.arange(len(X)) % 2
    without = steropes.CoxRegression().fit(X[:, :-1], y, strata=strata).checks.proportionality()
    for variance in (1e4, 0.5):
        m = steropes.CoxRegression(prior=steropes.Normal(variance)).fit(X[:, :-1], y, strata=strata)
        rtol = 1e-6 if variance == 1e4 else 0.1
        np.testing.assert_allclose(m.checks.proportionality().chisq, without.chisq, rtol=rtol)
    twice = steropes.CoxRegression(prior=steropes.Normal(0.5)).fit(X, y)
    with pytest.raises(steropes.DataError, match="change with time cannot be tested"):
        twice.checks.proportionality()


def test_proportionality_takes_events_at_two_times_of_people_who_differ():
    X = np.random.default_rng(3).normal(size=(30, 2))
    time = np.append([1.0, 1.5, 1.0], np.arange(3.0, 30.0))
    one = steropes.CoxRegression().fit(X, steropes.Surv(time, time == 1.0))
    with pytest.raises(steropes.DataError, match="effects of 'x0', 'x1' change with time cannot"):
        one.checks.proportionality()
    X[:, 1] = np.arange(30) < 2  # nobody has it after the first events
    m = steropes.CoxRegression().fit(X, steropes.Surv(time, (np.arange(30) % 3 != 1).astype(int)))
    with pytest.raises(steropes.DataError, match="effects of 'x1' change with time cannot"):
        m.checks.proportionality()
    with pytest.raises(steropes.DataError, match="effects of 'x0', 'x1' change"):
        m.checks.proportionality(np.ones_like)
