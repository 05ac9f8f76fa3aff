"""Meta-analyses over the case series of several databases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from steropes.designs.evidence.evidence_synthesis import (
    DatabaseResult,
    synthesis_rows,
    without_results,
)
from steropes.studies.diagnostics.archive_blinding import HIDDEN, SYNTHESIS, flagged_results
from steropes.studies.diagnostics.failing_diagnostics import FAILED, series_names, with_failing

__all__ = ["combine_series_tables"]

Tables = Mapping[str, pd.DataFrame]
SET = "exposures_outcome_set_id"
KEY = [SET, "analysis_id", "covariate_id"]
NUMBERS = [
    "method", "databases", "rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr", "i_squared", "tau",
    "pi_95_lb", "pi_95_ub", "note",
]  # fmt: skip


def combine_series_tables(read: Sequence[Tables], *, unblind: bool = False) -> pd.DataFrame:
    """Combine the rate ratios of databases, for exposures that are not controls.

    Parameters
    ----------
    read : sequence of mapping of str to DataFrame
        Tables of each database.
    unblind : bool, default False
        Include estimates that fail a diagnostic. By default a database takes part only with
        estimates that pass ``unblind_for_evidence_synthesis``.

    Returns
    -------
    DataFrame
        One row per exposure, outcome, analysis, window and ``method``, with the numbers of
        `combine_archives`. A question whose outcome or exposures differ between databases under the
        same id is left out.
    """
    parts = [
        with_failing(flagged_results(tables, "sccs"), tables, "sccs", series_names())
        for tables in read
    ]
    results = pd.concat(parts, ignore_index=True)
    asked = _questions(read)
    results = results[results[SET].isin(asked)]
    usable = results[SYNTHESIS].eq(1)
    if unblind:
        results, usable = results.assign(**{HIDDEN: False}), usable | True
    profiles = [t["sccs_likelihood_profile"] for t in read if "sccs_likelihood_profile" in t]
    by_result: dict[Any, pd.DataFrame] = {}
    if profiles:
        together = pd.concat(profiles, ignore_index=True)
        by_result = dict(tuple(together.groupby([*KEY, "database_id"])))
    lines = []
    for key, of in results.groupby(KEY, sort=True):
        own = of[usable[of.index]].to_dict("records")
        found = [_result(r, by_result.get((*key, r["database_id"]))) for r in own]
        rows = synthesis_rows(found) if found else without_results(of[FAILED])
        lines += [{**dict(zip(KEY, key, strict=True)), **row} for row in rows]
    return pd.DataFrame(lines, columns=[*KEY, *NUMBERS])


def _questions(read: Sequence[Tables]) -> list[object]:
    """List the questions of interest that have the same outcome and exposures everywhere."""
    meanings: dict[object, set[object]] = {}
    controls = set()
    for tables in read:
        outcomes, exposures = (
            tables.get(f"sccs_{name}", pd.DataFrame(columns=[SET]))
            for name in ("exposures_outcome_set", "exposure")
        )
        eras = exposures.groupby(SET)["era_id"].agg(frozenset) if len(exposures) else {}
        for i, outcome in (
            outcomes.drop_duplicates(SET)
            .reindex(columns=[SET, "outcome_id"])
            .itertuples(index=False, name=None)
        ):
            meanings.setdefault(i, set()).add((outcome, eras.get(i)))
        if "true_effect_size" in exposures:
            controls |= {*exposures.loc[exposures["true_effect_size"].notna(), SET]}
    return [i for i, of in meanings.items() if len(of) == 1 and i not in controls]


def _result(line: dict[str, Any], profile: pd.DataFrame | None) -> DatabaseResult:
    """Convert a row of ``sccs_result`` and its profile."""
    lower, upper = (
        math.nan if math.isnan(x) else math.log(x) if x > 0 else -math.inf
        for x in (float(line[c]) for c in ("ci_95_lb", "ci_95_ub"))
    )
    return DatabaseResult(
        line["database_id"], float(line["log_rr"]), float(line["se_log_rr"]), lower, upper,
        profile, hidden=bool(line[HIDDEN]), failed=str(line[FAILED]),
    )  # fmt: skip
