"""Settings of the outcome model: its kind, its covariates and its confidence interval."""

from __future__ import annotations

from typing import Annotated, Literal

from steropes.designs.effects.outcome_families import Kind, OutcomeFamily, outcome_family
from steropes.designs.effects.two_group_cox import Ties
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Count,
    CovariateIds,
    Folds,
    Listed,
    Number,
    Positive,
    Repeats,
    RiskDays,
    Whole,
    YesNo,
)
from steropes.errors import DataError
from steropes.select.crossvalidation import FOLDS

__all__ = ["Interval", "OutcomeModel"]

Interval = Literal["auto", "profile", "wald", "robust", "bootstrap"]


class OutcomeModel(Settings):
    """Settings of the outcome model.

    Parameters
    ----------
    kind : str, default "cox"
        "cox": time to the first outcome. "fine-gray": the same with a competing outcome.
        "logistic": occurrence of the outcome. "poisson": number of outcomes, with the days at risk
        as exposure. "pooled logistic": the outcome in each period of follow-up, with odds ratios
        that are close to hazard ratios where outcomes are rare in a period. "aipw" and "tmle": the
        risk by day ``horizon`` if all had each treatment, doubly robust by propensity scores and a
        logistic model of the outcome in each arm (see `DoublyRobust`); both are cross-fitted, and
        ``weighted`` and ``covariates`` are always on. People who are censored before that day are
        represented by others, by a Cox model of censoring in each arm.
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
    folds, repeats, seed : int, default 10, 1 and 1
        Folds, repeats and seed of that cross-validation; ten repeats of ten folds divide the people
        ten times. The seed is also that of the cross-fitting.
    cross_fitting : int, default 5
        Folds of the cross-fitting of "aipw" and "tmle".
    restricted_means : bool, default False
        Also estimate the mean days free of the outcome until ``horizon`` by "aipw" and "tmle",
        with a second model of each outcome in each arm. Other kinds always have them.
    include, exclude : tuple of int
        The only covariate ids to use (if any are given), and those to leave out. Ids that no one
        in the comparison has are ignored, with a note.
    interactions : tuple of int
        Covariate ids whose interaction with the treatment is estimated, with their main effects.
        Ids that no one in the comparison has are ignored, with a note.
    interval : str, default "auto"
        "profile": profile likelihood. "wald": from the information. "robust": sandwich variance
        by matched set or person. The last two are not allowed with covariates. "bootstrap":
        percentiles over draws of people or matched sets. "auto" means "profile" without weights;
        with weights, "robust" for Cox and Fine–Gray models without covariates and "bootstrap" for
        all others. "aipw" and "tmle" have "robust" intervals only, those of the influence function.
    draws : int, default 200
        Number of bootstrap draws.
    lowest, highest : float, default 0.1 and 10
        Smallest range of ratios of the stored profile, which extends beyond them as far as its
        interval and further.
    split_days : tuple of int
        Days at risk after which the effect of the treatment may differ. The effect in each period
        is estimated in addition to the constant one; Cox models only.
    period_days : int, default 30
        Length of the periods of a pooled logistic model.
    baseline : int, default 2
        Degree of the polynomial of time that is the baseline of a pooled logistic model.
    horizon : int, optional
        Day at risk for differences of risks and of restricted mean times. Default: the 90 %
        quantile of all follow-up, but at most the last day on which both arms have somebody left.

    Examples
    --------
    >>> from steropes.designs import OutcomeModel
    >>> OutcomeModel(weighted=True).interval_used
    'robust'
    """

    kind: Kind = "cox"
    ties: Ties = "efron"
    stratified: YesNo = False
    weighted: YesNo = False
    covariates: YesNo = False
    variance: Positive | None = None
    folds: Folds = FOLDS
    repeats: Repeats = 1
    seed: Count = 1
    cross_fitting: Folds = 5
    restricted_means: YesNo = False
    include: CovariateIds = ()
    exclude: CovariateIds = ()
    interactions: CovariateIds = ()
    interval: Interval = "auto"
    draws: Annotated[int, Whole(10, 100_000)] = 200
    lowest: Annotated[float, Number(1e-6, 1)] = 0.1
    highest: Annotated[float, Number(1, 1e6)] = 10.0
    split_days: Listed[RiskDays] = ()
    period_days: RiskDays = 30
    baseline: Annotated[int, Whole(0, 10)] = 2
    horizon: RiskDays | None = None

    def __post_init__(self) -> None:
        """Refuse settings that the kind of model does not have."""
        family = self.family
        if self.stratified and not family.has_sets:
            raise DataError(
                f"a {family.name} model within matched sets is not defined; weight instead"
            )
        if self.split_days and not family.has_periods:
            raise DataError(f"split_days belongs to Cox models, not to {self.kind} ones")
        if [*self.split_days] != sorted({*self.split_days}):
            raise DataError(f"split_days must increase, not {list(self.split_days)}")
        if family.doubly_robust:
            self._require_doubly_robust()
        elif self.restricted_means:
            raise DataError(
                'restricted_means is for kinds "aipw" and "tmle"; other kinds always have them'
            )
        elif self.covariates and self.interval in ("wald", "robust"):
            raise DataError(
                f'interval "{self.interval}" ignores the selection of covariates by the Laplace '
                'prior: use "profile", "bootstrap" or "auto"'
            )

    def _require_doubly_robust(self) -> None:
        """Refuse settings that doubly robust effects lack; switch on weights and covariates."""
        if self.interactions:
            raise DataError(
                f'interactions are not available with kind "{self.kind}"; leave them out'
            )
        if self.interval not in ("auto", "robust"):
            raise DataError(
                f'kind "{self.kind}" has "robust" intervals only, not "{self.interval}"'
            )
        object.__setattr__(self, "weighted", True)
        object.__setattr__(self, "covariates", True)

    @property
    def family(self) -> OutcomeFamily:
        """The family of the model, which declares what models of its kind have."""
        return outcome_family(self.kind)

    @property
    def plain(self) -> bool:
        """Whether the model is Cox's with the treatment alone."""
        return self.family.has_counts_at_risk and not self.covariates and not self.interactions

    @property
    def interval_used(self) -> Interval:
        """The kind of interval, with "auto" resolved."""
        if self.interval != "auto":
            return self.interval
        if self.family.doubly_robust:
            return "robust"
        if not self.weighted:
            return "profile"
        robust = self.family.robust_if_weighted and not self.covariates
        return "robust" if robust else "bootstrap"
