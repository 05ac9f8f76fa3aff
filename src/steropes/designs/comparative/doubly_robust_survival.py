"""Doubly robust risks and restricted means of times to events, with competing events."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data import refuse_other_order
from steropes.data.survival_outcome import check_survival
from steropes.data.vector_checks import check_level, check_weights
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.doubly_robust_inputs import (
    default_model,
    read_clusters,
    read_folds,
    read_probabilities,
)
from steropes.designs.comparative.doubly_robust_rows import covariance, name_of_errors
from steropes.designs.comparative.effect_rows import EffectRow, contrasts, effects_table
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.doubly_robust.arm_means import People, population, truncation_bound
from steropes.designs.doubly_robust.discrete_survival import (
    FollowUp,
    arm_contributions,
    restricted_means,
)
from steropes.designs.doubly_robust.hazard_models import hazards_of_group
from steropes.designs.doubly_robust.nuisance_models import (
    GROUPS,
    CrossFitting,
    folds_of_people,
)
from steropes.designs.doubly_robust.overlap import overlap_table
from steropes.designs.propensity.propensity_weights import propensity_weights
from steropes.designs.values.estimands import check_estimand
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression
from steropes.models.fitting.sklearn_base import BaseEstimator

__all__ = ["DoublyRobustSurvival"]


class DoublyRobustSurvival(BaseEstimator):
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
        ``time``, ``cause``, ``group`` and ``risk`` at the end of each interval.
    score_ : ndarray, shape (n,)
        Scores of the target group before the bound.
    weights_ : ndarray, shape (n,)
        Inverse probability weights of the bounded scores, times ``sample_weight``.
    bound_ : float
        The bound in use.
    overlap_ : DataFrame
        Scores, weights, effective sample sizes and how many scores the bound has changed.
    model_ : estimator or None
        The model of the treatment, fitted to everybody; None if scores were given.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    DoublyRobust : Effects on numbers and events without censoring.
    PooledLogisticRegression : The models of hazards.

    Notes
    -----
    Memory grows with people × intervals × causes. Errors are those of the influence function.

    References
    ----------
    Moore and van der Laan (2009), Statistics in Medicine 28:39–64. Benkeser, Carone and Gilbert
    (2018), Statistics in Medicine 37:280–293 (competing events).

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
        times: Sequence[float] | None = None,
        estimand: str = "ATE",
        competing: str = "total",
        treatment_model: Any = None,
        event_model: Any = None,
        censoring_model: Any = None,
        folds: int = 5,
        bound: float | None = None,
        level: float = 0.95,
        random_state: int = 0,
    ) -> None:
        self.interval = interval
        self.times = times
        self.estimand = estimand
        self.competing = competing
        self.treatment_model = treatment_model
        self.event_model = event_model
        self.censoring_model = censoring_model
        self.folds = folds
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
        fold : array_like of int, shape (n,), optional
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
            A setting or input cannot be used, or a model cannot be fitted; the message says what
            to do.
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
        columns = CovariateColumns(X)
        n, design = columns.n, columns.coded
        target = require_arms(treatment) == 1
        if len(target) != n:
            raise DataError(f"treatment has {len(target)} rows and X {n}; they must agree.")
        if target.all() or not target.any():
            raise DataError("treatment has one value only; both 1 and 0 are needed.")
        follow_up, steps = self._follow_up(y, target)
        weights, labels = check_weights(sample_weight, n), read_clusters(clusters, n)
        cuts = read_folds(fold, n, labels)
        if cuts is None:
            groups = 2 * target.astype(np.int64) + (follow_up.event > 0)
            cuts = folds_of_people(groups, labels, self.folds, 1, self.random_state)
        if cuts is not None and cuts.shape[1] > 1:
            raise DataError("fold must have one division of people here, of shape (n,).")
        if score is not None and self.treatment_model is not None:
            raise DataError("treatment_model has no effect with score=; leave one of them out.")
        own = None if cuts is None else cuts[:, 0]
        if score is None:
            fits = CrossFitting(X, design, target, cuts, None if sample_weight is None else weights)
            scores, self.model_ = fits.score(default_model(self.treatment_model, binary=True))
            e = scores[:, 0]
        else:
            e, self.model_ = read_probabilities("score", score, (n,)), None
        self.bound_ = truncation_bound(n) if self.bound is None else float(self.bound)
        bounded = np.clip(e, self.bound_, 1 - self.bound_)
        people = People(target, np.zeros(n), np.ones(n, dtype=bool), weights)
        inside, chance = population(people, bounded, estimand)
        risks = []
        for name, group, of_arm in zip(
            GROUPS, (target, ~target), (bounded, 1 - bounded), strict=True
        ):
            hazards = hazards_of_group(
                self.event_model,
                self.censoring_model,
                design,
                follow_up,
                group,
                own,
                weights,
                name,
            )
            risks.append(arm_contributions(
                follow_up, hazards, group, chance / of_arm, inside, self.bound_
            ))  # fmt: skip
        self._publish(risks, inside, weights, steps, labels, estimand, own is not None)
        self.score_, self.n_features_in_ = e, design.p
        self.weights_ = propensity_weights(bounded, target, estimand, stabilized=False) * weights
        self.overlap_ = overlap_table(e[:, None], target, self.bound_, self.weights_)

    def _check_settings(self) -> Any:
        """Check the settings; return the code of the estimand."""
        check_level(self.level)
        if not (isinstance(self.interval, Real) and 0 < float(self.interval) < np.inf):
            raise DataError(f"interval must be a width above 0, not {self.interval!r}.")
        if self.competing not in ("total", "direct"):
            raise DataError(f"competing must be 'total' or 'direct', not {self.competing!r}.")
        bound = self.bound
        if bound is not None and not (isinstance(bound, Real) and 0 <= float(bound) < 0.5):
            raise DataError(f"bound must be at least 0 and below 0.5, not {bound!r}.")
        whole = isinstance(self.folds, Integral) and not isinstance(self.folds, bool)
        if not whole or self.folds < 1:
            raise DataError(f"folds must be a whole number from 1, not {self.folds!r}.")
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

    def _publish(
        self, risks: list[NDArray], inside: NDArray, weights: NDArray, steps: NDArray,
        clusters: NDArray | None, estimand: Any, crossed: bool,
    ) -> None:  # fmt: skip
        """Tabulate effects, influences and curves from contributions of both treatments."""
        width = float(self.interval)
        share = weights / float(weights @ inside)
        how = name_of_errors(crossed, clusters)
        rows: list[EffectRow] = []
        labels: list[tuple[float, int]] = []
        influences: dict[tuple[str, int, float], NDArray] = {}
        curves = []
        # The event-free time of people outside the population counts as nothing.
        means = [restricted_means(x, width) for x in risks]
        if not inside.all():
            k = np.arange(1, risks[0].shape[1] + 1)
            means = [m - (1 - inside)[:, None] * k * width for m in means]

        def add(name: str, cause: int, step: int, both: NDArray) -> None:
            values = share @ both
            influence = share[:, None] * (both - inside[:, None] * values)
            V = covariance(influence, clusters)
            for measure, value, se in contrasts(name, values, V):
                rows.append(EffectRow.of("aipw", measure, value, se, how, self.level,
                                         groups=(float(values[0]), float(values[1]))))  # fmt: skip
                labels.append((step * width, cause))
                if measure.endswith("difference"):
                    influences[measure, cause, step * width] = influence[:, 0] - influence[:, 1]

        for step in map(int, steps):
            for cause in range(1, risks[0].shape[2] + 1):
                add(
                    "risk", cause, step, np.column_stack([x[:, step - 1, cause - 1] for x in risks])
                )
            add("restricted mean", 0, step, np.column_stack([m[:, step - 1] for m in means]))
        for group, x in zip(GROUPS, risks, strict=True):
            average = np.tensordot(share, x, axes=1)
            curves += [
                (k * width + width, j + 1, group, float(average[k, j]))
                for j in range(x.shape[2])
                for k in range(x.shape[1])
            ]
        table = effects_table(rows, estimand, self.level)
        table.insert(0, "cause", [cause for _, cause in labels])
        table.insert(0, "time", [time for time, _ in labels])
        self.effects_ = table
        self.influence_ = pd.DataFrame(influences)
        self.curves_ = pd.DataFrame(curves, columns=["time", "cause", "group", "risk"])
