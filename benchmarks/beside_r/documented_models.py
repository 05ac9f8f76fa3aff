"""Reproduce documented differences of models on small tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.parity.r_cohort_rules import RPeople

from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    CrossValidation,
    FineGrayRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    Surv,
)
from steropes.designs import OutcomeModel, covariate_balance, estimate_effect
from steropes.designs.controls import calibrate, fit_systematic_error
from steropes.designs.effects import Estimate, curve_table
from steropes.designs.propensity.score_matching import matched_weights

__all__ = [
    "numbers_of_models", "people_in_strata", "variances_in_sets", "write_tables_of_models",
]  # fmt: skip

TIGHT: dict[str, Any] = {"tol": 1e-9, "n_jobs": 1}
X = [0.5, -1.0, 1.2, 0.3, -0.4, 0.8, -0.2, -0.9]


def people_in_strata() -> pd.DataFrame:
    """Make 40 people in two strata of different size, with follow-up, weights and a covariate."""
    k = np.arange(40)
    stratum = np.where(k < 28, 1, 2)
    return pd.DataFrame(
        {
            "rowId": k + 1, "stratumId": stratum,
            "treatment": np.where(stratum == 1, k % 4 == 0, k % 3 > 0).astype(int),
            "survivalTime": 10 * (1 + k % 6), "outcomeCount": (k % 5 == 0).astype(int),
            "x": np.where(stratum == 1, k % 3 == 0, k % 4 > 0).astype(int),
            "score": 0.05 + 0.02 * k, "iptw": 1 + k % 3,
        }
    )  # fmt: skip


def _counts() -> pd.DataFrame:
    """Make counts in six strata, with weights and exposure."""
    k = np.arange(1, 25)
    return pd.DataFrame(
        {
            "rowId": k, "stratumId": np.repeat(np.arange(1, 7), 4),
            "x": np.array([0.3, -1.1, 0.8, 0.1, 1.4, -0.2])[(k * 7) % 6] + k % 5 / 10,
            "time": 1 + k % 3, "y": np.array([1, 0, 2, 0, 1, 3])[(k * 5) % 6], "w": 1 + k % 3,
        }
    )  # fmt: skip


def _risks() -> pd.DataFrame:
    """Make people of whom some are censored on the day of somebody else's event."""
    time, event = [2, 3, 3, 3, 5, 7, 8, 9], [0, 2, 0, 1, 1, 0, 1, 1]
    return pd.DataFrame({"time": time, "event": event, "x": X})


def _cases() -> pd.DataFrame:
    """Make twelve strata with several cases each."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=72).round(2)
    y = (x + rng.normal(size=72) > 0.3).astype(int)
    return pd.DataFrame({"s": np.repeat(np.arange(1, 13), 6), "x": x, "y": y})


def write_tables_of_models(folder: Path) -> None:
    """Write the tables that R's script reads."""
    for name, table in (
        ("strata", people_in_strata()), ("counts", _counts()), ("risks", _risks()),
        ("cases", _cases()),
    ):  # fmt: skip
        table.to_csv(folder / f"{name}.csv", index=False)


def numbers_of_models() -> dict[str, str]:
    """Return our numbers by the statements of R's script."""
    found: dict[str, tuple[Any, ...]] = {}
    for part in (_effects, _calibration, _cyclops, _fine_gray, _held_out):
        found |= part()
    return {what: " ".join(map(_text, values)) for what, values in found.items()}


def _text(value: Any) -> str:
    """Write a number as R's script does."""
    if isinstance(value, str):
        return value
    if math.isinf(value) or math.isnan(value):
        return str(value)
    return f"{value:.4f}"


def _effects() -> dict[str, tuple[Any, ...]]:
    """Fit CohortMethod's outcome models."""
    names = {"survivalTime": "time", "outcomeCount": "event", "treatment": "treated",
             "rowId": "person_id"}  # fmt: skip
    people = people_in_strata().rename(columns=names)
    people = people.assign(outcomes=people["event"], days_at_risk=people["time"])

    def effect(table: pd.DataFrame = people, **settings: Any) -> Estimate:
        given = {"weights": table["iptw"]} if settings.get("weighted") else {}
        given |= {"sets": table["stratumId"]} if settings.get("stratified") else {}
        given |= {"features": table[["x"]]} if settings.get("covariates") else {}
        return estimate_effect(table, OutcomeModel(ties="breslow", **settings), **given)

    profiled, robust = effect(weighted=True, interval="profile"), effect(weighted=True)
    copies = people.loc[people.index.repeat(people["iptw"])].reset_index(drop=True)
    repeated, crude = effect(copies), effect()
    treated, time, event = (people[c].to_numpy() for c in ("treated", "time", "event"))

    def value(b: float) -> float:
        eta = b * treated
        return sum(eta[i] - np.log(np.exp(eta[time >= time[i]]).sum()) for i in event.nonzero()[0])

    drops = [value(crude.log_rr) - value(b) for b in (crude.lower, crude.upper)]
    spared = people.assign(event=event * (1 - treated), outcomes=event * (1 - treated))
    none = {kind: effect(spared, kind=kind) for kind in ("cox", "logistic", "poisson")}
    exact = effect(kind="logistic", stratified=True).log_rr
    with_x = effect(covariates=True, variance=5.0)
    early = people.assign(time=np.where(treated == 1, np.minimum(time, 30), time))
    curve = curve_table(early)
    seen = curve["target_survival"].notna()
    adjusted, null = (
        CoxRegression(prior=Laplace(5.0, exclude=["treated"][:k]), ties="breslow", **TIGHT).fit(
            people[["treated", "x"][1 - k :]], Surv(time, event)
        )
        for k in (1, 0)
    )
    log_ratios = crude.profile["log_rr"]
    found: dict[str, tuple[Any, ...]] = {
        f"no events in an arm: {kind}": (e.log_rr, e.lower, e.upper) for kind, e in none.items()
    }
    return found | {
        "weighted model: limits": (robust.lower, robust.upper),
        "weights as counts of people: limits": (profiled.lower, profiled.upper),
        "weights as counts of people: repeated": (repeated.lower, repeated.upper),
        "limits: the log-likelihood is lower by": tuple(f"{drop:.7f}" for drop in drops),
        "profile: range of ratios": (math.exp(log_ratios.min()), math.exp(log_ratios.max())),
        "logistic strata": (exact,), "logistic strata: exact": (exact,),
        "covariates: log ratio": (with_x.log_rr,),
        "covariates: likelihood ratio": (with_x.llr,),
        "covariates: likelihood ratio without penalties": (
            adjusted.log_likelihood_ - null.log_likelihood_,
        ),
        "last day of the targets' curve": (float(curve.loc[seen, "time_day"].max()),),
    }  # fmt: skip


def variances_in_sets(kind: str, draws: int = 400) -> tuple[float, float, float]:
    """Simulate differences within five strata, or sets of one to four comparators.

    Returns
    -------
    tuple of float
        The variance of the differences, and the means of R's variances and of ours.
    """
    rng = np.random.default_rng(5)
    found = []
    for _ in range(draws):
        if kind == "strata":
            sets, treated = np.repeat(np.arange(5), 136), np.tile(np.repeat([1, 0], 68), 5)
            share = 0.1 + 0.15 * sets
        else:
            sizes = 1 + np.arange(200) % 4
            sets = np.repeat(np.arange(200), sizes + 1)
            treated = np.concatenate([[1] + [0] * n for n in sizes])
            share = (0.1 + 0.6 * rng.random(200))[sets]
        x = (rng.random(len(sets)) < share).astype(int)
        after = matched_weights(sets, treated)
        ours = covariate_balance(
            pd.DataFrame({"x": x}), treated, after=after, sets=sets, estimand=None
        ).table.iloc[0]
        theirs = RPeople(x[:, None].astype(float), treated == 1, None, sets).moments().iloc[0]
        found.append((ours["smd_after"], theirs["std_diff_var"], ours["smd_variance_after"]))
    smd, by_r, here = np.array(found).T
    return float(smd.var()), float(by_r.mean()), float(here.mean())


def _calibration() -> dict[str, tuple[Any, ...]]:
    """Calibrate a p-value twice by twelve controls."""
    log_rr, se = np.linspace(-0.2, 0.5, 12), np.full(12, 0.2)
    p = [calibrate(0.4, 0.2, fit_systematic_error(log_rr, se)).p for _ in range(2)]
    same = "equal" if p[0] == p[1] else "different"
    return {"calibrated p-value of twelve controls, twice": (same,)}


def _cyclops() -> dict[str, tuple[Any, ...]]:
    """Fit conditional Poisson models, least squares, tied events and a profile."""
    d = _counts()
    strata = (1 + d["stratumId"] % 3).to_numpy()

    def counts(weights: Any = None, rows: pd.DataFrame = d) -> Any:
        return ConditionalPoissonRegression(**TIGHT).fit(
            rows[["x"]], rows["y"], strata=rows["stratumId"], exposure=rows["time"],
            sample_weight=weights,
        )  # fmt: skip

    def squares(prior: Any = None) -> Any:
        return LinearRegression(prior=prior, fit_intercept=False, **TIGHT).fit(d[["x"]], d["y"])

    happened = (d["y"] > 0).astype(int)
    survival = Surv(d["time"], happened)
    cox, breslow = (
        CoxRegression(ties=ties, **TIGHT).fit(d[["x"]], survival) for ties in ("efron", "breslow")
    )
    shrunk = LogisticRegression(prior=Normal(0.1), **TIGHT).fit(d[["x"]], happened)
    profile = shrunk.inference.profile("x", [0.0, 1.0])["log_likelihood"].to_numpy()
    plain = squares()
    repeated = counts(rows=d.loc[d.index.repeat(d["w"])])
    return {
        "weights within strata": (counts(d["w"]).coef_[0],),
        "weights within strata: rows repeated": (repeated.coef_[0],),
        "one weight for each stratum": (counts(strata).coef_[0],),
        "one weight for each stratum: log-likelihood": (counts(strata).log_likelihood_,),
        "cpr: log-likelihood": (counts().log_likelihood_,),
        "ls: log-likelihood is minus the sum of squares": (
            -float(((d["y"] - plain.coef_[0] * d["x"]) ** 2).sum()),
        ),
        "ls: Laplace prior, a quarter of the variance": (squares(Laplace(0.04)).coef_[0],),
        "ls: normal prior, half the variance": (squares(Normal(0.02)).coef_[0],),
        "cox: tied events": (cox.coef_[0],), "cox: Breslow's ties": (breslow.coef_[0],),
        "lr: the intercept without exclude": (shrunk.intercept_,),
        "profile with the penalty: at 1 less at 0": (profile[1] - profile[0],),
        "profile without the penalty: at 1 less at 0": (profile[1] - profile[0],),
    }  # fmt: skip


def _fine_gray() -> dict[str, tuple[Any, ...]]:
    """Fit Fine–Gray models with ties, and to a part of the people."""
    e = _risks()
    later = e["time"] + 0.1 * (e["event"] == 0)
    train = np.array([1, 1, 0, 1, 1, 0, 1, 1])

    def fine(time: Any, weights: Any = None) -> float:
        model = FineGrayRegression(**TIGHT)
        fitted = model.fit(e[["x"]], Surv(time, e["event"]), sample_weight=weights)
        return float(fitted.coef_[0])

    part = fine(later, train)
    return {
        "fgr: ties of events and censored times": (fine(e["time"]),),
        "fgr: ties by finegray": (fine(e["time"]),),
        "fgr: a fold without two censored people": (part,),
        "fgr: the same with weights of the fold": (part,),
    }


def _held_out() -> dict[str, tuple[Any, ...]]:
    """Compute held-out and exact conditional log-likelihoods."""
    x, y = pd.DataFrame({"x": X}), [1, 0, 1, 1, 0, 0, 1, 0]
    fold = [(np.arange(6), np.array([6, 7]))]
    cv = CrossValidation(fold, search=[1.0])
    logistic = LogisticRegression(prior=Normal(1.0), cv=cv, **TIGHT).fit(x, y)
    fine = FineGrayRegression(prior=Normal(1.0), **TIGHT)
    fine.fit(x, Surv(np.arange(9, 1, -1), [0, 1, 2, 1, 1, 2, 1, 1]))
    d = _cases()
    exact = ConditionalLogisticRegression(method="exact", **TIGHT)
    exact.fit(d[["x"]], d["y"], strata=d["s"])
    return {
        "lr: held-out log-likelihood": (logistic.cv_results_["mean"].iloc[0],),
        "fgr: log-likelihood of everybody": (fine.log_likelihood_,),
        "log-likelihood of clogit: exact": (exact.log_likelihood_,),
        "log-likelihood of clr_exact": (exact.log_likelihood_,),
    }
