"""The diagnostics of both study designs: names, limits and the assumptions that they guard.

The verdicts of studies and grids, the columns of their pages and the entries of their files all
follow from these entries and from the diagnostics that a specification adds (``further`` in its
thresholds).
"""

from __future__ import annotations

from typing import Annotated, Protocol

from steropes.designs.settings.validated_types import Listed
from steropes.designs.settings.value_checks import After, Before
from steropes.studies.diagnostics.diagnostic import (
    Design,
    Diagnostic,
    named_diagnostic,
    place_of,
)

__all__ = [
    "COMPARATIVE",
    "SERIES",
    "SHY",
    "Further",
    "FurtherOfSeries",
    "declared_diagnostics",
    "further_diagnostics",
]

SHY = "\N{SOFT HYPHEN}"

COMPARATIVE: tuple[Diagnostic, ...] = (
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

SERIES: tuple[Diagnostic, ...] = (
    Diagnostic(
        "convergence",
        "convergence of the fits",
        "Converged",
        verdict_column="convergence_diagnostic",
        need="every fit ends at its optimum",
        design="case series",
    ),
    Diagnostic(
        "time stability",
        "stability of the rate over calendar time",
        "Time stability, p",
        "above",
        "time_alpha",
        value="p",
        column="time_stability_p",
        verdict_column="time_stability_diagnostic",
        design="case series",
    ),
    Diagnostic(
        "pre-exposure",
        "rate ratio just before exposure",
        "Before exposure",
        threshold="pre_exposure",
        ends=("event_exposure_lb", "event_exposure_ub"),
        verdict_column="event_exposure_diagnostic",
        design="case series",
    ),
    Diagnostic(
        "end of observation",
        "rate ratio just before observation ends",
        "End of observation",
        threshold="end_of_observation",
        ends=("event_observation_lb", "event_observation_ub"),
        verdict_column="event_observation_diagnostic",
        design="case series",
    ),
    Diagnostic(
        "rarity",
        "share of people with the outcome",
        "Share with the outcome",
        "at most",
        "prevalence",
        value="number",
        column="rare_outcome_prevalence",
        verdict_column="rare_outcome_diagnostic",
        condition="if it counts once",
        design="case series",
    ),
    Diagnostic(
        "detectable ratio",
        "minimal detectable rate ratio",
        "Detectable ratio",
        "below",
        "detectable",
        guards="viewing",
        value="number",
        column="mdrr",
        verdict_column="mdrr_diagnostic",
        design="case series",
    ),
    Diagnostic(
        "EASE",
        "expected absolute systematic error",
        "Systematic error",
        "below",
        "ease",
        guards="synthesis",
        value="number",
        column="ease",
        verdict_column="ease_diagnostic",
        design="case series",
    ),
)
OWN: dict[Design, tuple[Diagnostic, ...]] = {"comparative": COMPARATIVE, "case series": SERIES}


class Limits(Protocol):
    """Thresholds that list further diagnostics."""

    @property
    def further(self) -> tuple[str, ...]:
        """The functions of further diagnostics, as ``module:function``."""


def declared_diagnostics(limits: Limits, design: Design) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a study design, with those that a specification adds."""
    return (*OWN[design], *further_diagnostics(limits))


def further_diagnostics(limits: Limits) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that a specification adds."""
    return tuple(named_diagnostic(place) for place in limits.further)


def _of(design: Design) -> After:
    """Return the check of the further diagnostics of a study design."""

    def check(places: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse functions that are not diagnostics of the design, and two of one key."""
        known = [d.key for d in OWN[design]]
        for place in places:
            declared = named_diagnostic(place)
            if declared.design != design:
                raise ValueError(f"names {place!r}, a diagnostic of the design {declared.design}")
            if declared.key in known:
                raise ValueError(f"names {place!r}, but another diagnostic is {declared.key!r} too")
            known.append(declared.key)
        return places

    return After(check)


Place = Annotated[str, Before(place_of)]
Further = Annotated[Listed[Place], _of("comparative")]
FurtherOfSeries = Annotated[Listed[Place], _of("case series")]
