"""The check of proportional hazards in words: its tests, directions and remedies."""

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from steropes import CoxRegression, DataError, Laplace, Surv

RNG = np.random.default_rng(51)
N = 600
X = pd.DataFrame({"fading": RNG.normal(size=N), "steady": RNG.normal(size=N)})
# The hazard is exp(1.5 fading + steady / 2) until 0.5, and exp(steady / 2) after it.
EARLY = RNG.exponential(np.exp(-1.5 * X["fading"] - 0.5 * X["steady"]))
LATE = 0.5 + RNG.exponential(np.exp(-0.5 * X["steady"]))
TIME = np.where(EARLY < 0.5, EARLY, LATE)
Y = Surv(TIME, np.ones(N, int))


def test_changes_are_described_with_their_remedies():
    m = CoxRegression().fit(X, Y)
    check = m.checks.assumptions()
    assert check.doubtful == ["fading"]
    assert_frame_equal(check.table[["chisq", "df", "p"]], m.checks.proportionality())
    residuals = m.checks.residuals("scaled_schoenfeld", "fading")["fading"]
    middle = np.median(residuals.index)
    early = residuals[residuals.index <= middle].mean()
    np.testing.assert_allclose(check.table.loc["fading", "early"], early)
    assert "fading (p" in check.advice
    assert "shrinks" in check.advice
    assert "time_varying={'fading'" in check.advice
    assert check.advice in repr(check)
    assert "<table" in check._repr_html_()
    # The remedy is a setting that runs, and after which the doubt is smaller.
    better = CoxRegression(time_varying={"fading": [0.5]}).fit(X, Y)
    assert better.log_likelihood_ > m.log_likelihood_ + 10


def test_a_model_without_doubt_says_so_with_weights_strata_and_offset():
    y = Surv(RNG.exponential(np.exp(-0.5 * X["steady"])), np.ones(N, int))
    given = {
        "sample_weight": RNG.integers(1, 3, N), "strata": np.arange(N) % 2,
        "offset": 0.1 * RNG.normal(size=N),
    }  # fmt: skip
    m = CoxRegression().fit(X, y, **given)
    check = m.checks.assumptions(threshold=1e-6)
    assert check.doubtful == []
    assert "No coefficient changes with time" in check.advice


def test_what_cannot_be_checked_is_refused():
    m = CoxRegression().fit(X, Y)
    with pytest.raises(DataError, match="threshold must be"):
        m.checks.assumptions(5)
    with pytest.raises(DataError, match="Laplace prior"):
        CoxRegression(prior=Laplace(0.1)).fit(X, Y).checks.assumptions()
