"""R's survival where everything comes together: ties, entry, strata, weights, offset, clusters."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steropes import CoxRegression, Surv

R = json.loads((Path(__file__).parent / "data" / "crossed.json").read_text())
DATA = pd.DataFrame(R["data"])
ROWS = np.array(R["rows"])  # with weight
Y = Surv(DATA["time"], DATA["event"], DATA["entry"])


@cache
def fit(ties):
    X = sparse.csc_array(DATA[["x1", "x2"]].to_numpy(float))
    given = {"sample_weight": "weight", "strata": "stratum", "offset": "offset"}
    return CoxRegression(ties=ties).fit(X, Y, **{k: DATA[v] for k, v in given.items()})


def close(a, b, rtol=1e-7):
    b = np.asarray(b, float)
    a = np.asarray(a, float).reshape(b.shape)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-8 * np.nanmax(np.abs(b)))


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_estimates_and_their_errors(ties):
    m, r = fit(ties), R[ties]
    close(m.coef_, r["coef"])
    close(m.vcov("model"), r["vcov"])
    close(m.vcov("robust", cluster=DATA["cluster"]), r["robust"])
    close([m.log_likelihood_, m.null_log_likelihood_], r["log_likelihood"])
    close(m.inference.model_tests("model").loc[["score", "wald"], "chisq"], r["tests"])
    X = DATA[["x1", "x2"]].to_numpy(float)
    pairs = m.validation.concordance(
        X, Y, DATA["weight"], DATA["stratum"], DATA["offset"], True, DATA["cluster"]
    )
    close(pairs, r["concordance"])
    for transform, table in zip(("km", "identity", "rank"), r["zph"], strict=True):
        close(m.checks.proportionality(transform), table, rtol=1e-6)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_residuals(ties):
    m, r = fit(ties), R[ties]
    for kind in ("martingale", "deviance", "score", "dfbeta"):
        close(np.asarray(m.checks.residuals(kind))[ROWS], r[kind])
    for kind, theirs in {"schoenfeld": "schoenfeld", "scaled_schoenfeld": "scaledsch"}.items():
        close(m.checks.residuals(kind), r[theirs])


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_curves(ties):
    m = fit(ties)
    for i, curve in zip(R["new"], R[ties]["curves"], strict=True):
        own = DATA.iloc[[i]]
        expected = np.array([[np.nan if x in (None, "NA") else x for x in row] for row in curve])
        given = {"strata": own["stratum"], "offset": own["offset"], "kind": "model"}
        table = m.curves.survival(own[["x1", "x2"]].to_numpy(float), **given)
        np.testing.assert_array_equal(table["time"], expected[:, 0])
        inside = np.isfinite(expected).all(axis=1)
        columns = ["survival", "se", "lower", "upper"]
        close(table.loc[inside, columns], expected[inside, 1:], rtol=1e-6)
