"""How the outcomes of two arms are compared: the model, its covariates, its intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from steropes.errors import DataError
from steropes.studies.execution.validation import LONGEST, real, whole, yes_or_no

__all__ = ["Interval", "Kind", "OutcomeModel"]

Kind = Literal["cox", "fine-gray", "logistic", "poisson"]
Interval = Literal["auto", "profile", "wald", "robust", "bootstrap"]


@dataclass(frozen=True)
class OutcomeModel:
    """The model of the outcome.

    Attributes
    ----------
    kind : str, default "cox"
        "cox": time to the first outcome, with ties as Breslow has them. "fine-gray": the same
        with a competing outcome. "logistic": whether there is one. "poisson": how many, with the
        days at risk as exposure.
    stratified : bool, default False
        Compare within matched sets or strata only: the conditional likelihood.
    weighted : bool, default False
        Use the propensity weights, which are stabilised by the arms' shares of the people (but
        not overlap weights); with matching or strata, weights by which both arms are spread over
        the sets alike.
    covariates : bool, default False
        Have the covariates in the model too, under a Laplace prior; the treatment has none.
        With weights the estimate is doubly robust.
    variance : float, optional
        Of that prior. Default: chosen by cross-validation.
    folds, seed : int, default 10 and 1
        Of that cross-validation.
    include, exclude : tuple of int
        Covariate ids to use alone (if any are given), and to leave out.
    interactions : tuple of int
        Covariate ids whose interaction with the treatment is estimated, beside their own effects.
    interval : str, default "auto"
        "profile": the profile likelihood's. "wald": from the information. "robust": the sandwich
        variance, by matched set or person. Both are refused beside covariates. "bootstrap":
        percentiles over draws of people or matched sets. "auto" is "profile" without weights; with
        them "robust" for Cox and Fine-Gray models without covariates, and "bootstrap" for the
        others.
    draws : int, default 200
        Of the bootstrap.
    lowest, highest : float, default 0.1 and 10
        The ratios between which the profile is stored at least. It is stored beyond them as far as
        its interval goes, and further.
    horizon : int, optional
        Day at risk by which differences of risks and of restricted means are told. Default: the
        90 % quantile of all follow-up, but no later than somebody is left in either arm.
    """

    kind: Kind = "cox"
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
        for name, allowed in (("kind", get_args(Kind)), ("interval", get_args(Interval))):
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
                f'interval "{self.interval}" allows for no selection of covariates, which are '
                'under a Laplace prior: use "profile", "bootstrap" or "auto"'
            )

    @property
    def plain(self) -> bool:
        """Whether the model is Cox's with the treatment alone."""
        return self.kind == "cox" and not self.covariates and not self.interactions

    @property
    def interval_used(self) -> Interval:
        """What "auto" stands for."""
        if self.interval != "auto":
            return self.interval
        if not self.weighted:
            return "profile"
        return (
            "robust" if self.kind in ("cox", "fine-gray") and not self.covariates else "bootstrap"
        )
