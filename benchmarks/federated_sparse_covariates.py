"""The protected route for thousands of sparse covariates, against fits of all rows in one place.

    python -m benchmarks.federated_sparse_covariates [draws]

Each site fits its own propensity model to 1,000 covariates of 0.2 to 5 %, of which 40 confound, and
writes the fifth of the score into a column; the plan names the treatment and this column only. Log
hazard ratios are printed of the federated fit, of all rows with the same strata, of all rows with
one propensity model and its fifths in each site, and without strata.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from scipy import sparse

from steropes import CoxRegression, CrossValidation, Laplace, LogisticRegression, Surv
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules
from steropes.studies.federation import federate

SITES = {"north": 4000, "south": 3000, "west": 2000}
COVARIATES, CONFOUNDERS, EFFECT = 1000, 40, 0.4


def draw(seed: int) -> tuple[dict[str, pd.DataFrame], dict[str, sparse.csr_matrix]]:
    """Draw the treatment, times and covariates of each site."""
    rng = np.random.default_rng(seed)
    shares = np.exp(rng.uniform(np.log(0.002), np.log(0.05), COVARIATES))
    gamma = np.zeros(COVARIATES)
    gamma[rng.choice(COVARIATES, CONFOUNDERS, replace=False)] = rng.normal(0, 0.5, CONFOUNDERS)
    tables, covariates = {}, {}
    for site, n in SITES.items():
        x = sparse.csr_matrix((rng.random((n, COVARIATES)) < shares).astype(float))
        risk = x @ gamma
        drug = (rng.random(n) < 1 / (1 + np.exp(0.3 - risk))).astype(float)
        time = rng.exponential(np.exp(-(EFFECT * drug + risk))) * 400
        tables[site] = pd.DataFrame(
            {"drug": drug, "days": np.ceil(np.minimum(time, 365)), "event": (time <= 365) * 1}
        )
        covariates[site] = x
    return tables, covariates


def fifths(x: sparse.csr_matrix, drug: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a cross-validated lasso, and their fifths."""
    select = CrossValidation(10, random_state=1)
    model = LogisticRegression(prior=Laplace(), cv=select).fit(x, drug)
    score = model.predict_proba(x)[:, 1]
    return score, np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)


def hazard(table: pd.DataFrame, strata: list[str]) -> tuple[float, float]:
    """Return the log hazard ratio of the treatment and its standard error."""
    groups = table[strata].astype(str).agg("-".join, axis=1) if strata else None
    fit = CoxRegression().fit(table[["drug"]], Surv(table["days"], table["event"]), strata=groups)
    return float(fit.coef_[0]), float(fit.summary()["se"].iloc[0])


def compared(seed: int) -> dict[str, float]:
    """Return the estimates of one draw."""
    tables, covariates = draw(seed)
    for site, table in tables.items():
        table["stratum"] = fifths(covariates[site], table["drug"].to_numpy())[1]
    plan = FederatedPlan(
        model="cox", columns=("drug",), sites=tuple(SITES), outcome="days", event="event",
        strata="stratum",
    )  # fmt: skip
    sites = {name: FederatedSite(name, table, OwnerRules()) for name, table in tables.items()}
    found = federate(plan, sites)
    rows = pd.concat([table.assign(site=site) for site, table in tables.items()])
    own, error = hazard(rows, ["site", "stratum"])
    score, _ = fifths(sparse.vstack([*covariates.values()]).tocsr(), rows["drug"].to_numpy())
    rows["common"] = [
        str(k) for _, of in rows.assign(score=score).groupby("site", sort=False)["score"]
        for k in np.searchsorted(np.quantile(of, [0.2, 0.4, 0.6, 0.8]), of)
    ]  # fmt: skip
    return {
        "federated": float(found.coef[0]), "same strata": own, "error": error,
        "one model": hazard(rows, ["site", "common"])[0], "no strata": hazard(rows, ["site"])[0],
        "rounds": found.rounds,
    }  # fmt: skip


def main() -> None:
    """Print the estimates of each draw."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    table = pd.DataFrame([compared(seed) for seed in range(draws)])
    print(table.round(4).to_string())
    print(
        "largest distance to the same strata:",
        (table["federated"] - table["same strata"]).abs().max(),
    )


if __name__ == "__main__":
    main()
