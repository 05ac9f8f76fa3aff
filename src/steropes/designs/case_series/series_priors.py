"""Priors of the covariates of a case series, and the estimator with such a prior."""

from __future__ import annotations

import math
from typing import Any

import steropes
from steropes.designs.case_series.model_settings import SeriesModelSettings
from steropes.designs.case_series.series_column_descriptions import Column

__all__ = ["WEAK", "estimator", "prior_of", "with_weak_prior"]

WEAK = 4.0  # The variance of a weak prior that keeps a coefficient finite.


def prior_of(
    settings: SeriesModelSettings, variance: float, names: list[str], columns: list[Column]
) -> Any:
    """Return the prior of some columns; None if none of them is penalised."""
    if settings.prior == "none" or not any(c.penalized for c in columns):
        return None
    exclude = tuple(n for n, c in zip(names, columns, strict=True) if not c.penalized)
    if settings.prior == "hierarchical":
        groups = {n: c.group for n, c in zip(names, columns, strict=True) if c.group is not None}
        return steropes.Hierarchical(groups, variance, settings.group_variance, exclude=exclude)
    kind = steropes.Laplace if settings.prior == "laplace" else steropes.Normal
    return kind(variance, exclude=exclude)


def with_weak_prior(prior: Any, names: list[str], weak: list[str]) -> Any:
    """Add a weak normal prior on some columns that have none; None if they cannot be combined."""
    own = dict.fromkeys(names, math.inf) | dict.fromkeys(weak, WEAK)
    if prior is None:
        return steropes.Normal(own)
    without = prior.excluded(names)
    given = {
        n: math.inf if free else prior.variance for n, free in zip(names, without, strict=True)
    }
    if isinstance(prior, steropes.Laplace):
        return steropes.ElasticNet(given, own)
    if isinstance(prior, steropes.Normal):
        return steropes.Normal({n: min(given[n], own[n]) for n in names})
    return None


def estimator(
    settings: SeriesModelSettings, variance: float | None, names: list[str], columns: list[Column]
) -> steropes.SelfControlledCaseSeries:
    """Create the estimator; a variance of None is chosen by cross-validation over people."""
    prior = prior_of(settings, 1.0 if variance is None else variance, names, columns)
    cv = None
    if prior is not None and variance is None:
        cv = steropes.CrossValidation(settings.folds, random_state=settings.seed)
    return steropes.SelfControlledCaseSeries(prior=prior, cv=cv, random_state=settings.seed)
