"""The three reductions on hand-computed examples, and against the exact model."""

import numpy as np
import pytest

from steropes import DataError, SeparationError
from steropes.infer.divide_and_combine_information import (
    SubsetInformation,
    combine_thresholds,
    subset_positions,
)
from steropes.models.cumulative import (
    CumulativeProbabilityModel,
    DivideAndCombine,
    EqualQuantileBins,
    RoundDecimals,
    RoundSignificant,
    suggest,
)
from steropes.models.cumulative.large_data_approximations import GRID, _round_to

ONE = np.ones(10)


def test_bins_hold_equal_numbers_and_take_their_median():
    y = np.array([10.0, 1, 9, 2, 8, 3, 7, 4, 6, 5])
    got = EqualQuantileBins(3).apply(y, ONE)
    # Middle ranks 0.5 … 9.5 times 3/10: bins of 3, 4 and 3 with medians 2, 5.5 and 9.
    np.testing.assert_allclose(got, [9, 2, 9, 2, 9, 2, 5.5, 5.5, 5.5, 5.5])


def test_ties_stay_in_one_bin_and_weights_count_as_rows():
    y = np.array([1.0, 2, 2, 2, 3, 4])
    got = EqualQuantileBins(3).apply(y, np.ones(6))
    assert len({*got[1:4]}) == 1
    rows = np.repeat(np.arange(10), 3)
    y = np.arange(10.0) ** 2
    np.testing.assert_array_equal(
        EqualQuantileBins(4).apply(y, np.full(10, 3.0))[rows],
        EqualQuantileBins(4).apply(y[rows], np.ones(30)),
    )


def test_rounding_to_decimals_is_refined_by_the_best_multiplier():
    """0, 0.01 … 0.99: places 0 and 1 leave 2 and 11 values; 5 are reached by round(4 y) / 4."""
    y = np.arange(100) / 100
    got = RoundDecimals(5).apply(y, np.ones(100))
    scale = 1 / (np.unique(got)[1])
    assert len(np.unique(got)) == 5
    assert 3.5 < scale < 4.6
    np.testing.assert_allclose(got, np.round(scale * y) / scale)


def test_rounding_to_powers_of_ten():
    y = np.arange(0, 5000.0)
    got = RoundDecimals(6).apply(y, np.ones(5000))
    np.testing.assert_allclose(np.unique(got), np.arange(6) * 1000.0)


def test_rounding_to_significant_digits_keeps_relative_steps():
    y = np.concatenate([np.arange(1, 10, 0.01), np.arange(10, 100, 0.1), np.arange(100, 1000.0)])
    got = RoundSignificant(200).apply(y, np.ones(len(y)))
    # One digit after the leading one leaves 271 values and none leaves 28, so the multiplier
    # works on round(l y, −⌊log10 y⌋) / l.
    size = 10.0 ** np.floor(np.log10(y))
    counts = {}
    for scale in np.arange(10, 101) / 10:
        rounded = np.maximum(np.round(scale * y / size) * size / scale, size)
        counts[scale] = len(np.unique(rounded.round(9)))
    best = min(counts, key=lambda scale: abs(np.log(counts[scale]) - np.log(200)))
    # 10 itself is rounded down to 9.something by most multipliers; it stays in its decade.
    np.testing.assert_allclose(got, np.maximum(np.round(best * y / size) * size / best, size))
    assert len(np.unique(got)) == counts[best]
    assert (np.abs(got / y - 1) <= 0.5 / best + 1e-9).all()


def test_significant_digits_of_negative_and_zero():
    y = np.array([-123.0, -120.0, -0.00121, 0.0, 0.0119, 0.012, 55.0, 55.1, 56.0])
    got = RoundSignificant(7).apply(y, np.ones(9))
    assert got[3] == 0
    assert (np.diff(got) >= 0).all()
    assert got[0] < got[2] < 0 < got[4] < got[6]


def test_few_significant_values_keep_the_order():
    """1 … 30 have 12 values of one digit, so for five even the leading digit is rounded away.

    The multiplier 2.1 is the first with five: 0.21 y becomes 0 (y = 1, 2), 1 (3 … 7), 2 (8, 9) and
    in the second decade 0.021 y becomes 0 (10 … 23) and 1 (24 … 30). Undone and kept within the
    decades: 1, 10/2.1, 20/2.1, 10 and 100/2.1.
    """
    got = RoundSignificant(5).apply(np.arange(1.0, 31), np.ones(30))
    expected = np.repeat([1, 10 / 2.1, 20 / 2.1, 10, 100 / 2.1], [2, 5, 2, 14, 7])
    np.testing.assert_allclose(got, expected, rtol=1e-15)


def test_rounding_does_not_leave_the_decade():
    """1.4 times 1.06 rounds to 1, and 1/1.4 of ten is 7.1: below what 9.99 becomes, 14/1.4 = 10."""
    y = np.array([-10.6, -9.99, -1.0, 0.0, 1.0, 9.99, 10.6, 95.0])
    size = np.array([1.0, 0, 0, 0, 0, 0, 1, 1])
    got = _round_to(y, size, 1.4, 0)
    np.testing.assert_array_equal(got, [-10, -10, -1, 0, 1, 10, 10, 130 / 1.4])


def test_the_same_number_from_two_decades_is_one_value():
    """9.99999 rounds to 110/11 and 10.00001 to 11/1.1: equal to the last bit."""
    y, size = np.array([9.99999, 10.00001, 0.999999, 1.000001]), np.array([0.0, 1.0, -1.0, 0.0])
    for scale in GRID:
        for digits in (1, 2):
            np.testing.assert_array_equal(_round_to(y, size, scale, digits), [10, 10, 1, 1])


@pytest.mark.parametrize("kind", [EqualQuantileBins, RoundDecimals, RoundSignificant])
def test_no_more_values_than_asked_for_changes_nothing(kind):
    y = np.array([0.123, 5.5, 17.25, 0.123])
    assert kind(3).apply(y, np.ones(4)) is y
    with pytest.raises(DataError):
        kind(1).apply(y, np.ones(4))


def test_every_subset_gets_one_of_the_smallest_and_one_of_the_largest():
    y = np.random.default_rng(0).permutation(103).astype(float)
    subset = DivideAndCombine(4).deal(y, np.random.default_rng(1))
    assert sorted(subset[y < 4]) == [0, 1, 2, 3]
    assert sorted(subset[y >= 99]) == [0, 1, 2, 3]
    assert np.ptp(np.bincount(subset)) <= 1


def test_combined_thresholds_are_means_where_defined_and_monotone_at_the_ends():
    """Subsets {1, 3, 6} and {2, 4, 5}: at 1 only the first is defined, at 5 only it again."""
    values = np.arange(1.0, 7)
    at = [subset_positions(values, np.array(v)) for v in ([1.0, 3, 6], [2.0, 4, 5])]
    np.testing.assert_array_equal(at[0], [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(at[1], [-1, 0, 0, 1, -1])
    alpha = combine_thresholds(at, [np.array([0.0, 1.0]), np.array([-3.0, 2.0])])
    # Means: 0, (0 − 3)/2, (1 − 3)/2, (1 + 2)/2, 1; the left end falls to −1.5, the right rises.
    np.testing.assert_allclose(alpha, [-1.5, -1.5, -1.0, 1.5, 1.5])


def test_variances_of_the_combination_are_sums_over_subsets(data):
    X, y = data
    m = CumulativeProbabilityModel(reduce=DivideAndCombine(2), random_state=0).fit(X, y)
    parts = []
    for k in range(2):
        rows = m._subset_of_row == k
        parts.append(CumulativeProbabilityModel().fit(X[rows], y[rows]))
    np.testing.assert_allclose(m.coef_, (parts[0].coef_ + parts[1].coef_) / 2, rtol=1e-8)
    V = (parts[0].vcov() + parts[1].vcov()) / 4
    np.testing.assert_allclose(m.vcov(), V, rtol=1e-6)
    R = (parts[0].vcov("robust") + parts[1].vcov("robust")) / 4
    np.testing.assert_allclose(m.vcov("robust"), R, rtol=1e-6)
    middle = m.thresholds_[len(m.thresholds_) // 2]
    at = [p.thresholds_[p.thresholds_ <= middle][-1] for p in parts]
    se = [p.alpha_summary()["se"].loc[v] for p, v in zip(parts, at, strict=True)]
    assert m.alpha_summary()["se"].loc[middle] == pytest.approx(np.hypot(*se) / 2, rel=1e-6)
    out = m.predict_cdf(X[:2], middle, level=0.9)
    own = [p.predict_cdf(X[:2], v, level=0.9) for p, v in zip(parts, at, strict=True)]
    link = [x.se / (x.estimate * (1 - x.estimate)) for x in (*own, out)]  # F' = F (1 − F)
    np.testing.assert_allclose(link[2], np.hypot(*link[:2]) / 2, rtol=1e-6)
    assert (m.predict_mean(X[:2], level=0.9).se > 0).all()
    assert (m.predict_quantile(X[:2], 0.5, level=0.9).se > 0).all()


def test_single_thresholds_of_a_combination_need_no_gradient_of_all(data):
    """The closed form is the delta method's with a gradient of one entry, at the ends too."""
    X, y = data
    m = CumulativeProbabilityModel(reduce=DivideAndCombine(3), random_state=1).fit(X, y)
    information, rows = m._covariances(), m._scaled(m._check_new(X))
    k = np.arange(len(m.alpha_))
    whole = SubsetInformation.predictor_variance(information, k, rows)
    np.testing.assert_allclose(information.predictor_variance(k, rows), whole, rtol=1e-8)
    one = np.arange(len(y)) % len(k)
    np.testing.assert_allclose(
        information.paired_variance(one, rows), whole[np.arange(len(y)), one], rtol=1e-8
    )


@pytest.mark.parametrize(
    "reduction",
    [EqualQuantileBins(200), RoundDecimals(200), RoundSignificant(200), DivideAndCombine(3)],
)
def test_reductions_are_near_the_exact_model(reduction):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 3))
    y = X @ [1.0, -0.5, 0.0] + rng.logistic(size=3000)
    a = CumulativeProbabilityModel().fit(X, y)
    b = CumulativeProbabilityModel(reduce=reduction, random_state=0).fit(X, y)
    se = np.sqrt(np.diag(a.vcov()))
    assert (np.abs(a.coef_ - b.coef_) < 0.5 * se).all()
    np.testing.assert_allclose(np.sqrt(np.diag(b.vcov())), se, rtol=0.05)
    inside = np.quantile(y, [0.2, 0.5, 0.8])
    np.testing.assert_allclose(
        a.predict_cdf(X[:5], inside), b.predict_cdf(X[:5], inside), atol=0.03
    )


def test_suggestion_follows_memory_and_gives_its_reason():
    none, why = suggest(10**6, 10**6, 50, memory=8e9)
    assert none is None
    assert "no reduction is needed" in why
    bins, why = suggest(10**6, 10**6, 50, memory=1.2e9)
    assert isinstance(bins, EqualQuantileBins)
    assert "bins" in why
    parts, why = suggest(10**7, 10**7, 50, memory=4e9)
    assert parts == DivideAndCombine(4) or isinstance(parts, DivideAndCombine)
    assert "subsets" in why


def test_auto_fits_exactly_what_fits_into_memory(data):
    X, y = data
    m = CumulativeProbabilityModel(reduce="auto").fit(X, y)
    assert m.reduction_ is None
    assert "exact" in m.reduction_reason_


def test_too_many_subsets(data):
    X, y = data
    with pytest.raises(DataError, match="at least"):
        CumulativeProbabilityModel(reduce=DivideAndCombine(100)).fit(X, y)
    with pytest.raises(SeparationError, match=r"Subset \d+ of .*Use fewer subsets") as caught:
        CumulativeProbabilityModel(reduce=DivideAndCombine(50), random_state=0).fit(X, y)
    assert caught.value.columns


@pytest.mark.parametrize("size", ["a", np.nan, 2.5, None])
@pytest.mark.parametrize("kind", [EqualQuantileBins, RoundSignificant, DivideAndCombine])
def test_sizes_are_whole_numbers(kind, size, data):
    with pytest.raises(DataError, match="needs a whole number"):
        CumulativeProbabilityModel(reduce=kind(size)).fit(*data)


@pytest.mark.parametrize(
    ("reduction", "summary"),
    [
        (None, "exact"),
        (RoundDecimals(5), "0 decimals, t = 3.6: 5 of 100 distinct outcomes"),
        (RoundDecimals(20), "1 decimal, t = 1.9: 20 of 100 distinct outcomes"),
        (RoundDecimals(100), "unchanged: 100 distinct outcomes"),
        (EqualQuantileBins(10), "medians of 10 bins: 10 of 100 distinct outcomes"),
        (DivideAndCombine(3), "3 subsets of 33 or 34 rows"),
        (DivideAndCombine(4), "4 subsets of 25 rows"),
    ],
)
def test_a_fit_reports_the_chosen_precision(reduction, summary):
    y = np.arange(100) / 100
    X = np.random.default_rng(0).normal(size=(100, 1))
    model = CumulativeProbabilityModel(reduce=reduction, random_state=0).fit(X, y)
    assert model.reduction_summary_ == summary


def test_the_reported_digits_reproduce_the_rounded_outcomes():
    y = np.exp(np.random.default_rng(1).normal(5, 1, 3000))
    model = CumulativeProbabilityModel(reduce=RoundSignificant(300)).fit(
        np.arange(3000.0)[:, None] % 7, y
    )
    chosen, _, left = model.reduction_summary_.partition(": ")
    digits, t = int(chosen.split()[0]), float(chosen.split()[-1])
    place = 10.0 ** (np.floor(np.log10(y)) + 1 - digits)
    rounded = np.unique((np.round(t * y / place) * place / t).round(9))
    assert left == f"{len(rounded)} of 3,000 distinct outcomes"
    np.testing.assert_allclose(model.levels_, rounded)
