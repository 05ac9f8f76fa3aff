"""Settings of the outcome model: its kind, covariates and interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from steropes.errors import DataError
from steropes.studies.execution.validation import LONGEST, real, whole, yes_or_no
from steropes.studies.outcomes.two_group_cox import Ties

__all__ = ["Interval", "Kind", "OutcomeModel"]

Kind = Literal["cox", "fine-gray", "logistic", "poisson"]
Interval = Literal["auto", "profile", "wald", "robust", "bootstrap"]


@dataclass(frozen=True)
class OutcomeModel:
    """Settings of the outcome model.

    Attributes
    ----------
    kind : str, default "cox"
        "cox": time to the first outcome. "fine-gray": the same with a competing outcome.
        "logistic": occurrence of the outcome. "poisson": number of outcomes, with the days at risk
        as exposure.
    ties : {"efron", "breslow"}, default "efron"
        How Cox's model treats outcomes on the same day. Efron's approximation is nearer to the
        exact likelihood; R's CohortMethod has Breslow's.
    stratified : bool, default False
        Compare within matched sets or strata only, by the conditional likelihood.
    weighted : bool, default False
        Use the propensity weights, stabilised by the arms' shares of the people (except overlap
        weights); with matching or strata, weights that distribute both arms equally over the sets.
    covariates : bool, default False
        Include the covariates in the model under a Laplace prior; the treatment has no prior. With
        weights the estimate is doubly robust.
    variance : float, optional
        Variance of that prior. Default: chosen by cross-validation.
    folds, seed : int, default 10 and 1
        Folds and seed of that cross-validation.
    include, exclude : tuple of int
        The only covariate ids to use (if any are given), and those to leave out.
    interactions : tuple of int
        Covariate ids whose interaction with the treatment is estimated, with their main effects.
    interval : str, default "auto"
        "profile": profile likelihood. "wald": from the information. "robust": sandwich variance
        by matched set or person. The last two are not allowed with covariates. "bootstrap":
        percentiles over draws of people or matched sets. "auto" means "profile" without weights;
        with weights, "robust" for Cox and Fine–Gray models without covariates and "bootstrap" for
        all others.
    draws : int, default 200
        Number of bootstrap draws.
    lowest, highest : float, default 0.1 and 10
        Smallest range of ratios of the stored profile, which extends beyond them as far as its
        interval and further.
    horizon : int, optional
        Day at risk for differences of risks and of restricted mean times. Default: the 90 %
        quantile of all follow-up, but at most the last day on which both arms have somebody left.
    """

    kind: Kind = "cox"
    ties: Ties = "efron"
    stratified: bool = False
    weighted: bool = False
    covariates: bool = False
    variance: float | None = None
    folds: int = 10
    seed: int = 1
    include: tuple[int, ...] = ()
    exclude: tuple[int, ...] = ()
    interactions: tuple[int, ...] = ()
    interval: Interval = "auto"
    draws: int = 200
    lowest: float = 0.1
    highest: float = 10.0
    horizon: int | None = None

    def __post_init__(self) -> None:
        named = {"kind": Kind, "ties": Ties, "interval": Interval}
        for name, allowed in ((n, get_args(values)) for n, values in named.items()):
            if getattr(self, name) not in allowed:
                raise DataError(
                    f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}"
                )
        for name in ("stratified", "weighted", "covariates"):
            yes_or_no(name, getattr(self, name))
        if self.variance is not None:
            real("variance", self.variance)
        whole("folds", self.folds, 2)
        whole("seed", self.seed, 0)
        whole("draws", self.draws, 10)
        if self.horizon is not None:
            whole("horizon", self.horizon, 1, LONGEST)
        real("lowest", self.lowest, 1e-6, 1)
        real("highest", self.highest, 1, 1e6)
        for name in ("include", "exclude", "interactions"):
            object.__setattr__(self, name, tuple(int(c) for c in getattr(self, name)))
        if self.kind == "fine-gray" and self.stratified:
            raise DataError("a Fine-Gray model within matched sets is not defined; weight instead")
        if self.covariates and self.interval in ("wald", "robust"):
            raise DataError(
                f'interval "{self.interval}" ignores the selection of covariates by the Laplace '
                'prior: use "profile", "bootstrap" or "auto"'
            )

    @property
    def plain(self) -> bool:
        """Whether the model is Cox's with the treatment alone."""
        return self.kind == "cox" and not self.covariates and not self.interactions

    @property
    def interval_used(self) -> Interval:
        """The kind of interval, with "auto" resolved."""
        if self.interval != "auto":
            return self.interval
        if not self.weighted:
            return "profile"
        return (
            "robust" if self.kind in ("cox", "fine-gray") and not self.covariates else "bootstrap"
        )
