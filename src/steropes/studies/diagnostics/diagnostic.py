"""A diagnostic, the verdict on its value, and the registration of further diagnostics.

Both study designs use them: `diagnostic_catalogue` declares the diagnostics of each, and a
specification names further ones, which `register_diagnostic` makes from functions.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from steropes.data.number_formatting import Relation, crossing, limit_text, passes
from steropes.studies.disclosure.small_cell_suppression import Bound

if TYPE_CHECKING:
    import pandas as pd

    from steropes.designs.propensity.covariate_balance import Balance
    from steropes.designs.propensity.propensity_score_fit import PropensityScores
    from steropes.designs.settings.settings_base_class import Settings

__all__ = [
    "FAIL",
    "NOT_EVALUATED",
    "PASS",
    "ComparedPeople",
    "Design",
    "Diagnostic",
    "Guards",
    "Verdict",
    "Word",
    "allows",
    "named_diagnostic",
    "place_of",
    "register_diagnostic",
    "source_of",
]

Word = Literal["PASS", "FAIL", "NOT EVALUATED"]
PASS: Word = "PASS"
FAIL: Word = "FAIL"
NOT_EVALUATED: Word = "NOT EVALUATED"
Design = Literal["comparative", "case series"]
Guards = Literal["calibration", "synthesis", "viewing", "nothing"]
# The uses of an estimate; what rules out one of them rules out all later ones.
USES: tuple[Guards, ...] = ("calibration", "synthesis", "viewing")
SIGNS: dict[Relation, str] = {"below": "<", "at most": "≤", "at least": "≥", "above": ">"}
Measure = TypeVar("Measure", bound=Callable[..., float])


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
        Computes the value of a further diagnostic; see `register_diagnostic`.
    design : {"comparative", "case series"}
        The study design.
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
    measure: Callable[..., float] | None = None
    design: Design = "comparative"

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
        """Describe in words the limit of the value."""
        if self.need or self.ends is not None:
            return self.need or self.sign(thresholds)
        limit = self.limit(thresholds)
        return "no threshold" if limit is None else f"{self.relation} {limit_text(limit)}"

    def limits(self, thresholds: Settings) -> tuple[float, ...]:
        """Return the limit or, for an interval, both limits; empty without a limit."""
        if self.ends is not None and isinstance(self.threshold, str):
            both: tuple[float, float] = getattr(thresholds, self.threshold)
            return both
        limit = self.limit(thresholds)
        return () if limit is None else (limit,)

    def sign(self, thresholds: Settings) -> str:
        """Describe in signs the limit of the value, such as "< 0.1"; "" if there is no limit."""
        limits = [limit_text(limit) for limit in self.limits(thresholds)]
        if self.ends is not None:
            return f"overlaps {' to '.join(limits)}"
        if not limits or self.relation is None:
            return ""
        return f"{SIGNS[self.relation]} {limits[0]} {self.condition}".rstrip()

    def word(self, value: float | bool | None, thresholds: Settings) -> Word:
        """Judge a value; "NOT EVALUATED" if it is missing or there is no limit."""
        if value is None or math.isnan(value):
            return NOT_EVALUATED
        if self.relation is None:
            return PASS if value else FAIL
        limit = self.limit(thresholds)
        if limit is None:
            return NOT_EVALUATED
        return PASS if passes(abs(value), self.relation, limit) else FAIL

    def judged(self, verdict: Word, thresholds: Settings, **found: Any) -> Verdict:
        """Return a verdict on this diagnostic, with its rule and limits.

        Parameters
        ----------
        **found
            Further fields of `Verdict`, such as ``value`` and ``finding``.
        """
        limits = () if self.need else self.limits(thresholds)
        own = {"rule": self.rule(thresholds), "limits": limits, "guards": self.guards}
        return Verdict(self.key, self.name, verdict, **{**own, **found})

    def agreeing(
        self, value: float | Bound | None, verdict: str, thresholds: Settings
    ) -> float | Bound | None:
        """Replace a released value that was rounded across its limit by a bound at the limit."""
        limit = self.limit(thresholds)
        if self.need or self.relation is None or limit is None or isinstance(value, Bound | None):
            return value
        side = crossing(value, self.relation, limit, verdict)
        return Bound(limit, above=side == ">") if side else value


@dataclass(frozen=True)
class Verdict:
    """The verdict on the value of a diagnostic.

    Attributes
    ----------
    key, name : str
        As in `Diagnostic`.
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    value : float, Bound or None
        None or NaN where it is unknown or withheld. A released value that rounding would move
        across its limit is a bound that agrees with the verdict.
    rule : str
        The condition for passing.
    guards : str
        As in `Diagnostic`.
    finding : str
        The result as a sentence; empty where the page makes it.
    about : str
        The covariate or model to which the value belongs, if that may be released.
    lower, upper, p : float
        The interval and the p value of the value, if it has them.
    limits : tuple of float
        The thresholds; numbers are shown with enough digits to distinguish them.
    """

    key: str
    name: str
    verdict: Word
    value: float | Bound | None = math.nan
    rule: str = ""
    guards: Guards = "calibration"
    finding: str = ""
    about: str = ""
    lower: float = math.nan
    upper: float = math.nan
    p: float = math.nan
    limits: tuple[float, ...] = ()

    @property
    def number(self) -> float:
        """The value; NaN if it is unknown or a bound."""
        return math.nan if self.value is None or isinstance(self.value, Bound) else self.value

    @property
    def hides(self) -> bool:
        """Whether an estimate that fails is not shown."""
        return self.guards != "nothing"

    @property
    def threshold(self) -> float | None:
        """The number in the rule; None for an interval, or without a limit."""
        return self.limits[0] if len(self.limits) == 1 else None


def allows(use: Guards, words: Iterable[tuple[Guards, str]]) -> bool:
    """Check that no diagnostic rules out a use of an estimate.

    One that was not evaluated does not count as failed.

    Parameters
    ----------
    use : {"calibration", "synthesis", "viewing"}
        The use.
    words : iterable of (str, str)
        The assumption that each diagnostic guards, and its verdict.
    """
    needed = USES[: USES.index(use) + 1]
    return all(word != FAIL for guards, word in words if guards in needed)


REGISTERED: dict[Callable[..., float], Diagnostic] = {}


def register_diagnostic(
    key: str,
    name: str,
    *,
    below: float | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
    above: float | None = None,
    heading: str = "",
    guards: Guards = "calibration",
    design: Design = "comparative",
) -> Callable[[Measure], Measure]:
    """Make a function the measure of a diagnostic that specifications can name.

    Parameters
    ----------
    key : str
        Short name, under which results are stored.
    name : str
        Name in sentences and files.
    below, at_most, at_least, above : float, optional
        The limit: the diagnostic passes if the absolute value is on this side of it. Exactly one is
        needed.
    heading : str, optional
        Heading of the column. Default: ``key`` with a capital.
    guards : {"calibration", "synthesis", "viewing", "nothing"}, default "calibration"
        The first use of an estimate that a failure rules out, and with it all later ones.
    design : {"comparative", "case series"}, default "comparative"
        The study design.

    Returns
    -------
    callable
        A decorator, which returns the function unchanged. The function receives the people of a
        result and returns the value, or NaN if it cannot be evaluated. In comparative studies
        they are a `ComparedPeople`, whose table ``people`` has ``score``, ``preference``, ``set``
        and ``weight`` if the analysis has them; in case series a `ComparedCases`. It must not use
        the outcomes during the time at risk, because the value stays visible when the estimate is
        hidden. Before release the value is rounded.

    Raises
    ------
    ValueError
        There is not exactly one limit, or an option is unknown.

    See Also
    --------
    DiagnosticThresholds : Its ``further`` lists the functions as ``module:function``.

    Examples
    --------
    >>> from steropes.studies import register_diagnostic
    >>> @register_diagnostic("people", "number of people", at_least=100)
    ... def number_of_people(compared):
    ...     return float(len(compared.people))
    """
    limits: dict[Relation, float | None] = {
        "below": below, "at most": at_most, "at least": at_least, "above": above,
    }  # fmt: skip
    given = [(relation, limit) for relation, limit in limits.items() if limit is not None]
    if len(given) != 1:
        raise ValueError(f"diagnostic {key!r} needs one limit, not {len(given)}")
    if guards not in (*USES, "nothing"):
        raise ValueError(f"guards must be one of {(*USES, 'nothing')}, not {guards!r}")
    if design not in ("comparative", "case series"):
        raise ValueError(f"design must be 'comparative' or 'case series', not {design!r}")
    ((relation, limit),) = given
    title = heading or key[:1].upper() + key[1:]

    def register(measure: Measure) -> Measure:
        """Remember the diagnostic of a function."""
        REGISTERED[measure] = Diagnostic(
            key, name, title, relation, limit, guards, measure=measure, design=design
        )
        return measure

    return register


def named_diagnostic(place: str) -> Diagnostic:
    """Return the diagnostic of a function that a specification names.

    Parameters
    ----------
    place : str
        The function as ``module:function``. Its module is imported; each process of a run does so.

    Raises
    ------
    ValueError
        There is no such function, or it is not registered.
    """
    module, _, function = place.partition(":")
    if not function:
        raise ValueError(f"must be a function as 'module:function', not {place!r}")
    try:
        measure = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise ValueError(
            f"names the module {module!r}, which cannot be imported ({error}); install it, or add "
            "its folder to PYTHONPATH"
        ) from None
    except AttributeError:
        raise ValueError(f"names {place!r}, but the module {module!r} has no such name") from None
    if measure not in REGISTERED:
        raise ValueError(f"names {place!r}, which register_diagnostic does not decorate")
    return REGISTERED[measure]


def place_of(measure: object) -> object:
    """Return the name of a function as ``module:function``; other values as they are."""
    if not callable(measure):
        return measure
    return f"{getattr(measure, '__module__', '')}:{getattr(measure, '__qualname__', '')}"


def source_of(places: Iterable[str]) -> list[object]:
    """Return the limits and the source text of further diagnostics, on which results depend."""
    found: list[object] = []
    for place in places:
        declared = named_diagnostic(place)
        plain = {k: v for k, v in vars(declared).items() if k not in ("measure", "variant")}
        assert declared.measure is not None
        try:
            found.append([place, plain, inspect.getsource(declared.measure)])
        except OSError:  # A function without a file, as in an interactive session.
            found.append([place, plain])
    return found
