"""Declared diagnostics, and those of comparative studies: names, limits and what they guard.

The verdicts of studies and grids, the columns of their pages and the entries of their files all
follow from `DIAGNOSTICS`. A further diagnostic is one more entry with a ``measure``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steropes.data.number_text import Relation, crossing, limit_text, passes
from steropes.studies.disclosure.small_cell_suppression import Bound

if TYPE_CHECKING:
    import pandas as pd

    from steropes.designs.settings.settings_classes import Settings
    from steropes.studies.propensity.covariate_balance import Balance
    from steropes.studies.propensity.propensity_scores import PropensityScores

__all__ = [
    "DIAGNOSTICS",
    "ComparedPeople",
    "Diagnostic",
    "Verdict",
    "declared_diagnostics",
    "diagnostic",
    "further",
]

Verdict = Literal["PASS", "FAIL", "NOT EVALUATED"]
Guards = Literal["calibration", "synthesis", "viewing", "nothing"]
SIGNS: dict[Relation, str] = {"below": "<", "at most": "≤", "at least": "≥", "above": ">"}
SHY = "\N{SOFT HYPHEN}"


@dataclass(frozen=True, repr=False, eq=False)
class ComparedPeople:
    """The people of an analysis from whom a further diagnostic is measured.

    Attributes
    ----------
    people : DataFrame
        As ``AnalysisResult.people``: one row per person who is compared, with ``score``,
        ``preference``, ``set`` and ``weight`` if the analysis has them.
    balance : Balance or None
        Balance of all covariates among the people of the outcome.
    scores : PropensityScores or None
        The fit of the propensity model, with the scores of everybody before the adjustment.
    """

    people: pd.DataFrame
    balance: Balance | None
    scores: PropensityScores | None


@dataclass(frozen=True)
class Diagnostic:
    """A diagnostic: a value, its relation to a limit, and the use of an estimate that it guards.

    Attributes
    ----------
    name : str
        Name in sentences and files.
    heading : str
        Name as the heading of a column.
    relation : {"below", "at most", "at least", "above"} or None
        Relation of the value to its limit that passes; None for a fact that is true or false and
        for an interval.
    threshold : str, float or None
        The limit: a field of the thresholds, or a fixed number.
    guards : {"calibration", "synthesis", "viewing", "nothing"}
        First use of an estimate that a failure rules out, and with it all later ones: calibration
        of other estimates, evidence synthesis, and being shown.
    value : str
        Attribute of `Diagnostics` that holds the value; empty for a further diagnostic.
    column, verdict_column : str
        Columns of result tables with the value and the verdict.
    ends : (str, str) or None
        Columns of both limits of an interval, which passes if it overlaps the two limits.
    need : str
        Requirement in words, where it is not a relation to a limit.
    condition : str
        When the limit applies, in words that follow it; empty if it always does.
    variant : Diagnostic or None
        The diagnostic that replaces this one if its own threshold is set.
    measure : callable, optional
        Computes the value of a further diagnostic from `ComparedPeople`; NaN if it cannot be
        evaluated. It must not use outcomes, because the value stays visible when the estimate is
        hidden. Before release the value is rounded as shares of the smaller arm are.
    """

    key: str
    name: str
    heading: str
    relation: Relation | None = None
    threshold: str | float | None = None
    guards: Guards = "calibration"
    value: str = ""
    column: str = ""
    verdict_column: str = ""
    ends: tuple[str, str] | None = None
    need: str = ""
    condition: str = ""
    variant: Diagnostic | None = None
    measure: Callable[[ComparedPeople], float] | None = None

    def chosen(self, thresholds: Settings) -> Diagnostic:
        """Return this diagnostic, or its variant if the variant's threshold is set."""
        other = self.variant
        return self if other is None or other.limit(thresholds) is None else other

    def limit(self, thresholds: Settings) -> float | None:
        """Return the limit; None if there is none."""
        if isinstance(self.threshold, str):
            found: float | None = getattr(thresholds, self.threshold)
            return found
        return self.threshold

    def rule(self, thresholds: Settings) -> str:
        """Describe in words what the value must reach."""
        limit = self.limit(thresholds)
        if self.need:
            return self.need
        return "no threshold" if limit is None else f"{self.relation} {limit_text(limit)}"

    def limits(self, thresholds: Settings) -> tuple[float, ...]:
        """Return the limit or, for an interval, both limits; empty without a limit."""
        if self.ends is not None and isinstance(self.threshold, str):
            both: tuple[float, float] = getattr(thresholds, self.threshold)
            return both
        limit = self.limit(thresholds)
        return () if limit is None else (limit,)

    def sign(self, thresholds: Settings) -> str:
        """Describe in signs what the value must reach, such as "< 0.1"; "" if there is no limit."""
        limits = [limit_text(limit) for limit in self.limits(thresholds)]
        if self.ends is not None:
            return f"overlaps {' to '.join(limits)}"
        if not limits or self.relation is None:
            return ""
        return f"{SIGNS[self.relation]} {limits[0]} {self.condition}".rstrip()

    def verdict(self, value: float | bool | None, thresholds: Settings) -> Verdict:
        """Judge a value; "NOT EVALUATED" if it is missing or there is no limit."""
        if value is None or math.isnan(value):
            return "NOT EVALUATED"
        if self.relation is None:
            return "PASS" if value else "FAIL"
        limit = self.limit(thresholds)
        if limit is None:
            return "NOT EVALUATED"
        return "PASS" if passes(abs(value), self.relation, limit) else "FAIL"

    def agreeing(
        self, value: float | Bound | None, verdict: str, thresholds: Settings
    ) -> float | Bound | None:
        """Replace a released value that was rounded across its limit by a bound at the limit."""
        limit = self.limit(thresholds)
        if self.need or self.relation is None or limit is None or isinstance(value, Bound | None):
            return value
        side = crossing(value, self.relation, limit, verdict)
        return Bound(limit, above=side == ">") if side else value


DIAGNOSTICS: tuple[Diagnostic, ...] = (
    Diagnostic(
        "balance",
        "largest standardised difference after matching",
        "Balance",
        "below",
        "balance",
        value="largest_difference",
        column="max_sdm",
        verdict_column="balance_diagnostic",
        variant=Diagnostic(
            "balance",
            "p value of the standardised differences after matching",
            "Balance, p",
            "at least",
            "balance_p",
            value="difference_p",
            column="sdm_family_wise_min_p",
            verdict_column="balance_diagnostic",
        ),
    ),
    Diagnostic(
        "shared balance",
        "largest standardised difference among all who could be at risk",
        "Shared balance",
        "below",
        "balance",
        value="shared_difference",
        column="shared_max_sdm",
        verdict_column="shared_balance_diagnostic",
        variant=Diagnostic(
            "shared balance",
            "p value of the standardised differences among all who could be at risk",
            "Shared balance, p",
            "at least",
            "balance_p",
            value="shared_p",
            column="shared_sdm_family_wise_min_p",
            verdict_column="shared_balance_diagnostic",
        ),
    ),
    Diagnostic(
        "equipoise",
        "equipoise",
        "Equipoise",
        "at least",
        "equipoise",
        value="equipoise",
        column="equipoise",
        verdict_column="equipoise_diagnostic",
    ),
    Diagnostic(
        "detectable",
        "minimum detectable hazard ratio",
        f"Detect{SHY}able ratio",
        "below",
        "detectable",
        guards="viewing",
        value="detectable",
        column="mdrr",
        verdict_column="mdrr_diagnostic",
    ),
    Diagnostic(
        "generalizability",
        "generalisability: largest difference of the target to before matching",
        f"Generalis{SHY}ability",
        "below",
        "generalizability",
        value="generalizability",
        column="generalizability_max_sdm",
        verdict_column="generalizability_diagnostic",
    ),
    Diagnostic(
        "attrition",
        "share of the target that matching left out",
        "Target lost",
        "at most",
        "attrition",
        value="attrition",
        column="attrition_fraction",
        verdict_column="attrition_diagnostic",
    ),
    Diagnostic(
        "convergence",
        "convergence of the fits",
        f"Con{SHY}verged",
        value="converged",
        verdict_column="convergence_diagnostic",
        need="every fit ends at its optimum",
    ),
    Diagnostic(
        "systematic error",
        "expected absolute systematic error",
        "Systematic error",
        "below",
        "systematic_error",
        guards="synthesis",
        value="systematic_error",
        column="ease",
        verdict_column="ease_diagnostic",
        need="needs negative controls: steropes grid",
    ),
    Diagnostic(
        "adjustment",
        "adjustment",
        f"Ad{SHY}justed",
        guards="synthesis",
        value="adjusted",
        verdict_column="adjustment_diagnostic",
        need="confounding is adjusted for, or a crude comparison was asked for",
    ),
    Diagnostic(
        "precision",
        "precision: outcomes in the arm with fewer of them",
        "Limits, ratio",
        "at least",
        "outcomes",
        guards="nothing",
        value="fewest",
        column="limit_ratio",
        verdict_column="precision_diagnostic",
    ),
    Diagnostic(
        "ties",
        "share of matched people whose score others have too",
        "Tied scores",
        "at most",
        "tied",
        guards="nothing",
        value="tied",
        column="tied",
        verdict_column="tied_diagnostic",
    ),
)


def declared_diagnostics() -> tuple[Diagnostic, ...]:
    """Return all diagnostics of comparative studies, with those that users have added."""
    return DIAGNOSTICS


def _refuse_repeated_keys(declared: tuple[Diagnostic, ...]) -> None:
    """Refuse two diagnostics with one key, under which results are stored and found."""
    keys = [d.key for d in declared]
    twice = next((k for k in keys if keys.count(k) > 1), None)
    if twice is not None:
        raise ValueError(f"two diagnostics have the key {twice!r}")


_refuse_repeated_keys(DIAGNOSTICS)


def diagnostic(key: str) -> Diagnostic:
    """Return a diagnostic by its key."""
    return next(d for d in declared_diagnostics() if d.key == key)


def further() -> tuple[Diagnostic, ...]:
    """Return the diagnostics beyond those of the results model, which have a measure."""
    return tuple(d for d in declared_diagnostics() if d.measure is not None)
