"""Models that a federated plan can name: the columns that each needs, and the sums of sites.

Everything in which the models of plans differ is declared here, or by the intercept
(`site_intercept`), the likelihood or the family of a model. Other modules ask
`FederatedPlan.planned` and compare no names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..backends.backend_interface import Backend
from ..data import Surv, check_response, check_survival
from ..errors import DataError
from ..likelihoods import (
    ConditionalLogisticLikelihood,
    ConditionalPoissonLikelihood,
    CoxLikelihood,
    FineGrayLikelihood,
    Likelihood,
    LinearLikelihood,
    LogisticLikelihood,
    MatchedCoxLikelihood,
    PoissonLikelihood,
)
from ..models import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    FineGrayRegression,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
)
from ..models.estimators.penalized_model import PenalizedModel
from ..models.families.family import Family
from ..models.families.response_families import LINEAR, LOGISTIC, POISSON
from ..models.families.survival_families import CONDITIONAL, COUNTS_WITHIN_STRATA, COX, FINE_GRAY
from .site_intercept import IdentityIntercept, Intercept, LogIntercept, LogitIntercept

__all__ = ["INTERRUPTED", "MODELS", "ModelSettings", "PlannedModel", "SiteColumns", "SiteOutcome"]

INTERRUPTED = (
    "between competing events and later events of interest there is a time at which nobody, or "
    "hardly anyone, was under observation: leave out rows that end before it"
)


class ModelSettings(Protocol):
    """The settings of a plan that its model uses."""

    @property
    def outcome(self) -> str:
        """Column of the outcome."""

    @property
    def event(self) -> str | None:
        """Column of the event."""

    @property
    def entry(self) -> str | None:
        """Column of the entry."""

    @property
    def cause(self) -> int:
        """Code of the event of interest."""

    @property
    def ties(self) -> Literal["efron", "breslow", "exact"] | None:
        """Treatment of ties."""

    @property
    def times(self) -> tuple[float, ...]:
        """Grid of times."""

    @property
    def baseline(self) -> Literal["site", "common"]:
        """Whether sites share a baseline."""


@dataclass(frozen=True)
class SiteOutcome:
    """The outcome of a site's rows, and their likelihood.

    Attributes
    ----------
    likelihood : Likelihood
    y : (n,) array
        Outcome, or the time of survival models.
    event : (n,) bool array or None
        Whether each row has an event; None for linear models.
    entry : (n,) array or None
        Times of late entry.
    codes : (n,) int array or None
        Causes of events if several; 0 is censored.
    """

    likelihood: Likelihood
    y: np.ndarray
    event: np.ndarray | None = None
    entry: np.ndarray | None = None
    codes: np.ndarray | None = None

    @property
    def labels(self) -> np.ndarray | None:
        """Codes by which folds are balanced; None without events."""
        if self.codes is not None:
            return self.codes
        return None if self.event is None else self.event.astype(np.int64)


@dataclass(frozen=True)
class SiteColumns:
    """The rows and settings from which the outcome of a site is read.

    Attributes
    ----------
    take : callable
        Function that returns a column of the site's table by its name.
    weights : (n,) array
        Weights of rows.
    strata : (n,) int array or None
        Codes of strata.
    settings : ModelSettings
    backend : Backend
    """

    take: Callable[[str], ArrayLike]
    weights: np.ndarray
    strata: np.ndarray | None
    settings: ModelSettings
    backend: Backend

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.weights)


class PlannedModel(ABC):
    """A model of a plan; attributes of the class declare the differences between models."""

    family: ClassVar[Family]
    # Settings other than those that all models have, which of them are required, and whether one
    # of exposure and offset is.
    takes: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    needs_exposure: ClassVar[bool] = False
    # The intercept of models with rows that are independent given the covariates.
    intercept: ClassVar[Intercept | None] = None
    # Whether the model conditions on strata within a site, such as matched sets or persons.
    within_strata: ClassVar[bool] = False
    # Whether outcomes are times to an event, and whether there are competing events.
    of_times: ClassVar[bool] = False
    has_competing_events: ClassVar[bool] = False
    # Whether the loss is quadratic, so that nothing diverges, and outcomes are no events.
    quadratic: ClassVar[bool] = False
    # Whether outcomes are counts that are added up, and whether somebody must have no event.
    adds_counts: ClassVar[bool] = False
    needs_non_events: ClassVar[bool] = False

    @property
    def compares_rows(self) -> bool:
        """Whether the likelihood compares rows with each other."""
        return self.of_times or self.within_strata

    @abstractmethod
    def read(self, site: SiteColumns) -> SiteOutcome:
        """Read the outcome of a site's rows."""

    @abstractmethod
    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """Return an estimator for the rows of one site."""

    def target(
        self, y: np.ndarray, event: np.ndarray | None, entry: np.ndarray | None,
        codes: np.ndarray | None,
    ) -> Any:  # fmt: skip
        """Return the outcome as the estimator takes it."""
        return y


class Linear(PlannedModel):
    """Linear regression."""

    family = LINEAR
    intercept = IdentityIntercept()
    quadratic = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        y = check_response(site.take(site.settings.outcome), site.n)
        return SiteOutcome(LinearLikelihood(y, site.backend), y)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        return LinearRegression(**common)


class Logistic(PlannedModel):
    """Logistic regression."""

    family = LOGISTIC
    intercept = LogitIntercept()
    needs_non_events = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        y = _zero_or_one(site.take(site.settings.outcome), site.n)
        return SiteOutcome(LogisticLikelihood(y, site.backend), y, y > 0)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        return LogisticRegression(**common)


class Poisson(PlannedModel):
    """Poisson regression."""

    family = POISSON
    takes = ("exposure",)
    intercept = LogIntercept()
    adds_counts = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        y = check_response(site.take(site.settings.outcome), site.n, minimum=0.0)
        return SiteOutcome(PoissonLikelihood(y, site.backend), y, y > 0)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        return PoissonRegression(**common)


class Cox(PlannedModel):
    """Cox regression."""

    family = COX
    takes = ("event", "entry", "times", "strata", "ties")
    needs = ("event",)
    of_times = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        y, codes, entry = _times(site, competing=False)
        event = codes > 0
        ties: Literal["efron", "breslow"] = (
            "breslow" if site.settings.ties == "breslow" else "efron"
        )
        likelihood = CoxLikelihood(y, event, site.backend, entry, site.strata, ties)
        return SiteOutcome(likelihood, y, event, entry)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        ties: Any = settings.ties or "efron"
        return CoxRegression(ties=ties, **common)

    def target(
        self, y: np.ndarray, event: np.ndarray | None, entry: np.ndarray | None,
        codes: np.ndarray | None,
    ) -> Any:  # fmt: skip
        """See `PlannedModel.target`."""
        assert event is not None
        return Surv(y, event, entry)


class FineGray(PlannedModel):
    """Fine–Gray regression with competing events."""

    family = FINE_GRAY
    takes = ("event", "entry", "times", "strata", "cause")
    needs = ("event",)
    of_times = True
    has_competing_events = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        settings = site.settings
        y, codes, entry = _times(site, competing=True)
        likelihood = FineGrayLikelihood(y, codes, site.backend, settings.cause, site.strata, entry)
        if settings.baseline == "site" and likelihood.cut_off(site.weights) is not None:
            raise DataError(INTERRUPTED)
        return SiteOutcome(likelihood, y, codes == settings.cause, entry, codes)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        return FineGrayRegression(cause=settings.cause, **common)

    def target(
        self, y: np.ndarray, event: np.ndarray | None, entry: np.ndarray | None,
        codes: np.ndarray | None,
    ) -> Any:  # fmt: skip
        """See `PlannedModel.target`."""
        assert codes is not None
        return Surv(y, codes, entry)


class Conditional(PlannedModel):
    """Conditional logistic regression of matched sets."""

    family = CONDITIONAL
    takes = ("strata", "ties")
    needs = ("strata",)
    within_strata = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        assert site.strata is not None
        y, ties = _zero_or_one(site.take(site.settings.outcome), site.n), site.settings.ties
        if ties is None or ties == "exact":
            _refuse_silent(y > 0, site.strata, all_events_are_silent=True)
            likelihood: Likelihood = ConditionalLogisticLikelihood(y, site.strata, site.backend)
        else:
            _refuse_silent(y > 0, site.strata, all_events_are_silent=False)
            likelihood = MatchedCoxLikelihood(y, site.strata, site.backend, ties)
        return SiteOutcome(likelihood, y, y > 0)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        method: Any = settings.ties or "exact"
        return ConditionalLogisticRegression(method=method, **common)


class CaseSeries(PlannedModel):
    """Conditional Poisson regression of the intervals of each person."""

    family = COUNTS_WITHIN_STRATA
    takes = ("exposure", "strata")
    needs = ("strata",)
    needs_exposure = True
    within_strata = True

    def read(self, site: SiteColumns) -> SiteOutcome:
        """See `PlannedModel.read`."""
        assert site.strata is not None
        y = check_response(site.take(site.settings.outcome), site.n, minimum=0.0)
        _refuse_silent(y > 0, site.strata, all_events_are_silent=False)
        return SiteOutcome(ConditionalPoissonLikelihood(y, site.strata, site.backend), y, y > 0)

    def estimator(self, settings: ModelSettings, **common: Any) -> PenalizedModel:
        """See `PlannedModel.estimator`."""
        return ConditionalPoissonRegression(**common)


# The models by their names in plans.
MODELS: dict[str, PlannedModel] = {
    "linear": Linear(), "logistic": Logistic(), "poisson": Poisson(), "cox": Cox(),
    "fine_gray": FineGray(), "conditional": Conditional(), "sccs": CaseSeries(),
}  # fmt: skip


def _times(site: SiteColumns, competing: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read times and entries, on the plan's grid if any, and codes of events."""
    settings = site.settings
    assert settings.event is not None
    entry = None if settings.entry is None else site.take(settings.entry)
    given = Surv(site.take(settings.outcome), site.take(settings.event), entry)
    y, codes, start = check_survival(given, site.n, competing=competing)
    if settings.times:
        y, start = _on_grid(y, start, settings.times)
    return y, codes, start


def _on_grid(
    time: np.ndarray, entry: np.ndarray | None, times: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Round times up to a grid, and entries down.

    A row is then at risk at each grid time with an interval that intersects (entry, time].
    """
    grid = np.asarray(times, float)
    late = time > grid[-1]
    if late.any():
        raise DataError(
            f"{int(late.sum())} people are observed beyond the grid's last time, {grid[-1]:g}; "
            "censor them there, or extend the grid"
        )
    if entry is not None:
        low = np.concatenate([[-np.inf], grid])
        entry = low[np.searchsorted(grid, entry, side="right")]
    return grid[np.searchsorted(grid, time, side="left")], entry


def _refuse_silent(event: np.ndarray, strata: np.ndarray, all_events_are_silent: bool) -> None:
    """Reject rows without any stratum that has both an event and rows to compare it with."""
    rows, events = np.bincount(strata), np.bincount(strata, event)
    if not ((events > 0) & (rows > (events if all_events_are_silent else 1))).any():
        raise DataError(
            "no stratum (matched set, person) here has both an event and other rows, so that these "
            "rows are uninformative: check the strata, or leave the site out of the plan"
        )


def _zero_or_one(values: ArrayLike, n: int) -> np.ndarray:
    """Read a binary outcome."""
    y = check_response(values, n)
    wrong = (y != 0) & (y != 1)
    if wrong.any():
        i = int(wrong.argmax())
        raise DataError(f"the outcome must be 0 or 1; row {i} has another value")
    return y
