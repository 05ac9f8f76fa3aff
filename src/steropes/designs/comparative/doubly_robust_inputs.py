"""Settings, outcomes and given predictions of doubly robust estimates, with their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from steropes.design_matrix import has_names
from steropes.designs.comparative.group_means import cluster_codes
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.doubly_robust.targeting import Targeting
from steropes.designs.values.estimands import AnyEstimand, check_estimand
from steropes.designs.values.table_reading import in_memory, read_columns
from steropes.errors import DataError, listed
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = [
    "Given", "Outcome", "Settings", "check_folds", "check_settings", "check_weight_model",
    "default_model",
    "labels_of_folds", "of_outcome", "read_clusters", "read_folds", "read_means", "read_outcomes",
    "read_probabilities", "refuse_missing_outcome",
]  # fmt: skip


# More divisions of people into folds are a mistake. Folds are limited by the number of people.
MOST_REPEATS = 1_000

AnyMethod = Literal["aipw", "tmle", "ipwra"]


@dataclass(frozen=True)
class Settings:
    """The checked settings of an estimate."""

    method: AnyMethod
    estimand: AnyEstimand
    targeting: Targeting


@dataclass(frozen=True, repr=False)
class Given:
    """Arrays that `DoublyRobust.fit` takes besides covariates, treatment and outcomes."""

    score: ArrayLike | None
    means: ArrayLike | Mapping[str, ArrayLike] | None
    observed_probability: ArrayLike | Mapping[str, ArrayLike] | None
    fold: ArrayLike | None
    clusters: ArrayLike | None
    sample_weight: ArrayLike | None
    weight_model: PropensityWeights | None = None

    def refuse_unused_models(self, settings: Any) -> None:
        """Refuse models whose predictions are given."""
        for model, argument in (
            ("treatment_model", "score"), ("outcome_model", "means"),
            ("missingness_model", "observed_probability"),
        ):  # fmt: skip
            if getattr(self, argument) is not None and getattr(settings, model) is not None:
                raise DataError(f"{model} has no effect with {argument}=; leave one of them out.")

    def check_stacked(self, settings: Any) -> None:
        """Refuse what stacked errors do not include, and a weight model without them."""
        if settings.errors != "stacked":
            if self.weight_model is not None:
                raise DataError(
                    "weight_model is for errors='stacked'; otherwise give score=, its score_."
                )
            return
        given = ("score", "means", "observed_probability", "fold")
        own = [name for name in given if getattr(self, name) is not None]
        own += [x for x in ("bound", "missingness_model") if getattr(settings, x) is not None]
        if self.weight_model is not None and settings.treatment_model is not None:
            own.append("treatment_model")
        if own:
            raise DataError(
                f"errors='stacked' has no {listed(own)}; leave it out, or take errors='influence'."
            )


@dataclass(frozen=True, repr=False)
class Outcome:
    """An outcome of people.

    Attributes
    ----------
    y : ndarray, shape (n,)
        NaN where it is not observed.
    """

    y: NDArray

    @property
    def observed(self) -> NDArray:
        """Who has an observed outcome, (n,) bool."""
        return ~np.isnan(self.y)

    @property
    def filled(self) -> NDArray:
        """The outcome with the first observed one where it is missing, (n,)."""
        return np.where(self.observed, self.y, self.y[self.observed][0])

    @property
    def binary(self) -> bool:
        """Whether all observed values are 0 or 1."""
        return bool(np.isin(self.y[self.observed], (0.0, 1.0)).all())

    @property
    def statistic(self) -> str:
        """Name of the statistic, which determines the measures."""
        if self.binary:
            return "risk"
        return "positive mean" if (self.y[self.observed] >= 0).all() else "mean"

    def check(self, name: str, n: int) -> None:
        """Refuse an outcome of another length, or without different values."""
        label = f"outcome {name!r}" if name else "y"
        if self.y.shape != (n,):
            raise DataError(f"{label} has shape {self.y.shape}; X has {n} rows.")
        if np.isinf(self.y).any():
            row = int(np.isinf(self.y).argmax())
            raise DataError(f"{label} is infinite in row {row} (counted from 0); correct it.")
        seen = self.y[self.observed]
        if not len(seen) or (seen == seen[0]).all():
            raise DataError(f"{label} has {'one value' if len(seen) else 'no values'} only.")


def check_settings(settings: Any) -> Settings:
    """Check the settings of a `DoublyRobust` object."""
    for name, kind in (("method", AnyMethod), ("targeting", Targeting)):
        known, own = list(get_args(kind)), getattr(settings, name)
        if own not in known:
            raise DataError(f"{name} must be one of {listed(known)}, not {own!r}.")
    if settings.errors not in ("influence", "stacked"):
        raise DataError(f"errors must be 'influence' or 'stacked', not {settings.errors!r}.")
    stacked = settings.errors == "stacked"
    if settings.method == "ipwra" and not stacked:
        raise DataError("method='ipwra' has errors='stacked' and folds=1; set both.")
    if stacked and (settings.method == "tmle" or settings.folds != 1):
        raise DataError("errors='stacked' is for method='aipw' or 'ipwra' with folds=1.")
    if settings.method != "tmle" and settings.targeting != "covariate":
        raise DataError("targeting is for method='tmle'; leave it out.")
    check_folds(settings)
    bound = settings.bound
    if bound is not None and not (isinstance(bound, Real) and 0 <= float(bound) < 0.5):
        raise DataError(f"bound must be at least 0 and below 0.5, not {bound!r}.")
    estimand = check_estimand(settings.estimand, ("ate", "att", "atu"))
    return Settings(cast(AnyMethod, settings.method), estimand, cast(Targeting, settings.targeting))


def check_weight_model(model: PropensityWeights, estimand: AnyEstimand, target: NDArray) -> None:
    """Refuse weights of other people or another population, or whose errors are not known."""
    if not isinstance(model, PropensityWeights) or not model.is_fitted:
        raise DataError("weight_model must be fitted PropensityWeights.")
    if check_estimand(model.estimand) != estimand:
        raise DataError(
            f"weight_model has estimand={model.estimand!r}, and not {estimand!r}; give both the "
            "same."
        )
    if model.trim or model.truncate is not None or model.stabilized:
        raise DataError("weight_model must have no trim, truncate or stabilized.")
    if model.weights_.shape != target.shape:
        raise DataError(
            f"weight_model has {len(model.weights_)} people and X {len(target)}; they must be the "
            "same."
        )
    if model.estimation_left_out:
        raise DataError(
            f"Stacked errors need a score by maximum likelihood, but {model.estimation_left_out}; "
            "take errors='influence'."
        )


def check_folds(settings: Any) -> None:
    """Check the folds and repeats of a cross-fitting."""
    for name in ("folds", "repeats"):
        own = getattr(settings, name)
        if not isinstance(own, Integral) or isinstance(own, bool) or own < 1:
            raise DataError(f"{name} must be a whole number from 1, not {own!r}.")
    if settings.repeats > MOST_REPEATS:
        raise DataError(f"repeats must be at most {MOST_REPEATS:,}, not {settings.repeats!r}.")
    if settings.folds == 1 and settings.repeats > 1:
        raise DataError("repeats divides people into folds several times; it needs folds above 1.")


def default_model(model: Any, *, binary: bool) -> Any:
    """Return a copy of a user's model, or the one by maximum likelihood."""
    if model is not None:
        return clone(model)
    return LogisticRegression() if binary else LinearRegression()


def labels_of_folds(target: NDArray, outcomes: dict[str, Outcome]) -> NDArray:
    """Return the classes that folds have in equal shares: groups, and one outcome of 0 and 1."""
    label = target.astype(np.int64)
    first = next(iter(outcomes.values()))
    if len(outcomes) == 1 and first.binary:
        label = 2 * label + (first.y == 1)
    return label


def read_outcomes(y: Any) -> dict[str, Outcome]:
    """Return outcomes by name; the name of a single array is empty."""
    y = in_memory(y)
    if has_names(y):
        table = read_columns(y, None, "y")
        y = {str(name): table[name] for name in table}
    if not isinstance(y, Mapping):
        return {"": Outcome(_numbers("y", y))}
    if not y:
        raise DataError("y has no outcomes.")
    return {str(name): Outcome(_numbers(f"outcome {name!r}", one)) for name, one in y.items()}


def _numbers(name: str, values: Any) -> NDArray:
    """Convert an outcome to numbers with NaN."""
    given = values if isinstance(values, pd.Series) else pd.Series(np.asarray(values).ravel())
    try:
        return np.asarray(pd.to_numeric(given).to_numpy(dtype=float, na_value=np.nan))
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers; code it as 0 and 1, for example.") from None


def refuse_missing_outcome(outcome: Outcome, label: str) -> None:
    """Refuse an outcome that some people lack, which stacked errors do not include."""
    if not outcome.observed.all():
        raise DataError(
            f"The {label} is missing in {int((~outcome.observed).sum()):,} rows, first in row "
            f"{int((~outcome.observed).argmax())} (counted from 0). Leave them out, or take "
            "errors='influence' with a missingness_model."
        )


def read_clusters(clusters: ArrayLike | None, n: int) -> NDArray | None:
    """Return codes of clusters, (n,)."""
    return None if clusters is None else cluster_codes(clusters, n)


def read_folds(fold: ArrayLike | None, n: int, clusters: NDArray | None) -> NDArray | None:
    """Check folds that a user gives, (n, repeats)."""
    if fold is None:
        return None
    found = np.asarray(fold)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or len(found) != n or found.dtype.kind not in "iu" or (found < 0).any():
        raise DataError(
            f"fold must be whole numbers from 0 for each of {n} people, not of shape {found.shape}."
        )
    for own in found.T:
        if len(np.unique(own)) != own.max() + 1 or own.max() == 0:
            raise DataError("fold must have two or more folds, and all numbers up to the largest.")
        if clusters is not None and len(np.unique(np.column_stack([clusters, own]), axis=0)) > len(
            np.unique(clusters)
        ):
            raise DataError("fold divides a cluster; keep each cluster in one fold.")
    return found.astype(np.int64)


def read_probabilities(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray:
    """Check probabilities that a user gives."""
    found = np.asarray(values, dtype=float)
    if found.shape != shape:
        raise DataError(f"{name} has shape {found.shape}; it must be {shape}.")
    wrong = ~((found >= 0) & (found <= 1))
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise DataError(f"{name}: row {row} (counted from 0) is no probability.")
    return found


def of_outcome(argument: str, given: Any, name: str) -> Any:
    """Return the argument for one outcome: an array, or the one of a mapping by name."""
    if isinstance(given, Mapping):
        if name not in given:
            raise DataError(
                f"{argument} has none of the outcome {name!r}; give those of all outcomes."
            )
        return given[name]
    if name:
        raise DataError(f"{argument} of several outcomes must be a mapping from their names.")
    return given


def read_means(given: Any, name: str, n: int) -> NDArray:
    """Return the given means of an outcome, (n, 2)."""
    label = f"means of {name!r}" if name else "means"
    found = np.asarray(of_outcome("means", given, name), dtype=float)
    if found.shape != (n, 2):
        raise DataError(
            f"{label} has shape {found.shape}; it must be {(n, 2)}, the target's first."
        )
    if not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0][0])
        raise DataError(f"{label}: row {row} (counted from 0) is missing or infinite.")
    return found
