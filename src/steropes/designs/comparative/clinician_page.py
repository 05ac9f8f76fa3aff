"""The page about a comparison for a clinician: the effect, and the people behind it, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Protocol

import numpy as np
import pandas as pd

from steropes.data.number_formatting import counted, decimals
from steropes.data.plottable_result_tables import ResultTable
from steropes.designs.effects.e_values import e_value, e_value_of_limit
from steropes.designs.effects.outcome_families import kind_of_ratio
from steropes.designs.values.html_page import table_html

__all__ = ["e_values_of", "page_for_clinicians"]

# Of whom the effect is, in words that follow "in".
PEOPLE = {
    "ate": "everybody in either group", "att": "people like those in the group {0}",
    "atu": "people like those in the group {1}",
    "ato": "people who could well have been in either group",
    "atm": "people who have a counterpart in the other group",
    "entropy": "people whose group was least certain",
}  # fmt: skip
# The measures that words are about, the first one that an outcome has.
MAIN = ("risk difference", "rate difference", "mean difference")
# The ratio that is shown, the first one that an outcome has.
RATIOS = ("hazard ratio", "risk ratio", "rate ratio")
# Risks and rates are numbers of this many people.
THOUSAND = 1000


class Comparison(Protocol):
    """The parts of a `GroupComparison` that a page shows."""

    @property
    def effects(self) -> ResultTable: ...
    @property
    def table_one(self) -> pd.DataFrame: ...
    @property
    def weights(self) -> pd.DataFrame: ...
    @property
    def diagnostics(self) -> pd.DataFrame: ...
    @property
    def estimand(self) -> Any: ...
    @property
    def names(self) -> tuple[str, str]: ...
    @property
    def horizon(self) -> float | None: ...
    def plot(self, what: Any = ..., **options: Any) -> Any: ...


def page_for_clinicians(
    comparison: Comparison, call: Mapping[str, Any], common: bool, groups: tuple[int, int]
) -> Iterator[str]:
    """Yield the paragraphs of the page.

    Parameters
    ----------
    call : mapping
        The arguments of `compare_groups`, by name.
    common : bool
        Whether at least 15 % of the people had the outcome.
    groups : (int, int)
        Numbers of people in the target and in the comparator.
    """
    rows = pd.DataFrame(comparison.effects)
    methods = [name for name in dict.fromkeys(rows["method"]) if name != "unadjusted"]
    main = methods[0] if methods else "unadjusted"
    measure = next((name for name in MAIN if name in set(rows["measure"])), rows["measure"].iloc[0])
    chosen = rows[(rows["measure"] == measure) & (rows["scale"] == "marginal")]
    level = float(call.get("level", 0.95))
    outcome = str(call.get("outcome") or call.get("event"))
    yield "<h2>The question</h2>"
    yield _question(comparison, outcome, groups)
    yield "<h2>The answer</h2>"
    own = chosen[chosen["method"] == main]
    if len(own):
        yield f"<p>{escape(_answer(comparison, own.iloc[0], outcome, level))}</p>"
    yield from _ratio(rows[rows["method"] == main], level)
    yield from _before(chosen, main, measure)
    if len(methods) > 1:
        yield "<p>By each way of making the groups comparable:</p>"
        yield _by_method(chosen, measure, level)
    yield "<h2>Who remains</h2>"
    yield _remain(comparison, main)
    yield "<h2>How far it can be trusted</h2>"
    yield from _trust(comparison, main, common)


def _question(comparison: Comparison, outcome: str, groups: tuple[int, int]) -> str:
    """Return a paragraph on the groups, the outcome and the lack of randomisation."""
    target, comparator = comparison.names
    people = PEOPLE[comparison.estimand].format(target, comparator)
    text = (
        f"How does {outcome} differ between {target} ({counted(groups[0])} people) and "
        f"{comparator} ({counted(groups[1])} people)? The groups were not drawn by lot, so that "
        "they differ in other ways, too. They were made comparable in the characteristics of the "
        f"table on the second page, and the answer is about {people}."
    )
    return f"<p>{escape(text)}</p>"


def _answer(comparison: Comparison, row: pd.Series, outcome: str, level: float) -> str:
    """Return the effect in words."""
    target, comparator = comparison.names
    limits = f"{100 * level:g} % interval"
    if row["measure"] == "mean difference":
        return (
            f"The mean of {outcome} would be {_number(row['target'], 1)} with {target} and "
            f"{_number(row['comparator'], 1)} with {comparator}: {_more(row['estimate'], 1)} "
            f"({limits}: {_range(row, 1)}). {_reading(row)}"
        )
    per = THOUSAND
    if row["measure"] == "rate difference":
        return (
            f"Per {per:,} units of time under observation {_number(row['target'], per)} people "
            f"would have {outcome} with {target} and {_number(row['comparator'], per)} with "
            f"{comparator}: {_more(row['estimate'], per)} ({limits}: {_range(row, per)}). "
            f"{_reading(row)}"
        )
    when = "" if comparison.horizon is None else f" by time {comparison.horizon:g}"
    return (
        f"Of {per:,} such people {_number(row['target'], per)} would have {outcome}{when} with "
        f"{target} and {_number(row['comparator'], per)} with {comparator}: "
        f"{_more(row['estimate'], per)} ({limits}: {_range(row, per)}). {_reading(row)}"
    )


def _per(measure: str) -> int:
    """Return the number of people that differences are counted in."""
    return 1 if measure == "mean difference" else THOUSAND


def _number(value: float, per: int) -> str:
    """Return a number of people with two digits, or a mean with three; all before the point."""
    if not math.isfinite(value):
        return "an unknown number"
    digits = 3 if per == 1 else 2
    value *= per
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def _more(value: float, per: int) -> str:
    """Return a difference as more or less."""
    size = _number(abs(value), per)
    return "no difference" if value == 0 else f"{size} {_word(value, per)}"


def _word(value: float, per: int) -> str:
    """Return the direction of a difference."""
    if per == 1:
        return "higher" if value > 0 else "lower"
    return "more" if value > 0 else "fewer"


def _range(row: pd.Series, per: int) -> str:
    """Return both limits as more or less."""
    return f"{_more(row['lower'], per)} to {_more(row['upper'], per)}"


def _reading(row: pd.Series) -> str:
    """State whether no difference is within the limits."""
    if not (math.isfinite(row["lower"]) and math.isfinite(row["upper"])):
        return "The data do not tell how precise this is."
    if row["lower"] <= 0 <= row["upper"]:
        return "No difference at all is compatible with these data."
    return "Chance alone hardly explains this difference."


def _ratio(rows: pd.DataFrame, level: float) -> Iterator[str]:
    """Yield the ratio that readers of papers know, if there is one."""
    for measure in RATIOS:
        found = rows[(rows["measure"] == measure) & (rows["scale"] == "marginal")]
        if len(found):
            row = found.iloc[0]
            text = (
                f"As a ratio: {measure} {row['estimate']:.2f} ({100 * level:g} % interval "
                f"{row['lower']:.2f} to {row['upper']:.2f})."
            )
            yield f"<p>{escape(text)}</p>"
            return


def _before(chosen: pd.DataFrame, main: str, measure: str) -> Iterator[str]:
    """Yield a sentence on the unadjusted estimate, if another one is the main estimate."""
    plain = chosen[chosen["method"] == "unadjusted"]
    if main == "unadjusted" or not len(plain):
        return
    per = _per(measure)
    unit = "" if per == 1 else f" per {per:,}"
    text = f"Before the groups were made comparable it was {_more(plain['estimate'].iloc[0], per)}"
    yield f"<p>{escape(text + unit)}.</p>"


def _by_method(chosen: pd.DataFrame, measure: str, level: float) -> str:
    """Return the main effect by each method."""
    per = _per(measure)
    lines = [
        (row.method, _more(float(row.estimate), per), _range(pd.Series(row._asdict()), per))
        for row in chosen.itertuples()
    ]
    difference = "Difference" if per == 1 else f"Difference per {per:,}"
    names = ["Method", difference, f"{100 * level:g} % interval"]
    return table_html(pd.DataFrame(lines, columns=names))


def _remain(comparison: Comparison, main: str) -> str:
    """Return how many people the answer rests on."""
    w = np.ones(len(comparison.weights))  # An outcome model has no weights.
    if main in comparison.weights:
        w = comparison.weights[main].to_numpy()
    remain, size = int((w > 0).sum()), float(w.sum() ** 2 / (w @ w))
    text = f"The answer rests on {counted(remain)} of {counted(len(w))} people"
    if remain < len(w):
        text += "; the others were left out, and it is not about them"
    if size < 0.9 * remain:
        text += f". Because people count unequally, it is as precise as one from {size:,.0f} people"
    return f"<p>{escape(text)}.</p>"


def _trust(comparison: Comparison, main: str, common: bool) -> Iterator[str]:
    """Yield failed checks, and how strong an unmeasured confounder would have to be."""
    table = comparison.diagnostics
    failed = table[(table["method"] == main) & ~table["passed"].astype(bool)]
    if failed.empty:
        yield "<p>All checks of the comparison passed.</p>"
    else:
        yield '<p class="failed">Be careful, because checks failed:</p><ul class="failed">'
        for row in failed.itertuples():
            yield f"<li>{escape(f'{row.diagnostic}: {row.note}')}</li>"
        yield "</ul>"
    values = {row[1]: row for row in e_values_of(comparison, common) if row[0] == main}
    found = [values[measure] for measure in RATIOS if measure in values]
    text = "People may differ in what was not measured, which no method repairs."
    if found:
        _, measure, estimate, limit = found[0]
        text += (
            f" To explain the {measure} away, something unmeasured would have to be associated "
            f"with both the group and the outcome by risk ratios of {estimate} or more each"
            + (
                "; for the interval to include no effect no such thing is needed."
                if limit == decimals(1.0, 2)
                else f", and of {limit} or more for the interval to include no effect."
            )
        )
    yield f"<p>{escape(text)}</p>"


def e_values_of(comparison: Comparison, common: bool) -> list[tuple[str, str, str, str]]:
    """Return method, measure, E-value and E-value of the limit nearer to 1 of each ratio."""
    rows = []
    for row in pd.DataFrame(comparison.effects).itertuples():
        kind = kind_of_ratio(str(row.measure))
        if kind is None or row.method == "unadjusted" or not row.lower > 0:
            continue
        limits = math.log(float(row.lower)), math.log(float(row.upper))
        values = e_value(math.log(float(row.estimate)), kind, common)
        of_limit = e_value_of_limit(*limits, kind, common)
        rows.append((str(row.method), str(row.measure), decimals(values, 2), decimals(of_limit, 2)))
    return rows
