"""Released effects in periods of the time at risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from steropes.designs.values.arm_names import ARMS
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import Secrecy, effect_columns
from steropes.studies.disclosure.released_table_rows import column, each_row
from steropes.studies.release.grid_counts import KEY

__all__ = ["released_periods"]


def released_periods(
    table: pd.DataFrame, secrecy: Mapping[tuple[int, int, int], Secrecy], rules: DisclosureRules
) -> pd.DataFrame:
    """Release effects in periods, with outcomes in multiples of the smallest count.

    The outcomes of a period less those of a curve on a nearby day may be those of few people.
    Therefore outcomes are rounded, and effects are rounded to steps that hide as many outcomes of
    the smaller arm. Both are withheld where an arm has few outcomes, or few informative ones.
    """
    if rules.open or table.empty:
        return table

    def released(line: dict[Any, Any]) -> dict[Any, Any]:
        """Release the outcomes and the effect of one period."""
        comparison, outcome, analysis = (int(line[k]) for k in KEY)
        s = secrecy[comparison, outcome, analysis]
        counts = [int(line[f"{arm}_{c}"]) for c in ("outcomes", "informative") for arm in ARMS]
        unit = log_unit(min(counts), rules.least)
        closed = s.closed or math.isinf(unit)
        for arm, n in zip(ARMS, counts, strict=False):
            told = rules.count(n) if rules.rounds else rules.least * round(n / rules.least)
            line[f"{arm}_outcomes"] = math.nan if closed else column([told])[0]
        step = max(unit, s.step)
        return line | effect_columns(line, Secrecy(closed, step), rules)

    return each_row(table, released)
