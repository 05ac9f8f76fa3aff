"""What the full data alone tell of where the best variance is."""

import numpy as np
import pytest

from simulators import indicators, outcome
from steropes import CoxRegression, CrossValidation, ElasticNet, Laplace, LogisticRegression
from steropes.select import fold_fits_along_path as cross_validated_path
from steropes.select.variance_path_constants import DEFAULT
from steropes.select.variance_prediction import foreseen, look_ahead
from tuning import tune_path

STEPS = np.log(DEFAULT.step_ratio)


def data(steps, top=6.0, growth=0.7):
    """Nonzero coefficients that grow and gains that fall, as of steps along a path."""
    fine = np.linspace(0, 12, 12001)
    count = 10 * np.exp(growth * fine)
    gain = np.exp(0.25 * (top - fine) + 0.03 * np.maximum(top - fine, 0) ** 2)
    value = np.concatenate([[0.0], np.cumsum(gain[1:] * np.diff(count))])
    return np.interp(steps, fine, value), np.interp(steps, fine, count)


@pytest.mark.parametrize("top", [4.0, 5.5, 7.0])
@pytest.mark.parametrize("unit", [1.0, 1e-5, 30.0])
def test_it_is_told_before_it_is_there(top, unit):
    """Wherever the unit of weights is: log-likelihoods and degrees of freedom are in it alike."""
    asked = []

    def fit(variance):
        steps = np.log(variance / 1e-4) / STEPS
        asked.append(steps)
        value, count = data(steps, top)
        return unit * float(value), int(count)

    ahead = look_ahead(1e-4, fit, unit, 1)
    steps = np.log(ahead.variance / 1e-4) / STEPS
    assert top - 2 < steps < top + 0.1
    # The slope is (gain - 1) d(df)/dx, of which the gain's fall is the bend.
    bend = unit * 0.25 / STEPS * 0.7 / STEPS * 10 * np.exp(0.7 * steps)
    assert 0.5 * bend < ahead.bend < 2 * bend
    assert max(asked) < top + 1
    assert np.diff(asked) == pytest.approx(2)
    assert look_ahead(1e-4, fit, unit, 10**6) is None  # few coefficients: the walk costs little


def test_what_does_not_tell_is_none():
    x = np.arange(3.0)
    assert foreseen(x[:2], np.array([0.0, 5.0]), np.array([0.0, 4.0])) is None
    df = np.array([10.0, 20.0, 30.0])
    assert foreseen(x, np.array([0.0, 20.0, 50.0]), df) is None  # the gain rises
    assert foreseen(x, np.array([0.0, 20.0, 30.0]), np.array([10.0, 20.0, 20.0])) is None
    assert foreseen(x, np.array([0.0, 20.0, 30.0]), df - 10) is None  # from nothing
    assert foreseen(x, 20 * DEFAULT.ahead_gain * np.array([0.0, 1.1, 2.1]), df) is None  # too far
    there = foreseen(x, np.array([0.0, 20.0, 30.0]), df)
    assert np.log(there.variance) == pytest.approx(1.5)
    assert look_ahead(1.0, lambda v: (0.0, 0), 1.0, 1) is None


@pytest.fixture
def small(monkeypatch):
    """Thresholds of large problems for small ones, and what was looked ahead at."""
    tune_path(monkeypatch, large=0)
    tune_path(monkeypatch, min_nonzero_for_slope=5)
    tune_path(monkeypatch, min_nonzero_for_slope=5)
    told, foresee = [], cross_validated_path.FoldsPath.foresee

    def noted(self, first):
        told.append(foresee(self, first))
        return told[-1]

    monkeypatch.setattr(cross_validated_path.FoldsPath, "foresee", noted)
    return told


def problem(rng, family):
    X = indicators(rng, 3000, 80)
    eta = X @ rng.normal(size=80) * 0.3
    if family == "logistic":
        return LogisticRegression, X, outcome("logistic", eta, rng)
    time = rng.exponential(np.exp(-eta))
    y = np.rec.fromarrays([time < 1.0, np.minimum(time, 1.0)], names="event,time")
    return CoxRegression, X, y


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["logistic", "cox"])
@pytest.mark.parametrize("prior", [Laplace(), ElasticNet(1.0, 1.0)], ids=["laplace", "elastic net"])
@pytest.mark.parametrize("unit", [None, 0.01, 20.0])
def test_the_choice_is_as_good_with_fewer_variances(rng, small, monkeypatch, family, prior, unit):
    Model, X, y = problem(rng, family)
    w = None if unit is None else unit * rng.uniform(0.5, 1.5, X.shape[0])
    cv = CrossValidation(5, random_state=0)
    model = Model(prior=prior, cv=cv)
    table = model.fit(X, y, sample_weight=w).cv_results_
    first = model.coef_.copy()
    np.testing.assert_array_equal(model.fit(X, y, sample_weight=w).coef_, first)
    tune_path(monkeypatch, large=np.inf)
    whole = Model(prior=prior, cv=cv).fit(X, y, sample_weight=w).cv_results_
    assert small[0] is not None
    assert small[-1] is None
    assert table["mean"].max() > whole["mean"].max() - 2 * DEFAULT.flat * whole["se"].max()
    assert len(table) < len(whole) + 2 * isinstance(prior, ElasticNet)  # flat for long
    assert table["variance"].iloc[0] == whole["variance"].iloc[0]  # that begins it in any case


@pytest.mark.parametrize(
    "cv",
    [
        CrossValidation(5, random_state=0, rule="one_standard_error"),
        CrossValidation(5, random_state=0, search=[0.001, 0.01]),
        CrossValidation([(np.arange(500, 3000), np.arange(500))]),
    ],
    ids=["simplest", "given", "one split"],
)
def test_other_searches_do_not_look_ahead(rng, small, cv):
    Model, X, y = problem(rng, "logistic")
    Model(prior=Laplace(), cv=cv).fit(X, y)
    assert small in ([], [None])
