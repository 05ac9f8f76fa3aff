"""G-computation by iterated expectations for sustained strategies, static or dynamic.

From the last period K to the first, the mean of the outcome by K under a strategy is regressed on
the history, Q_k = E(Y_k + (1 − Y_k) Q_{k+1} | history), and evaluated with treatments as the
strategy has them (Bang and Robins 2005). Q_k are shares between 0 and 1, fitted by logistic
regression. Confounders need no models of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data.vector_checks import check_level
from steropes.designs.target_trials.emulation_diagnostics import (
    Row,
    diagnostics_table,
    of_draws,
)
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.marginal_risks import (
    StrategyRisks,
    contrast_table,
    risk_table,
)
from steropes.designs.target_trials.person_time import PersonTime, read_person_time
from steropes.designs.target_trials.trial_protocol import TargetTrial, protocol_table
from steropes.designs.time_varying.followed_strategies import FollowedStrategies, horizons_within
from steropes.designs.time_varying.sustained_strategies import (
    PlanTargeting,
    Strategy,
    probabilities_of_plan,
    targeted_shares,
)
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression

__all__ = ["iterated_g_computation"]


def iterated_g_computation(
    data: Any,
    *,
    id: str,
    period: str,
    treatment: str,
    outcome: str,
    covariates: Sequence[str],
    strategies: Mapping[str, Strategy] | None = None,
    censored: str | None = None,
    lags: int = 0,
    horizons: Sequence[int] | None = None,
    model: Any = None,
    method: Literal["g-computation", "tmle"] = "g-computation",
    treatment_model: Any = None,
    bound: float = 0.01,
    measured: Mapping[str, str] | None = None,
    bootstrap: int | None = None,
    level: float = 0.95,
    random_state: int = 0,
    protocol: TargetTrial | None = None,
) -> EmulatedTrial:
    """Estimate risks under sustained strategies by iterated conditional expectations.

    Parameters
    ----------
    data : data frame, relation or path
        One row per person and period, from the same first period on and without gaps, until the
        outcome, loss or the end; as for `sequential_trials`.
    id, period, treatment, outcome : str
        Columns as for `sequential_trials`.
    covariates : list of str
        Columns of the model of each period, measured before its treatment.
    strategies : mapping of str to strategy, optional
        0 or 1 for treatment in no or in all periods, a list of 0 and 1 by period, or a function
        that takes the covariates of rows, with ``period`` counted from 0, and returns 0 or 1 for
        each: a dynamic strategy. Contrasts are against the last. Default: always and never.
    censored : str, optional
        Column as for `sequential_trials`. Losses are taken as random given the history.
    lags : int, default 0
        How many earlier periods of treatment and covariates the models have too.
    horizons : list of int, optional
        Numbers of periods after which risks are estimated. Default: all periods of the data.
    model : estimator, optional
        Unfitted regression of shares from 0 to 1. Default: logistic by maximum likelihood.
    method : {"g-computation", "tmle"}
        "tmle" shifts each mean until residuals of those who follow the strategy, weighted by the
        inverse probability of following it so far, sum to zero. Risks are then consistent if the
        models of the means or those of the treatment are right, and have errors of the influence
        function. People must not be lost.
    treatment_model : estimator, optional
        Unfitted model of the treatment in each period given the treatment before and the columns of
        the outcome's model, for "tmle". Default: logistic by maximum likelihood.
    bound : float, default 0.01
        Least probability of following a strategy so far, for "tmle".
    measured : mapping of str to str, optional
        Columns with the time at which covariates were measured.
    bootstrap : int, optional
        Number of draws of people. With 0 there are errors of "tmle" alone. Default: 200, or 0 for
        "tmle".
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the draws.
    protocol : TargetTrial, optional
        The trial that one would like to run, in words.

    Returns
    -------
    EmulatedTrial
        Risks and contrasts by horizon; ``weights`` has the numbers of people who have followed each
        strategy so far.

    Raises
    ------
    DataError
        Rows overlap or miss a period, or no one follows a strategy.
    SeparationError
        A model has no finite maximum; the message names the period and the columns.

    See Also
    --------
    marginal_structural_model : Weights instead of outcome models.

    References
    ----------
    Bang and Robins (2005), Biometrics 61:962–973. Wen and others (2021), Biometrics 77:740–753.
    Van der Laan and Gruber (2012), International Journal of Biostatistics 8(1):9 ("tmle").

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"id": np.repeat(range(400), 2), "visit": np.tile([0, 1], 400)})
    >>> visits["cd4"] = rng.normal(size=800)
    >>> visits["drug"] = rng.integers(0, 2, 800)
    >>> visits["ill"] = (visits["visit"] == 1) * (rng.random(800) < 0.3)
    >>> found = steropes.designs.time_varying.iterated_g_computation(
    ...     visits, id="id", period="visit", treatment="drug", outcome="ill", covariates=["cd4"],
    ...     strategies={"if low": lambda rows: rows["cd4"] < 0, "never": 0}, horizons=[2],
    ...     bootstrap=0,
    ... )
    >>> found.risks["strategy"].tolist()
    ['if low', 'never']
    """
    check_level(level)
    if method not in ("g-computation", "tmle"):
        raise DataError(f"method must be 'g-computation' or 'tmle', not {method!r}.")
    if method != "tmle" and (treatment_model is not None or bound != 0.01):
        raise DataError("treatment_model and bound are for method='tmle'; leave them out.")
    if not 0 < bound < 1:
        raise DataError(f"bound must be above 0 and below 1, not {bound!r}.")
    if bootstrap is None:
        bootstrap = 0 if method == "tmle" else 200
    for name, value, least in (("bootstrap", bootstrap, 0), ("lags", lags, 0),
                               ("random_state", random_state, 0)):  # fmt: skip
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise DataError(f"{name} must be a whole number from {least}, not {value!r}.")
    if bootstrap == 1:
        raise DataError("bootstrap must be 0 or a number of draws, such as 200.")
    rows = read_person_time(
        data, id=id, period=period, treatment=treatment, outcome=outcome, eligible=None,
        censored=censored, covariates=list(covariates), measured=measured or {},
    )  # fmt: skip
    given = {"always": 1, "never": 0} if strategies is None else dict(strategies)
    if method == "tmle" and rows.censored.any():
        raise DataError(
            "method='tmle' has no model of losses, and people are lost; take 'g-computation'."
        )
    targeting = PlanTargeting(treatment_model, bound) if method == "tmle" else None
    followed = FollowedStrategies.of(rows, given)
    analysis = _Analysis(
        followed, list(covariates), lags, horizons_within(horizons, followed.periods), model,
        targeting,
    )  # fmt: skip
    return analysis.result(int(bootstrap), level, random_state, protocol)


@dataclass(frozen=True, repr=False)
class _Analysis:
    """The strategies, the columns of the models, and the estimand."""

    followed: FollowedStrategies
    covariates: list[str]
    lags: int
    horizons: NDArray[np.int64]
    model: Any
    targeting: PlanTargeting | None

    @property
    def rows(self) -> PersonTime:
        """The observed rows."""
        return self.followed.rows

    def inverse(self, plan: NDArray, people: NDArray) -> NDArray | None:
        """Compute inverse probabilities of following a plan so far; zero for others, (n,)."""
        if self.targeting is None:
            return None
        rows = self.rows
        X = self.columns(rows.treatment).drop(columns="treatment")
        if not self.lags:
            X = X.assign(**{"treatment (1 before)": rows.previous.astype(float)})
        chance = probabilities_of_plan(
            X, rows.treatment, rows.previous, plan, self.followed.when, people[rows.person],
            self.targeting.model,
        )  # fmt: skip
        log = np.cumsum(np.log(np.maximum(chance, np.finfo(float).tiny)))
        start = np.append(0.0, log)[rows.starts[:-1]]
        so_far = np.exp(log - start[rows.person])
        return np.where(
            self.followed.follows(plan), 1 / np.maximum(so_far, self.targeting.bound), 0.0
        )

    def columns(self, treatment: NDArray) -> pd.DataFrame:
        """Return the columns of the models, with treatments by row and their lags."""
        now = pd.concat(
            [pd.DataFrame({"treatment": treatment.astype(np.float64)}), self.rows.data], axis=1
        )
        parts = [now]
        for lag in range(1, self.lags + 1):
            earlier = np.maximum(np.arange(self.rows.n) - lag, 0)
            moved = now.iloc[earlier].reset_index(drop=True)
            moved = moved.where(pd.Series(self.followed.when >= lag), 0.0)
            parts.append(moved.add_suffix(f" ({lag} before)"))
        return pd.concat(parts, axis=1)

    def risks(self, people: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute risks if people count as often as given, and influences on them.

        Returns
        -------
        risks : ndarray, shape (strategies, horizons)
        influences : ndarray, shape (horizons, strategies, people)
            Those of targeted risks; otherwise of no meaning.
        """
        observed = self.columns(self.rows.treatment).to_numpy()
        out = np.empty((len(self.followed.planned), len(self.horizons)))
        influences = np.empty((len(self.horizons), len(self.followed.planned), self.rows.people))
        names = list(self.columns(self.rows.treatment))
        for s, (name, plan) in enumerate(self.followed.planned.items()):
            under, inverse = self.columns(plan).to_numpy(), self.inverse(plan, people)
            for h, horizon in enumerate(self.horizons):
                out[s, h], influences[h, s] = self._risk(
                    observed, under, names, int(horizon), people, inverse, name
                )
        return out, influences

    def _risk(
        self, X: NDArray, under: NDArray, names: list[str], horizon: int, people: NDArray,
        inverse: NDArray | None, name: str,
    ) -> tuple[float, NDArray]:  # fmt: skip
        """Iterate the regressions from the last period to the first."""
        rows = self.rows
        later = np.full(rows.n, np.nan)
        influence = np.zeros(rows.people)
        for k in range(horizon - 1, -1, -1):
            at = np.flatnonzero((self.followed.when == k) & (people[rows.person] > 0))
            y = rows.outcome[at].astype(np.float64)
            known = np.ones(len(at), dtype=bool)
            if k < horizon - 1:
                following = np.minimum(at + 1, rows.n - 1)
                stays = (at + 1 < rows.n) & (rows.person[following] == rows.person[at])
                y = np.where(y == 1, 1.0, np.where(stays, later[following], np.nan))
                known = np.isfinite(y)
            else:
                known = (y == 1) | (rows.censored[at] == 0)
            fit = self._fit(X[at][known], y[known], people[rows.person[at[known]]], names, k)
            share = fit(under[at])
            if inverse is not None:
                w = np.where(known, inverse[at] * people[rows.person[at]], 0.0)
                share = targeted_shares(share, y, w, name)
                residual = np.where(w > 0, w * (y - share), 0.0)
                influence += np.bincount(rows.person[at], residual, minlength=rows.people)
            later[at] = share
        first, used = rows.starts[:-1], people > 0
        risk = float(np.average(later[first[used]], weights=people[used]))
        influence[used] += people[used] * (later[first[used]] - risk)
        return risk, influence / people.sum()

    def _fit(
        self, X: NDArray, y: NDArray, weights: NDArray, names: list[str], k: int
    ) -> Callable[[NDArray], NDArray]:
        """Fit the model of one period and return its prediction."""
        if not y.any() or (y == 1).all():
            return lambda Z: np.full(len(Z), y[0])
        used = np.flatnonzero((X[:1] != X).any(axis=0))
        own = FractionalLogisticRegression() if self.model is None else self.model
        try:
            fitted = clone(own).fit(
                pd.DataFrame(X[:, used], columns=[names[j] for j in used]), y,
                sample_weight=weights,
            )  # fmt: skip
        except SeparationError as error:
            raise SeparationError(
                f"The model of period {k} has no finite maximum: {error} Leave out or merge the "
                "columns, or give model a prior.",
                error.columns,
            ) from None
        columns = [names[j] for j in used]
        return lambda Z: np.asarray(fitted.predict(pd.DataFrame(Z[:, used], columns=columns)))

    def draws(self, number: int, seed: int) -> NDArray | None:
        """Return risks of draws of people, (B, strategies, horizons)."""
        people, found = self.rows.people, []
        for stream in np.random.SeedSequence(seed).spawn(number):
            drawn = np.random.default_rng(stream).integers(0, people, people)
            try:
                found.append(self.risks(np.bincount(drawn, minlength=people) * 1.0)[0])
            except SeparationError:
                continue
        if number and len(found) < 2:
            raise DataError(f"Hardly any of {number} bootstrap draws has an estimate.")
        return np.array(found) if number else None

    def result(
        self, bootstrap: int, level: float, seed: int, trial: TargetTrial | None
    ) -> EmulatedTrial:
        """Put the parts of the result together."""
        risk, influences = self.risks(np.ones(self.rows.people))
        draws, covariance = self.draws(bootstrap, seed), None
        if self.targeting is not None:
            n = self.rows.people
            covariance = np.einsum("hsi,hri->hsr", influences, influences) * n / (n - 1)
        found = StrategyRisks(list(self.followed.planned), self.horizons, risk, covariance, draws)
        return EmulatedTrial(
            effects=pd.DataFrame(), risks=risk_table(found, level),
            contrasts=contrast_table(found, level), weights=self.followed.table(),
            censoring=self.followed.censoring(),
            diagnostics=diagnostics_table(self._checks(bootstrap, draws)),
            protocol=protocol_table(trial, self._protocol(bootstrap)), estimand=_ESTIMAND,
            models={},
        )  # fmt: skip

    def _checks(self, asked: int, draws: NDArray | None) -> list[Row]:
        """Check positivity by period, and how many draws have an estimate."""
        rows = self.followed.checks(int(self.horizons.max()))
        return rows + list(of_draws(0 if draws is None else asked - len(draws), asked))

    def _protocol(self, bootstrap: int) -> TargetTrial:
        """Describe how each component of the target trial is emulated."""
        targeted = self.targeting is not None
        errors = "errors of the influence function" if targeted else "no errors"
        if bootstrap:
            errors = f"{bootstrap} bootstrap draws of people"
        return TargetTrial(
            eligibility=f"The {self.rows.people:,} people of the data, from their first period",
            strategies=", ".join(self.followed.planned),
            assignment=f"In each period, as random given {', '.join(self.covariates)} so far",
            follow_up="From the first period to the outcome or loss",
            outcome="The outcome in each period of the data",
            contrast="Effect of sustained strategies (per protocol)",
            analysis=(
                f"Targeted iterated conditional expectations; {errors}"
                if targeted
                else f"G-computation by iterated conditional expectations; {errors}"
            ),
        )


_ESTIMAND = (
    "Risks had everybody followed each strategy in every period, without loss. They are causal if "
    "the covariates so far suffice to make treatment and loss random in each period, and if the "
    "models of all periods are right. The effect of starting a treatment whatever follows "
    "(intention to treat) is not estimated."
)
