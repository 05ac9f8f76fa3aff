"""Suppression of inclusion statistics of cohorts, together with those that would reveal them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.complementary_suppression import (
    Split,
    limit_of_part,
    withheld_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules

__all__ = ["withheld_statistics"]

RESULT, STATS, SUMMARY = (
    "cohort_inclusion_result",
    "cohort_inclusion_stats",
    "cohort_summary_stats",
)


def withheld_statistics(
    counted: Mapping[str, pd.DataFrame],
    rules: DisclosureRules,
    release: Callable[[int, int], int],
) -> dict[tuple[str, str], NDArray]:
    """Return limits of the statistics that are withheld, by table and column; others are NaN.

    Combinations of rules add up to all events, and those with a rule to the events that meet it.
    The final number is always released, because it is the size of the cohort.

    Parameters
    ----------
    counted : mapping of str to DataFrame
        Exact statistics, by Circe's names of the tables.
    release : callable
        Releases a number of events of a number of people.
    """
    if not counted:  # No cohort has inclusion rules whose statistics are asked for.
        return {}
    result, stats, summary = (counted[name] for name in (RESULT, STATS, SUMMARY))
    found = {
        (name, column): np.full(len(counted[name]), np.nan)
        for name, column in (
            (RESULT, "person_count"),
            (STATS, "person_count"),
            (STATS, "gain_count"),
        )
    }
    of = ["cohort_definition_id", "mode_id"]
    for key in summary[of].drop_duplicates().itertuples(index=False, name=None):
        combined, by_rule, whole = (
            np.flatnonzero((table[of] == key).all(axis=1)) for table in (result, stats, summary)
        )
        mask = result["inclusion_rule_mask"].to_numpy(np.int64)[combined]
        rule = stats["rule_sequence"].to_numpy(np.int64)[by_rule]
        parts = [
            (result.iloc[combined], "person_count"),
            (stats.iloc[by_rule], "person_count"),
            (summary.iloc[whole], "base_count"),
            (summary.iloc[whole], "final_count"),
        ]
        shown = np.array(
            [
                release(int(n), int(people))
                for table, name in parts
                for n, people in zip(table[name], table[f"{name}_people"], strict=True)
            ],
            dtype=float,
        )
        # Those who do not meet a rule are not released, but are the rest of the total.
        absent = np.arange(len(shown) + len(rule)) >= len(shown)
        shown = np.append(shown, np.full(len(rule), np.nan))
        splits = _splits(mask, rule)
        gone = withheld_counts(shown, splits, rules, fewest=1, absent=absent)
        limit = limit_of_part(shown[len(mask) + len(rule)], rules)
        of_masks, of_rules = gone[: len(mask)], gone[len(mask) : len(mask) + len(rule)]
        found[RESULT, "person_count"][combined[of_masks]] = limit
        found[STATS, "person_count"][by_rule[of_rules]] = limit
        # The gain of a rule is the number of events that meet all other rules alone.
        others = 2 ** len(rule) - 1 - 2**rule
        found[STATS, "gain_count"][by_rule[np.isin(others, mask[of_masks])]] = limit
    return found


def _splits(mask: NDArray, rule: NDArray) -> list[Split]:
    """Return which combinations of rules add up to which numbers.

    The numbers are those of all combinations, of those who meet each rule, of all and of those who
    meet all rules, and of those who do not meet each rule.
    """
    n, every = len(mask), np.arange(len(mask))
    whole = n + len(rule)
    sums = [(every, whole), (every[mask == 2 ** len(rule) - 1], whole + 1)]
    for i, j in enumerate(rule):
        met = (mask >> j & 1) == 1
        own, rest = n + i, whole + 2 + i
        sums += [(every[met], own), (every[~met], rest), (np.array([own, rest]), whole)]
    return [(parts, np.full(len(parts), total)) for parts, total in sums if len(parts)]
