"""The parametric g-formula: risks of sustained strategies from simulated histories.

Models of all covariates, and of the outcome, in a period given the history are fitted to pooled
rows. Histories are then simulated from the observed first period on, with treatments as a strategy
has them, and the hazards of the outcome along them are turned into risks (Robins 1986).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.vector_checks import check_level
from steropes.designs.target_trials.emulation_diagnostics import Row, diagnostics_table, of_draws
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.marginal_risks import (
    StrategyRisks,
    contrast_table,
    risk_table,
)
from steropes.designs.target_trials.person_time import PersonTime, read_person_time
from steropes.designs.target_trials.trial_protocol import TargetTrial, protocol_table
from steropes.designs.time_varying.followed_strategies import FollowedStrategies, horizons_within
from steropes.designs.time_varying.simulated_histories import (
    Flag,
    Histories,
    PeriodModels,
    Plan,
    variable_of,
)
from steropes.designs.time_varying.sustained_strategies import Strategy, planned_treatment
from steropes.errors import DataError, SeparationError

__all__ = ["parametric_g_formula"]

# Histories that are simulated at least; the Monte Carlo error of a risk is then below 0.5 %.
HISTORIES = 10_000
# Standard errors of the observed risk within which that of simulated histories should be.
DISTANCE = 2.0


def parametric_g_formula(
    data: Any,
    *,
    id: str,
    period: str,
    treatment: str,
    outcome: str,
    covariates: Sequence[str] = (),
    baseline: Sequence[str] = (),
    strategies: Mapping[str, Strategy | None] | None = None,
    censored: str | None = None,
    lags: int = 1,
    time_degree: int = 1,
    horizons: Sequence[int] | None = None,
    models: Mapping[str, Any] | None = None,
    copies: int | None = None,
    measured: Mapping[str, str] | None = None,
    bootstrap: int = 200,
    level: float = 0.95,
    random_state: int = 0,
    protocol: TargetTrial | None = None,
) -> EmulatedTrial:
    """Estimate risks under sustained strategies from histories that fitted models simulate.

    Parameters
    ----------
    data : data frame, relation or path
        One row per person and period, from the same first period on and without gaps, until the
        outcome, loss or the end; as for `sequential_trials`.
    id, period, treatment, outcome : str
        Columns as for `sequential_trials`. An outcome that occurs in one period of the data alone
        is one of the end of follow-up, and has the model of this period.
    covariates : list of str
        Columns that change with time and are measured before the treatment of their period, in the
        order in which they are drawn. Columns of 0 and 1 have logistic, labels multinomial and
        other numbers linear models with normal residuals, within the range of the data.
    baseline : list of str
        Columns that do not change with time.
    strategies : mapping of str to strategy, optional
        0 or 1, a list of 0 and 1 by period, or a function of the covariates of rows, with
        ``period`` counted from 0, that returns 0 or 1 for each; None is the treatment as people
        take it (the natural course). Contrasts are against the last. Default: always and never.
    censored : str, optional
        Column as for `sequential_trials`. Losses are taken as random given the history.
    lags : int, default 1
        How many earlier periods of the treatment and the covariates the models have.
    time_degree : int, default 1
        Degree of the polynomial of the period in the models.
    horizons : list of int, optional
        Numbers of periods after which risks are estimated. Default: all periods of the data.
    models : mapping of str to estimator or str, optional
        Models of covariates, the treatment and the outcome by their columns: an unfitted estimator,
        or the right-hand side of a formula of ``period``, baseline columns, columns before the
        variable in its period, ``lag1_x`` (x in the period before) and ``mean_x`` (the mean of x
        over all earlier periods), such as ``"lag1_drug * mean_pain"``.
    copies : int, optional
        How many histories are simulated from each person. Default: as many as give 10,000.
    measured : mapping of str to str, optional
        Columns with the time at which covariates were measured.
    bootstrap : int, default 200
        Number of draws of people; each fits all models again. With 0 there are no errors.
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the draws and of the histories.
    protocol : TargetTrial, optional
        The trial that one would like to run, in words.

    Returns
    -------
    EmulatedTrial
        Risks and contrasts by horizon; ``weights`` has the numbers of people who have followed each
        strategy so far. A diagnostic compares the natural course with the observed risk.

    Raises
    ------
    DataError
        Rows overlap or miss a period, a covariate never changes, or no one follows a strategy.
    SeparationError
        A model has no finite maximum; the message names the model and the columns.

    See Also
    --------
    iterated_g_computation : Needs no models of covariates.

    References
    ----------
    Robins (1986), Mathematical Modelling 7:1393–1512. McGrath and others (2020), Patterns 1:100008
    (the R package gfoRmula).

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
    >>> found = steropes.designs.time_varying.parametric_g_formula(
    ...     visits, id="id", period="visit", treatment="drug", outcome="ill", covariates=["cd4"],
    ...     strategies={"if low": lambda rows: rows["cd4"] < 0, "as observed": None}, horizons=[2],
    ...     bootstrap=0,
    ... )
    >>> found.risks["strategy"].tolist()
    ['if low', 'as observed']
    """
    check_level(level)
    for name, value, least in (("lags", lags, 0), ("time_degree", time_degree, 0),
                               ("bootstrap", bootstrap, 0), ("random_state", random_state, 0),
                               ("copies", 1 if copies is None else copies, 1)):  # fmt: skip
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise DataError(f"{name} must be a whole number from {least}, not {value!r}.")
    if bootstrap == 1:
        raise DataError("bootstrap must be 0 or a number of draws, such as 200.")
    rows = read_person_time(
        data, id=id, period=period, treatment=treatment, outcome=outcome, eligible=None,
        censored=censored, covariates=[*baseline, *covariates], measured=measured or {},
    )  # fmt: skip
    given = {"always": 1, "never": 0} if strategies is None else dict(strategies)
    analysis = _Analysis.of(
        rows, given, _Roles(treatment, outcome, tuple(covariates), tuple(baseline)),
        lags, time_degree, horizons, models or {}, copies,
    )  # fmt: skip
    return analysis.result(bootstrap, level, random_state, protocol)


@dataclass(frozen=True)
class _Roles:
    """Columns of the table by their role."""

    treatment: str
    outcome: str
    covariates: tuple[str, ...]
    baseline: tuple[str, ...]

    def check(self, rows: PersonTime, models: Mapping[str, Any]) -> None:
        """Refuse baseline columns that change, covariates that do not, and models of others."""
        both = [name for name in self.baseline if name in self.covariates]
        if both:
            raise DataError(f"{both[0]!r} is both a baseline column and a covariate.")
        changing = rows.changing([*self.baseline, *self.covariates])
        for name in self.baseline:
            if name in changing:
                raise DataError(
                    f"{name!r} is a baseline column but changes with time; name it among "
                    "covariates, or give its first value in all rows."
                )
        for name in self.covariates:
            if name not in changing and not rows.is_first.all():
                raise DataError(f"{name!r} never changes within a person; name it in baseline.")
        known = [*self.covariates, self.treatment, self.outcome]
        for name in models:
            if name not in known:
                raise DataError(f"models has {name!r}, which is not among {', '.join(known)}.")


@dataclass(frozen=True, repr=False)
class _Analysis:
    """Observed rows, strategies, and the models of a period."""

    followed: FollowedStrategies
    strategies: Mapping[str, Strategy | None]
    roles: _Roles
    models: PeriodModels
    horizons: NDArray[np.int64]
    copies: int

    @classmethod
    def of(
        cls, rows: PersonTime, strategies: Mapping[str, Strategy | None], roles: _Roles, lags: int,
        degree: int, horizons: Sequence[int] | None, given: Mapping[str, Any], copies: int | None,
    ) -> _Analysis:  # fmt: skip
        """Check the roles and strategies, and prepare the models."""
        roles.check(rows, given)

        def as_observed(_: pd.DataFrame) -> NDArray:
            return rows.treatment

        followed = FollowedStrategies.of(
            rows, {name: as_observed if of is None else of for name, of in strategies.items()}
        )
        variables = [variable_of(rows, name) for name in roles.covariates]
        variables.append(Flag(roles.treatment))
        changing = [name for variable in variables for name in variable.columns]
        histories = Histories(rows.coded(roles.baseline), changing, lags, degree)
        taken = [name for name in histories.made if name in [*histories.baseline, *changing]]
        if taken:
            raise DataError(f"Rename the column {taken[0]!r}, a name of the models.")
        keys = [*roles.covariates, roles.treatment, roles.outcome]
        occurs = np.zeros(followed.periods, dtype=bool)
        occurs[followed.when[rows.outcome == 1]] = True
        if not occurs.any():
            raise DataError("Nobody has the outcome, so that there is no risk to estimate.")
        if occurs.sum() > 1:  # Otherwise the outcome is one of a single period.
            occurs[:] = True
        models = PeriodModels(histories, variables, Flag(roles.outcome), given, keys, occurs)
        many = max(1, -(-HISTORIES // rows.people)) if copies is None else copies
        return cls(
            followed, strategies, roles, models, horizons_within(horizons, followed.periods), many
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """The observed histories with the outcome."""
        rows = self.followed.rows
        found = self.models.histories.observed(rows, self.followed.when, self.roles.treatment)
        return found.assign(**{self.roles.outcome: rows.outcome})

    def plan(self, name: str) -> Plan:
        """Return the treatments of a strategy as a function of simulated rows."""
        of = self.strategies[name]
        if of is None or isinstance(of, Integral) or callable(of):
            return None if of is None else partial(planned_treatment, name, of)
        plan = np.asarray(of)
        return lambda rows, t: plan[t]

    def risks(
        self, people: NDArray, seed: np.random.SeedSequence, names: Sequence[str | None]
    ) -> NDArray[np.float64]:
        """Compute risks by period if people count as often as given, (strategies, periods).

        Parameters
        ----------
        people : ndarray, shape (people,)
        seed : SeedSequence
        names : sequence of str or None
            Strategies; None is the natural course.
        """
        rows, models = self.followed.rows, self.models
        known = (rows.outcome == 1) | (rows.censored == 0)
        fitted = models.fit(
            self.table, self.followed.when > 0, known & models.occurs[self.followed.when],
            people[rows.person].astype(np.float64),
        )  # fmt: skip
        used = np.flatnonzero(people > 0)
        at = np.repeat(rows.starts[used], self.copies)
        weights = np.repeat(people[used], self.copies)
        columns = [*models.histories.baseline, *models.histories.changing]
        first = {name: self.table[name].to_numpy(np.float64)[at] for name in columns}
        found = []
        for name in names:
            plan = None if name is None else self.plan(name)
            risk = models.simulate(
                fitted, first, plan, int(self.horizons.max()), np.random.default_rng(seed)
            )
            found.append(np.average(risk, axis=0, weights=weights))
        return np.array(found)

    def draws(self, number: int, seed: int) -> NDArray | None:
        """Return risks of draws of people, (B, strategies, horizons)."""
        n, found = self.followed.rows.people, []
        for stream in np.random.SeedSequence(seed).spawn(number):
            own, simulated = stream.spawn(2)
            drawn = np.random.default_rng(own).integers(0, n, n)
            try:
                risk = self.risks(np.bincount(drawn, minlength=n), simulated, list(self.strategies))
            except (DataError, SeparationError):
                continue
            found.append(risk[:, self.horizons - 1])
        if number and len(found) < 2:
            raise DataError(f"Hardly any of {number} bootstrap draws has an estimate.")
        return np.array(found) if number else None

    def result(
        self, bootstrap: int, level: float, seed: int, trial: TargetTrial | None
    ) -> EmulatedTrial:
        """Put the parts of the result together."""
        names = list(self.strategies)
        everybody = np.ones(self.followed.rows.people)
        risk = self.risks(everybody, np.random.SeedSequence(seed), [*names, None])
        draws = self.draws(bootstrap, seed)
        found = StrategyRisks(names, self.horizons, risk[:-1, self.horizons - 1], None, draws)
        checks = self.followed.checks(int(self.horizons.max()))
        checks += [self._natural_course(risk[-1])]
        checks += of_draws(0 if draws is None else bootstrap - len(draws), bootstrap)
        return EmulatedTrial(
            effects=pd.DataFrame(), risks=risk_table(found, level),
            contrasts=contrast_table(found, level), weights=self.followed.table(),
            censoring=self.followed.censoring(), diagnostics=diagnostics_table(checks),
            protocol=protocol_table(trial, self._protocol(bootstrap)), estimand=_ESTIMAND,
            models={},
        )  # fmt: skip

    def _natural_course(self, risk: NDArray) -> Row:
        """Compare the risk of simulated histories with the observed one at the last horizon."""
        rows, K = self.followed.rows, len(risk)
        when = self.followed.when[(rows.outcome == 1) | (rows.censored == 0)]
        at_risk = np.bincount(when, minlength=K)[:K]
        events = np.bincount(self.followed.when[rows.outcome == 1], minlength=K)[:K]
        at_risk = np.maximum(at_risk, 1)
        survival = float(np.prod(1 - events / at_risk))
        inside = events < at_risk
        greenwood = (events[inside] / (at_risk[inside] * (at_risk[inside] - events[inside]))).sum()
        se = survival * np.sqrt(greenwood)
        gap = abs(float(risk[-1]) - (1 - survival))
        value = gap / se if se > 0 else (0.0 if gap < 1e-9 else np.inf)
        note = (
            ""
            if value <= DISTANCE
            else f"Histories under observed treatments have the risk {risk[-1]:.3g} in place of "
            f"{1 - survival:.3g}: add products, lags or powers to the models."
        )
        name = "distance of the natural course from the observed risk, in standard errors"
        return name, value, DISTANCE, not note, note

    def _protocol(self, bootstrap: int) -> TargetTrial:
        """Describe how each component of the target trial is emulated."""
        given = ", ".join([*self.roles.baseline, *self.roles.covariates]) or "no covariates"
        errors = f"{bootstrap} bootstrap draws of people" if bootstrap else "no errors"
        return TargetTrial(
            eligibility=f"The {self.followed.rows.people:,} people of the data, from their first "
            "period",
            strategies=", ".join(self.strategies),
            assignment=f"In each period, as random given {given} so far",
            follow_up="From the first period to the outcome or loss",
            outcome="The outcome in each period of the data",
            contrast="Effect of sustained strategies (per protocol)",
            analysis=f"Parametric g-formula, {self.copies} simulated histories of each person; "
            f"{errors}",
        )


_ESTIMAND = (
    "Risks had everybody followed each strategy in every period, without loss. They are causal if "
    "the covariates so far suffice to make treatment and loss random in each period, and if the "
    "models of the covariates and of the outcome are right. The effect of starting a treatment "
    "whatever follows (intention to treat) is not estimated."
)
