"""A fit is there whole or not at all, and it stays what it was until the next one."""

import contextlib
import copy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    Laplace,
    LogisticRegression,
    Normal,
    NotConvergedWarning,
    PoissonRegression,
    SeparationError,
    Surv,
)
from steropes.models.fitting.progress_messages import Progress

CV = CrossValidation(2, search=[0.1, 1.0])


def interrupt(*_):
    raise KeyboardInterrupt


def other(c):
    """The same rows under other names with a column more."""
    X = np.column_stack([c.X, c.X[:, 0] * c.X[:, 1] + np.arange(len(c.X)) % 3])
    return pd.DataFrame(X, columns=[f"z{j}" for j in range(X.shape[1])])


def same(before, model):
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[k] is before[k] for k in before)


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY)
def test_a_refused_or_interrupted_refit_leaves_the_last_fit(family, rng, monkeypatch):
    c = case(family, rng)
    at = {"time": 1.0} if "step" in family else {}
    m = c.fit(prior=Normal(1.0), cv=CV, random_state=0)
    table, eta = m.summary(), m.predict(c.X, **at)
    X = other(c)

    def refuse(expected, X=X, weights=None):
        before = dict(vars(m))
        with pytest.raises(expected):
            m.fit(X, c.y[::-1], sample_weight=weights, **c.extras)
        same(before, m)
        pd.testing.assert_frame_equal(m.summary(), table)
        assert m.n_features_in_ == c.X.shape[1]
        np.testing.assert_array_equal(m.predict(c.X, **at), eta)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "report", interrupt)
        refuse(KeyboardInterrupt)
    with monkeypatch.context() as patch:
        whole = type(m)._fit_problem
        patch.setattr(type(m), "_fit_problem", lambda *given: (whole(*given), interrupt()))
        refuse(KeyboardInterrupt)
    refuse(DataError, weights=np.full(len(c.X), -1.0))
    m.set_params(prior=Normal(1.0, exclude=["no such column"]))
    refuse(DataError)
    m.set_params(prior=None, cv=None)
    refuse((DataError, SeparationError), X.assign(twice=X["z0"]))


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY)
def test_a_first_fit_that_is_interrupted_leaves_none(family, rng, monkeypatch):
    c = case(family, rng)
    m = c.make(prior=Normal(1.0), cv=CV)
    before = dict(vars(m))
    monkeypatch.setattr(Progress, "report", interrupt)
    with pytest.raises(KeyboardInterrupt):
        m.fit(c.X, c.y, **c.extras)
    same(before, m)


def test_classes_of_a_refused_refit_do_not_turn_predictions_round(rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, "b", "a")
    m = LogisticRegression().fit(X, y)
    before = m.predict(X)
    with pytest.raises(SeparationError):
        m.fit(X[:, [0, 0]], np.where(y == "b", "a", "c"))
    assert (m.predict(X) == before).all()


def test_a_refit_keeps_nothing_of_the_fit_before(rng):
    c = case("cox strata", rng)
    m = c.make(prior=Laplace(), cv=2, random_state=0)
    m.fit(pd.DataFrame(c.X).rename(columns=str), c.y, **c.extras)
    m.set_params(cv=None, prior=None).fit(c.X, c.y)
    fresh = CoxRegression(random_state=0).fit(c.X, c.y)
    assert vars(m).keys() == vars(fresh).keys()
    assert "stratum" not in m.curves.baseline_hazard(level=None)


def test_what_a_user_put_beside_the_fit_stays(rng):
    c = case("logistic", rng)
    m = c.make()
    m.note = "ours"
    m.fit(c.X, c.y).fit(c.X, c.y)
    assert m.note == "ours"


def test_a_fit_that_fell_short_is_kept_though_the_warning_is_an_error(rng):
    c = case("poisson", rng)
    m = c.make(max_iter=1)
    with pytest.raises(NotConvergedWarning):
        m.fit(c.X, c.y, **c.extras)
    assert not m.converged_
    assert m.coef_.shape == (5,)


# -- settings changed after the fit ----------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY)
def test_settings_changed_after_a_fit_change_nothing_of_it(family, rng):
    c = case(family, rng)
    kwargs = {"time": 1.0} if "step" in family else {}
    prior = Normal(np.full(5, 2.0))
    one, two = c.fit(prior=Normal(np.full(5, 2.0))), c.fit(prior=prior)
    prior.variance[:] = 1e-6
    for name, value in {
        "fit_intercept": False, "link": "cauchit", "baseline": "interval", "interval": 0.5,
        "method": "breslow", "ties": "breslow", "time_varying": {2: [1.0]}, "cause": 2,
        "prior": Laplace(), "cv": 3, "tol": 1e-2, "solver": "ccd",
    }.items():  # fmt: skip
        if name in two.get_params():
            two.set_params(**{name: value})
    pd.testing.assert_frame_equal(two.summary(), one.summary())
    np.testing.assert_array_equal(two.predict(c.X, **kwargs), one.predict(c.X, **kwargs))


def test_a_link_changed_after_a_fit_changes_no_prediction(rng):
    c = case("cumulative", rng)
    m = c.fit()
    before = m.predict_cdf(c.X, 0.0, level=0.9)
    m.set_params(link="cauchit")
    for a, b in zip(before, m.predict_cdf(c.X, 0.0, level=0.9), strict=True):
        np.testing.assert_array_equal(a, b)


# -- what the caller goes on using -----------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("family", EVERY)
def test_standard_errors_do_not_follow_the_buffers_that_were_passed(family, form, rng):
    X = (rng.random((200, 4)) < 0.4).astype(float)  # indicators need no conversion
    X[:, 3] = 1 - X[:, 3] if form is np.array else X[:, 3]
    c = case(family, rng, X=X)
    n = len(X)
    whole = np.repeat(rng.integers(1, 3, -(-n // 5)), 5)[:n].astype(float)  # of a set, a person
    given = {**c.extras, "sample_weight": whole, "offset": rng.normal(size=n) * 0.1}
    given = {k: np.array(v) for k, v in given.items()}
    expected = c.make(prior=Normal(4.0)).fit(form(X), c.y, **given).summary()
    x, y = form(X), c.y.copy()
    m = c.make(prior=Normal(4.0)).fit(x, y, **given)
    for values in (given["sample_weight"], given["offset"], given.get("exposure")):
        if values is not None:
            values *= 4
    if "strata" in given:
        given["strata"][:] = given["strata"][0]
    y[:] = y[::-1].copy()
    if isinstance(x, np.ndarray):
        x[:] = rng.random(x.shape)
    else:
        x.data[:] = 7.0
        x.indices[:] = x.indices[::-1].copy()
        x.indptr[1:-1] = 0
    pd.testing.assert_frame_equal(m.summary(), expected)


def test_censored_outcomes_are_the_fits_own(rng):
    from steropes import Censored

    X, y = rng.normal(size=(80, 2)), rng.normal(size=80).round(1)
    y = Censored(y, np.where(y > 1, np.inf, y))
    expected = CumulativeProbabilityModel().fit(X, y).confint(method="profile")
    m = CumulativeProbabilityModel().fit(X, y)
    y["lower"] -= 5
    y["upper"] -= 5
    pd.testing.assert_frame_equal(m.confint(method="profile"), expected)


def test_a_covariance_that_was_changed_is_not_the_models(rng):
    c = case("cumulative", rng)
    m = c.fit()
    for kind in ("model", "robust"):
        before = m.vcov(kind).copy()
        with contextlib.suppress(ValueError):  # read-only is as good
            m.vcov(kind).to_numpy()[:] = 0.0
        pd.testing.assert_frame_equal(m.vcov(kind), before)


# -- settings --------------------------------------------------------------------------------------

NONSENSE = {
    "tol": ["a", np.inf, np.nan, 0.0, -1.0, None, True, [1e-8]],
    "max_iter": [10.5, 0, "many", None, True, np.inf],
    "n_jobs": [0, -3, 1.5, "all", True],
    "device": ["gpu", None, 0, ["cpu"]],
    "verbose": ["yes", None, 0.5],
    "solver": ["lbfgs", None, 3],
    "prior": ["l1", 1.0, Laplace],
    "cv": ["five", 1, 2.5, True, 0],
    "random_state": ["seed", -1, 1.5],
}


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("family", EVERY)
def test_settings_that_make_no_sense_are_refused_by_name(family, name, rng):
    c = case(family, rng, n=60)
    for value in NONSENSE[name]:
        cv = {"cv": 2} if name == "random_state" else {}
        m = c.make(**{"prior": Laplace(0.1), **cv, name: value})
        with pytest.raises(DataError, match="folds" if name == "cv" else name):
            m.fit(c.X, c.y, **c.extras)


def test_an_intercept_is_wanted_or_not(rng):
    X = rng.normal(size=(30, 2))
    for value in ("no", None, 2):
        with pytest.raises(DataError, match="fit_intercept"):
            PoissonRegression(fit_intercept=value).fit(X, np.ones(30))


def test_whole_numbers_of_numpy_are_settings(rng):
    y = Surv(rng.exponential(size=30), np.ones(30))
    m = CoxRegression(max_iter=np.int32(50), tol=np.float32(1e-6), n_jobs=np.int64(1))
    assert m.fit(rng.normal(size=(30, 1)), y).converged_


@pytest.mark.sampled
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("family", EVERY)
def test_a_copy_of_a_fit_can_do_what_the_fit_can(family, how, rng):
    c = case(family, rng)
    m = c.fit(prior=Normal(1.0))
    again = how(m)
    for kind in ("model", "robust"):
        pd.testing.assert_frame_equal(again.summary(kind=kind), m.summary(kind=kind))
    interval = again.confint([-1], method="profile")
    pd.testing.assert_frame_equal(interval, m.confint([-1], method="profile"))
    if how is copy.deepcopy:
        again.coef_[:] = 0.0
        again.prior.set_params(variance=2.0)
        assert m.coef_.any()
        assert m.prior.variance == 1.0


def test_the_warning_is_one_of_scikit_learn():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning):
        LogisticRegression(max_iter=1).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
