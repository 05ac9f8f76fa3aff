"""Sites that share no rows against all rows in one place: bias, coverage, bytes, rounds.

python -m benchmarks.federated --draws 1000 --profiled 400

Five sites of 2000, 1000, 600, 400 and 200 people differ in who is treated, in their covariates and
in how often the outcome occurs. The log odds or hazard ratio of the treatment is 0.5: the same at
all sites (``alike``), with a standard deviation of 0.3 between them (``differ``: then 0.5 is the
mean over sites like these, and bias and coverage are of it), or either and the outcome rare
(``rare``, ``rare-differ``: one or two in a hundred).

Every figure has its Monte-Carlo standard error beside it, after ±. Draws are paired: all methods
see the same rows. With ``--store FILE`` each draw is kept as a line of JSON, from which a run that
was stopped goes on and one with more draws begins; ``--table`` prints what is there.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from steropes import CoxRegression, Laplace, LogisticRegression, SeparationError, Surv
from steropes.designs.evidence import combine_normal
from steropes.errors import DataError, NotConvergedWarning
from steropes.models.estimators.penalized_model import PenalizedModel
from steropes.studies.federation import FederatedPlan, FederatedSite, OwnerRules, federate

from .federated_draws import TRUTH, Draw, Found, keep, stored, table

SIZES = {"a": 2000, "b": 1000, "c": 600, "d": 400, "e": 200}
COLUMNS = ("drug", "x", "z")
ALL = OwnerRules(least=0, per_site=("times", "estimate", "surrogate", "profile"))
GRID = tuple(np.round(np.arange(1, 21) * 0.1, 10))  # of a follow-up of 2

Sites = dict[str, pd.DataFrame]


def draw(model: str, scenario: str, rng: np.random.Generator) -> Sites:
    """Rows of the five sites."""
    sites = {}
    level = -4.5 if scenario.startswith("rare") else -1.0
    spread = 0.3 if scenario.endswith("differ") else 0.0
    for k, (site, n) in enumerate(SIZES.items()):
        x, z = (
            rng.normal(0.3 * k, 1 + 0.1 * k, n),
            (rng.random(n) < 0.15 + 0.1 * k).astype(float),
        )
        drug = (rng.random(n) < 1 / (1 + np.exp(1.5 - 0.3 * k - 0.5 * x))).astype(float)
        effect = TRUTH + spread * rng.normal()
        eta = level + 0.4 * (k - 2) / 2 + effect * drug + 0.4 * x - 0.3 * z
        d = pd.DataFrame({"drug": drug, "x": x, "z": z})
        if model == "logistic":
            d["y"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
        else:
            t = rng.exponential(np.exp(-eta))
            d["t"], d["y"] = np.minimum(t, 2.0), (t <= 2.0).astype(int)
        sites[site] = d
    return sites


def federated(model: str, sites: Sites, **more) -> Found:
    """The treatment's coefficient of a plan."""
    roles = {"outcome": "t", "event": "y"} if model == "cox" else {"outcome": "y"}
    alone = more.get("method", "rounds") != "rounds"
    plan = FederatedPlan(
        model=model, columns=COLUMNS, sites=tuple(sites), per_site=alone, **roles | more
    )
    found = federate(plan, {s: FederatedSite(s, d, ALL) for s, d in sites.items()})
    return _of(found.summary().loc["drug"], found.rounds, found.bytes)


def _of(line: pd.Series, rounds: int = 0, size: int = 0) -> Found:
    return Found(line["coef"], line["se"], line["lower"], line["upper"], rounds, size)


def profiles(model: str, sites: Sites) -> dict[str, Found]:
    """Combinations of the sites' profiles."""
    roles = {"outcome": "t", "event": "y"} if model == "cox" else {"outcome": "y"}
    plan = FederatedPlan(
        model=model, columns=COLUMNS, sites=tuple(sites), method="profiles",
        parameters=("drug",), per_site=True, **roles,
    )  # fmt: skip
    found = federate(plan, {s: FederatedSite(s, d, ALL) for s, d in sites.items()})
    return {
        f"profiles: {line['method']}": _of(line, found.rounds, found.bytes)
        for _, line in found.table.iterrows()
    }


def estimates(model: str, sites: Sites) -> dict[str, Found]:
    """Combinations of each site's own estimate and standard error; sites without one are lost."""
    b, se = [], []
    for d in sites.values():
        try:
            line = _fit(model, d[list(COLUMNS)], d).summary().loc["drug"]
        except (DataError, SeparationError):
            continue
        b.append(float(line["coef"]))
        se.append(float(line["se"]))
    if not b:
        return {}
    out = {}
    for name, random in (("fixed", False), ("random", True)):
        found = combine_normal(b, se, random=random)
        limits = found.log_rr, found.se, found.lower, found.upper
        out[f"estimates: {name}, normal"] = Found(*limits, 1)
    return out


def _fit(model: str, X: pd.DataFrame, d: pd.DataFrame, **more) -> PenalizedModel:
    if model == "cox":
        return CoxRegression().fit(X, Surv(d.t, d.y), **more)
    return LogisticRegression().fit(X, d.y, **more)


def pooled(model: str, sites: Sites, common: bool = False) -> Found:
    """All rows in one place."""
    d = pd.concat([s.assign(site=name) for name, s in sites.items()], ignore_index=True)
    X = d[list(COLUMNS)]
    if model == "cox":
        strata = None if common else d.site
        fit = CoxRegression().fit(X, Surv(d.t, d.y), strata=strata)
    elif common:
        fit = LogisticRegression().fit(X, d.y)
    else:
        own = pd.get_dummies(d.site)[list(sites)].astype(float)
        fit = LogisticRegression(fit_intercept=False).fit(pd.concat([own, X], axis=1), d.y)
    return _of(fit.summary().loc["drug"])


def methods(model: str) -> dict[str, Callable[[Sites], Found]]:
    """What is compared, beside profiles."""
    out: dict[str, Callable[[Sites], Found]] = {
        "pooled, stratified by site": lambda s: pooled(model, s),
        "rounds, stratified by site": lambda s: federated(model, s),
        "pooled, one baseline": lambda s: pooled(model, s, common=True),
    }
    if model == "logistic":
        out["rounds, one baseline"] = lambda s: federated(model, s, baseline="common")
        out["ODAL"] = lambda s: federated(model, s, baseline="common", method="odal")
        out["ODAL, first order"] = lambda s: federated(
            model, s, baseline="common", method="odal", order=1
        )
        return out
    out["rounds, one baseline, grid of 20"] = lambda s: federated(
        model, s, baseline="common", times=GRID
    )
    out["ODAC, stratified (ODACH)"] = lambda s: federated(model, s, method="odac")
    out["ODAC, first order"] = lambda s: federated(model, s, method="odac", order=1)
    return out


def one_draw(model: str, scenario: str, seed: int, profiled: bool) -> dict[str, Found]:
    """All methods on one draw; those that end in an error are left out."""
    sites = draw(model, scenario, np.random.default_rng(seed))
    found = {}
    for name, run in methods(model).items():
        try:
            found[name] = run(sites)
        except (DataError, SeparationError):
            continue
    found |= estimates(model, sites)
    if not profiled:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        whole = profiles(model, sites)
    return found | {k: v for k, v in whole.items() if "normal" not in k}


def runs(
    model: str, scenario: str, draws: int, profiled: int, seed: int, store: Path | None
) -> list[Draw]:
    """All methods on each draw, the first of which are profiled; none that is stored anew."""
    known, out = stored(store), []
    for i in range(draws):
        had, found = known.get((model, scenario, seed + i), (False, None))
        if found is None or (i < profiled and not had):
            found = one_draw(model, scenario, seed + i, i < profiled)
            if store is not None:
                keep(store, model, scenario, seed + i, i < profiled, found)
        out.append(found)
    return out


def lasso(draws: int, seed: int) -> pd.DataFrame:
    """ADAP, rounds, and the lead's rows alone against the pooled lasso: 50 columns, 5 matter."""
    lam, lines = 60.0, []
    for i in range(draws):
        rng = np.random.default_rng(seed + i)
        beta = np.zeros(50)
        beta[:5] = (1.0, -0.8, 0.6, -0.5, 0.4)
        names = tuple(f"x{j}" for j in range(50))
        sites = {}
        for k, site in enumerate("abc"):
            X = rng.normal(0.2 * k, 1, (600, 50))
            y = rng.random(600) < 1 / (1 + np.exp(1 - 0.3 * k - X @ beta))
            sites[site] = pd.DataFrame(X, columns=names).assign(y=y.astype(int))
        d = pd.concat(sites.values(), ignore_index=True)
        prior = Laplace(2 / lam**2)
        full = LogisticRegression(prior=prior).fit(d[list(names)], d.y).coef_
        alone = LogisticRegression(prior=Laplace(2 / (lam / 3) ** 2))
        alone = alone.fit(sites["a"][list(names)], sites["a"].y).coef_
        rows = {"the lead's rows alone": (alone, 0, 0)}
        for method in ("adap", "rounds"):
            plan = FederatedPlan(
                model="logistic", columns=names, sites=tuple(sites), baseline="common",
                prior="laplace", variance=2 / lam**2, method=method, per_site=method != "rounds",
            )  # fmt: skip
            found = federate(plan, {s: FederatedSite(s, x, ALL) for s, x in sites.items()})
            rows[method] = (found.coef[1:], found.rounds, found.bytes)
        lines += [
            {"method": m, "largest difference": np.abs(b - full).max(),
             "other support": int(((b != 0) != (full != 0)).sum()), "rounds": r, "kB": s / 1000}
            for m, (b, r, s) in rows.items()
        ]  # fmt: skip
    return pd.DataFrame(lines).groupby("method", sort=False).mean().reset_index()


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.federated", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--profiled", type=int, default=400, help="draws that are profiled")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lasso", type=int, default=10, help="draws of the lasso; 0 for none")
    parser.add_argument("--models", default="logistic,cox")
    parser.add_argument("--scenarios", default="alike,differ,rare,rare-differ")
    parser.add_argument("--store", type=Path, help="a file of draws, from which a run goes on")
    parser.add_argument("--table", action="store_true", help="print what is stored and do no more")
    given = parser.parse_args(arguments)
    show = {"index": False, "float_format": "%.3g"}
    for model in given.models.split(","):
        for scenario in given.scenarios.split(","):
            if given.table:
                known = stored(given.store).items()
                found = [x for (m, s, _), (_, x) in known if (m, s) == (model, scenario)]
            else:
                limits = given.draws, given.profiled, given.seed
                found = runs(model, scenario, *limits, given.store)
            if len(found) > 1:
                print(f"{model}, {scenario}, {len(found)} draws", flush=True)
                print(table(found).to_string(**show), flush=True)
    if given.lasso and not given.table:
        print("lasso")
        print(lasso(given.lasso, given.seed).to_string(**show))
    return 0


if __name__ == "__main__":
    sys.exit(main())
