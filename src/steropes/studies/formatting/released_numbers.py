"""Released numbers, shares and p values as text, shared by pages and the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steropes.data.number_formatting import (
    deciding,
    decimals,
    limit_text,
)
from steropes.designs.values.normal_quantile import Z
from steropes.studies.disclosure import Bound

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "TEST_OF_HAZARDS",
    "analysis_name",
    "count",
    "database_versions",
    "deciding_percent",
    "decimals",
    "family_name",
    "limit_ratio",
    "percent",
    "percent_text",
    "ratio_text",
    "setting_text",
    "shown_value",
    "title_case",
    "unconverged_text",
]

ANALYSES = {
    "crude": "everybody, before matching",
    "matched": "matched people",
    "matched, stratified": "matched people, within pairs",
}

TEST_OF_HAZARDS = (
    "score test of Grambsch and Therneau, time transformed to one minus the Kaplan–Meier curve"
)


def database_versions(about: Any) -> list[str]:
    """List the versions and dates of a database that a row of the table ``database`` has."""
    parts = {"cdm": "CDM ", "vocabulary": "vocabulary ", "release": "released "}
    parts["source_release"] = "source data of "
    return [f"{before}{about[c]}" for c, before in parts.items() if isinstance(about[c], str)]


def limit_ratio(line: pd.Series) -> str:
    """Format the upper limit of an interval divided by the lower one."""
    ratio = math.exp(min(700.0, 2 * Z * float(line["se"])))
    return decimals(ratio, 1) if ratio < 100 else count(ratio) if ratio < 1e6 else "over a million"


def ratio_text(line: pd.Series) -> str:
    """Format the hazard ratio of a line, with a remark if its fit did not converge."""
    return decimals(line["hr"]) + unconverged_text(line)


def unconverged_text(line: pd.Series) -> str:
    """Return a remark if the fit of a line did not converge, else ""."""
    return " (did not converge)" if line.get("converged") is False and not line["note"] else ""


def analysis_name(analysis: object) -> str:
    """Name an analysis of the hazard ratio in words."""
    return ANALYSES.get(str(analysis), str(analysis))


def percent_text(share: float) -> str:
    """Format a limit as a percentage with all its digits."""
    return f"{limit_text(100 * share)}%"


def deciding_percent(share: float | Bound | None, limit: float | None) -> str:
    """Format a share in whole percent, with decimals if needed to compare it with its limit."""
    if isinstance(share, Bound):
        return share.percent()
    if share is None or math.isnan(share):
        return "–"
    limits = () if limit is None else (round(100 * limit, 9),)
    return f"{deciding(round(100 * share, 9), *limits, digits=0)}%"


def shown_value(x: float | Bound | None, *limits: float | None) -> str:
    """Format a released number with enough digits to compare it with its limits."""
    return str(x) if isinstance(x, Bound) else deciding(x, *limits)


def count(n: float | Bound | None) -> str:
    """Format a count with thousands separators; a dash if it is suppressed."""
    if isinstance(n, Bound):
        return str(n)
    return "–" if n is None or math.isnan(n) else f"{n:,.0f}"


def percent(share: float | Bound | None, digits: int = 1) -> str:
    """Format a share as a percentage."""
    if isinstance(share, Bound):
        return share.percent()
    return "–" if share is None or math.isnan(share) else f"{100 * share:.{digits}f}%"


def setting_text(value: object) -> str:
    """Format the value of a setting; of definitions of cohorts only the ids."""
    if value in (None, (), "", {}):
        return "none"
    if isinstance(value, Mapping):
        if all(isinstance(k, int) for k in value):
            return " and ".join(map(str, value))
        return ", ".join(f"{k} {setting_text(v)}" for k, v in value.items())
    if isinstance(value, tuple):
        return " and ".join(map(setting_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def family_name(name: str) -> str:
    """Write the name of a family of covariates in FeatureExtraction as words; keep other names."""
    if not re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z0-9]+)+", name):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).capitalize()


def title_case(text: str) -> str:
    """Capitalise the first letter, about which vocabularies are inconsistent; not that of a name.

    A word with a line in it, such as ``c_settings``, is the name of a table.
    """
    return text if "_" in text.partition(" ")[0] else text[:1].upper() + text[1:]
