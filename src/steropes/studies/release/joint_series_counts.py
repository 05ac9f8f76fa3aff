"""Counts of case series suppressed jointly, so that none follows from those of other analyses.

Everybody has a first outcome, so that the outcomes less the cases are further ones. Cases and
further outcomes with a covariate and those without it add up to all. Where one of these numbers is
small, or a suppressed count would be narrowed, one of the counts that it follows from is a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.complementary_suppression import (
    Split,
    equal_splits,
    merged_splits,
    sum_splits,
    unnarrowed_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import Bound

__all__ = [
    "KEY",
    "OUTCOMES",
    "SET",
    "Key",
    "SeriesCounts",
    "Tables",
    "cases_of_series",
    "final_rows",
    "key_of",
    "released_series_counts",
]

Tables = Mapping[str, pd.DataFrame]
Key = tuple[int, int, int]
SET = ["analysis_id", "exposures_outcome_set_id"]
KEY = [*SET, "covariate_id"]
OUTCOMES = {
    "subjects": "outcome_subjects",
    "events": "outcome_events",
    "periods": "outcome_observation_periods",
}
# The counts of a covariate, with the counts of all cases that they are part of.
WHOLE = {
    "subjects": "subjects",
    "periods": "periods",
    "observed_events": "events",
    "events": "events",
}


@dataclass(frozen=True, eq=False)
class SeriesCounts:
    """Released counts of case series.

    Attributes
    ----------
    cases : dict of str to dict
        For each of `OUTCOMES`, the released number of each row of ``sccs_attrition`` (by position),
        except the last row of each exposure, which belongs to its covariate.
    covariates : dict
        The counts of each covariate, by the names of `WHOLE`.
    """

    cases: dict[str, dict[int, int | Bound]]
    covariates: dict[Key, dict[str, int | Bound]]


def key_of(line: Any) -> Key:
    """Return analysis, question and covariate of a row."""
    return int(line[KEY[0]]), int(line[KEY[1]]), int(line[KEY[2]])


def cases_of_series(exact: Tables) -> dict[tuple[int, ...], dict[str, int]]:
    """Count the cases of each series, those that the last rule leaves."""
    return {
        (int(line[SET[0]]), int(line[SET[1]])): {k: int(line[n]) for k, n in OUTCOMES.items()}
        for line in exact["sccs_result"].to_dict("records")
    }


def released_series_counts(exact: Tables, rules: DisclosureRules) -> SeriesCounts:
    """Release all counts of cases and of covariates.

    All cases are released, so that neither those with a covariate nor those without it may be few,
    nor the difference to the count of a window of the same exposure in another analysis. Counts
    that are the sum of others, such as those of a window and of its parts, narrow no small one.
    """
    lines = {key_of(line): line for line in exact["covariate_count"].to_dict("records")}
    finals = cases_of_series(exact)
    told = {key: _counts(line, finals.get(key[:2], {}), rules) for key, line in lines.items()}
    outcomes = dict(
        exact["sccs_exposures_outcome_set"][[SET[1], "outcome_id"]].itertuples(index=False)
    )
    found = SeriesCounts(_cases(exact["sccs_attrition"], outcomes, told, rules), told)
    if not rules.rounds:
        for place in _exposures(exact, lines, outcomes):
            for name in ("subjects", "events", "observed_events"):
                _apart(place, name, lines, told, rules)
    if not rules.open:
        _without_narrow_ones(exact, lines, outcomes, found, rules)
    return found


def _counts(
    line: dict[Any, Any], final: dict[str, int], rules: DisclosureRules
) -> dict[str, int | Bound]:
    """Release the counts of a covariate, which are parts of the counts of all cases."""
    found = {}
    for name, of in WHOLE.items():
        n, whole = int(line[name]), final.get(of)
        found[name] = rules.count(n) if whole is None else rules.part(n, whole)
    inside, observed = int(line["events"]), int(line["observed_events"])
    # Without any outcome in its time, all observed ones are outside.
    if inside and rules.small(observed - inside):
        found["events"] = Bound(rules.least if rules.small(inside) else max(observed, rules.least))
    return found


def final_rows(attrition: pd.DataFrame, answered: Iterable[Key]) -> pd.Series:
    """Mark the row of all cases of each series in its attrition.

    It is the last one of series without an answer, and precedes that of the cases with the
    covariate of interest otherwise.
    """
    known = {*answered}
    last = attrition.groupby(KEY)["sequence_number"].transform("max")
    has_own = [key_of(line) in known for line in attrition[KEY].to_dict("records")]
    return attrition["sequence_number"] == last - np.array(has_own, dtype=np.int64)


def _cases(
    table: pd.DataFrame,
    outcomes: Mapping[int, int],
    answered: Iterable[Key],
    rules: DisclosureRules,
) -> dict[str, dict[int, int | Bound]]:
    """Release the cases that each rule leaves, over all analyses of an outcome."""
    found: dict[str, dict[int, int | Bound]] = {n: {} for n in OUTCOMES}
    if table.empty:
        return found
    table = table.reset_index(drop=True)
    of_rows = table[SET[1]].map(outcomes)
    final = final_rows(table, answered)
    own = final.groupby([table[c] for c in KEY]).shift(fill_value=False)
    for of, name in OUTCOMES.items():
        for outcome in of_rows.unique():
            here = of_rows == outcome
            rows = [*table.index[here & final], *table.index[here & ~own & ~final]]
            # Outcomes of which everybody has one are the cases, which have precedence.
            more = table[name] != table[OUTCOMES["subjects"]]
            rows = [*(r for r in rows if not more[r]), *(r for r in rows if more[r])]
            counts = [int(table.at[r, name]) for r in rows]
            splits = sum_splits([int(table.at[r, "observed_days"]) for r in rows], counts)
            values = unnarrowed_counts(counts, rules.apart(counts), splits, rules)
            found[of] |= {int(r): n for r, n in zip(rows, values, strict=True) if n is not None}
    return found


def _exposures(
    exact: Tables, keys: Iterable[Key], outcomes: Mapping[int, int]
) -> Iterable[dict[Key, str]]:
    """Return the covariates of each exposure and outcome, in all analyses, with their kinds."""
    windows = exact["sccs_covariate_analysis"]
    before = {
        (int(line["analysis_id"]), int(line["covariate_analysis_id"])): "before"
        for line in windows[windows["pre_exposure"] == 1].to_dict("records")
    }
    found: dict[tuple[Any, ...], dict[Key, str]] = {}
    lines = {key_of(line): line for line in exact["sccs_covariate"].to_dict("records")}
    for key in keys:
        line = lines.get(key, {})
        era, of = int(line.get("era_id") or 0), line.get("covariate_analysis_id")
        kind = "probe" if of is None or pd.isna(of) else before.get((key[0], int(of)), "during")
        # A window of several eras has the number 0; it belongs to the exposure of its question.
        place = (int(outcomes.get(key[1], key[1])), era or -key[1])
        found.setdefault(place, {})[key] = kind
    return found.values()


def _apart(
    place: Mapping[Key, str],
    name: str,
    lines: Mapping[Key, dict[Any, Any]],
    told: Mapping[Key, dict[str, int | Bound]],
    rules: DisclosureRules,
) -> None:
    """Suppress counts of an exposure's windows from which a small one would follow."""
    # Outcomes of which everybody has one are the cases, which have precedence.
    keys = sorted(place, key=lambda key: lines[key][name] != lines[key]["subjects"])
    exact = {key: int(lines[key][name]) for key in keys}
    for k, key in enumerate(keys):
        others = [of for of in keys[:k] if of[0] != key[0] and place[of] == place[key]]
        known = [exact[of] for of in others if isinstance(told[of][name], int)]
        if isinstance(told[key][name], int):
            told[key][name] = rules.apart([exact[key]], known)[0]
    # Windows of one kind with equal counts may have the same outcomes, also if one is longer.
    splits = sum_splits([int(lines[key]["days"]) for key in keys], [*exact.values()])
    splits += equal_splits([(place[key], n) for key, n in exact.items()])
    alone = [told[key][name] for key in keys]
    for key, n in zip(
        keys, unnarrowed_counts([*exact.values()], alone, splits, rules), strict=True
    ):
        if n is not None:
            told[key][name] = n


# -- all counts of a question ----------------------------------------------------------------------


@dataclass
class _Numbers:
    """Counts of a question in all of its analyses, and the sums that they satisfy.

    Attributes
    ----------
    places : dict
        Position of each number by a name.
    counts : list of int
        Exact numbers.
    told : list
        Released counts; None for numbers that no table has and that may be known.
    sums : list of (ndarray, ndarray)
        Positions of parts, and of their totals.
    """

    rules: DisclosureRules
    places: dict[tuple[Any, ...], int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    told: list[int | Bound | None] = field(default_factory=list)
    sums: list[Split] = field(default_factory=list)
    sizes: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, name: tuple[Any, ...], n: int, told: int | Bound | None, size: int) -> int:
        """Add a number; those of one kind, the first part of the name, add up like their sizes."""
        self.places[name] = at = len(self.counts)
        self.counts.append(n)
        self.told.append(told)
        self.sizes.setdefault(name[0], []).append((at, size))
        return at

    def same(self, name: tuple[Any, ...], at: int, told: int | Bound, size: int) -> int:
        """Add another name of a number, which is a bound if one of both is."""
        self.places[name] = at
        if isinstance(told, Bound) and not isinstance(self.told[at], Bound):
            self.told[at] = told
        self.sizes.setdefault(name[0], []).append((at, size))
        return at

    def hidden(self, name: tuple[Any, ...], n: int, size: int) -> int:
        """Add a number that no table has, which is suppressed if it is small."""
        told = Bound(self.rules.least) if self.rules.small(n) else None
        return self.add(name, n, told, size)

    def sum(self, total: int, *parts: int) -> None:
        """State that parts add up to a total."""
        self.sums.append((np.array(parts), np.full(len(parts), total)))

    def _sums_of(self, places: NDArray, splits: Sequence[Split]) -> None:
        """State sums of names one by one, as several names can be of one number."""
        for parts, totals in splits:
            for total in np.unique(totals):
                of = places[parts[totals == total]].tolist()
                if places[total] not in of:
                    self.sum(int(places[total]), *of)

    def released(self) -> list[int | Bound | None]:
        """Replace counts that narrow a suppressed one by bounds."""
        for of in self.sizes.values():
            places, sizes = (np.array(x) for x in zip(*of, strict=True))
            own = np.array([self.counts[i] for i in places])
            self._sums_of(places, sum_splits(sizes, own))
        # Cases with two windows may be the same.
        for kind in ("subjects", "observed_events"):
            places = np.array([i for i, _ in self.sizes.get(kind, [])], dtype=np.int64)
            self._sums_of(places, equal_splits([self.counts[i] for i in places]))
        return unnarrowed_counts(self.counts, self.told, merged_splits(self.sums), self.rules)


def _without_narrow_ones(
    exact: Tables,
    lines: Mapping[Key, dict[Any, Any]],
    outcomes: Mapping[int, int],
    found: SeriesCounts,
    rules: DisclosureRules,
) -> None:
    """Replace counts from which a small or suppressed one follows, question by question."""
    table = exact["sccs_attrition"].reset_index(drop=True)
    for question in dict.fromkeys([*(key[1] for key in lines), *table[SET[1]].astype(int)]):
        asked = {key: line for key, line in lines.items() if key[1] == question}
        numbers = _numbers_of(table[table[SET[1]] == question], asked, found, rules)
        released = numbers.released()
        for name, at in numbers.places.items():
            told, kind = released[at], name[0].removeprefix("all ")
            if told is None or kind not in WHOLE:
                continue
            if kind == name[0]:
                found.covariates[name[1]][kind] = told
            elif isinstance(told, Bound):
                # Equal numbers of cases in other questions about the outcome are the same.
                same = (table[SET[1]].map(outcomes) == outcomes.get(question)) & (
                    table[OUTCOMES[kind]] == numbers.counts[at]
                )
                own_rows = [int(r) for r in table.index[same] if int(r) in found.cases[kind]]
                found.cases[kind] |= dict.fromkeys(own_rows, told)


def _numbers_of(
    rows: pd.DataFrame,
    lines: Mapping[Key, dict[Any, Any]],
    found: SeriesCounts,
    rules: DisclosureRules,
) -> _Numbers:
    """Collect the counts of a question, those with precedence first."""
    x, ends = _Numbers(rules), dict[int, tuple[int, int, int | None]]()
    time: dict[int, int] = {}
    order = sorted(rows.index, key=lambda r: -int(rows.at[r, "sequence_number"]))
    for r in order:
        if r not in found.cases["subjects"]:
            continue
        line, analysis = rows.loc[r], int(rows.at[r, SET[0]])
        n, events = (int(line[OUTCOMES[name]]) for name in ("subjects", "events"))
        days = int(line["observed_days"])
        people = x.add(("all subjects", r), n, found.cases["subjects"][r], days)
        more = None
        if events == n:  # Nobody has a further outcome, as where first ones alone count.
            all_ = x.same(("all events", r), people, found.cases["events"][r], days)
        else:
            all_ = x.add(("all events", r), events, found.cases["events"][r], days)
            more = x.hidden(("all further", r), events - n, days)
            x.sum(all_, people, more)
        ends.setdefault(analysis, (people, all_, more))
        time.setdefault(analysis, days)
    windows: dict[int, list[int]] = {}
    for key, line in lines.items():
        if key[0] in ends:
            at = _add_covariate(x, key, line, found.covariates[key], ends[key[0]])
            windows.setdefault(key[0], []).append(at)
            time[key[0]] -= int(line["days"])
    for analysis, own in windows.items():
        # The outcomes of the remaining time follow from all of these, if windows do not overlap.
        rest = x.counts[ends[analysis][1]] - sum(x.counts[at] for at in own)
        if len(own) > 1 and rest >= 0:
            x.sum(ends[analysis][1], *own, x.hidden(("rest", analysis), rest, time[analysis]))
    return x


def _add_covariate(
    x: _Numbers,
    key: Key,
    line: dict[Any, Any],
    told: dict[str, int | Bound],
    ends: tuple[int, int, int | None],
) -> int:
    """Add the counts of a covariate and of the cases without it; return its window's position."""
    days = int(line["days"])
    n, observed, inside = (int(line[c]) for c in ("subjects", "observed_events", "events"))
    others = x.counts[ends[0]] - n
    if others == 0:  # These are all cases, and their counts the same.
        x.same(("subjects", key), ends[0], told["subjects"], days)
        events = x.same(("observed_events", key), ends[1], told["observed_events"], days)
    else:
        people = x.add(("subjects", key), n, told["subjects"], days)
        x.sum(ends[0], people, x.hidden(("without", key), others, days))
        if ends[2] is None:
            events = x.same(("observed_events", key), people, told["observed_events"], days)
        else:
            events = x.add(("observed_events", key), observed, told["observed_events"], days)
            more = x.hidden(("further", key), observed - n, days)
            further = x.counts[ends[2]] - (observed - n)
            x.sum(ends[2], more, x.hidden(("further without", key), further, days))
            x.sum(events, people, more)
    window = x.add(("events", key), inside, told["events"], days)
    x.sum(events, window, x.hidden(("outside", key), observed - inside, days))
    return window
