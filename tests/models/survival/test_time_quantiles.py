"""Quantiles of the time to the event: R's numbers, and the curves that they are of."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from test_cox_against_r import CASES, fit

from reference_numbers import data
from steropes import CoxRegression, DataError, FineGrayRegression, Laplace, Surv

# survival 3.5-3, errors of the model (robust=FALSE):
# quantile(survfit(fit, newdata, conf.type="log-log"), c(.25, .5, .9))
NA = np.nan
R = {
    "lung weights": (
        [[179, 303, 728], [291, 567, NA], [156, 239, 624]],
        [[153, 245, 643], [212, 428, NA], [116, 201, 477]],
        [[201, 361, NA], [364, 707, NA], [179, 301, 707]],
    ),
    "veteran strata": (
        [[72, 228, 991], [25, 61, 384], [13, 21, 56]],
        [[25, 110, 357], [20, 31, 151], [2, 13, 29]],
        [[126, 389, NA], [51, 99, NA], [20, 27, 99]],
    ),
}


@pytest.mark.parametrize("case", R)
def test_quantiles_are_those_of_survfit(case):
    name, columns, strata, _ = CASES[case]
    d = data(name).iloc[[0, 39, 89]]
    given = {"strata": d[strata]} if strata else {}
    m = fit(case, "efron")
    ours = m.curves.quantile(d[columns], [0.25, 0.5, 0.9], level=0.95, kind="model", **given)
    for kind, expected in zip(("estimate", "lower", "upper"), R[case], strict=True):
        otherwise = {"estimate": NA, "lower": data(name)["time"].max(), "upper": np.inf}[kind]
        expected = np.where(np.isnan(expected), otherwise, expected)
        np.testing.assert_array_equal(getattr(ours, kind), expected)
    np.testing.assert_array_equal(m.curves.quantile(d[columns], **given), ours.estimate[:, 1])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_they_are_where_the_curves_come_down(rng, storage, monkeypatch):
    monkeypatch.setattr("steropes.models.curves.time_quantiles.MAX_ENTRIES", 60)
    n = 120
    X = rng.normal(size=(n, 2))
    y = Surv(np.ceil(6 * rng.exponential(np.exp(-X[:, 0]))), rng.integers(0, 3, n))
    strata = np.array(["b", "a", "none"])[np.r_[2, rng.integers(0, 2, n - 1)]]
    y["event"][0] = 0  # a stratum without an event
    given = {"strata": strata, "offset": rng.normal(size=n) * 0.3}
    fine_gray = FineGrayRegression().fit(storage(X), y, **given)
    y["event"] = y["event"] == 1
    cox = CoxRegression(time_varying={0: [3.0]}).fit(storage(X), y, **given)
    at = np.unique(y["time"])
    for m, curves in (
        (cox, cox.predict_survival(X, at, **given)),
        (fine_gray, 1 - fine_gray.predict_cumulative_incidence(X, at, **given)),
    ):
        found = m.curves.quantile(storage(X), [0.3, 0.5], level=0.9, **given)
        for k, target in enumerate((0.7, 0.5)):
            down = np.nan_to_num(curves, nan=1.0) <= target
            expected = np.where(down.any(axis=1), at[down.argmax(axis=1)], np.nan)
            np.testing.assert_array_equal(found.estimate[:, k], expected)
        assert np.isnan(found.estimate[0]).all()
        assert (found.lower[0] == y["time"][0]).all()
        assert np.isinf(found.upper[0]).all()
        inside = np.isfinite(found.estimate)
        assert (found.lower[inside] <= found.estimate[inside]).all()
        assert (found.upper[inside] >= found.estimate[inside]).all()
        np.testing.assert_array_equal(m.curves.quantile(X, [0.3, 0.5], **given), found.estimate)


def test_what_is_refused(rng):
    X, y = rng.normal(size=(50, 1)), Surv(rng.exponential(size=50), np.ones(50))
    m = CoxRegression(prior=Laplace(0.1)).fit(X, y)
    assert m.curves.quantile(X).shape == (50,)
    with pytest.raises(DataError, match="q must be between 0 and 1"):
        m.curves.quantile(X, [0.5, 1.0])
    with pytest.raises(DataError, match="Laplace"):
        m.curves.quantile(X, level=0.95)
    with pytest.raises(DataError, match="without strata"):
        m.curves.quantile(X, strata=np.zeros(50))
