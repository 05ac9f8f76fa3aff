"""Step functions of Cox models against scikit-survival and against predict_survival."""

import numpy as np
import pytest
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import brier_score
from sksurv.util import Surv as SksurvOutcome

import steropes


@pytest.fixture
def data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 2))
    time = np.ceil(5 * rng.exponential(np.exp(-0.5 * X[:, 0])))
    return X, time, rng.random(120) < 0.7


def test_functions_equal_those_of_scikit_survival(data):
    X, time, event = data
    model = steropes.CoxRegression(ties="breslow").fit(X, steropes.Surv(time, event))
    other = CoxPHSurvivalAnalysis(ties="breslow").fit(X, SksurvOutcome.from_arrays(event, time))
    at = np.arange(1, time.max() + 1)
    for name in ("predict_survival_function", "predict_cumulative_hazard_function"):
        ours, theirs = getattr(model, name)(X[:5]), getattr(other, name)(X[:5])
        for f, g in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(f(at), g(at), rtol=1e-5)
    functions = model.predict_survival_function(X)
    y = SksurvOutcome.from_arrays(event, time)
    inside = at[(at < time.max())]
    values = np.array([f(inside) for f in functions])
    assert (brier_score(y, y, values, inside)[1] > 0).all()


def test_functions_start_at_no_event_and_refuse_times_that_nobody_saw(data):
    X, time, event = data
    model = steropes.CoxRegression().fit(X, steropes.Surv(time, event))
    survival, hazard = (
        f(X[:1])[0]
        for f in (model.predict_survival_function, model.predict_cumulative_hazard_function)
    )
    assert survival(0) == 1
    assert hazard(0) == 0
    assert survival.domain == (0, time.max())
    for t in (-1, time.max() + 1, np.nan):
        with pytest.raises(steropes.DataError, match=r"known from 0 to"):
            survival([1, t])
    np.testing.assert_array_equal(model.unique_times_, np.unique(time[event]))
    np.testing.assert_array_equal(
        model.predict_survival(X), model.predict_survival(X, model.unique_times_)
    )


def test_each_row_has_the_functions_of_its_stratum(data):
    X, time, event = data
    strata = np.where(np.arange(120) < 60, "a", "b")
    time[strata == "b"] = np.minimum(time[strata == "b"], 3)
    model = steropes.CoxRegression().fit(X, steropes.Surv(time, event), strata=strata)
    both = model.predict_survival_function(X[[0, 0]], strata=["a", "b"])
    for f, stratum in zip(both, "ab", strict=True):
        end = time[strata == stratum].max()
        assert f.domain[1] == end
        at = np.arange(1, end + 1)
        expected = model.predict_survival(X[:1], at, strata=[stratum])[0]
        np.testing.assert_allclose(f(at), expected, rtol=1e-14)
