"""The published data set, fitted exactly."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steropes.models.cumulative import CumulativeProbabilityModel

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
