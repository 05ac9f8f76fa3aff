"""Clone, censor and weight: strategies of when to start a treatment, with grace periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.vector_checks import check_level
from steropes.designs.target_trials.cloned_people import (
    Clones,
    WeightedCounts,
    clones_of,
    log_hazard_ratio,
    refuse_unfollowed,
    weight_rows,
)
from steropes.designs.target_trials.emulation_diagnostics import (
    Row,
    censoring_table,
    diagnostics_table,
    of_draws,
    of_weights,
)
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.marginal_risks import (
    StrategyRisks,
    contrast_table,
    risk_table,
)
from steropes.designs.target_trials.person_time import coded_columns
from steropes.designs.target_trials.sequential_trial_estimates import effect_table
from steropes.designs.target_trials.trial_protocol import TargetTrial, protocol_table
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, SeparationError

__all__ = ["clone_censor_weight"]

Windows = Mapping[str, tuple[float, float]]
# Intervals of follow-up in the table of who is censored when.
INTERVALS = 20


def clone_censor_weight(
    data: Any,
    *,
    time: str,
    event: str,
    start: str,
    covariates: Sequence[str],
    grace: float | None = None,
    strategies: Windows | None = None,
    horizon: float | None = None,
    truncate: float | None = None,
    measured: Mapping[str, str] | None = None,
    bootstrap: int = 200,
    level: float = 0.95,
    random_state: int = 0,
    protocol: TargetTrial | None = None,
) -> EmulatedTrial:
    """Compare strategies of when to start a treatment, without immortal time.

    At time zero no one has deviated from any strategy. A clone of each person follows each
    strategy, is censored when the person deviates from it, and has the inverse of its probability
    of remaining as its weight. Clones are weighted sums over people and never stored.

    Parameters
    ----------
    data : data frame, relation or path
        One row per person; as for `compare_groups`.
    time, event : str
        Columns of the time under observation, from zero, and of the event at its end (0 or 1).
    start : str
        Column of the time at which treatment started; missing for people who never started it.
    covariates : list of str
        Columns at time zero that predict deviation and the event.
    grace : float, optional
        Compares "start by grace" with "no start by grace".
    strategies : mapping of str to (float, float), optional
        Instead of ``grace``: windows of the start by name, such as ``{"early": (0, 30),
        "late": (30, 90), "none": (90, inf)}``. A start at or before the first time (unless it is
        0), and no start by the second, is a deviation. Contrasts are against the last strategy.
    horizon : float, optional
        Largest time of risks. Default: the last event.
    truncate : float, optional
        Largest weight.
    measured : mapping of str to str, optional
        Columns with the time at which covariates were measured, which must not be after zero.
    bootstrap : int, default 200
        Number of draws of people; each fits the models of deviation again. 0 leaves out errors.
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the draws.
    protocol : TargetTrial, optional
        The trial that one would like to run, in words.

    Returns
    -------
    EmulatedTrial
        Hazard ratios, risks by time (weighted Kaplan–Meier), weights, diagnostics, the protocol.

    Raises
    ------
    DataError
        A column cannot be used, or no one follows a strategy.
    SeparationError
        A model of deviation has no finite maximum, or no one has the event.

    See Also
    --------
    sequential_trials : Treatment that starts in any of many periods.

    Notes
    -----
    The model of deviation is a Cox model with Efron's ties, a strategy at a time, and the weight at
    t is the inverse probability of no deviation before t, as in R's survivalCCW. Hazard ratios have
    Efron's ties too.

    References
    ----------
    Cain and others (2010), International Journal of Biostatistics 6(2):18. Maringe and others
    (2020), International Journal of Epidemiology 49:1719–1729.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.normal(size=200), "days": rng.exponential(200, 200)})
    >>> people["died"] = (rng.random(200) < 0.7) * 1
    >>> begun = rng.exponential(60, 200)
    >>> people["surgery"] = np.where(begun < people["days"], begun, np.nan)
    >>> found = steropes.designs.target_trials.clone_censor_weight(
    ...     people, time="days", event="died", start="surgery", covariates=["age"], grace=60,
    ...     bootstrap=5,
    ... )
    >>> found.effects["term"].tolist()
    ['start by 60 against no start by 60']
    """
    windows = _windows(grace, strategies)
    _check(bootstrap, level, random_state, truncate)
    people = _read(data, time, event, start, list(covariates), measured or {})
    analysis = _Analysis(people, windows, truncate, horizon)
    return analysis.result(bootstrap, level, random_state, protocol, list(covariates))


@dataclass(frozen=True, repr=False)
class _People:
    """Checked columns of people: (n,) each, and covariates (n, p)."""

    time: NDArray
    event: NDArray
    start: NDArray
    X: pd.DataFrame


@dataclass(frozen=True, repr=False)
class _Estimates:
    """Weighted counts of each strategy, and logarithms of hazard ratios against the last."""

    counts: dict[str, WeightedCounts]
    logs: NDArray

    @property
    def risk(self) -> NDArray:
        """Risks, (strategies, times)."""
        return np.array([c.risk() for c in self.counts.values()])


class _Analysis:
    """Clones of people under all strategies, and their estimates."""

    def __init__(
        self, people: _People, windows: Windows, cap: float | None, horizon: float | None
    ) -> None:
        self.people, self.windows = people, windows
        self.cap = np.inf if cap is None else float(cap)
        self.clones: dict[str, Clones] = {
            name: clones_of(people.time, people.event, people.start, window)
            for name, window in windows.items()
        }
        for name, clones in self.clones.items():
            refuse_unfollowed(clones, name, windows[name])
        # After the last follow-up of a strategy its risk is unknown.
        last = min(float(c.time.max()) for c in self.clones.values())
        self.horizon = last if horizon is None else min(float(horizon), last)
        ends = people.time[people.event == 1]
        self.times = np.unique(ends)
        if not (self.times <= self.horizon).any():
            raise DataError(
                f"Nobody has the event by horizon={self.horizon:g}; choose a later one."
            )

    def estimates(self, people: NDArray) -> _Estimates:
        """Fit the models of deviation and compute the weighted counts."""
        counts = {
            name: clones.counts(self.people.X, self.times, people, self.cap)
            for name, clones in self.clones.items()
        }
        *others, last = counts.values()
        return _Estimates(counts, np.array([log_hazard_ratio(one, last) for one in others]))

    def draws(self, number: int, seed: int) -> list[_Estimates]:
        """Estimate again from draws of people, without those that have no estimate."""
        n, found = len(self.people.time), []
        for stream in np.random.SeedSequence(seed).spawn(number):
            drawn = np.random.default_rng(stream).integers(0, n, n)
            try:
                own = self.estimates(np.bincount(drawn, minlength=n).astype(np.float64))
            except (DataError, SeparationError):
                continue
            if np.isfinite(own.logs).all():
                found.append(own)
        if number and len(found) < 2:
            raise DataError(
                f"{number - len(found)} of {number} bootstrap draws have no estimate, because too "
                "few people deviate or have the event; leave bootstrap out."
            )
        return found

    def result(
        self, bootstrap: int, level: float, seed: int, trial: TargetTrial | None, names: list[str]
    ) -> EmulatedTrial:
        """Put the parts of the result together."""
        found = self.estimates(np.ones(len(self.people.time)))
        draws = self.draws(bootstrap, seed)
        shown = self.times <= self.horizon
        strategies = list(self.windows)
        drawn = np.array([own.risk[:, shown] for own in draws]) if draws else None
        risks = StrategyRisks(strategies, self.times[shown], found.risk[:, shown], None, drawn)
        terms = [f"{name} against {strategies[-1]}" for name in strategies[:-1]]
        logs = pd.DataFrame([own.logs for own in draws], columns=terms) if draws else None
        coef = pd.Series(found.logs, terms)
        V = pd.DataFrame(np.full((len(terms),) * 2, np.nan), terms, terms)
        weights = pd.concat(weight_rows(found.counts), ignore_index=True)
        return EmulatedTrial(
            effects=effect_table("hazard ratio", coef, V, logs, level, True),
            risks=risk_table(risks, level), contrasts=contrast_table(risks, level),
            weights=weights, censoring=self._censoring(),
            diagnostics=diagnostics_table(
                [*self._followed(), *of_weights(weights, False),
                 *of_draws(bootstrap - len(draws), bootstrap)]
            ),
            protocol=protocol_table(trial, self._protocol(names, bootstrap)),
            estimand=_estimand(strategies), models={}, positivity=self._positivity(),
        )  # fmt: skip

    def _followed(self) -> list[Row]:
        """Count people, and who follows each strategy without deviation."""
        rows: list[Row] = [("people", float(len(self.people.time)), np.nan, True, "")]
        for name, clones in self.clones.items():
            followed = float((~clones.deviated).sum())
            rows.append((f"people who do not deviate from {name!r}", followed, np.nan, True, ""))
            events = float(clones.event.sum())
            rows.append((f"events while following {name!r}", events, np.nan, True, ""))
        return rows

    def _positivity(self) -> pd.DataFrame:
        """Count who starts the treatment, and who could still start, in each interval."""
        people, width = self.people, float(self.people.time.max()) / INTERVALS
        ends = width * np.arange(1, INTERVALS + 1)[:, None]
        starts = (people.start > ends - width) & (people.start <= ends)
        starts[0] |= people.start == 0
        without = (people.start > ends) & (people.time > ends - width)
        return pd.DataFrame(
            {"period": ends[:, 0], "treatment": starts.sum(axis=1),
             "no_treatment": without.sum(axis=1)}
        )  # fmt: skip

    def _censoring(self) -> pd.DataFrame:
        """Count how follow-ups end, in intervals of equal width."""
        width = float(self.people.time.max()) / INTERVALS
        clones = list(self.clones.values())
        time = np.concatenate([c.time for c in clones])
        event = np.concatenate([c.event for c in clones])
        deviated = np.concatenate([c.deviated for c in clones])
        arm = np.repeat(np.arange(len(clones)), len(self.people.time))
        number = np.clip(np.ceil(time / width), 1, INTERVALS).astype(np.int64)
        reasons = {"outcome": event, "deviation": deviated, "lost": ~event & ~deviated}
        table = censoring_table(list(self.clones), arm, number, reasons)
        return table.assign(time=table["time"] * width)

    def _protocol(self, names: list[str], bootstrap: int) -> TargetTrial:
        """Describe how each component of the target trial is emulated."""
        windows = "; ".join(
            f"{name}: start after {a:g} and by {b:g}" for name, (a, b) in self.windows.items()
        )
        errors = f"{bootstrap} bootstrap draws of people" if bootstrap else "no errors"
        return TargetTrial(
            eligibility=f"The {len(self.people.time):,} people of the data, at time zero",
            strategies=windows,
            assignment=(
                "A clone of each person is assigned to each strategy; deviation is taken as random "
                f"given {', '.join(names)} at time zero"
            ),
            follow_up="From time zero to the event, loss, or the deviation from the strategy",
            outcome="The event of the data",
            contrast="Per-protocol effect",
            analysis=f"Weighted Kaplan–Meier curves and Cox model of clones; {errors}",
        )


def _estimand(names: Sequence[str]) -> str:
    """State which effect is estimated, and which is not."""
    return (
        f"The per-protocol effect of the strategies {', '.join(map(repr, names))}, had everybody "
        "followed them, in the people of the data. It is causal if the covariates at time zero "
        "suffice to predict deviations that matter for the event. The effect of a decision at "
        "time zero (intention to treat) is not estimated: clones have no such decision."
    )


def _windows(grace: float | None, strategies: Windows | None) -> Windows:
    """Return the windows of the start of each strategy."""
    if (grace is None) == (strategies is None):
        raise DataError("Give either grace, the length of the period in which to start, or "
                        "strategies, windows of the start by name.")  # fmt: skip
    if grace is not None:
        if not grace > 0 or not np.isfinite(grace):
            raise DataError(f"grace must be a positive time, not {grace!r}.")
        return {f"start by {grace:g}": (0.0, grace), f"no start by {grace:g}": (grace, np.inf)}
    windows = dict(strategies or {})
    if len(windows) < 2:
        raise DataError("strategies needs two windows or more.")
    for name, window in windows.items():
        if len(window) != 2 or not 0 <= window[0] < window[1]:
            raise DataError(
                f"The window of {name!r} must be (earliest, latest) with 0 <= earliest < latest, "
                f"not {window!r}."
            )
    return windows


def _check(bootstrap: int, level: float, seed: int, cap: float | None) -> None:
    """Refuse settings that have no meaning."""
    check_level(level)
    for name, value in (("bootstrap", bootstrap), ("random_state", seed)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
            raise DataError(f"{name} must be a whole number from 0, not {value!r}.")
    if bootstrap == 1:
        raise DataError("bootstrap must be 0 or a number of draws, such as 200.")
    if cap is not None and not cap >= 1:
        raise DataError(f"truncate must be the largest weight, from 1 on, not {cap!r}.")


def _read(
    data: Any, time: str, event: str, start: str, names: list[str], measured: Mapping[str, str]
) -> _People:
    """Read and check the columns."""
    if not names:
        raise DataError("covariates must name the columns that predict deviation.")
    roles = [time, event, start]
    for name in names:
        if name in roles:
            raise DataError(f"{name!r} is a covariate and has another role; name it once.")
    table = read_columns(data, list(dict.fromkeys([*roles, *names, *measured.values()])), "data")
    for name in (time, event, *names):
        if table[name].isna().any():
            raise DataError(f"Column {name!r} has missing values; drop or impute these rows.")
    for name, when in measured.items():
        late = int((table[when] > 0).sum())
        if late:
            raise DataError(
                f"{name!r} was measured after time zero in {late:,} people ({when!r} is positive). "
                "A consequence of treatment is no confounder of it: use the last value before."
            )
    values = {}
    for name in roles:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise DataError(f"Column {name!r} must hold numbers, such as days since time zero.")
        values[name] = table[name].to_numpy(np.float64, na_value=np.nan)
    t, d, s = (values[name] for name in roles)
    if not ((t > 0) & np.isfinite(t)).all():
        raise DataError(f"Column {time!r} must hold positive times.")
    if not np.isin(d, (0.0, 1.0)).all():
        raise DataError(f"Column {event!r} must be 0 or 1.")
    s = np.where(np.isnan(s), np.inf, s)
    if (s < 0).any():
        raise DataError(f"Column {start!r} has starts before time zero: these people are no new "
                        "users; leave them out.")  # fmt: skip
    late = int(((s > t) & np.isfinite(s)).sum())
    if late:
        raise DataError(
            f"{late:,} people start treatment after the end of their follow-up; set {start!r} to "
            "missing for them."
        )
    return _People(t, d, s, coded_columns(table, names)[0])
