"""Decision curves: by counting, and survival outcomes against classes without censoring."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, Surv, decision_curve, kaplan_meier

RNG = np.random.default_rng(6)
N = 200
RISK = RNG.random(N)
Y = (RNG.random(N) < RISK) * 1
AT = [0.1, 0.3, 0.5, 0.9]


def test_net_benefit_counts_true_and_false_positives():
    table = decision_curve(RISK, Y, AT)
    for p in AT:
        treated = p <= RISK
        odds = p / (1 - p)
        expected = (treated & (Y == 1)).mean() - (treated & (Y == 0)).mean() * odds
        np.testing.assert_allclose(table.loc[p, "net_benefit"], expected)
        np.testing.assert_allclose(table.loc[p, "treat_all"], Y.mean() - (1 - Y.mean()) * odds)
        np.testing.assert_allclose(table.loc[p, "treated"], treated.mean())
        # Vickers' net reduction: fewer false positives at the same number of true positives.
        saved = (~treated & (Y == 0)).mean() - (~treated & (Y == 1)).mean() / odds
        np.testing.assert_allclose(table.loc[p, "avoided"], saved)


def test_complete_survival_outcomes_are_classes():
    time = np.where(Y == 1, 1.0, 3.0) + 0.1 * RNG.random(N)
    survival = decision_curve(RISK, Surv(time, np.ones(N, int)), AT, time=2.0)
    pd.testing.assert_frame_equal(survival, decision_curve(RISK, Y, AT))
    other = Surv(time, np.where(Y == 1, 1, 2))
    pd.testing.assert_frame_equal(decision_curve(RISK, other, AT, time=5.0), survival)


def test_censored_outcomes_take_the_curve_of_the_treated():
    time, event = RNG.exponential(2 - RISK), (RNG.random(N) < 0.7) * 1
    w = RNG.integers(0, 3, N)
    table = decision_curve(RISK, Surv(time, event), [0.4], time=1.0, sample_weight=w)
    treated = RISK >= 0.4
    died = 1 - kaplan_meier(Surv(time, event)[treated], sample_weight=w[treated]).at(1.0)
    share = w[treated].sum() / w.sum()
    expected = share * (died - (1 - died) * 0.4 / 0.6)
    np.testing.assert_allclose(table["net_benefit"], expected)


def test_nobody_treated_has_no_benefit():
    assert decision_curve(RISK / 2, Y, [0.9])[["treated", "net_benefit"]].to_numpy().tolist() == [
        [0.0, 0.0]
    ]


def test_what_is_no_risk_or_threshold_is_refused():
    with pytest.raises(DataError, match="probabilities; row 0"):
        decision_curve(RISK + 1, Y)
    with pytest.raises(DataError, match="between 0 and 1"):
        decision_curve(RISK, Y, [0.0])
    with pytest.raises(DataError, match="time is required"):
        decision_curve(RISK, Surv(RISK, Y))


def test_default_thresholds_end_where_nobody_treated_was_observed_long_enough():
    time = np.where(RISK > 0.8, 0.5, 3.0) + 0.1 * RNG.random(N)  # high risks are censored early
    y = Surv(time, (time > 1) * Y)
    table = decision_curve(RISK, y, time=2.0)
    assert table.index[-1] == np.floor(100 * RISK[RISK <= 0.8].max()) / 100
    assert table.notna().all().all()
    with pytest.raises(DataError, match="observed until"):
        decision_curve(RISK, y, [0.85], time=2.0)
