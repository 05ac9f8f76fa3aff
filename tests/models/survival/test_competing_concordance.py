"""Concordance with competing events: all pairs, weights, reductions, no effect of censoring."""

import numpy as np
import pytest

from steropes import CoxRegression, DataError, FineGrayRegression, Surv
from steropes.infer.concordance import competing_concordance
from steropes.infer.time_dependent_auc import CensoringWeights


def all_pairs(score, time, event, weight, tau=np.inf):
    """Compute the concordance of Wolbers and others (2014) from its definition."""
    G = np.ones(len(time))
    some = weight > 0
    G[some] = CensoringWeights(time[some], event[some], weight[some]).before
    concordant = total = 0.0
    for i in np.flatnonzero((event == 1) & (time < tau)):
        for j in range(len(time)):
            if time[j] > time[i] or (time[j] == time[i] and event[j] == 0):
                pair = weight[i] * weight[j] / G[i] ** 2
            elif event[j] == 2:
                pair = weight[i] * weight[j] / (G[i] * G[j])
            else:
                continue
            total += pair
            concordant += pair * ((score[i] > score[j]) + 0.5 * (score[i] == score[j]))
    return concordant / total


@pytest.fixture
def tied(rng):
    """Draw few distinct times and scores, with weights of zero to two."""
    n = 70
    time, event = rng.integers(1, 12, n) * 1.0, rng.integers(0, 3, n)
    return rng.integers(0, 6, n) * 1.0, time, event, rng.integers(0, 3, n) * 1.0


@pytest.mark.parametrize("tau", [None, 7.0])
def test_concordance_is_the_weighted_share_of_all_pairs(tied, tau):
    score, time, event, weight = tied
    found, _ = competing_concordance(score, time, event, None, weight, 1, tau)
    expected = all_pairs(score, time, event, weight, tau or np.inf)
    assert found == pytest.approx(expected, rel=1e-12)


def test_pairs_and_censoring_curves_are_those_of_strata(tied, rng):
    score, time, event, weight = tied
    strata = rng.integers(0, 2, len(time))
    found, influence = competing_concordance(score, time, event, strata, weight, 1)
    apart = []
    for s in (0, 1):
        k = strata == s
        apart.append(competing_concordance(score[k], time[k], event[k], None, weight[k], 1)[0])
        # A stratum alone has the same pairs if the others have no weight.
        alone = np.where(k, weight, 0.0)
        value = competing_concordance(score, time, event, strata, alone, 1)[0]
        assert value == pytest.approx(apart[-1], rel=1e-12)
    assert min(apart) < found < max(apart)
    assert abs(influence.sum()) < 1e-12


def test_influence_is_the_derivative_with_fixed_censoring_weights(tied):
    score, time, event, weight = tied
    weight = weight + 0.5
    _, influence = competing_concordance(score, time, event, None, weight, 1)
    G = CensoringWeights(time, event, weight).before
    i, j = np.meshgrid(np.arange(len(time)), np.arange(len(time)), indexing="ij")
    later = (time[j] > time[i]) | ((time[j] == time[i]) & (event[j] == 0))
    pairs = np.where(later, G[i] ** -2.0, np.where(event[j] == 2, 1 / (G[i] * G[j]), 0.0))
    pairs = np.where(event[i] == 1, pairs, 0.0)
    right = (score[i] > score[j]) + 0.5 * (score[i] == score[j])

    def value(w):
        share = pairs * np.outer(w, w)
        return (share * right).sum() / share.sum()

    step = 1e-6
    slopes = []
    for k in range(len(time)):
        up = weight.copy()
        up[k] *= 1 + step
        down = weight.copy()
        down[k] *= 1 - step
        slopes.append((value(up) - value(down)) / (2 * step))
    np.testing.assert_allclose(influence, slopes, atol=1e-9)


def test_without_competing_events_it_is_uno_s_concordance(tied):
    score, time, event, weight = tied
    X, y = score[:, None] - 3, Surv(time, event == 1)
    fine_gray = FineGrayRegression().fit(X, y, sample_weight=weight)
    cox = CoxRegression().fit(X, y, sample_weight=weight)
    given = {"sample_weight": weight, "ipcw": True, "tau": 9.0, "return_se": True}
    # Fine–Gray and Cox coefficients have the same sign, which alone matters.
    assert np.sign(fine_gray.coef_) == np.sign(cox.coef_)
    np.testing.assert_allclose(
        fine_gray.validation.concordance(X, y, **given), cox.validation.concordance(X, y, **given)
    )


def test_without_censoring_weights_change_nothing(tied):
    score, time, event, _ = tied
    X, y = score[:, None], Surv(time, np.where(event == 0, 2, event))
    m = FineGrayRegression().fit(X, y)
    np.testing.assert_allclose(
        m.validation.concordance(X, y, return_se=True),
        m.validation.concordance(X, y, ipcw=True, return_se=True),
    )


def test_weights_equal_repeated_rows_and_order_does_not_matter(tied, rng):
    score, time, event, weight = tied
    X, y = score[:, None], Surv(time, event)
    m = FineGrayRegression().fit(X, y)
    value = m.validation.concordance(X, y, sample_weight=weight, ipcw=True)
    rows = rng.permutation(np.repeat(np.arange(len(time)), weight.astype(int)))
    # Copies of an event are tied with each other and form no pair.
    assert m.validation.concordance(X[rows], y[rows], ipcw=True) == pytest.approx(value, rel=1e-12)


def test_censoring_changes_harrell_s_concordance_but_not_the_weighted_one():
    rng = np.random.default_rng(11)
    n = 40_000
    x = rng.normal(size=n)
    # Effects reverse with time, so that early and late pairs differ.
    early = rng.exponential(np.exp(-1.5 * x))
    time = np.where(early < 0.5, early, 0.5 + rng.exponential(np.exp(1.0 * x)))
    other = rng.exponential(2.0, n)
    cause = np.where(time < other, 1, 2)
    time = np.minimum(time, other)
    full = Surv(time, cause)
    leave = rng.exponential(1.2, n)
    seen = Surv(np.minimum(time, leave), np.where(time <= leave, cause, 0))
    m = FineGrayRegression().fit(x[:, None], full)
    truth = m.validation.concordance(x[:, None], full, tau=1.5)
    plain = m.validation.concordance(x[:, None], seen, tau=1.5)
    weighted, se = m.validation.concordance(x[:, None], seen, tau=1.5, ipcw=True, return_se=True)
    assert abs(weighted - truth) < 3 * se
    assert abs(plain - truth) > 5 * se


def test_censoring_weights_need_outcomes_without_entry_and_times_above_zero(tied):
    score, time, event, _ = tied
    X, y = score[:, None], Surv(time, event)
    m = FineGrayRegression().fit(X, y)
    late = Surv(time, event, np.zeros(len(time)))
    with pytest.raises(DataError, match="not defined with entry times"):
        m.validation.concordance(X, late, ipcw=True)
    with pytest.raises(DataError, match="tau must be a time above zero"):
        m.validation.concordance(X, y, tau=-1.0)
    with pytest.raises(DataError, match="no comparable pairs"):
        m.validation.concordance(X, y, ipcw=True, tau=0.5)
