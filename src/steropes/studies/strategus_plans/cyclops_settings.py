"""Priors and controls of Cyclops, the regression package of R's study packages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from steropes.errors import DataError
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Integer,
    Items,
    JsonPath,
    MaybeFlag,
    MaybeInteger,
    MaybeNumber,
    MaybeText,
    RModel,
    RNumber,
    Scalar,
    json_path,
)

__all__ = ["CyclopsControl", "CyclopsPrior", "exempt_covariates", "require_prior"]

NO_COVARIATE = (0, None, "0")  # The intercept, and nothing.


class CyclopsPrior(RModel):
    """The prior of a regression."""

    prior_type: Annotated[
        Literal["none", "laplace", "normal", "barupdate", "hierarchical", "jeffreys"], Scalar
    ]
    variance: Items[RNumber] = (1.0,)
    exclude: Items[Any] = ()
    graph: Any = None
    neighborhood: Any = None
    use_cross_validation: Flag = False
    force_intercept: Flag = False


class CyclopsControl(RModel):
    """The control of a fit. Only folds, repetitions and seed influence a converged result."""

    fold: Integer = 10
    cv_repetitions: Integer = 1
    seed: MaybeInteger = None
    cv_type: Annotated[Literal["auto", "grid"] | None, Scalar] = "auto"
    auto_search: MaybeFlag = None
    max_iterations: MaybeInteger = None
    tolerance: MaybeNumber = None
    convergence_type: MaybeText = None
    lower_limit: MaybeNumber = None
    upper_limit: MaybeNumber = None
    grid_steps: MaybeInteger = None
    min_c_v_data: MaybeInteger = None
    noise_level: MaybeText = None
    threads: MaybeInteger = None
    reset_coefficients: MaybeFlag = None
    starting_variance: MaybeNumber = None
    use_k_k_t_swindle: MaybeFlag = None
    tune_swindle: MaybeInteger = None
    selector_type: MaybeText = None
    initial_bound: MaybeNumber = None
    max_bound_count: MaybeInteger = None
    algorithm: MaybeText = None
    do_it_all: MaybeFlag = None
    sync_c_v: MaybeFlag = None

    @property
    def seed_used(self) -> int:
        """The seed; R draws one where it is not set."""
        return 1 if self.seed is None else abs(self.seed)

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences of the translation, as sentences."""
        found = []
        if self.seed is None:
            found.append("the folds of cross-validation have seed 1; R draws them anew in each run")
        if self.cv_type == "grid" or self.auto_search is False:
            found.append("the variance is found by a search; R's specification asks for a grid")
        return tuple(found)


def exempt_covariates(prior: CyclopsPrior) -> tuple[int, ...]:
    """Return the ids of covariates without a prior; 0 is the intercept, which has none."""
    return tuple(dict.fromkeys(int(str(e)) for e in prior.exclude if e not in NO_COVARIATE))


def require_prior(
    prior: CyclopsPrior, path: JsonPath, kinds: tuple[str, ...], *, exempt: bool = False
) -> float | None:
    """Return the variance of a prior, or None if cross-validation chooses it.

    Parameters
    ----------
    exempt : bool
        Whether covariates may have no prior.

    Raises
    ------
    DataError
        The prior has no counterpart.
    """
    if prior.prior_type not in kinds:
        raise DataError(
            f"{json_path((*path, 'priorType'))}: the prior {prior.prior_type!r} has no counterpart "
            f"here; available are {', '.join(kinds)}"
        )
    for name, value in (("graph", prior.graph), ("neighborhood", prior.neighborhood)):
        if value not in (None, [], {}):
            raise DataError(f"{json_path((*path, name))} has no counterpart here")
    named = [e for e in prior.exclude if e not in NO_COVARIATE]
    if named and not exempt:
        raise DataError(
            f"{json_path((*path, 'exclude'))}: covariates without a prior have no counterpart"
        )
    if any(isinstance(e, bool) or not str(e).isdigit() for e in named):
        raise DataError(f"{json_path((*path, 'exclude'))} must have ids of covariates")
    if prior.use_cross_validation:
        return None
    if len(prior.variance) != 1 or not 0 < prior.variance[0] < float("inf"):
        raise DataError(f"{json_path((*path, 'variance'))} must be one positive number")
    return prior.variance[0]
