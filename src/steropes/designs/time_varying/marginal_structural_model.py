"""Marginal structural models of treatments that change with time, by stabilised weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data import Surv
from steropes.data.vector_checks import check_level
from steropes.designs.target_trials.emulation_diagnostics import (
    Row,
    censoring_table,
    diagnostics_table,
    of_optimum,
    of_weights,
    positivity_table,
)
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.m_estimation_errors import (
    WeightedIntervals,
    check_errors,
    stacked_influences,
)
from steropes.designs.target_trials.marginal_risks import (
    HazardModel,
    StrategyRisks,
    contrast_table,
    risk_table,
)
from steropes.designs.target_trials.person_time import PersonTime, read_person_time
from steropes.designs.target_trials.sequential_trial_estimates import coefficients, effect_table
from steropes.designs.target_trials.trial_protocol import TargetTrial, protocol_table
from steropes.designs.time_varying.stabilized_weights import StabilizedWeights
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression

__all__ = ["marginal_structural_model"]

NAMES = ("always treated", "never treated")


def marginal_structural_model(
    data: Any,
    *,
    id: str,
    period: str,
    treatment: str,
    outcome: str,
    confounders: Sequence[str],
    baseline: Sequence[str] = (),
    censored: str | None = None,
    once: bool = False,
    weights: Literal["logistic", "cox"] = "logistic",
    weight_model: Any = None,
    stabilized: bool = True,
    truncate: float | None = None,
    model: Literal["logistic", "cox"] = "logistic",
    time_degree: int = 2,
    measured: Mapping[str, str] | None = None,
    errors: Literal["robust", "stacked"] = "robust",
    bootstrap: int = 0,
    level: float = 0.95,
    random_state: int = 0,
) -> EmulatedTrial:
    """Estimate the effect of the current treatment on the hazard by inverse probability weights.

    A confounder that treatment changes must neither be left out nor be in the outcome model. Each
    row is weighted by the inverse of the probability of the treatments so far given confounders,
    times their probability given baseline columns alone (Robins, Hernán and Brumback 2000).

    Parameters
    ----------
    data : data frame, relation or path
        One row per person and period, without gaps; as for `sequential_trials`.
    id, period, treatment, outcome : str
        Columns as for `sequential_trials`.
    confounders : list of str
        Columns that change with time and predict the treatment of their period and the outcome.
    baseline : list of str
        Columns that do not change with time. They stabilise the weights and are in the outcome
        model.
    censored : str, optional
        Column as for `sequential_trials`; losses then have weights too.
    once : bool, default False
        Whether treatment never stops once started; then only its start is weighted.
    weights : {"logistic", "cox"}
        Models of treatment and censoring: logistic ones by previous treatment with a polynomial
        of the period, or Cox models, which need ``once=True``.
    weight_model : estimator, optional
        Unfitted logistic model of treatment and of losses, which is cloned, such as one with a
        prior. Default: `LogisticRegression` by maximum likelihood.
    stabilized : bool, default True
        Whether weights have a numerator.
    truncate : float, optional
        Quantile of the weights at which they are truncated, such as 0.99.
    model : {"logistic", "cox"}
        Outcome model. Only the pooled logistic one gives risks.
    time_degree : int, default 2
        Degree of the polynomials of time.
    measured : mapping of str to str, optional
        Columns with the time at which confounders were measured.
    errors : {"robust", "stacked"}
        As for `sequential_trials`; "stacked" ones include the models of the weights.
    bootstrap : int, default 0
        Number of draws of people; each fits the models of the weights again.
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the draws.

    Returns
    -------
    EmulatedTrial
        Odds or hazard ratio, risks if always or never treated, weights and diagnostics.

    Raises
    ------
    DataError
        Rows overlap or miss a period, a baseline column changes, or all have the same treatment.
    SeparationError
        A model has no finite maximum; the message names the model and the columns.

    References
    ----------
    Robins, Hernán and Brumback (2000), Epidemiology 11:550–560. Van der Wal and Geskus (2011),
    Journal of Statistical Software 43(13).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"id": np.repeat(range(300), [1 + i % 4 for i in range(300)])})
    >>> visits["visit"] = visits.groupby("id").cumcount()
    >>> visits["cd4"] = rng.normal(size=len(visits))
    >>> visits["drug"] = (rng.random(len(visits)) < 0.4 + 0.1 * (visits["cd4"] > 0)) * 1
    >>> last = ~visits["id"].duplicated(keep="last")
    >>> visits["ill"] = last * rng.integers(0, 2, len(visits))
    >>> found = steropes.designs.time_varying.marginal_structural_model(
    ...     visits, id="id", period="visit", treatment="drug", outcome="ill", confounders=["cd4"]
    ... )
    >>> found.effects["measure"].tolist()
    ['odds ratio']
    """
    check_level(level)
    if model not in ("logistic", "cox") or weights not in ("logistic", "cox"):
        raise DataError("model and weights must be 'logistic' or 'cox'.")
    if weights == "cox" and not once:
        raise DataError("weights='cox' are of the start of a treatment: they need once=True.")
    if weights == "cox" and weight_model is not None:
        raise DataError("weight_model is a logistic model; leave it out with weights='cox'.")
    if not confounders:
        raise DataError("confounders must name columns; without any, weights are one.")
    rows = read_person_time(
        data, id=id, period=period, treatment=treatment, outcome=outcome, eligible=None,
        censored=censored, covariates=[*baseline, *confounders], measured=measured or {},
    )  # fmt: skip
    _check_rows(rows, baseline, once)
    other = weight_model if weights == "logistic" else weights
    check_errors(errors, True, model, other, bool(bootstrap))
    weighting = StabilizedWeights(
        rows, tuple(baseline), tuple(confounders), censored is not None, once, weights, stabilized,
        truncate, time_degree, weight_model,
    )  # fmt: skip
    return _Analysis(weighting, model).result(bootstrap, level, random_state, errors == "stacked")


def _check_rows(rows: PersonTime, baseline: Sequence[str], once: bool) -> None:
    """Refuse baseline columns that change, one treatment for all, and treatments that stop."""
    changing = rows.changing(list(baseline))
    if changing:
        raise DataError(
            f"{changing[0]!r} is a baseline column but changes with time; name it among "
            "confounders, or give its first value in all rows."
        )
    for arm in (0, 1):
        if not (rows.treatment == arm).any():
            raise DataError(f"Nobody follows the strategy treatment = {arm} in any period.")
        if not rows.outcome[rows.treatment == arm].any():
            raise SeparationError(
                f"Nobody with treatment = {arm} has the outcome, so that its effect has no finite "
                "estimate; follow people for longer.",
                ["treatment"],
            )
    if once and ((rows.previous == 1) & (rows.treatment == 0)).any():
        raise DataError("once=True, but some people stop the treatment; leave once out.")


@dataclass(frozen=True, repr=False)
class _Analysis:
    """The settings, and the estimates under them."""

    weighting: StabilizedWeights
    model: str

    @property
    def rows(self) -> PersonTime:
        """The person-time."""
        return self.weighting.rows

    @property
    def time(self) -> NDArray[np.int64]:
        """Number of the period of each row within its person, from 1 on."""
        return self.weighting.time

    def influences(self, fit: Any, w: NDArray) -> pd.DataFrame:
        """Compute people's influence on the coefficients, also through weights, (people, q)."""
        rows, first = self.rows, self.rows.starts[self.rows.person]
        cap = np.inf if self.weighting.truncate is None else float(w.max())

        def weights(at: NDArray, k: int) -> tuple[NDArray, NDArray]:
            return w[at], w[at] < cap

        intervals = WeightedIntervals(
            self.columns(rows.treatment), self.time - 1, self.time, rows.outcome, rows.person,
            first, first - 1, weights,
        )  # fmt: skip
        bread, coef = fit.vcov("model"), coefficients(fit)
        found = stacked_influences(
            lambda: [intervals],
            self.hazard_model,
            coef,
            bread.to_numpy(),
            self.weighting.fitted(),
            rows.person,
        )
        return pd.DataFrame(found, columns=bread.columns)

    @property
    def hazard_model(self) -> HazardModel:
        """The columns of the pooled logistic model."""
        K = int(self.time.max())
        return HazardModel(min(self.weighting.time_degree, K - 1), {}, K)

    def columns(self, treatment: NDArray, chosen: NDArray | None = None) -> pd.DataFrame:
        """Return the columns of the outcome model."""
        own = self.rows.columns(self.weighting.baseline)
        own = own if chosen is None else own.iloc[chosen].reset_index(drop=True)
        first = pd.DataFrame({"treatment": treatment.astype(np.float64)}, index=own.index)
        return pd.concat([first, own], axis=1)

    def fit(self, weights: NDArray) -> Any:
        """Fit the outcome model."""
        rows = self.rows
        X = self.columns(rows.treatment)
        if self.model == "cox":
            y = Surv(rows.period, rows.outcome, rows.period - 1)
            return CoxRegression().fit(X, y, sample_weight=weights)
        y = Surv(self.time, rows.outcome, self.time - 1)
        model = PooledLogisticRegression(interval=1, baseline=self.hazard_model.baseline)
        return model.fit(X, y, sample_weight=weights)

    def risks(self, coef: NDArray, slopes: bool = True) -> tuple[NDArray, NDArray]:
        """Compute risks if always and never treated (2, K), and their derivatives (2, K, q)."""
        chosen = self.rows.starts[:-1]
        found = [
            self.hazard_model.risks(
                self.columns(np.full(len(chosen), a), chosen), coef, slopes=slopes
            )
            for a in (1.0, 0.0)
        ]
        risk, slope = zip(*found, strict=True)
        return np.array(risk), np.array(slope)

    def draws(self, number: int, seed: int) -> NDArray | None:
        """Return coefficients of draws of people, (B, q)."""
        if not number:
            return None
        people, found = self.rows.people, []
        for stream in np.random.SeedSequence(seed).spawn(number):
            drawn = np.random.default_rng(stream).integers(0, people, people)
            times = np.bincount(drawn, minlength=people)[self.rows.person].astype(np.float64)
            try:
                fit = self.fit(times * self.weighting.weights(times))
            except (DataError, SeparationError):
                continue
            found.append(fit.coef_ if self.model == "cox" else coefficients(fit))
        if len(found) < 2:
            raise DataError(f"Hardly any of {number} bootstrap draws has an estimate.")
        return np.array(found)

    def result(self, bootstrap: int, level: float, seed: int, stacked: bool) -> EmulatedTrial:
        """Put the parts of the result together."""
        w = self.weighting.weights()
        fit = self.fit(w)
        V = fit.vcov("robust", self.rows.person)
        if stacked:
            influences = self.influences(fit, w)
            V = influences.T @ influences
        names, draws = list(V.index), self.draws(bootstrap, seed)
        cox = self.model == "cox"
        coef = pd.Series(fit.coef_ if cox else coefficients(fit), names)
        drawn = None if draws is None else pd.DataFrame(draws, columns=names)[["treatment"]]
        risks = contrasts = pd.DataFrame()
        if not cox:
            risk, slope = self.risks(coef.to_numpy())
            times = np.arange(1, risk.shape[1] + 1)
            if draws is None:
                C = np.einsum("stq,qr,utr->tsu", slope, V.to_numpy(), slope)
                found = StrategyRisks(NAMES, times, risk, C)
            else:
                each = np.array([self.risks(row, False)[0] for row in draws])
                found = StrategyRisks(NAMES, times, risk, None, each)
            risks, contrasts = risk_table(found, level), contrast_table(found, level)
        table = self.weighting.table(w)
        measure = "hazard ratio" if cox else "odds ratio"
        checks: list[Row] = [
            ("people", float(self.rows.people), np.nan, True, ""),
            *of_weights(table, self.weighting.stabilized), *of_optimum(fit),
        ]  # fmt: skip
        return EmulatedTrial(
            effects=effect_table(
                measure, coef[["treatment"]], V, drawn, level, True, stacked
            ),
            risks=risks, contrasts=contrasts, weights=table, censoring=self._censoring(),
            diagnostics=diagnostics_table(checks), protocol=protocol_table(None, self._protocol()),
            estimand=_ESTIMAND, models={"outcome": fit},
            positivity=positivity_table(self.time, self.rows.treatment),
        )  # fmt: skip

    def _censoring(self) -> pd.DataFrame:
        """Count how follow-ups end, by the last treatment."""
        last = self.rows.starts[1:] - 1
        event, lost = self.rows.outcome[last] == 1, self.rows.censored[last] == 1
        reasons = {"outcome": event, "lost": lost & ~event, "end of follow-up": ~event & ~lost}
        names = ("treated at the end", "untreated at the end")
        return censoring_table(names, 1 - self.rows.treatment[last], self.time[last], reasons)

    def _protocol(self) -> TargetTrial:
        """Describe how each component of the target trial is emulated."""
        given = ", ".join([*self.weighting.baseline, *self.weighting.confounders])
        return TargetTrial(
            eligibility=f"The {self.rows.people:,} people of the data, from their first period",
            strategies="Treatment in every period, or in none",
            assignment=f"In each period, as random given {given} and the treatment before",
            follow_up="From the first period to the outcome or loss",
            outcome="The outcome in each period of the data",
            contrast="Effect of sustained strategies (per protocol)",
            analysis=(
                f"{'Cox' if self.model == 'cox' else 'Pooled logistic'} marginal structural model "
                f"with {'' if self.weighting.stabilized else 'un'}stabilised weights"
            ),
        )


_ESTIMAND = (
    "The effect of the current treatment on the hazard, had treatment been random in every period "
    "given baseline columns. It is causal if the confounders so far suffice, and if past "
    "treatments act through the present one alone. The effect of starting treatment whatever "
    "follows (intention to treat) is not estimated."
)
