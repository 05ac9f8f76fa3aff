"""Tables of sites that differ, drawn with a seed, and the fit of all rows in one place."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    FineGrayRegression,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    SelfControlledCaseSeries,
    Surv,
)
from steropes.studies.federation import FederatedPlan, FederatedSite, OwnerRules, federate

COLUMNS = ("drug", "year", "marker")
OPEN = OwnerRules(least=0, per_site=("times", "estimate", "surrogate", "profile"))
SITES = {"north": 260, "south": 340, "west": 150}
ROLES = {
    "linear": {"outcome": "y", "weight": "w"},
    "logistic": {"outcome": "y", "weight": "w", "offset": "o"},
    "poisson": {"outcome": "y", "exposure": "t"},
    "cox": {"outcome": "t", "event": "y", "entry": "e", "weight": "w", "offset": "o"},
    "fine_gray": {"outcome": "t", "event": "y", "weight": "w", "offset": "o"},
    "conditional": {"outcome": "y", "strata": "set"},
    "sccs": {"outcome": "y", "strata": "set", "exposure": "t"},
}


def plan_of(model, tables, columns=COLUMNS, **more):
    """A plan with the roles of a model's columns; single sites are asked where it needs them."""
    settings = {"sites": tuple(tables), "columns": columns} | ROLES[model] | more
    alone = settings.get("method", "rounds") != "rounds"
    survival = model in ("cox", "fine_gray") and settings.get("baseline") == "common"
    if alone or (survival and not settings.get("times")):
        settings["per_site"] = True
    return FederatedPlan(model=model, **settings)


def run(plan, tables, rules=OPEN):
    """The result of a plan over tables of sites in this process."""
    return federate(plan, {s: FederatedSite(s, d, rules) for s, d in tables.items()})


def site_tables(model, seed=5, sites=SITES, effect=1.0):
    """A table a site: other means, other outcomes."""
    rng = np.random.default_rng(seed)
    return {
        site: _table(model, rng, n, k, site, effect) for k, (site, n) in enumerate(sites.items())
    }


def _table(model, rng, n, k, site, effect):
    d = pd.DataFrame(
        {
            "drug": (rng.random(n) < 0.3 + 0.1 * k).astype(float),
            "year": rng.integers(2001 + 4 * k, 2011 + 4 * k, n).astype(float),
            "marker": rng.normal(k, 1 + k, n) * 1e-6,
        }
    )
    o = rng.normal(0, 0.3, n)
    eta = 0.6 * d.drug + 0.04 * (d.year - 2010) - 2e5 * d.marker
    eta = (effect * eta + 0.4 * k + o).to_numpy()
    d["o"], d["w"] = o, rng.uniform(0.5, 2.0, n)
    d["set"] = [f"{site}{i // 4}" for i in range(n)]
    if model == "linear":
        d["y"] = eta + rng.normal(size=n)
    elif model in ("logistic", "conditional"):
        d["y"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    elif model in ("poisson", "sccs"):
        d["t"] = rng.uniform(0.5, 2.0, n)
        d["y"] = rng.poisson(d.t * np.exp(eta))
    else:
        e = np.round(rng.uniform(0, 0.3, n), 2)
        t, c = rng.exponential(np.exp(-eta)), rng.exponential(1.5, n)
        d["e"], d["t"] = e, np.round(e + np.minimum(t, c), 2) + 0.01
        d["y"] = (t <= c).astype(int)
        if model == "fine_gray":
            d["y"] = np.where(d.y > 0, 1, 2 * (rng.random(n) < 0.4))
    return d


def pooled_fit(model, tables, baseline="site", prior=None, late=False, **more):
    """All rows in one place, by the estimator."""
    d = pd.concat([t.assign(site=s) for s, t in tables.items()], ignore_index=True)
    roles, settings = ROLES[model], {"tol": 1e-11, "prior": prior, **more}
    X, rest = d[list(COLUMNS)], {}
    if "weight" in roles:
        rest["sample_weight"] = d[roles["weight"]]
    if "offset" in roles:
        rest["offset"] = d[roles["offset"]]
    if "exposure" in roles:
        rest["exposure"] = d[roles["exposure"]]
    if model in ("conditional", "sccs"):
        Model = ConditionalLogisticRegression if model == "conditional" else None
        return (Model or SelfControlledCaseSeries)(**settings).fit(X, d.y, strata=d.set, **rest)
    if model == "fine_gray":
        y = Surv(d.t, d.y, d.e if late else None)
        strata = d.site if baseline == "site" else None
        return FineGrayRegression(**settings).fit(X, y, strata=strata, **rest)
    if model == "cox":
        strata = d.site if baseline == "site" else None
        return CoxRegression(**settings).fit(X, Surv(d.t, d.y, d.e), strata=strata, **rest)
    Model = {"linear": LinearRegression, "logistic": LogisticRegression,
             "poisson": PoissonRegression}[model]  # fmt: skip
    if baseline == "common":
        return Model(**settings).fit(X, d.y, **rest)
    own = pd.get_dummies(d.site)[list(tables)].astype(float)
    if prior is not None:
        settings["prior"] = dataclasses.replace(prior, exclude=tuple(own))
    return Model(fit_intercept=False, **settings).fit(pd.concat([own, X], axis=1), d.y, **rest)
