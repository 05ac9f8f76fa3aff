"""Federated fits of many 0/1 columns, whose rare combinations sites group, against the pooled fit.

    python -m benchmarks.federated_rare_rows [draws]

prints the table of docs/federated_protocol.md: whether the plan is refused without grouping, the
share of people whose values were replaced, and the distance of the estimates to those of all rows
in one place, in standard errors of the latter.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from steropes import CoxRegression, LogisticRegression, PoissonRegression, Surv
from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules
from steropes.studies.federation import federate

DESIGNS = {
    "5 of 5 %, 3 × 20,000": (np.full(5, 0.05), 20_000),
    "6 of 30 %, 3 × 2,500": (np.full(6, 0.3), 2_500),
    "30 of 1 to 40 %, 3 × 20,000": (np.geomspace(0.01, 0.4, 30), 20_000),
}
ROLES: dict[str, dict[str, Any]] = {
    "logistic": {"outcome": "y"},
    "poisson": {"outcome": "y", "exposure": "t"},
    "cox": {"outcome": "t", "event": "y"},
    "cox, common": {
        "outcome": "t", "event": "y", "baseline": "common", "times": (0.25, 0.5, 0.75, 1.0),
    },
}  # fmt: skip
CORRELATION = 0.3  # of the normal variables behind the columns


def site_table(
    model: str, shares: np.ndarray, n: int, beta: np.ndarray, level: float,
    rng: np.random.Generator,
) -> pd.DataFrame:  # fmt: skip
    """Draw the table of a site, in which about a tenth of the people have the event."""
    shared, own = rng.normal(size=(n, 1)), rng.normal(size=(n, len(shares)))
    Z = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * own
    X = (norm.ppf(shares) > Z).astype(float)
    eta = level + (X - shares) @ beta
    d = pd.DataFrame(X, columns=[f"x{j}" for j in range(len(shares))])
    if model == "logistic":
        return d.assign(y=(rng.random(n) < 1 / (1 + np.exp(-eta))) * 1)
    if model == "poisson":
        t = rng.uniform(0.5, 1.5, n)
        return d.assign(t=t, y=rng.poisson(t * np.exp(eta)))
    t, c = rng.exponential(np.exp(-eta)), rng.uniform(0.3, 1.7, n).clip(max=1.0)
    return d.assign(t=np.minimum(t, c), y=(t <= c) * 1)


def pooled(
    model: str, tables: dict[str, pd.DataFrame], names: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and standard errors of all rows in one place."""
    d = pd.concat([t.assign(site=s) for s, t in tables.items()], ignore_index=True)
    if model.startswith("cox"):
        common, t = "common" in model, d.t
        if common:
            grid = np.asarray(ROLES[model]["times"])
            t = grid[np.searchsorted(grid, d.t)]
        fit: Any = CoxRegression().fit(d[names], Surv(t, d.y), strata=None if common else d.site)
    else:
        X = pd.concat([pd.get_dummies(d.site).astype(float), d[names]], axis=1)
        if model == "logistic":
            fit = LogisticRegression(fit_intercept=False).fit(X, d.y)
        else:
            fit = PoissonRegression(fit_intercept=False).fit(X, d.y, exposure=d.t)
    se = np.sqrt(np.diag(np.asarray(fit.vcov("model"))))
    return fit.coef_[-len(names) :], se[-len(names) :]


def main(draws: int = 5) -> None:
    """Print the table."""
    head = ("model", "columns and people", "refused without grouping", "grouped, %", "rms")
    print("|", " | ".join([*head, "largest", "ratio of errors"]), "|")
    print("|---|---|---:|---:|---:|---:|---:|")
    for model, roles in ROLES.items():
        for name, (shares, n) in DESIGNS.items():
            off, ratio, share, refused = list[np.ndarray](), [], [], 0
            for draw in range(draws):
                rng = np.random.default_rng([66, draw])
                beta, names = rng.normal(0, 0.4, len(shares)), [f"x{j}" for j in range(len(shares))]
                tables = {s: site_table(model, shares, n, beta, -2.2 + 0.2 * k, rng)
                          for k, s in enumerate(("north", "south", "west"))}  # fmt: skip
                family: Any = model.split(",")[0]
                plan = FederatedPlan(family, tuple(names), tuple(tables), **roles)
                try:
                    strict = OwnerRules(rare_rows="refuse")
                    federate(plan, {s: FederatedSite(s, d, strict) for s, d in tables.items()})
                except DataError:
                    refused += 1
                sites = {s: FederatedSite(s, d) for s, d in tables.items()}
                found: Any = federate(plan, sites)
                for site in sites.values():
                    with site.owner.ledger.open() as plans:
                        share.append(plans[0].grouped / n)
                coef, se = pooled(model, tables, names)
                off.append((found.coef - coef) / se)
                ratio.append((np.sqrt(np.diag(found.vcov)) / se).mean())
            Z = np.array(off)
            print(
                f"| {model} | {name} | {refused} of {draws} | {100 * np.mean(share):.1f} | "
                f"{np.sqrt((Z**2).mean()):.2f} | {np.abs(Z).max():.2f} | {np.mean(ratio):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
