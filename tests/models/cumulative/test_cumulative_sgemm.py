"""The published data set, fitted exactly."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steropes.models.cumulative import (
    CumulativeProbabilityModel,
    EqualQuantileBins,
    RoundSignificant,
)

DATA = Path(__file__).parents[3] / ".." / "shared" / "data" / "sgemm_product.csv.gz"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the SGEMM data are not here")
def test_sgemm_negative_log_likelihood_and_errors():
    table = pd.read_csv(DATA)
    X = np.repeat(table.iloc[:, :14].to_numpy(np.float64), 4, axis=0)
    y = table.iloc[:, 14:].to_numpy(np.float64).ravel()
    m = CumulativeProbabilityModel().fit(X, y)
    assert m.converged_
    assert len(m.alpha_) == 106_798
    assert -m.log_likelihood_ == pytest.approx(9_690_593.086, abs=5e-4)
    se = np.sqrt(np.diag(m.vcov()))
    clustered = np.sqrt(np.diag(m.vcov(cluster=np.repeat(np.arange(len(table)), 4))))
    assert ((clustered / se > 1.7) & (clustered / se < 2.4)).all()


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the SGEMM data are not here")
def test_sgemm_reductions_leave_what_the_paper_says():
    """Li, Chen and Shepherd (2022), section 4: values and ranges after rounding and binning."""
    y = pd.read_csv(DATA).iloc[:, 14:].to_numpy(np.float64).ravel()
    one = np.ones(len(y))
    rounded = RoundSignificant(10_000).apply(y, one)  # three digits, refined by 5.2
    assert len(np.unique(rounded)) == 10_068
    assert (rounded.min(), rounded.max().round(2)) == (13.25, 3396.15)
    binned = EqualQuantileBins(10_000).apply(y, one)
    # 9,067 from 15.15 on there, where a draw decides which bins are larger and splits ties.
    assert abs(len(np.unique(binned)) - 9_067) < 15
    assert binned.min() == pytest.approx(15.15, abs=0.011)
    assert binned.max() == 3268.0
