"""Settings of comparisons of groups, and the effects and errors under them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data.vector_checks import check_level
from steropes.designs.comparative.adjustments import (
    Adjust,
    Adjustment,
    BothModels,
    Step,
    adjust_groups,
    unadjusted,
)
from steropes.designs.comparative.compared_people import ComparisonTable
from steropes.designs.comparative.comparison_bootstrap import (
    SeededDraws,
    copies,
    draws_of_people,
    draws_of_sets,
    refitted_values,
    resampled_weights,
    with_bootstrap_errors,
)
from steropes.designs.comparative.doubly_robust import DoublyRobust
from steropes.designs.comparative.doubly_robust_survival import DoublyRobustSurvival
from steropes.designs.comparative.effect_table_rows import EffectRow, Values
from steropes.designs.comparative.group_comparison import GroupComparison, comparison_of
from steropes.designs.comparative.group_statistics import horizon_of
from steropes.designs.comparative.marginal_effects import (
    Ties,
    marginal_effects,
    marginal_values,
)
from steropes.designs.comparative.matching import Matching
from steropes.designs.comparative.standardization import (
    StandardizedModel,
    standardized_effects,
)
from steropes.designs.values.argument_checks import check_names, check_real, check_whole
from steropes.designs.values.estimands import AnyEstimand
from steropes.errors import DataError, SeparationError

__all__ = ["ComparisonSettings"]


@dataclass(frozen=True)
class ComparisonSettings:
    """The settings of effects and their errors; see `compare_groups`."""

    estimand: AnyEstimand
    interactions: bool | Sequence[str] | None
    ties: Ties
    bootstrap: int
    random_state: int
    level: float

    def check(self, table: ComparisonTable, horizon: float | None) -> None:
        """Refuse settings that have no effect, or no meaning."""
        check_level(self.level)
        if check_whole("bootstrap", self.bootstrap, 0) == 1:
            raise DataError("bootstrap must be 0 or a number of draws, such as 200, not 1.")
        if check_whole("random_state", self.random_state, 0) and not self.bootstrap:
            raise DataError(
                "random_state is the seed of the bootstrap; leave it out, or set bootstrap=. The "
                "order of tied matches is that of Matching(random_state=...) in adjust."
            )
        if not isinstance(self.interactions, bool | None):
            check_names("interactions", self.interactions)
        if self.ties not in ("efron", "breslow"):
            raise DataError(f"ties must be 'efron' or 'breslow', not {self.ties!r}.")
        if horizon is not None:
            wanted = "a time above 0"
            check_real("horizon", horizon, lambda x: 0 < x < np.inf, wanted)
        if table.outcome.event is None:
            given = {"horizon": horizon is not None, "ties": self.ties != "efron"}
            for name, there in given.items():
                if there:
                    raise DataError(f"{name} is for time= and event=; leave it out with outcome=.")
        if horizon is not None and table.outcome.entry is not None:
            raise DataError("Risks at a horizon are not available with entry=; leave it out.")

    def check_steps(
        self, table: ComparisonTable, steps: Mapping[str, Step | None], outcome: str | None
    ) -> None:
        """Refuse interactions and missing outcomes without models that have them."""
        if self.interactions is not None and None not in steps.values():
            raise DataError("interactions is for adjust='standardization'; leave it out.")
        absent = ~table.outcome.observed
        modelled = all(
            isinstance(step, DoublyRobust) and step.missingness_model is not None
            for step in steps.values()
        )
        if absent.any() and not modelled:
            raise DataError(
                f"outcome {outcome!r} is missing in {int(absent.sum()):,} rows, first in row "
                f"{int(absent.argmax())} (counted from 0); leave these rows out, or give "
                "DoublyRobust(missingness_model=…) alone in adjust."
            )

    def horizon(self, table: ComparisonTable, adjust: Adjust, given: float | None) -> float | None:
        """Return the time of risks by hazards, at which everybody counts; None without them."""
        objects = [adjust] if isinstance(adjust, str | Step) else adjust
        outcome, target = table.outcome, table.target == 1
        if not isinstance(objects, Sequence):
            return None
        both = [x for x in objects if isinstance(x, DoublyRobustSurvival) or x in ("aipw", "tmle")]
        if not both or outcome.event is None or outcome.entry is not None:
            return None
        at = horizon_of(outcome, target, [np.ones(table.n)], given)
        widths = [float(x.interval) for x in both if isinstance(x, DoublyRobustSurvival)]
        if given is not None or not widths:
            return at
        width = max(widths)
        return max(np.floor(at / width + 1e-9), 1.0) * width

    def compare(
        self,
        table: ComparisonTable,
        steps: Mapping[str, Step | None],
        horizon: float | None,
        call: Mapping[str, Any],
    ) -> GroupComparison:
        """Adjust the groups by each method and estimate the effects."""
        plain = unadjusted(table)
        made = {
            name: adjust_groups(table, name, step, horizon)
            for name, step in steps.items()
            if step is not None
        }
        adjusted = [plain, *made.values()]
        at = None
        if table.outcome.event is not None and table.outcome.entry is None:
            weights = [a.weights for a in adjusted]
            at = horizon_of(table.outcome, table.target == 1, weights, horizon)
        rows = self._unadjusted(table, plain, at)
        for name in steps:
            rows += (
                self._adjusted(table, made[name], at) if name in made else self._model(table, at)
            )

        def first_effect(adjustment: Adjustment) -> float:
            return marginal_effects(table, adjustment, at, self.ties, self.level)[0].estimate

        return comparison_of(
            table, adjusted, rows, self.estimand, self.level, at, call, first_effect
        )

    def _unadjusted(
        self, table: ComparisonTable, plain: Adjustment, at: float | None
    ) -> list[EffectRow]:
        """Estimate the effects without adjustment, in people with an observed outcome."""
        if not table.outcome.observed.all():
            table = table.take(np.flatnonzero(table.outcome.observed))
            plain = unadjusted(table)
        rows = marginal_effects(table, plain, at, self.ties, self.level)
        if not self.bootstrap:
            return rows
        draws = self._draws_of_people(table)
        parts = (
            (drawn, np.ones(len(drawn)))
            for drawn in (copies(draws, k) for k in range(self.bootstrap))
        )
        return self._with_errors(rows, self._effects_of(table, parts, rows, at), _units(table))

    def _adjusted(
        self, table: ComparisonTable, adjustment: Adjustment, at: float | None
    ) -> list[EffectRow]:
        """Estimate the effects of weighted or matched people."""
        rows = marginal_effects(table, adjustment, at, self.ties, self.level)
        step = adjustment.step
        if not self.bootstrap or step is None:
            return rows
        if isinstance(step, BothModels):

            def again(some: ComparisonTable) -> list[EffectRow]:
                alone = clone(step)
                if isinstance(alone, DoublyRobustSurvival):
                    alone.set_params(times=None)
                refitted = adjust_groups(some, adjustment.method, alone, at)
                return marginal_effects(some, refitted, at, self.ties, self.level)

            drawn_people = self._draws_of_people(table)
            values = refitted_values(table, again, drawn_people)
            return self._with_errors(rows, values, _units(table))
        parts: Iterator[tuple[NDArray, NDArray] | None]
        if isinstance(step, Matching) and step.method != "strata":
            draws = draws_of_sets(adjustment, self.bootstrap, self.random_state)
            drawn = (copies(draws, k) for k in range(self.bootstrap))
            parts = ((some, adjustment.weights[some]) for some in drawn)
            units = "matched sets" if table.clusters is None else _units(table)
        else:
            parts = resampled_weights(table, adjustment, self._draws_of_people(table))
            units = _units(table)
        return self._with_errors(rows, self._effects_of(table, parts, rows, at), units)

    def _model(self, table: ComparisonTable, at: float | None) -> list[EffectRow]:
        """Estimate the effects by an outcome model."""

        def again(some: ComparisonTable) -> list[EffectRow]:
            return standardized_effects(
                some, self.estimand, self.interactions, at, self.ties, self.level
            )

        rows = again(table)
        if not self.bootstrap:
            return rows
        draws = self._draws_of_people(table)
        if table.outcome.event is None:
            model = StandardizedModel(table, self.estimand, self.interactions)
            return self._with_errors(rows, model.values_of_draws(draws), _units(table))
        return self._with_errors(rows, refitted_values(table, again, draws), _units(table))

    def _draws_of_people(self, table: ComparisonTable) -> SeededDraws:
        """Draw people with replacement, or clusters of them."""
        return draws_of_people(table.n, self.bootstrap, self.random_state, table.clusters)

    def _effects_of(
        self,
        table: ComparisonTable,
        parts: Iterable[tuple[NDArray, NDArray] | None],
        rows: list[EffectRow],
        at: float | None,
    ) -> Iterator[Values | None]:
        """Yield the effects of draws, given their rows and weights."""
        near = next((row.value for row in rows if row.measure == "hazard ratio"), None)
        target = table.target == 1
        for part in parts:
            if part is None:
                yield None
                continue
            drawn, w = part
            try:
                yield marginal_values(
                    table.outcome.take(drawn), target[drawn], w, at, self.ties, near
                )
            except (DataError, SeparationError):
                yield None

    def _with_errors(
        self, rows: list[EffectRow], values: Iterator[Values | None], units: str
    ) -> list[EffectRow]:
        """Replace the errors by those of a bootstrap."""
        return with_bootstrap_errors(rows, values, units, self.level)


def _units(table: ComparisonTable) -> str:
    """Return the units that a bootstrap draws."""
    return "people" if table.clusters is None else "clusters of people"
