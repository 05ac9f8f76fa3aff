"""The product-limit estimate: against lifelines, by its identities, and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest
from lifelines import KaplanMeierFitter

from steropes import Surv, aalen_johansen, kaplan_meier
from steropes.data.kaplan_meier import product_limit
from steropes.errors import DataError

RANDOM = np.random.default_rng(3)
N = 200
ENTRY = RANDOM.integers(0, 10, N).astype(float)
TIME = ENTRY + RANDOM.integers(1, 15, N)
EVENT = RANDOM.random(N) < 0.5
COUNTS = RANDOM.integers(0, 4, N)


@pytest.mark.parametrize("entry", [None, ENTRY], ids=["from the start", "late entry"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_agrees_with_lifelines(entry):
    ours = product_limit(TIME, EVENT, entry)
    theirs = KaplanMeierFitter().fit(TIME, EVENT, entry=entry)
    expected = theirs.survival_function_.iloc[:, 0].loc[ours.times].to_numpy()
    np.testing.assert_allclose(ours.survival, expected, rtol=1e-12, atol=1e-12)
    limits = theirs.confidence_interval_survival_function_.loc[ours.times].to_numpy()
    inside = np.isfinite(limits).all(axis=1) & (ours.survival < 1) & (ours.survival > 0)
    for mine, other in zip(ours.interval(), limits.T, strict=True):
        np.testing.assert_allclose(mine[inside], other[inside], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("entry", [None, ENTRY], ids=["from the start", "late entry"])
def test_at_risk_and_events_are_counts(entry):
    curve = product_limit(TIME, EVENT, entry)
    start = np.full(N, -1.0) if entry is None else entry
    for i, t in enumerate(curve.times):
        assert curve.at_risk[i] == ((start < t) & (t <= TIME)).sum()
        assert curve.events[i] == ((t == TIME) & EVENT).sum()


def test_greenwood_by_hand():
    # 4 people; events at 1 and 3: S = 3/4, then 3/8; sums 1/(4·3), + 1/(2·1)
    curve = product_limit([1, 2, 3, 4], [1, 0, 1, 0])
    assert curve.survival.tolist() == [0.75, 0.75, 0.375, 0.375]
    expected = [0.75**2 / 12, 0.75**2 / 12, 0.375**2 * (1 / 12 + 1 / 2)]
    np.testing.assert_allclose(curve.variance[:3], expected, rtol=1e-14)


@pytest.mark.parametrize("entry", [None, ENTRY])
def test_weights_are_repeats(entry):
    rows = np.repeat(np.arange(N), COUNTS)
    weighted = product_limit(TIME, EVENT, entry, weights=COUNTS)
    repeated = product_limit(TIME[rows], EVENT[rows], None if entry is None else entry[rows])
    at = np.isin(weighted.times, repeated.times)
    for name in ("survival", "variance", "at_risk", "events"):
        np.testing.assert_allclose(
            getattr(weighted, name)[at], getattr(repeated, name), rtol=1e-12, atol=1e-15
        )


def test_order_does_not_matter():
    order = RANDOM.permutation(N)
    a, b = product_limit(TIME, EVENT, ENTRY), product_limit(TIME[order], EVENT[order], ENTRY[order])
    np.testing.assert_array_equal(a.survival, b.survival)


def test_survival_times_censoring_is_the_share_still_watched():
    s, g = product_limit(TIME, EVENT), product_limit(TIME, EVENT, censoring=True)
    still = [(t < TIME).mean() for t in s.times]
    np.testing.assert_allclose(s.survival * g.survival, still, atol=1e-13)


def test_without_weight_rounding_the_last_death_ends_the_curve():
    weights = np.full(10, 0.1)
    curve = product_limit(np.arange(1, 11), np.ones(10), weights=weights)
    assert curve.survival[-1] == 0
    assert curve.variance[-1] == 0


def test_values_between_and_outside_the_times():
    curve = product_limit([1, 3], [1, 1])
    assert curve.at([0.5, 1, 2, 3, 9]).tolist() == [1, 0.5, 0.5, 0, 0]
    assert curve.at([1, 3], left=True).tolist() == [1, 0.5]


def test_limits_bracket_the_curve():
    curve = product_limit(TIME, EVENT, ENTRY)
    for level in (0.5, 0.95):
        lower, upper = curve.interval(level)
        assert (lower <= curve.survival).all()
        assert (curve.survival <= upper).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], []), "at least one person"),
        (([1, np.nan], [1, 0]), "time is missing or infinite in row 1"),
        (([1, 2], [1]), "event has shape"),
        (([1, 2], [1, 0], [0, 2]), "entry must be smaller than time in row 1"),
    ],
)
def test_bad_input_is_refused(arguments, words):
    with pytest.raises(DataError, match=words):
        product_limit(*arguments)


@pytest.mark.parametrize("level", [95, 1.0, 0.0, -0.5, np.nan, "0.95", None, True])
def test_limits_need_a_level_between_zero_and_one(level):
    y = Surv([1, 2, 3, 4], [1, 0, 1, 1])
    curve, curves = kaplan_meier(y), aalen_johansen(y)
    for limits in (curve.interval, curves.interval, curve.median_interval):
        with pytest.raises(DataError, match="level must be between 0 and 1"):
            limits(level)


@pytest.mark.parametrize("ask", [lambda c, t: c.at(t), lambda c, t: c.at([1.0, t])])
@pytest.mark.parametrize("time", [np.nan, None, "2"])
def test_there_is_no_curve_at_what_is_no_time(ask, time):
    with pytest.raises(DataError, match="times"):
        ask(kaplan_meier(Surv([1, 2, 3, 4], [1, 0, 1, 1])), time)


@pytest.mark.parametrize("t", [np.nan, None, "2", [1.0, 2.0], -1.0])
def test_a_restricted_mean_is_up_to_a_time(t):
    with pytest.raises(DataError, match="t must be a time from 0 on"):
        kaplan_meier(Surv([1, 2, 3, 4], [1, 0, 1, 1])).restricted_mean(t)


def test_negative_weights_are_refused():
    with pytest.raises(DataError, match="weights must be a number >= 0 in row 0"):
        product_limit([1, 2], [1, 0], weights=[-1, 1])


def test_after_the_last_person_there_is_no_curve_unless_it_is_zero():
    # R's summary(survfit, times) leaves such times out; predictions are missing there too.
    open_end = kaplan_meier(Surv([1, 2, 3], [1, 0, 0]))
    assert open_end.at([3, 3.5, np.inf]).tolist() == pytest.approx(
        [2 / 3, np.nan, np.nan], nan_ok=True
    )
    assert open_end.at([3, 3.5], left=True).tolist() == pytest.approx([2 / 3, np.nan], nan_ok=True)
    assert np.isnan(open_end.at(4))
    closed = kaplan_meier(Surv([1, 2, 3], [1, 0, 1]))
    assert closed.at([3, 3.5, np.inf]).tolist() == [0, 0, 0]
    for y in (Surv([1, 2, 3], [1, 0, 0]), Surv([1, 2, 3], [1, 0, 1])):
        incidence = aalen_johansen(y).at([0.5, 1, 2.5, 3, 4])[1].to_numpy()
        np.testing.assert_allclose(kaplan_meier(y).at([0.5, 1, 2.5, 3, 4]), 1 - incidence)


def exactly(time, event, entry, weight, censoring):
    """The curve in rational numbers."""
    w = [Fraction(float(x)) for x in weight]
    value, out = Fraction(1), []
    for t in np.unique(time):
        before = entry < t
        risk = before & ((time > t) | ((time == t) & ~(censoring & event)))
        gone = before & (time == t) & (event != censoring)
        d, n = (sum((w[i] for i in np.flatnonzero(x)), Fraction(0)) for x in (gone, risk))
        value *= 1 - d / n if d else 1
        out.append(float(value))
    return np.array(out)


@pytest.mark.parametrize("censoring", [False, True])
@pytest.mark.parametrize("entry", [np.full(N, -1.0), ENTRY], ids=["from the start", "late entry"])
def test_a_heavy_row_drowns_no_other(entry, censoring):
    weight = np.ones(N)
    weight[RANDOM.permutation(N)[:3]] = 1e12, 1e-9, 1e6
    start = None if (entry < 0).all() else entry
    curve = product_limit(TIME, EVENT, start, weights=weight, censoring=censoring)
    expected = exactly(TIME, EVENT, entry, weight, censoring)
    np.testing.assert_allclose(curve.survival, expected, rtol=1e-13)


def test_incidences_beside_a_row_that_outweighs_all_others_have_standard_errors():
    weight = np.full(N, 1e-11)
    first = int(np.argmin(TIME))
    weight[first] = 1e7  # which all others together do not change
    event = EVENT.copy()
    event[first] = True
    curve = aalen_johansen(Surv(TIME, event, ENTRY), sample_weight=weight)
    assert (curve.survival[:-1] > 0).all()
    assert np.isfinite(curve.standard_error(curve.times).to_numpy()).all()
