"""The names of the diagnostics that a result fails, for the reason why it is not shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from steropes.studies.diagnostics.diagnostic_catalogue import (
    COMPARATIVE,
    SERIES,
    Limits,
    declared_diagnostics,
)
from steropes.studies.diagnostics.result_blinding import NO_NOTE, NOT_SHOWN

if TYPE_CHECKING:
    from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds

__all__ = ["FAILED", "comparative_names", "failing", "not_shown", "series_names",
           "with_failing", "with_names"]  # fmt: skip

FAILED = "failed"  # The column with the names of the diagnostics that a result fails.
KEYS = {
    "cm": ("target_comparator_id", "outcome_id", "analysis_id", "database_id"),
    "sccs": ("exposures_outcome_set_id", "analysis_id", "covariate_id", "database_id"),
}
# The columns in which R's older packages write verdicts of case series.
FORMER = {"time_trend_diagnostic": "time stability", "pre_exposure_diagnostic": "pre-exposure"}
Tables = Mapping[str, pd.DataFrame]


def not_shown(failed: object) -> str:
    """Return the reason why a result is not shown, with the names of failed diagnostics."""
    return with_names(NOT_SHOWN, failed)


def with_names(note: object, failed: object) -> str:
    """Return a note, with the names of the failed diagnostics if it reports that one failed.

    Parameters
    ----------
    note : str or None
    failed : str or None
        The names, if they are known.
    """
    text = note if isinstance(note, str) else ""
    known = isinstance(failed, str) and failed
    return f"{text} ({failed})" if known and text in (NOT_SHOWN, NO_NOTE) else text


def comparative_names(thresholds: DiagnosticThresholds | None = None) -> dict[str, str]:
    """Return the names of the diagnostics of comparative studies by their columns.

    Further ones are named by their keys. Without thresholds it is not known which of two variants
    decides, and their common key is given.
    """
    names = {}
    declared = COMPARATIVE
    if thresholds is not None:
        declared = declared_diagnostics(thresholds, "comparative")
    for one in declared:
        if one.guards != "nothing":
            unsure = thresholds is None and one.variant is not None
            chosen = one if thresholds is None else one.chosen(thresholds)
            names[one.verdict_column or one.key] = one.key if unsure else chosen.name
    return names


def series_names(thresholds: Limits | None = None) -> dict[str, str]:
    """Return the keys of the diagnostics of case series by their columns."""
    declared = SERIES
    if thresholds is not None:
        declared = declared_diagnostics(thresholds, "case series")
    return {d.verdict_column or d.key: d.key for d in declared if d.guards != "nothing"} | FORMER


def failing(checks: pd.DataFrame, names: Mapping[str, str]) -> pd.Series:
    """List the names of the verdicts that are "FAIL" in each row, "" if there are none."""
    having = {c: name for c, name in names.items() if c in checks}
    failed = checks[[*having]].eq("FAIL").to_numpy()
    texts = [
        ", ".join(dict.fromkeys(n for n, f in zip(having.values(), row, strict=True) if f))
        for row in failed
    ]
    return pd.Series(texts, index=checks.index, dtype=object)


def with_failing(
    results: pd.DataFrame, tables: Tables, design: str, names: Mapping[str, str]
) -> pd.DataFrame:
    """Add to results the column `FAILED`, by the verdicts in released tables.

    Parameters
    ----------
    results : DataFrame
        Rows with the key of the design's results.
    tables : mapping of str to DataFrame
        The tables that have verdicts; nothing is known without that of the diagnostics.
    design : {"cm", "sccs"}
        Comparative studies or case series.
    names : mapping of str to str
        Names of diagnostics by their columns; those of further ones by their keys.
    """
    checks = tables.get(f"{design}_diagnostics_summary")
    if checks is None:
        return results.assign(**{FAILED: ""})
    key = [c for c in KEYS[design] if c in checks and c in results]
    parts = [_marked(checks, key, names), *_noted(tables, key, names)]
    found = results
    for n, part in enumerate(parts):
        on = [c for c in key if c in part]
        own = part[[*on, FAILED]].drop_duplicates(on).rename(columns={FAILED: f"{FAILED}{n}"})
        found = found.merge(own, on=on, how="left")
    columns = [f"{FAILED}{n}" for n in range(len(parts))]
    texts = [_joined(row) for row in found[columns].fillna("").to_numpy()]
    return found.drop(columns=columns).assign(**{FAILED: pd.Series(texts, found.index, object)})


def _marked(table: pd.DataFrame, key: list[str], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of a table with a verdict that fails."""
    own = [c for c in key if c in table]
    found = table[own].assign(**{FAILED: failing(table, names)})
    return found[found[FAILED].ne("")]


def _noted(tables: Tables, key: list[str], names: Mapping[str, str]) -> Iterable[pd.DataFrame]:
    """Yield the failures in the tables of notes and of further diagnostics."""
    notes, further = tables.get("note"), tables.get("further_diagnostic")
    if notes is not None and {*key} - {"covariate_id"} <= {*notes}:
        yield _marked(notes, key, names)
    if further is not None and "diagnostic" in further:
        own = [c for c in key if c in further]
        # Archives do not record whether a further diagnostic hides estimates; it is not named then.
        failed = further[further["verdict"].eq("FAIL") & further["diagnostic"].isin([*names])]
        if len(failed):
            named = failed.assign(**{FAILED: failed["diagnostic"].map(names)})
            found = named.groupby(own, as_index=False)
            yield found[FAILED].agg(", ".join)


def _joined(texts: Iterable[str]) -> str:
    """Join lists of names, each name once."""
    return ", ".join(dict.fromkeys(n for text in texts if text for n in text.split(", ")))
