"""The three rule sets, and which of them applies at a site."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from steropes.errors import DataError
from steropes.studies.disclosure import small_cell_suppression
from steropes.studies.disclosure.disclosive_digit_rounding import to_unit
from steropes.studies.disclosure.small_cell_suppression import Bound

__all__ = [
    "ENVIRONMENT",
    "DisclosureRules",
    "RuleSet",
    "applied_rules",
    "rules_in_force",
    "rules_of_text",
    "shown_count",
    "site_rules",
]

RuleSet = Literal["none", "ohdsi", "opensafely"]
STRICTNESS: tuple[RuleSet, ...] = get_args(RuleSet)
ENVIRONMENT = "STEROPES_DISCLOSURE"
# The smallest count of OHDSI's packages, which rules without one have.
LEAST = 5
# OpenSAFELY redacts counts of seven or fewer and rounds the others to the midpoint of six.
OPENSAFELY_LEAST, OPENSAFELY_ROUNDING = 8, 6
FLOORS: dict[RuleSet, int] = {"none": 0, "ohdsi": LEAST, "opensafely": OPENSAFELY_LEAST}


@dataclass(frozen=True)
class DisclosureRules:
    """A rule set with the smallest count that it releases.

    Attributes
    ----------
    name : {"none", "ohdsi", "opensafely"}
        "ohdsi" releases counts of ``least`` people or more as they are and withholds all from which
        a smaller one would follow. "opensafely" also rounds every count to the midpoint of six and
        every estimate to three significant digits. "none" releases everything.
    least : int
        Counts of fewer people, but not of no one, are suppressed; 0 for "none".
    """

    name: RuleSet = "ohdsi"
    least: int = LEAST

    def __post_init__(self) -> None:
        """Refuse unknown names and counts that do not fit the name."""
        if self.name not in STRICTNESS:
            raise DataError(f"disclosure must be one of {', '.join(STRICTNESS)}, not {self.name!r}")
        if isinstance(self.least, bool) or not isinstance(self.least, int) or self.least < 0:
            raise DataError(f"min_cell must be a whole number of 0 or more, not {self.least!r}")
        if (self.name == "none") != (self.least <= 1):
            raise DataError(
                f"disclosure {self.name!r} does not go with a smallest count of {self.least}"
            )

    def __str__(self) -> str:
        return self.name if self.name == "none" else f"{self.name}, smallest count {self.least}"

    @property
    def open(self) -> bool:
        """Whether nothing is suppressed."""
        return self.name == "none"

    @property
    def rounds(self) -> bool:
        """Whether every count is rounded."""
        return self.name == "opensafely"

    @property
    def rounding(self) -> int:
        """Width of the steps to which counts are rounded; 1 if they are not."""
        return OPENSAFELY_ROUNDING if self.rounds else 1

    def stricter(self, other: DisclosureRules) -> DisclosureRules:
        """Combine two rule sets: the stricter rules with the larger smallest count."""
        name = max(self.name, other.name, key=STRICTNESS.index)
        return DisclosureRules(name, max(self.least, other.least, FLOORS[name]))

    def sentence(self) -> str:
        """Describe the rules in one or two sentences, for pages and terminals."""
        if self.open:
            return (
                "Disclosure control: none. Nothing is suppressed, as the owner of the data asked; "
                "these numbers may describe single people."
            )
        if self.rounds:
            return (
                f"Disclosure control: opensafely. Counts of fewer than {self.least} are "
                f"suppressed and others rounded to the midpoint of {OPENSAFELY_ROUNDING}; "
                "estimates have three significant digits and are withheld where they would give a "
                "suppressed count away."
            )
        return (
            f"Disclosure control: ohdsi. Counts of fewer than {self.least} are suppressed, and "
            "every number that would give one away is withheld, bounded or rounded."
        )

    def record(self) -> dict[str, Any]:
        """Return the rules as plain values, for JSON."""
        return {"rules": self.name, "min_cell": self.least, "description": self.sentence()}

    # -- counts ----------------------------------------------------------------------------------

    def rounded(self, n: int) -> int:
        """Round a count that is not small as the rules require."""
        n = int(n)
        if not self.rounds or n == 0:
            return n
        return -(-n // OPENSAFELY_ROUNDING) * OPENSAFELY_ROUNDING - OPENSAFELY_ROUNDING // 2

    def count(self, n: int) -> int | Bound:
        """Release a single count: a bound if it is small, otherwise as `rounded`."""
        return (
            Bound(self.least)
            if small_cell_suppression.small(int(n), self.least)
            else self.rounded(n)
        )

    def coarse(self, n: int) -> int:
        """Round a count of overlapping groups, which can be subtracted from each other.

        Multiples of ``least`` hide smaller differences. A small count becomes -``least``.
        """
        if self.open:
            return int(n)
        if self.small(n):
            return -self.least
        return self.rounded(n) if self.rounds else self.least * round(n / self.least)

    def small(self, n: int) -> bool:
        """Return whether a count is suppressed."""
        return small_cell_suppression.small(int(n), self.least)

    def part(self, n: int, of: int) -> int | Bound:
        """Release a count of some among ``of`` people, if ``of`` is released too."""
        return (
            self.count(n)
            if self.rounds
            else small_cell_suppression.part(int(n), int(of), self.least)
        )

    def apart(self, counts: Iterable[int], known: Iterable[int] = ()) -> list[int | Bound]:
        """Release counts of groups that may overlap; the first ones have precedence."""
        counts = list(counts)
        if self.rounds:
            return [self.count(n) for n in counts]
        return small_cell_suppression.apart(counts, self.least, known)

    def falling(self, first: int, counts: Iterable[int]) -> list[int | Bound]:
        """Release the numbers who remain of ``first`` people, who are released elsewhere."""
        counts = list(counts)
        if self.rounds:
            return [self.count(n) for n in counts]
        return small_cell_suppression.falling(first, counts, self.least)

    def stepped(self, x: float, of: int) -> float:
        """Round a number made of shares to steps that hide ``least`` of a number of people.

        Returns NaN if these are few.
        """
        if self.open:
            return x
        unit = small_cell_suppression.share_unit(max(of, 1), self.least)
        return to_unit(x, unit) if of > self.least else math.nan

    def fraction(self, n: int, of: int) -> float | Bound:
        """Release a share of ``of`` people, rounded or bounded."""
        found = small_cell_suppression.fraction(int(n), int(of), self.least)
        if not self.rounds or isinstance(found, Bound) or found != found or n == 0:
            return found
        return round(min(1.0, self.rounded(n) / self.rounded(of)), 4)


# The rules of the run in progress; messages outside of a run follow the rules of the site.
_OF_RUN: ContextVar[DisclosureRules | None] = ContextVar("rules of the run", default=None)


def site_rules(
    asked: str | DisclosureRules | None = None, min_cell: int | None = None
) -> DisclosureRules:
    """Find the rules that apply, from the site's, the requested ones and a specification.

    Parameters
    ----------
    asked : str or DisclosureRules, optional
        The request of the owner of the data, by ``--disclosure`` or ``disclosure=``: a rule set
        ("ohdsi"), one with a smallest count ("ohdsi:10"), or a TOML file with ``rules`` and
        ``min_cell``. It can be stricter than the environment variable ``STEROPES_DISCLOSURE``,
        which takes the same values but "none", and cannot be less strict. Default: "ohdsi".
    min_cell : int, optional
        The smallest count of a specification, which can only be stricter.

    Raises
    ------
    DataError
        If the rules do not exist, or are less strict than those of the site.
    """
    site = _of_environment()
    own = _rules_of(asked) if isinstance(asked, str) else asked
    rules = own or site or DisclosureRules()
    if site is not None and own is not None:
        if site.stricter(own) != own:
            raise DataError(
                f"disclosure {own} is less strict than the site's rules, {site} "
                f"({ENVIRONMENT}); leave it out, or let the owner of the data change these"
            )
        rules = own
    if min_cell is None:
        return rules
    if isinstance(min_cell, bool) or not isinstance(min_cell, int) or min_cell < 0:
        raise DataError(f"min_cell must be a whole number of 0 or more, not {min_cell!r}")
    if min_cell < rules.least:
        raise DataError(
            f"min_cell is {min_cell}, and the rules of this site ask for {rules.least} or more: a "
            "specification can only be stricter. Leave min_cell out; the owner of the data can "
            f"choose other rules by --disclosure or {ENVIRONMENT}"
        )
    if rules.open:
        return rules if min_cell <= 1 else DisclosureRules("ohdsi", min_cell)
    return DisclosureRules(rules.name, min_cell)


def rules_of_text(text: str) -> DisclosureRules | None:
    """Return the rules that a text names, as `str` writes them; None if it names none."""
    name, _, least = text.partition(", smallest count ")
    return _made(name, int(least), repr(text)) if least.isdecimal() else None


@contextmanager
def applied_rules(rules: DisclosureRules) -> Iterator[None]:
    """Apply the rules of a run to every count that its messages show, until the context ends."""
    token = _OF_RUN.set(rules)
    try:
        yield
    finally:
        _OF_RUN.reset(token)


def rules_in_force() -> DisclosureRules:
    """Return the rules of the current run, or those of the site outside of a run."""
    return _OF_RUN.get() or site_rules()


def shown_count(n: int, of_run: DisclosureRules | None = None) -> str:
    """Format a count for a message, a `repr` or a terminal by the rules in force.

    Parameters
    ----------
    of_run : DisclosureRules, optional
        The rules of the run in which the counted object was made; the stricter ones apply.

    Examples
    --------
    >>> from steropes.studies.disclosure import DisclosureRules, applied_rules
    >>> with applied_rules(DisclosureRules("ohdsi", 10)):
    ...     shown_count(7), shown_count(1234)
    ('<10', '1,234')
    """
    rules = rules_in_force()
    count = (rules if of_run is None else rules.stricter(of_run)).count(int(n))
    return str(count) if isinstance(count, Bound) else f"{count:,}"


def _of_environment() -> DisclosureRules | None:
    """Return the rules of the environment variable, if it is set."""
    text = os.environ.get(ENVIRONMENT, "").strip()
    if not text:
        return None
    try:
        rules = _rules_of(text)
    except DataError as error:
        raise DataError(f"{ENVIRONMENT}: {error}") from None
    if rules.open:
        raise DataError(
            f"{ENVIRONMENT} cannot be 'none': that is asked for where a study is run "
            "(--disclosure none)"
        )
    return rules


def _rules_of(text: str) -> DisclosureRules:
    """Parse a rule set from its name, with or without a smallest count, or read it from a file."""
    if text.endswith(".toml") or "/" in text or os.sep in text:
        return _of_file(Path(text))
    name, colon, number = text.partition(":")
    if colon and not number.isdecimal():
        raise DataError(f"the smallest count of {text!r} must be a whole number, as in ohdsi:10")
    return _made(name, int(number) if colon else None, repr(text))


def _of_file(path: Path) -> DisclosureRules:
    """Read rules from a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"cannot read the disclosure rules {path}: {error}") from None
    unknown = [name for name in values if name not in ("rules", "min_cell")]
    if unknown:
        raise DataError(f"{path}: there is no setting {unknown[0]!r}, only rules and min_cell")
    return _made(values.get("rules", "ohdsi"), values.get("min_cell"), str(path))


def _made(name: object, least: object, source: str) -> DisclosureRules:
    """Create rules from their values; error messages name the source."""
    if name not in FLOORS:
        raise DataError(f"{source}: the rules must be one of {', '.join(STRICTNESS)}, not {name!r}")
    floor = FLOORS[name]
    if least is None:
        return DisclosureRules(name, floor)
    number = least if isinstance(least, int) and not isinstance(least, bool) else -1
    if number < 0 or (name == "opensafely" and number < floor) or (name == "ohdsi" and number < 2):
        lowest = floor if name == "opensafely" else 2
        raise DataError(f"{source}: min_cell must be a whole number of {lowest} or more")
    return DisclosureRules(name, 0 if name == "none" else number)
