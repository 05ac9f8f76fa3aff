"""Sparse covariates stay at their site, which stratifies by its own propensity score."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steropes import CoxRegression, Laplace, LogisticRegression, Surv
from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite
from steropes.studies.federation import federate

ROLES = {"model": "cox", "outcome": "days", "event": "event"}


def tables_of(rng, p=200):
    shares, slopes = rng.uniform(0.01, 0.05, p), np.r_[np.ones(20), np.zeros(p - 20)]
    out = {}
    for site, n in {"north": 2000, "south": 1500, "west": 1000}.items():
        X = (rng.random((n, p)) < shares) * 1.0
        drug = (rng.random(n) < 1 / (1 + np.exp(0.5 - X @ slopes))) * 1.0
        t, c = rng.exponential(np.exp(-0.4 * drug - X @ slopes)), rng.exponential(1.5, n)
        fit = LogisticRegression(prior=Laplace(0.05)).fit(sparse.csc_array(X), drug)
        score = np.asarray(fit.predict_proba(sparse.csc_array(X))).reshape(n, -1)[:, -1]
        d = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
        out[site] = d.assign(
            drug=drug, days=np.minimum(t, c), event=(t <= c) * 1,
            stratum=pd.qcut(pd.Series(score).rank(method="first"), 3, labels=False),
        )  # fmt: skip
    return out


def test_strata_of_own_scores_give_the_fit_of_all_rows_where_covariates_are_refused(rng):
    tables = tables_of(rng)
    sites = {s: FederatedSite(s, d) for s, d in tables.items()}
    every = tuple(c for c in tables["north"] if c.startswith("x"))
    with pytest.raises(DataError, match="was refused"):
        federate(FederatedPlan(columns=("drug", *every), sites=tuple(tables), **ROLES), sites)
    plan = FederatedPlan(columns=("drug",), sites=tuple(tables), strata="stratum", **ROLES)
    found = federate(plan, sites)
    d = pd.concat([t.assign(site=s) for s, t in tables.items()], ignore_index=True)
    strata = d.site + d.stratum.astype(str)
    y = Surv(d.days, d.event)
    pooled = CoxRegression(tol=1e-11).fit(d[["drug"]], y, strata=strata)
    np.testing.assert_allclose(found.coef, pooled.coef_, rtol=1e-8)
    crude = CoxRegression().fit(d[["drug"]], y, strata=d.site)
    assert found.coef[0] < crude.coef_[0]
