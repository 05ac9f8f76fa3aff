"""A sequence of nested trials, emulated from person-time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from steropes.data.interval_weights import IntervalWeights
from steropes.data.vector_checks import check_level
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.m_estimation_errors import check_errors
from steropes.designs.target_trials.person_time import PersonTime, read_person_time
from steropes.designs.target_trials.sequential_trial_estimates import Estimates
from steropes.designs.target_trials.sequential_trial_result import result_of
from steropes.designs.target_trials.sequential_trial_rows import (
    Effect,
    TrialSequence,
    quantile_of_weights,
    start_trials,
)
from steropes.designs.target_trials.trial_protocol import TargetTrial
from steropes.designs.target_trials.weights_over_time import (
    ProbabilityModel,
    ProbabilityPart,
    Ratio,
    cumulative_ratios,
)
from steropes.errors import DataError

__all__ = ["sequential_trials"]


def sequential_trials(
    data: Any,
    *,
    id: str,
    period: str,
    treatment: str,
    outcome: str,
    eligible: str | None = None,
    censored: str | None = None,
    covariates: Sequence[str] = (),
    effect: Effect = "intention-to-treat",
    treatment_weights: tuple[Sequence[str] | None, Sequence[str]] | None = None,
    censoring_weights: tuple[Sequence[str] | None, Sequence[str]] | None = None,
    pool_censoring: Literal["none", "numerator", "both"] = "none",
    truncate: float | tuple[float, float] | None = None,
    weight_model: Any = None,
    model: Literal["logistic", "cox"] = "logistic",
    trials: tuple[int, int] | None = None,
    follow_up: int | None = None,
    time_degree: int = 2,
    trial_degree: int = 2,
    effect_degree: int = 0,
    standardize_to: Literal["all", "first"] = "all",
    measured: Mapping[str, str] | None = None,
    errors: Literal["robust", "stacked"] = "robust",
    bootstrap: int = 0,
    level: float = 0.95,
    random_state: int = 0,
    protocol: TargetTrial | None = None,
) -> EmulatedTrial:
    """Emulate a trial that starts anew in every period, and estimate the effect of treatment.

    Everyone who is eligible in a period enters the trial that starts there, with the treatment and
    covariates of this period (Hernán and others 2008). A person-trial is an interval of time of one
    row: nothing is expanded to person-trial-periods, and weights that change with time are read
    from one curve of each person.

    Parameters
    ----------
    data : data frame, relation or path
        One row per person and period, without gaps; as for `compare_groups`.
    id, period : str
        Columns of people and of whole numbers of periods.
    treatment, outcome : str
        Columns of 0 and 1: the treatment in the period, and whether the outcome occurred in it.
    eligible : str, optional
        Column of 0 and 1: whether a trial starts for the person in the period. Default: always.
    censored : str, optional
        Column of 0 and 1: whether the person is lost in the period.
    covariates : list of str
        Columns of the outcome model, at the start of each trial.
    effect : {"intention-to-treat", "per-protocol", "as-treated"}
        Per protocol people are censored when they change treatment; as treated the outcome model
        has the current treatment.
    treatment_weights : (list of str or None, list of str), optional
        Covariates in the numerator and the denominator of the treatment's probability given the
        treatment before. The numerator must be among ``covariates``; None are weights that are not
        stabilised. Required with effects other than intention to treat.
    censoring_weights : (list of str or None, list of str), optional
        The same for remaining uncensored, with ``censored``.
    pool_censoring : {"none", "numerator", "both"}
        Whether a censoring model is one for both previous treatments.
    truncate : float or (float, float), optional
        Quantiles over all person-intervals at which weights are truncated, such as 0.99.
    weight_model : estimator, optional
        Unfitted model of the weights. Default: logistic regression by maximum likelihood.
    model : {"logistic", "cox"}
        Outcome model. Only the pooled logistic one gives risks.
    trials : (int, int), optional
        First and last period in which trials start.
    follow_up : int, optional
        Largest number of periods of follow-up. Default: all.
    time_degree, trial_degree, effect_degree : int
        Degrees of the polynomials of follow-up time, of the trial's period, and of the change of
        the effect with follow-up time.
    standardize_to : {"all", "first"}
        Person-trials over which risks are averaged: all, or those of the first trial. They are
        taken as given.
    measured : mapping of str to str, optional
        Columns with the time at which covariates were measured; later values than the period are
        an error.
    errors : {"robust", "stacked"}
        Errors clustered by person. "robust" ones take the weights as known, as TrialEmulation's;
        "stacked" ones include the models of the weights (M-estimation), for logistic models by
        maximum likelihood.
    bootstrap : int, default 0
        Number of draws of people; each fits the models of the weights again. Default: ``errors``.
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the draws.
    protocol : TargetTrial, optional
        The trial that one would like to run, in words.

    Returns
    -------
    EmulatedTrial
        Odds or hazard ratio, risks by time, weights, diagnostics and the protocol.

    Raises
    ------
    DataError
        Rows overlap or miss a period, a column cannot be used, or no one follows a strategy.
    SeparationError
        A model has no finite maximum; the message names the model and the columns.

    See Also
    --------
    clone_censor_weight : Strategies with a grace period.

    Notes
    -----
    Before the first row of a person the treatment counts as 0, rows before the first eligible
    period are left out, and the outcome of the period of a loss is known, as in TrialEmulation.

    References
    ----------
    Hernán and others (2008), Epidemiology 19:766–779. Danaei and others (2013), Statistical Methods
    in Medical Research 22:70–96.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(1)
    >>> months = pd.DataFrame({"id": np.repeat(range(200), [1 + i % 4 for i in range(200)])})
    >>> months["month"] = months.groupby("id").cumcount()
    >>> months["age"] = rng.normal(size=200)[months["id"]]
    >>> months["drug"] = rng.integers(0, 2, len(months))
    >>> last = ~months["id"].duplicated(keep="last")
    >>> months["ill"] = last * rng.integers(0, 2, len(months))
    >>> found = steropes.designs.target_trials.sequential_trials(
    ...     months, id="id", period="month", treatment="drug", outcome="ill", covariates=["age"],
    ...     trials=(0, 2),
    ... )
    >>> found.contrasts.query("time == 4")["measure"].tolist()
    ['risk difference', 'risk ratio']
    """
    settings = SequenceSettings(
        effect, treatment_weights, censoring_weights, pool_censoring, truncate, weight_model, model,
        trials, follow_up, time_degree, trial_degree, effect_degree, standardize_to, bootstrap,
        level, random_state, tuple(covariates), errors,
    )  # fmt: skip
    settings.check(censored)
    rows = read_person_time(
        data, id=id, period=period, treatment=treatment, outcome=outcome, eligible=eligible,
        censored=censored, covariates=settings.columns, measured=measured or {},
    )  # fmt: skip
    sequence = start_trials(rows, effect, follow_up, trials)
    settings.refuse_stated_later(rows)
    parts: list[tuple[ProbabilityModel, ProbabilityPart]] | None = [] if bootstrap else None
    weights = settings.weights(rows, sequence, fits=parts)
    return result_of(
        Estimates(settings, sequence, weights, tuple(parts or ())), settings.weights, protocol
    )


@dataclass(frozen=True)
class SequenceSettings:
    """The settings of `sequential_trials` after the roles of columns."""

    effect: Effect
    treatment_weights: tuple[Sequence[str] | None, Sequence[str]] | None
    censoring_weights: tuple[Sequence[str] | None, Sequence[str]] | None
    pool_censoring: str
    truncate: float | tuple[float, float] | None
    weight_model: Any
    model: str
    trials: tuple[int, int] | None
    follow_up: int | None
    time_degree: int
    trial_degree: int
    effect_degree: int
    standardize_to: str
    bootstrap: int
    level: float
    random_state: int
    covariates: tuple[str, ...]
    errors: str = "robust"

    @property
    def pairs(self) -> list[tuple[Sequence[str] | None, Sequence[str]]]:
        """Numerators and denominators in use."""
        return [x for x in (self.treatment_weights, self.censoring_weights) if x is not None]

    @property
    def columns(self) -> list[str]:
        """All covariates."""
        names = list(self.covariates)
        for numerator, denominator in self.pairs:
            names += [*(numerator or ()), *denominator]
        return list(dict.fromkeys(names))

    @property
    def stabilized(self) -> bool:
        """Whether all weights are stabilised."""
        return all(numerator is not None for numerator, _ in self.pairs)

    def check(self, censored: str | None) -> None:
        """Refuse settings that have no effect, or no meaning."""
        check_level(self.level)
        if self.effect not in get_args(Effect):
            raise DataError(f"effect must be one of {get_args(Effect)}, not {self.effect!r}.")
        if self.model not in ("logistic", "cox"):
            raise DataError(f"model must be 'logistic' or 'cox', not {self.model!r}.")
        if self.standardize_to not in ("all", "first"):
            raise DataError(
                f"standardize_to must be 'all' or 'first', not {self.standardize_to!r}."
            )
        if self.pool_censoring not in ("none", "numerator", "both"):
            raise DataError(
                "pool_censoring must be 'none', 'numerator' or 'both', not "
                f"{self.pool_censoring!r}."
            )
        degrees = {"time_degree": 0, "trial_degree": 0, "effect_degree": 0}
        for name, least in {**degrees, "bootstrap": 0, "random_state": 0, "follow_up": 1}.items():
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not (whole and value >= least) and not (name == "follow_up" and value is None):
                raise DataError(f"{name} must be a whole number from {least}, not {value!r}.")
        if self.bootstrap == 1:
            raise DataError("bootstrap must be 0 or a number of draws, such as 200.")
        self._check_weights(censored)
        check_errors(
            self.errors, bool(self.pairs), self.model, self.weight_model, bool(self.bootstrap)
        )

    def _check_weights(self, censored: str | None) -> None:
        """Refuse weights that are missing, useless or biased."""
        if (self.effect == "intention-to-treat") == (self.treatment_weights is not None):
            raise DataError(
                "treatment_weights has no role in the intention-to-treat effect; leave it out."
                if self.treatment_weights is not None
                else f"The {self.effect} effect needs treatment_weights=(numerator, denominator), "
                "because those who keep to their treatment differ from those who change it."
            )
        if self.censoring_weights is not None and censored is None:
            raise DataError("censoring_weights needs censored=, the column of losses.")
        for pair in self.pairs:
            if not isinstance(pair, Sequence) or len(pair) != 2 or isinstance(pair[1], str):
                raise DataError("Weights are two lists of columns: (numerator, denominator).")
        quantiles = np.atleast_1d(np.asarray(0.5 if self.truncate is None else self.truncate))
        numbers = all(isinstance(x, Real) for x in quantiles.tolist())
        if not numbers or len(quantiles) > 2 or not ((quantiles >= 0) & (quantiles <= 1)).all():
            raise DataError(f"truncate must be one or two quantiles, not {self.truncate!r}.")
        if self.truncate is not None and not self.pairs:
            raise DataError("truncate has no effect without weights; leave it out.")

    def refuse_stated_later(self, rows: PersonTime) -> None:
        """Refuse numerators that the outcome model does not condition on."""
        for numerator, _ in self.pairs:
            lacking = [name for name in numerator or () if name not in self.covariates]
            if lacking:
                raise DataError(
                    f"{lacking[0]!r} is in the numerator of weights but not among covariates. The "
                    "outcome model must condition on it, or the weights do not remove its effect."
                )

    def weights(
        self, rows: PersonTime, trials: TrialSequence, drawn: NDArray | None = None,
        fits: list[tuple[ProbabilityModel, ProbabilityPart]] | None = None,
    ) -> IntervalWeights | None:  # fmt: skip
        """Fit the models of the weights and read each person-trial's weights from their curves.

        Parameters
        ----------
        drawn : ndarray, shape (n,), optional
            How often the person of each row is in a bootstrap draw.
        fits : list, optional
            Receives the fitted models.
        """
        if not self.pairs:
            return None
        ratio = np.ones(rows.n)
        for of, columns in self.probabilities(rows, trials):
            for part in of.parts(rows.data, columns, drawn):
                ratio[part.rows] *= of.probability_of(part, part.fitted) ** part.sign
                if fits is not None:
                    fits.append((of, part))
        return self.interval_weights(ratio, rows, trials, drawn)

    def interval_weights(
        self, ratio: NDArray, rows: PersonTime, trials: TrialSequence, drawn: NDArray | None = None
    ) -> IntervalWeights:
        """Return the weights of person-trials from the ratio of each row, truncated."""
        curve = cumulative_ratios(ratio, rows.starts)
        plain = IntervalWeights(curve, trials.start, 1 / curve[trials.start])
        if self.truncate is None:
            return plain
        times = None if drawn is None else drawn[trials.start].astype(np.int64)
        quantiles = np.atleast_1d(np.asarray(self.truncate, np.float64))
        lower, upper = 0.0, quantile_of_weights(trials, plain, quantiles[-1], times)
        if len(quantiles) == 2:
            lower = quantile_of_weights(trials, plain, quantiles[0], times)
        return IntervalWeights(plain.values, plain.start, plain.scale, lower, upper)

    def probabilities(
        self, rows: PersonTime, trials: TrialSequence
    ) -> Iterator[tuple[ProbabilityModel, Ratio]]:
        """Yield the models of the treatment and of remaining uncensored, with their columns."""
        at_risk = np.ones(rows.n, dtype=bool)
        if self.effect == "per-protocol":
            at_risk = followed_before(rows, trials)

        def columns(
            pair: tuple[Sequence[str] | None, Sequence[str]], pooled: tuple[bool, bool]
        ) -> Ratio:
            above = None if pair[0] is None else rows.coded(pair[0])
            return Ratio(above, rows.coded(pair[1]), pooled)

        if self.treatment_weights is not None:
            of = ProbabilityModel(
                "treatment", rows.treatment, at_risk, rows.previous, self.weight_model
            )
            yield of, columns(self.treatment_weights, (False, False))
        if self.censoring_weights is not None:
            pooled = (self.pool_censoring != "none", self.pool_censoring == "both")
            uncensored = (1 - rows.censored).astype(np.int8)
            of = ProbabilityModel(
                "remaining uncensored", uncensored, at_risk, rows.previous, self.weight_model,
                whatever_happened=False,
            )  # fmt: skip
            yield of, columns(self.censoring_weights, pooled)


def followed_before(rows: PersonTime, trials: TrialSequence) -> NDArray[np.bool_]:
    """Return rows in which a trial starts, or whose person followed one in the period before."""
    eligible = np.zeros(rows.n, dtype=bool)
    eligible[trials.start] = True
    new = rows.is_first | (np.append(False, rows.treatment[1:] != rows.treatment[:-1]))
    number = np.cumsum(new) - 1
    begin = np.flatnonzero(new)
    count = np.cumsum(eligible)
    follows = count > (np.append(0, count)[begin])[number]
    before = np.append(False, follows[:-1]) & ~rows.is_first
    return eligible | before
