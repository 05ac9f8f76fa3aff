"""Combination of the results of several databases on one question, by each method.

If a single database takes part, nothing is combined: the result is its own estimate and limits,
whatever the kind of its interval. (The Bayesian method has priors and always computes its result.)
If that result is hidden because it fails a diagnostic, no method shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from steropes.designs.evidence.meta_analysis import Combined, combine_normal, combine_profiles
from steropes.designs.evidence.profile_interpolation import NormalProfile, Profile
from steropes.designs.evidence.random_effects import RandomEffects, random_effects
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.errors import DataError

__all__ = [
    "COUNTS",
    "NOTHING_TO_COMBINE",
    "NO_FINITE",
    "ONE_HIDDEN",
    "DatabaseResult",
    "is_of_one_hidden",
    "synthesis_rows",
    "with_names",
    "without_results",
]

COUNTS = "that treats its weights as counts of people"  # A standard error that is not robust.
NO_FINITE = "the likelihood keeps rising, so there is no finite estimate"
ONE_HIDDEN = "not shown: the only database with an estimate fails a diagnostic"
NOTHING_TO_COMBINE = "no database has an estimate that may be combined"
METHODS = ("fixed, profile", "fixed, normal", "random, normal", "random, Bayesian")
NAMED = 5  # A note lists this many databases and counts the others.


@dataclass(frozen=True)
class DatabaseResult:
    """The result of one database.

    Attributes
    ----------
    log_rr, se, lower, upper : float
        On the log scale, with 95 % limits; missing or infinite if there is none.
    profile : DataFrame or None
        ``log_rr``, ``log_likelihood`` and, if known, ``gradient``.
    error : str
        Kind of standard error with which the result takes part if its profile is not a likelihood,
        as that of a weighted analysis: "robust", "bootstrap", or `COUNTS`. Otherwise empty.
    weighted : bool
        Whether the reason is a weighted analysis.
    hidden : bool
        Whether the result fails a diagnostic, so that it may be combined with others but not be
        shown alone.
    failed : str
        The names of the diagnostics that it fails.
    """

    database: str
    log_rr: float
    se: float
    lower: float
    upper: float
    profile: pd.DataFrame | None
    error: str = ""
    weighted: bool = False
    hidden: bool = False
    failed: str = ""

    @property
    def has_estimate(self) -> bool:
        """Whether there is an estimate with a standard error."""
        return math.isfinite(self.log_rr) and math.isfinite(self.se) and self.se > 0

    @property
    def has_limits(self) -> bool:
        """Whether there is an interval with a finite limit."""
        known = not (math.isnan(self.lower) or math.isnan(self.upper))
        return known and (math.isfinite(self.lower) or math.isfinite(self.upper))

    @property
    def has_likelihood(self) -> bool:
        """Whether it takes part where likelihoods are combined."""
        if self.error:
            return self.has_estimate
        return self.profile is not None and len(self.profile) > 1

    def likelihood(self) -> Profile:
        """Return the profile, or else the likelihood of a normal estimate.

        Raises
        ------
        DataError
            Points of the profile are missing.
        """
        if self.error or self.profile is None:
            return NormalProfile(self.log_rr, self.se, name=self.database)
        p = self.profile.drop_duplicates("log_rr")
        slope = p["gradient"] if "gradient" in p and p["gradient"].notna().all() else None
        try:
            return Profile(p["log_rr"], p["log_likelihood"], slope, name=self.database)
        except DataError as error:
            raise DataError(f"database {self.database}: {error}") from None


def synthesis_rows(results: Sequence[DatabaseResult]) -> list[dict[str, object]]:
    """Combine the results of databases by each method.

    Parameters
    ----------
    results : sequence of DatabaseResult
        The results of one question, outcome and analysis.

    Returns
    -------
    list of dict
        A line per method: its numbers, missing if there are none, and a note.
    """
    having = [r for r in results if r.has_likelihood]
    exact = [r for r in results if r.has_estimate]
    log_rr, se = [r.log_rr for r in exact], [r.se for r in exact]

    def likelihoods() -> list[Profile]:
        return [r.likelihood() for r in having]

    no_profile, no_estimate = "a likelihood", "an estimate with a standard error"
    return [
        _line(METHODS[0], results, having, no_profile,
              lambda: combine_profiles(likelihoods())),
        _line(METHODS[1], results, exact, no_estimate, lambda: combine_normal(log_rr, se)),
        _line(METHODS[2], results, exact, no_estimate,
              lambda: combine_normal(log_rr, se, random=True)),
        _line(METHODS[3], results, having, no_profile,
              lambda: random_effects(likelihoods())),
    ]  # fmt: skip


def with_names(reason: str, failed: Iterable[str]) -> str:
    """Add to a reason the names of the diagnostics that results fail, each once."""
    names = dict.fromkeys(n for text in failed if text for n in text.split(", "))
    return f"{reason} ({', '.join(names)})" if names else reason


def without_results(failed: Iterable[str]) -> list[dict[str, object]]:
    """Return the lines of each method for a question of which no result may be combined."""
    note = with_names(NOTHING_TO_COMBINE, failed)
    return [{"method": method, "databases": 0, "note": note} for method in METHODS]


def is_of_one_hidden(results: Sequence[DatabaseResult]) -> bool:
    """Check whether the combination of results would be the hidden estimate of one database.

    Databases without an estimate of their own hardly change a combined one.
    """
    alone = [r for r in results if r.has_estimate] or results
    return len(alone) == 1 and alone[0].hidden


def _line(
    method: str,
    results: Sequence[DatabaseResult],
    part: list[DatabaseResult],
    lacking: str,
    make: Callable[[], Combined | RandomEffects],
) -> dict[str, object]:
    """Compute the line of one method."""
    by_likelihood, bayesian = lacking == "a likelihood", method == "random, Bayesian"
    if not bayesian and len(results) == 1 and results[0].has_limits:
        part = list(results)  # A single result takes part with its interval, without likelihood.
    out = [r.database for r in results if r not in part]
    notes = [f"left out, without {lacking}: {_listed(out)}"] if part and out else []
    if is_of_one_hidden(part):
        note = "; ".join([with_names(ONE_HIDDEN, [r.failed for r in part if r.hidden]), *notes])
        return {"method": method, "databases": len(part), "note": note}
    if not bayesian and len(part) == 1 and part[0].has_limits:
        return {"method": method, **_own(part[0], notes)}
    notes += _kinds(part, by_likelihood)
    line: dict[str, Any] = {"method": method, "databases": 0}
    try:
        found = make()
    except DataError as error:
        return {**line, "note": "; ".join([str(error), *notes])}
    has = math.isfinite(found.log_rr)
    return {
        **line,
        "databases": found.databases,
        **_numbers(found.log_rr if has else math.nan, found.lower, found.upper),
        "se_log_rr": found.se if math.isfinite(found.se) else math.nan,
        "i_squared": found.i_squared if isinstance(found, Combined) else math.nan,
        "tau": found.tau,
        "pi_95_lb": ratio_of(found.predicted_lower),
        "pi_95_ub": ratio_of(found.predicted_upper),
        "note": "; ".join([*([] if has else [NO_FINITE]), *notes]),
    }


def _own(r: DatabaseResult, notes: list[str]) -> dict[str, object]:
    """Return the line of a single database: its own numbers."""
    kind = f", with the standard error {r.error}" if r.error == COUNTS else ""
    return {
        "databases": 1,
        **_numbers(r.log_rr, r.lower, r.upper),
        "se_log_rr": r.se if math.isfinite(r.se) else math.nan,
        "tau": 0.0,
        "note": "; ".join([f"estimate and limits of the only database{kind}", *notes]),
    }


def _numbers(log_rr: float, lower: float, upper: float) -> dict[str, float]:
    """Return ratio, limits and log ratio by their columns."""
    return {
        "rr": ratio_of(log_rr),
        "ci_95_lb": ratio_of(lower),
        "ci_95_ub": ratio_of(upper),
        "log_rr": log_rr,
    }


def _kinds(part: list[DatabaseResult], by_likelihood: bool) -> list[str]:
    """Describe the databases that take part by a standard error instead of their profile."""
    notes = []
    for error in dict.fromkeys(r.error for r in part if r.error):
        of = [r for r in part if r.error == error]
        kind = f"the {error} standard error" if error != COUNTS else f"a standard error {error}"
        why = (
            "weighted, so that the profile is not a likelihood"
            if of[0].weighted
            else "with an interval that is not the profile's"
        )
        names = _listed([r.database for r in of])
        if by_likelihood:
            notes.append(f"{names}, {why}: normal approximation with {kind}")
        elif error == COUNTS:
            notes.append(f"{names}: {kind}")
    return notes


def _listed(names: Sequence[str]) -> str:
    """List the first names and count the others."""
    more = f" and {len(names) - NAMED} others" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
