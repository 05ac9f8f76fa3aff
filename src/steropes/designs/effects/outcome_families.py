"""Families of outcome models: the estimator, ratio and settings that each has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Protocol

import pandas as pd
from numpy.typing import NDArray

from steropes.data.survival_outcome import Surv
from steropes.errors import DataError
from steropes.models.estimators.conditional_regression import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
)
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.estimators.fine_gray_regression import FineGrayRegression
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.estimators.poisson_regression import PoissonRegression
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression
from steropes.models.families.family import Family
from steropes.models.families.response_families import LOGISTIC, POISSON
from steropes.models.families.survival_families import COX, FINE_GRAY, POOLED

__all__ = ["Kind", "OutcomeFamily", "Unfitted", "kind_of_ratio", "outcome_family", "ratio_name"]

Kind = Literal["cox", "fine-gray", "logistic", "poisson", "pooled logistic", "aipw", "tmle"]

# Suffix of the name of a ratio with errors that take weights for counts of people.
NOT_ROBUST = " with model-based errors, not robust ones, despite weights"


class ModelSettings(Protocol):
    """The settings of an `OutcomeModel` that families read."""

    @property
    def ties(self) -> Literal["efron", "breslow"]: ...
    @property
    def stratified(self) -> bool: ...
    @property
    def period_days(self) -> int: ...
    @property
    def baseline(self) -> int: ...


# An unfitted estimator, its y, and the other arguments of ``fit``.
Unfitted = tuple[Any, Any, dict[str, Any]]


class OutcomeFamily(ABC):
    """What the outcome models of one kind have in common; this class describes ratios of hazards.

    A new kind is a subclass with an estimator, an entry in `FAMILIES` and its name in `Kind`.
    """

    # The family of models, which names the ratio, and the name of the kind in error messages.
    family: ClassVar[Family]
    name: ClassVar[str]
    # Whether people may be compared within matched sets by a conditional likelihood.
    has_sets: ClassVar[bool] = True
    # Whether the effect of the treatment may differ between periods (``split_days``).
    has_periods: ClassVar[bool] = False
    # Whether the proportionality of hazards can be tested.
    has_proportionality: ClassVar[bool] = False
    # Whether the likelihood of the treatment alone follows from counts of people at risk.
    has_counts_at_risk: ClassVar[bool] = False
    # Whether weighted models without covariates have robust intervals by default.
    robust_if_weighted: ClassVar[bool] = False
    # Whether the model needs numbers of outcomes and days at risk.
    needs_rates: ClassVar[bool] = False
    # Whether the model has a competing outcome.
    competes: ClassVar[bool] = False
    # The column of days during which the model counts outcomes; "time" ends with the first one.
    days: ClassVar[str] = "time"
    # Whether the effect follows from scores and the means of both arms, without a coefficient.
    doubly_robust: ClassVar[bool] = False

    @property
    def ratio(self) -> str:
        """The name of the ratio that the model estimates, such as "hazard ratio"."""
        return str(self.family.ratio)

    @abstractmethod
    def unfitted(
        self, people: pd.DataFrame, model: ModelSettings, settings: dict[str, Any]
    ) -> Unfitted:
        """Return the estimator of a model with these settings, its y, and arguments of ``fit``."""

    def common_risk_ratio(self, half: float) -> float:
        """Convert a ratio of a common outcome, given its square root, to a risk ratio.

        A hazard ratio h becomes (1 − 0.5^√h) / (1 − 0.5^√(1/h)) (VanderWeele 2017).
        """
        return math.expm1(-math.log(2) * half) / math.expm1(-math.log(2) / half)

    def information(self, events: float, people: int, treated: float) -> float:
        """Compute the information on the log ratio without an effect, by Schoenfeld (1983).

        Parameters
        ----------
        events : float
            Number of people with the outcome.
        people : int
        treated : float
            Share of people in the target arm.
        """
        return events * treated * (1 - treated)


class CoxOutcomes(OutcomeFamily):
    """Times to the first outcome."""

    family, name = COX, "Cox"
    has_periods = has_proportionality = has_counts_at_risk = robust_if_weighted = True

    def unfitted(
        self, people: pd.DataFrame, model: ModelSettings, settings: dict[str, Any]
    ) -> Unfitted:
        """Return Cox's model."""
        y = Surv(people["time"].to_numpy(), had_outcome(people))
        return CoxRegression(ties=model.ties, **settings), y, {}


class FineGrayOutcomes(OutcomeFamily):
    """Times to the first outcome with a competing outcome."""

    family, name = FINE_GRAY, "Fine-Gray"
    has_sets = False
    robust_if_weighted = competes = True

    def unfitted(
        self, people: pd.DataFrame, model: ModelSettings, settings: dict[str, Any]
    ) -> Unfitted:
        """Return the model of Fine and Gray."""
        y = Surv(people["time"].to_numpy(), people["event"].to_numpy())
        return FineGrayRegression(**settings), y, {}


class LogisticOutcomes(OutcomeFamily):
    """Occurrences of the outcome."""

    family, name, days = LOGISTIC, "logistic", "days_at_risk"

    def unfitted(
        self, people: pd.DataFrame, model: ModelSettings, settings: dict[str, Any]
    ) -> Unfitted:
        """Return the logistic model, within sets the conditional one."""
        estimator = ConditionalLogisticRegression if model.stratified else LogisticRegression
        return estimator(**settings), had_outcome(people), {}

    def common_risk_ratio(self, half: float) -> float:
        """Return the square root of the odds ratio (VanderWeele 2017)."""
        return half

    def information(self, events: float, people: int, treated: float) -> float:
        """Compute the information on the log odds of the outcome."""
        return events * (1 - events / people) if people and 0 < treated < 1 else 0.0


class PoissonOutcomes(OutcomeFamily):
    """Numbers of outcomes, with the days at risk as exposure."""

    family, name, days = POISSON, "Poisson", "days_at_risk"
    needs_rates = True

    def unfitted(
        self, people: pd.DataFrame, model: ModelSettings, settings: dict[str, Any]
    ) -> Unfitted:
        """Return the Poisson model, within sets the conditional one."""
        estimator = ConditionalPoissonRegression if model.stratified else PoissonRegression
        exposure = {"exposure": people["days_at_risk"].to_numpy(dtype=float)}
        return estimator(**settings), people["outcomes"].to_numpy(dtype=float), exposure

    def common_risk_ratio(self, half: float) -> float:
        """Return the rate ratio unchanged."""
        return half * half


class PooledOutcomes(OutcomeFamily):
    """Outcomes in each period of follow-up."""

    family, name = POOLED, "pooled logistic"
    has_sets = False

    @property
    def ratio(self) -> str:
        """The name of the ratio, that of odds in each period."""
        return f"{super().ratio} by period"

    def unfitted(
        self, people: pd.DataFrame, model: ModelSettings, settings: dict[str, Any]
    ) -> Unfitted:
        """Return the pooled logistic model of the periods."""
        y = Surv(people["time"].to_numpy(), had_outcome(people))
        settings = {**settings, "interval": model.period_days, "baseline": model.baseline}
        return PooledLogisticRegression(**settings), y, {}


class RiskOutcomes(LogisticOutcomes):
    """Outcomes by a day if all had each treatment, by scores and a logistic model of each arm."""

    name = "doubly robust"
    has_sets = False
    doubly_robust = True

    @property
    def ratio(self) -> str:
        """The name of the ratio."""
        return "risk ratio"

    def common_risk_ratio(self, half: float) -> float:
        """Return the risk ratio unchanged."""
        return half * half

    def information(self, events: float, people: int, treated: float) -> float:
        """Compute the information on the log risk ratio without an effect."""
        return super().information(events, people, treated) and (
            events * treated * (1 - treated) / max(1 - events / people, 1e-12)
        )


FAMILIES: dict[Kind, OutcomeFamily] = {
    "cox": CoxOutcomes(),
    "fine-gray": FineGrayOutcomes(),
    "logistic": LogisticOutcomes(),
    "poisson": PoissonOutcomes(),
    "pooled logistic": PooledOutcomes(),
    "aipw": RiskOutcomes(),
    "tmle": RiskOutcomes(),
}


def outcome_family(kind: str) -> OutcomeFamily:
    """Return the family of a kind of outcome model.

    Raises
    ------
    DataError
        There is no such kind.
    """
    if kind not in FAMILIES:
        raise DataError(f"kind must be one of {', '.join(FAMILIES)}, not {kind!r}")
    return FAMILIES[kind]


def kind_of_ratio(ratio: str) -> Kind | None:
    """Return a kind of outcome model that estimates a ratio, None if no kind does."""
    return next((kind for kind, family in FAMILIES.items() if family.ratio == ratio), None)


def ratio_name(kind: str, *, weighted: bool, interval: str) -> str:
    """Name the ratio of an outcome model, and its errors if they ignore that it is weighted.

    Parameters
    ----------
    kind, interval : str
        The kind of model and of interval, as in `OutcomeModel`. Models of another kind, which
        results of other programs may have, estimate a "ratio".
    """
    name = FAMILIES[kind].ratio if kind in FAMILIES else "ratio"
    return name + NOT_ROBUST if weighted and interval in ("profile", "wald") else name


def had_outcome(people: pd.DataFrame) -> NDArray:
    """Return 1 for people with the outcome, 0 for others."""
    return (people["event"] == 1).to_numpy().astype(int)
