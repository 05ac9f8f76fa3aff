"""Settings of the outcome model: its kind, covariates and interval."""

from __future__ import annotations

from typing import Annotated, Literal

from steropes.errors import DataError
from steropes.studies.execution.setting_types import (
    Count,
    CovariateIds,
    Folds,
    Number,
    Positive,
    RiskDays,
    Whole,
    YesNo,
)
from steropes.studies.execution.settings_classes import Settings
from steropes.studies.outcomes.two_group_cox import Ties

__all__ = ["Interval", "Kind", "OutcomeModel"]

Kind = Literal["cox", "fine-gray", "logistic", "poisson"]
Interval = Literal["auto", "profile", "wald", "robust", "bootstrap"]


class OutcomeModel(Settings):
    """Settings of the outcome model.

    Parameters
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

    Examples
    --------
    >>> from steropes.studies import OutcomeModel
    >>> OutcomeModel(weighted=True).interval_used
    'robust'
    """

    kind: Kind = "cox"
    ties: Ties = "efron"
    stratified: YesNo = False
    weighted: YesNo = False
    covariates: YesNo = False
    variance: Positive | None = None
    folds: Folds = 10
    seed: Count = 1
    include: CovariateIds = ()
    exclude: CovariateIds = ()
    interactions: CovariateIds = ()
    interval: Interval = "auto"
    draws: Annotated[int, Whole(10)] = 200
    lowest: Annotated[float, Number(1e-6, 1)] = 0.1
    highest: Annotated[float, Number(1, 1e6)] = 10.0
    horizon: RiskDays | None = None

    def __post_init__(self) -> None:
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
