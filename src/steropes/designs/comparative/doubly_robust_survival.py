"""Doubly robust risks and restricted means of times to events, with competing events."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from steropes.data import refuse_other_order
from steropes.data.survival_outcome import check_survival
from steropes.data.vector_checks import check_level, check_weights
from steropes.design_matrix import Design
from steropes.designs.comparative.balance_on_demand import BalanceOnDemand
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.doubly_robust_effect_table import name_of_errors
from steropes.designs.comparative.doubly_robust_inputs import (
    check_folds,
    default_model,
    read_clusters,
    read_folds,
    read_probabilities,
)
from steropes.designs.comparative.doubly_robust_survival_estimates import (
    ArmRisks,
    SurvivalEstimates,
    functionals,
)
from steropes.designs.comparative.effect_table_rows import EffectRow, effects_table
from steropes.designs.comparative.effective_sample_size import effective_sample_sizes
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.doubly_robust.counterfactual_means import (
    Method,
    People,
    population,
    truncation_bound,
)
from steropes.designs.doubly_robust.discrete_survival import FollowUp
from steropes.designs.doubly_robust.hazard_models import hazards_of_group
from steropes.designs.doubly_robust.nuisance_models import (
    GROUPS,
    CrossFitting,
    folds_of_people,
)
from steropes.designs.doubly_robust.overlap import overlap_table
from steropes.designs.propensity.weights_by_estimand import propensity_weights
from steropes.designs.values.estimands import check_estimand
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression

__all__ = ["DoublyRobustSurvival"]


class DoublyRobustSurvival(BalanceOnDemand):
    """Doubly robust risks and restricted means by fixed times, also with competing events.

    Time is divided into intervals. Pooled logistic models of each group give the hazards of the
    events and of censoring in every interval, and a model of the treatment the score. The augmented
    estimate adds the weighted differences of observed and expected events to the predicted risks:
    it is consistent if the hazards of the events are right, or both the score and the hazards of
    censoring.

    Parameters
    ----------
    interval : float
        Width of the intervals, in units of time. Models and risks change at their ends only.
    method : {"aipw", "tmle"}, default "aipw"
        Augmented risks, or risks by hazards that are targeted for each measure, so that they stay
        between 0 and 1.
    times : sequence of float, optional
        Times of risks and restricted means. Default: the last time at which both groups have
        somebody under observation. Each is a multiple of ``interval``.
    estimand : {"ATE", "ATT", "ATC"}, default "ATE"
        The effect in everybody, in the target group, or in the comparator.
    competing : {"total", "direct"}, default "total"
        With events of codes above 1: "total" leaves them in the world that is estimated, with the
        risk of each cause; "direct" is the risk of the event 1 if competing events were prevented,
        which counts them as censoring and needs all their causes among the covariates.
    treatment_model : estimator, optional
        Unfitted model of the treatment, which is cloned. Default: logistic regression by maximum
        likelihood.
    event_model, censoring_model : PooledLogisticRegression, optional
        Unfitted models of the hazards without ``interval``, fitted in each group. Default: maximum
        likelihood with a baseline that is quadratic in time. An interval without an event (or
        without censoring) in a group has a hazard of zero in it and takes no part in its model.
    folds : int, default 5
        Folds of the cross-fitting; 1 fits and predicts the same people.
    repeats : int, default 1
        Divisions into folds. Estimates are medians over them, and variances the medians of the
        variance plus the squared distance to the median estimate.
    bound : float, optional
        Bound of scores and of probabilities to be uncensored. Default: 5 / (√n log n).
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the folds.

    Attributes
    ----------
    effects_ : DataFrame
        ``time``, ``cause`` (0 for event-free time), and the columns of `GroupComparison`: risk
        differences, risk ratios and odds ratios of each cause, and differences of restricted means
        of the time without any event.
    influence_ : DataFrame, shape (n, number of differences)
        Everybody's influence on the differences, by (measure, cause, time).
    curves_ : DataFrame
        ``time``, ``cause``, ``group`` and the augmented ``risk`` at the end of each interval.
    score_ : ndarray, shape (n,)
        Scores of the target group before the bound, averaged over repeats.
    weights_ : ndarray, shape (n,)
        Inverse probability weights of the bounded scores, times ``sample_weight``.
    bound_ : float
        The bound in use.
    overlap_ : DataFrame
        Scores, weights, effective sample sizes and how many scores the bound has changed.
    balance_ : DataFrame
        Balance before and after weighting by the scores; see `balance_table`.
    model_ : estimator or None
        The model of the treatment, fitted to everybody; None if scores were given.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    DoublyRobust : Effects on numbers and events without censoring.
    PooledLogisticRegression : The models of hazards.
    compare_groups : Comparison of two groups from a table, which takes such objects.

    Notes
    -----
    Memory grows with people × intervals × causes. Errors are those of the influence function.

    References
    ----------
    Moore and van der Laan (2009), Statistics in Medicine 28:39–64 (targeting). Benkeser, Carone
    and Gilbert (2018), Statistics in Medicine 37:280–293 (competing events). Chernozhukov and
    others (2018), Econometrics Journal 21:C1–C68 (medians).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> from steropes.designs import DoublyRobustSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 1))
    >>> treatment = (rng.random(600) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> event = rng.exponential(np.exp(2 - 0.5 * X[:, 0] + 0.5 * treatment))
    >>> censored = rng.uniform(2, 12, 600)
    >>> y = steropes.Surv(np.minimum(event, censored), (event <= censored).astype(int))
    >>> found = DoublyRobustSurvival(interval=1, times=[5], folds=2).fit(X, treatment, y)
    >>> found.effects_["measure"].tolist()
    ['risk difference', 'risk ratio', 'odds ratio', 'restricted mean difference']
    """

    def __init__(
        self,
        *,
        interval: float,
        method: str = "aipw",
        times: Sequence[float] | None = None,
        estimand: str = "ATE",
        competing: str = "total",
        treatment_model: Any = None,
        event_model: Any = None,
        censoring_model: Any = None,
        folds: int = 5,
        repeats: int = 1,
        bound: float | None = None,
        level: float = 0.95,
        random_state: int = 0,
    ) -> None:
        self.interval = interval
        self.method = method
        self.times = times
        self.estimand = estimand
        self.competing = competing
        self.treatment_model = treatment_model
        self.event_model = event_model
        self.censoring_model = censoring_model
        self.folds = folds
        self.repeats = repeats
        self.bound = bound
        self.level = level
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        treatment: ArrayLike,
        y: NDArray,
        *,
        score: ArrayLike | None = None,
        fold: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the models and estimate the effects.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Design, shape (n, p)
            Covariates of all models.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator.
        y : structured array, shape (n,)
            From `Surv`: 0 censored, 1 the event, 2 and above competing events.
        score : array_like, shape (n,), optional
            Probabilities of the target group from elsewhere instead of a model.
        fold : array_like of int, shape (n,) or (n, repeats), optional
            Folds of people, counted from 0, instead of random ones.
        clusters : array_like, shape (n,), optional
            Labels of people who belong together.
        sample_weight : array_like, shape (n,), optional
            Weights of people.

        Returns
        -------
        self
            The fitted object.

        Raises
        ------
        DataError
            A setting or input cannot be used, or a model cannot be fitted. The message names
            the remedy.
        """
        refuse_other_order(
            X, treatment=treatment, score=score, clusters=clusters, sample_weight=sample_weight
        )
        draft = unfitted_copy(self)
        draft._fit(X, treatment, y, score, fold, clusters, sample_weight)
        self.__dict__ = draft.__dict__
        return self

    def _fit(
        self, X: Any, treatment: ArrayLike, y: NDArray, score: ArrayLike | None,
        fold: ArrayLike | None, clusters: ArrayLike | None, sample_weight: ArrayLike | None,
    ) -> None:  # fmt: skip
        """Set the fitted attributes."""
        estimand = self._check_settings()
        columns = CovariateColumns.of(X)
        n, design = columns.n, columns.coded
        target = require_arms(treatment, "treatment") == 1
        if len(target) != n:
            raise DataError(f"treatment has {len(target)} rows and X {n}; they must agree.")
        if target.all() or not target.any():
            raise DataError("treatment has one value only; both 1 and 0 are needed.")
        follow_up, steps = self._follow_up(y, target)
        weights, labels = check_weights(sample_weight, n), read_clusters(clusters, n)
        cuts = read_folds(fold, n, labels)
        if cuts is None:
            groups = 2 * target.astype(np.int64) + (follow_up.event > 0)
            cuts = folds_of_people(groups, labels, self.folds, self.repeats, self.random_state)
        if score is not None and self.treatment_model is not None:
            raise DataError("treatment_model has no effect with score=; leave one of them out.")
        if score is None:
            fits = CrossFitting(
                columns.source, design, target, cuts, None if sample_weight is None else weights
            )
            scores, self.model_ = fits.score(default_model(self.treatment_model, binary=True))
        else:
            scores, self.model_ = read_probabilities("score", score, (n,))[:, None], None
        self.bound_ = truncation_bound(n) if self.bound is None else float(self.bound)
        people = People(target, np.zeros(n), np.ones(n, dtype=bool), weights)
        repeats = [
            self._arms(people, design, follow_up, estimand, scores[:, min(r, scores.shape[1] - 1)],
                       None if cuts is None else cuts[:, r])
            for r in range(1 if cuts is None else cuts.shape[1])
        ]  # fmt: skip
        width = float(self.interval)
        wanted = functionals(steps.tolist(), follow_up.count, follow_up.causes, width)
        how = name_of_errors(cuts is not None, labels)
        method = cast(Method, self.method)
        found = SurvivalEstimates.of(repeats, wanted, width, method, how, labels)
        self._estimates = found
        rows = found.rows(self.method, self.level)
        table = effects_table([row for _, row in rows], estimand, self.level)
        table.insert(0, "cause", [what.cause for what, _ in rows])
        table.insert(0, "time", [what.step * width for what, _ in rows])
        self.effects_, self.influence_, self.curves_ = table, found.influence, found.curves
        self.score_, self.n_features_in_ = scores.mean(axis=1), design.p
        bounded = np.clip(self.score_, self.bound_, 1 - self.bound_)
        self.weights_ = propensity_weights(bounded, target, estimand, stabilized=False) * weights
        self.effective_sample_size_ = effective_sample_sizes(
            self.weights_, target.astype(int), ["comparator", "target"]
        )
        self.overlap_ = overlap_table(scores, target, self.bound_, self.weights_)
        self._balance_later(
            columns, target, self.weights_, estimand, None if sample_weight is None else weights
        )

    def effect_rows(self, level: float, method: str) -> list[EffectRow]:
        """Return the effects on the event 1 as `compare_groups` tabulates them.

        Parameters
        ----------
        level : float
            Confidence level.
        method : str
            Name of the method in the rows.

        Returns
        -------
        list of EffectRow
            A row per measure and time.
        """
        check_is_fitted(self)
        return [row for _, row in self._estimates.rows(method, level, cause=1)]

    def _arms(
        self, people: People, design: Design, follow_up: FollowUp, estimand: Any, score: NDArray,
        fold: NDArray | None,
    ) -> list[ArmRisks]:  # fmt: skip
        """Fit the hazards of both treatments under one division into folds."""
        e = np.clip(score, self.bound_, 1 - self.bound_)
        inside, chance = population(people, e, estimand)
        arms = []
        for name, group, of_arm in zip(
            GROUPS, (people.target, ~people.target), (e, 1 - e), strict=True
        ):
            hazards = hazards_of_group(
                self.event_model, self.censoring_model, design, follow_up, group, fold,
                people.weights, name,
            )  # fmt: skip
            arms.append(ArmRisks(
                follow_up, hazards, group, chance / of_arm, inside, self.bound_, people.weights
            ))  # fmt: skip
        return arms

    def _check_settings(self) -> Any:
        """Check the settings; return the code of the estimand."""
        check_level(self.level)
        if self.method not in get_args(Method):
            raise DataError(f"method must be 'aipw' or 'tmle', not {self.method!r}.")
        if not (isinstance(self.interval, Real) and 0 < float(self.interval) < np.inf):
            raise DataError(f"interval must be a width above 0, not {self.interval!r}.")
        if self.competing not in ("total", "direct"):
            raise DataError(f"competing must be 'total' or 'direct', not {self.competing!r}.")
        bound = self.bound
        if bound is not None and not (isinstance(bound, Real) and 0 <= float(bound) < 0.5):
            raise DataError(f"bound must be at least 0 and below 0.5, not {bound!r}.")
        check_folds(self)
        for name in ("event_model", "censoring_model"):
            model = getattr(self, name)
            if model is None:
                continue
            if not isinstance(model, PooledLogisticRegression):
                raise DataError(
                    f"{name} must be a PooledLogisticRegression, not {type(model).__name__}."
                )
            if model.interval is not None or model.breaks is not None:
                raise DataError(f"{name} takes its intervals from interval=; leave them out.")
        return check_estimand(self.estimand, ("ate", "att", "atu"))

    def _follow_up(self, y: NDArray, target: NDArray) -> tuple[FollowUp, NDArray]:
        """Put times in intervals; return also the numbers of the intervals of ``times``."""
        found = check_survival(y, len(target), competing=True)
        if found.entry is not None:
            raise DataError("y has entry times; late entry is not available here.")
        event = np.where(found.event == 1, 1, 0) if self.competing == "direct" else found.event
        last = min(float(found.time[group].max()) for group in (target, ~target))
        width = float(self.interval)
        times = [np.floor(last / width + 1e-9) * width] if self.times is None else self.times
        at = np.asarray(times, dtype=float)
        steps = np.round(at / width).astype(np.int64)
        if not at.size or (steps < 1).any() or not np.allclose(steps * width, at):
            raise DataError(
                f"times must be multiples of interval={width:g} above 0, such as {width:g} or "
                f"{2 * width:g}, not {list(times)}."
            )
        if at.max() > last * (1 + 1e-9):
            raise DataError(
                f"times has {at.max():g}, but both groups have somebody under observation up to "
                f"{last:g} only."
            )
        follow_up = FollowUp.of(found.time, event, width, float(at.max()))
        for cause in range(1, follow_up.causes + 1):
            for name, group in zip(GROUPS, (target, ~target), strict=True):
                if not (follow_up.event[group] == cause).any():
                    raise DataError(
                        f"The {name} has no event {cause} by {at.max():g}, so that it has no "
                        "model of its hazard. Take later times."
                    )
        return follow_up, steps
