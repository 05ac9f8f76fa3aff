"""Stratified and time-varying Cox models, and pooled logistic regression (Yang 2023, dissertation).

Chapter 4 is also Yang, Schuemie and Suchard (2023), arXiv:2310.16238; chapter 5 is in no article;
chapter 3 is the subject of `yang2023`.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from steropes import (
    CoxRegression,
    CrossValidation,
    Laplace,
    LogisticRegression,
    PooledLogisticRegression,
    as_design,
)
from steropes.backends import get_backend

from .cohorts import cohort
from .comparison import Row, Settings, clocked
from .yang2023 import cox_data

HOUR = 3600
PEOPLE, COVARIATES = 407_828, 9_666
ROWS = {5: 12_229_077, 10: 6_168_188, 20: 3_233_896}  # person-intervals of the published cohort
PS_STRATA = {5: "0.83 (0.72, 0.93)", 10: "0.81 (0.73, 0.90)", 20: "0.82 (0.73, 0.93)"}
POOLED = {5: "0.68 (0.41, 0.74)", 10: "0.68 (0.62, 0.96)", 20: "0.68 (0.63, 0.96)"}
VARIANCE = 0.0097  # that of the published study with five strata
COUGH = 0.044  # share of people with the outcome by which the published intervals are so wide
TOL = 1e-4


def interval(ratios) -> str:
    """Format an estimate and its limits."""
    return f"{ratios[0]:.2f} ({ratios[1]:.2f}, {ratios[2]:.2f})"


def estimate(model) -> str:
    """Ratio of the treatment, the first column, with its profile interval."""
    limits = model.confint(["x0"], method="profile").iloc[0]
    return interval(np.exp([model.coef_[0], limits["lower"], limits["upper"]]))


def segmented_scan(settings: Settings) -> Iterator[Row]:
    """Scan the example of section 4.2 by the library's own scan."""
    values = np.array([3, 1, 7, 0, 4, 1, 6, 3], float)[:, None]
    starts = np.array([0, 2, 5, 8])
    sums = get_backend("cpu", 1).scan(values, starts).ravel().astype(int)
    yield Row("segmented scan of (3 1) (7 0 4) (1 6 3)", "3 4 7 7 11 1 7 10",
              " ".join(map(str, sums)))  # fmt: skip


def stratified_cox(settings: Settings) -> Iterator[Row]:
    """Time fits with one penalty and more and more strata (section 4.4, figure 4.2)."""
    n = settings.pick(2_000, 100_000, 1_000_000)
    p = settings.pick(30, 1_000, 1_000)
    few = [k for k in (1, 5, 50, 500, 5_000, 50_000, 500_000) if k < n]
    first = None
    for k in settings.pick([1, 50, 1_000], few, few):
        X, y, label, _ = cox_data(n, p, k, settings.seed)
        model = CoxRegression(prior=Laplace(1.0), tol=TOL, ties="breslow")
        strata = label if k > 1 else None
        _, seconds = clocked(lambda m=model, X=X, y=y, s=strata: m.fit(X, y, strata=s))
        strata_word = "strata" if k > 1 else "stratum"
        step = seconds / model.n_iter_
        first = first or step
        known = (n, k) == (1_000_000, 50_000)
        yield Row(f"fit with {k:,} {strata_word}, s: n = {n:,}, p = {p:,}",
                  {"CPU": 17 * 60, "GPU": 23} if known else None, seconds,
                  f"{model.n_iter_} steps of {step:.2g} s, {step / first:.1f} times those without "
                  "strata")  # fmt: skip
        del X, y, label, model


def over_cohorts(estimates: list[float]) -> str:
    """Mean of a log ratio over cohorts, as a ratio."""
    if len(estimates) < 2:
        return "one cohort"
    return f"mean of {len(estimates)} cohorts {np.exp(np.mean(estimates)):.2f}"


def coverage(models: list[Any], truth: float) -> str:
    """Count the cohorts whose 95 % interval of the first coefficient contains the log ratio."""
    limits = [m.confint(["x0"], method="profile").iloc[0] for m in models]
    inside = sum(c["lower"] <= np.log(truth) <= c["upper"] for c in limits)
    return f"95 % intervals of {inside} of {len(models)} contain {truth}"


def propensity_strata(settings: Settings) -> Iterator[Row]:
    """Stratify by the propensity score into 5, 10 and 20 parts (section 4.5, table 4.2)."""
    n, p = settings.pick((2_000, 20), (50_000, 1_000), (200_000, 4_000))
    seeds = range(settings.seed, settings.seed + settings.pick(2, 12, 1))
    cv = CrossValidation(10, random_state=settings.seed)
    crude: list[Any] = []
    models: dict[int, list[Any]] = {parts: [] for parts in PS_STRATA}
    for seed in seeds:
        made = cohort(n, p, (0.82, 0.82), settings.pick(0.2, 0.03, 0.03), seed,
                      treated=0.23, confounded=True)  # fmt: skip
        score = LogisticRegression(prior=Laplace(), cv=cv, tol=TOL)
        score.fit(made.covariates, made.treated.astype(float))
        crude.append(CoxRegression().fit(made.X[:, [0]], made.y))
        ranks = score.decision_function(made.covariates).argsort().argsort()
        for parts, fitted in models.items():
            model = CoxRegression(prior=Laplace(exclude=[0]), cv=cv, tol=TOL)
            fitted.append(model.fit(made.X, made.y, strata=ranks * parts // n))
    label = f"n = {n:,}, p = {p + 1:,}"
    yield Row(f"hazard ratio without adjustment: {label}", None, estimate(crude[0]),
              f"simulated with 0.82; {over_cohorts([m.coef_[0] for m in crude])}; "
              f"{coverage(crude, 0.82)}")  # fmt: skip
    for parts, fitted in models.items():
        yield Row(f"hazard ratio, {parts} strata: {label}", PS_STRATA[parts], estimate(fitted[0]),
                  f"{over_cohorts([m.coef_[0] for m in fitted])}; {coverage(fitted, 0.82)}; "
                  f"variance {fitted[0].variance_:.3g} (published 0.0092 to 0.0106)")  # fmt: skip


def changing_effect(settings: Settings) -> Iterator[Row]:
    """Let the effect of treatment change on day 10 (section 4.6)."""
    size = settings.pick((1_500, 20), (40_783, 967), (PEOPLE, COVARIATES))
    draws = settings.pick(10, 100, 100)
    seeds = range(settings.seed, settings.seed + settings.pick(2, 5, 1))
    cohorts = (cohort(*size, (0.98, 0.67), settings.pick(0.3, COUGH, COUGH), s) for s in seeds)
    made = next(cohorts)
    how = {"prior": Laplace(VARIANCE, exclude=[0]), "time_varying": {0: [10]}, "tol": TOL}
    model = CoxRegression(**how)
    _, seconds = clocked(lambda: model.fit(made.X, made.y))
    result, longer = clocked(lambda: model.inference.bootstrap(draws, random_state=settings.seed))
    coefs = [model.coef_, *(CoxRegression(**how).fit(c.X, c.y).coef_ for c in cohorts)]
    drawn = np.asarray(result.coef)[:, :2]
    label = f"n = {size[0]:,}, p = {size[1] + 2:,}"
    limits = np.quantile(drawn, [0.025, 0.975], axis=0)
    for k, (period, paper) in enumerate(
        (("until day 10", "0.98 (0.87, 1.13)"), ("after day 10", "0.67 (0.65, 0.69)"))
    ):
        yield Row(f"hazard ratio {period}: {label}", paper,
                  interval(np.exp([model.coef_[k], *limits[:, k]])),
                  f"simulated with {(0.98, 0.67)[k]}; percentiles of {draws} draws; "
                  f"{over_cohorts([c[k] for c in coefs])}")  # fmt: skip
    apart = np.quantile(drawn[:, 0] - drawn[:, 1], [0.025, 0.975])
    mean = np.mean([c[0] - c[1] for c in coefs])
    yield Row(f"difference of the coefficients: {label}", "0.38 (0.30, 0.48)",
              interval([model.coef_[0] - model.coef_[1], *apart]),
              f"mean of {len(coefs)} cohorts {mean:.2f}")  # fmt: skip
    later = int((made.y["time"] > 10).sum())
    full = settings.size == "full"
    yield Row("rows that the published design has", 812_432 if full else None, len(made.y) + later,
              f"here the {len(made.y):,} people are the rows")  # fmt: skip
    paper = {"CPU, with the choice of the penalty": 21.6 * HOUR, "GPU": 1.86 * HOUR}
    yield Row(f"one fit and {draws} draws, s: {label}", paper if full else None, seconds + longer,
              f"one fit {seconds:.1f} s")  # fmt: skip


def pooled_logistic(settings: Settings) -> Iterator[Row]:
    """Count person-intervals of three widths, and fit (chapter 5, table 5.1)."""
    n, p = settings.pick((1_500, 20), (40_783, 967), (PEOPLE, COVARIATES))
    seeds = range(settings.seed, settings.seed + settings.pick(2, 5, 1))
    made, *others = (
        cohort(n, p, (0.68, 0.68), settings.pick(0.3, COUGH, COUGH), seed) for seed in seeds
    )
    label = f"n = {n:,}, p = {p + 1:,}"
    X, follow_up = as_design(made.X), made.y["time"]
    yield Row(f"median follow-up, days: {label}", 89, float(np.median(follow_up)),
              f"simulated so; mean {follow_up.mean():.0f}, by the published counts about "
              "149")  # fmt: skip
    for width, rows in ROWS.items():
        how = {"interval": width, "baseline": 2, "prior": Laplace(VARIANCE, exclude=[0])}
        model = PooledLogisticRegression(**how, tol=TOL)
        tracemalloc.start()
        _, seconds = clocked(lambda m=model: m.fit(X, made.y))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        logs = [PooledLogisticRegression(**how, tol=TOL).fit(c.X, c.y).coef_[0] for c in others]
        stored = 4 * made.X.nnz  # row numbers of the ones
        longer = model.n_person_intervals_ / n
        yield Row(f"rows / people, {width} days: {label}", rows / PEOPLE, longer,
                  f"{model.n_person_intervals_:,} person-intervals")  # fmt: skip
        yield Row(f"memory of explicit rows / memory here, {width} days: {label}",
                  round(rows / PEOPLE, 1), longer * stored / (stored + peak),
                  f"here with the fit's arrays, {peak / stored:.2f} times X")  # fmt: skip
        yield Row(f"odds ratio, {width} days: {label}", POOLED[width], estimate(model),
                  f"simulated with a hazard ratio of 0.68; "
                  f"{over_cohorts([model.coef_[0], *logs])}; {seconds:.1f} s")  # fmt: skip


EXPERIMENTS = {
    "segmented scan": segmented_scan,
    "stratified Cox": stratified_cox,
    "propensity score strata": propensity_strata,
    "changing effect": changing_effect,
    "pooled logistic": pooled_logistic,
}
