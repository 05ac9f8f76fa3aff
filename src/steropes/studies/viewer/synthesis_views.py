"""Tables of the viewer for evidence synthesis: Strategus's, and estimates pooled over databases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.evidence.evidence_synthesis import NO_FINITE, NOTHING_TO_COMBINE
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import combine_tables
from steropes.studies.archives.series_synthesis import combine_series_tables
from steropes.studies.diagnostics.archive_blinding import (
    HIDDEN,
    flagged_results,
    without_derivable_syntheses,
)
from steropes.studies.diagnostics.failing_diagnostics import FAILED, failing
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.strategus.synthesis_run import SYNTHESIS_KEY
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered
from steropes.studies.viewer.result_names import ratio_kinds
from steropes.studies.viewer.view_columns import (
    CALIBRATED,
    COUNTS,
    EFFECT,
    ESTIMATE,
    STATUS,
    shown_of,
)
from steropes.studies.viewer.view_definition import (
    VERDICT,
    Column,
    View,
    checks,
    column,
    ids,
    texts,
)

__all__ = ["synthesis_views"]

GROUP = "Several databases"
KEY = ["target_comparator_id", "outcome_id", "analysis_id", "database_id"]
SERIES_KEY = ["exposures_outcome_set_id", "analysis_id", "covariate_id"]
NEEDED = ("cm_result", "cm_diagnostics_summary", "cm_likelihood_profile")
SERIES_NEEDED = ("sccs_result", "sccs_diagnostics_summary", "sccs_exposures_outcome_set")
# Limits of the ratio in a further database.
PREDICTED = (
    column("pi_95_lb", "Lower prediction"),
    column("pi_95_ub", "Upper prediction"),
)
SYNTHESIS = (
    column("databases", "Databases", "whole"),
    *ESTIMATE,
    *STATUS,
    column("i_squared", "I²", "share"),
    column("tau", "τ"),
    *PREDICTED,
    *texts("long", kind="Kind of ratio", note="Note"),
    column("log_rr", "Log ratio"),
    column("se_log_rr", "Standard error"),
)
# The reason why sources are not combined that have the same results of the same database.
ONE_DATABASE = "a result of the same database is in several of them"
DIAGNOSTICS = (
    ("mdrr", "Detectable ratio"), ("ease", "Systematic error"), ("i_2", "I²"), ("tau", "τ"),
)  # fmt: skip


def synthesis_views(sources: Sequence[NamedTables], *, combine: bool, unblind: bool) -> list[View]:
    """Return the views of evidence synthesis that have rows.

    Parameters
    ----------
    combine : bool
        Combine the outcomes of interest if several sources have results of one study.
    unblind : bool
        Also show and use estimates that fail a diagnostic.
    """
    found = [_of_strategus(sources, design, unblind) for design in ("cm", "sccs")]
    if combine:
        found += [_combined(sources, unblind), _combined_series(sources, unblind)]
    return [view for view in found if view is not None and len(view.table)]


def _combined(sources: Sequence[NamedTables], unblind: bool) -> View | None:
    """Combine the outcomes of interest over sources of one study; None if there are none."""
    studies = _studies(sources, NEEDED, "cm")
    parts = []
    for study in studies:
        part = _of_study(study, unblind)
        if part is not None and len(part):
            kinds = ratio_kinds(part, [source.tables for source in study])
            parts.append(part.assign(kind=kinds))
    if not parts:
        return None
    table = _with_databases(pd.concat(parts, ignore_index=True), "databases")
    table = _labelled(table, table["kind"])
    table["status"] = shown_of(table)
    return View(
        "synthesis",
        "Evidence synthesis",
        GROUP,
        "Estimates of outcomes of interest, combined over the databases of this page whose "
        "diagnostics allow it.",
        (
            *ids("target_comparator_id", "outcome_id", "analysis_id"),
            *texts(target="Target", comparator="Comparator", outcome="Outcome"),
            *texts(analysis="Analysis", method="Method"),
            *SYNTHESIS,
        ),
        table,
        "forest",
    )


def _combined_series(sources: Sequence[NamedTables], unblind: bool) -> View | None:
    """Combine the case series of sources of one study; None if there are none."""
    parts = []
    for study in _studies(sources, SERIES_NEEDED, "sccs"):
        tables = [source.flagged for source in study]
        results = pd.concat([flagged_results(t, "sccs") for t in tables], ignore_index=True)
        if results.duplicated([*SERIES_KEY, "database_id"]).any():
            parts.append(_not_combined(study, ONE_DATABASE))
            continue
        try:
            found = combine_series_tables(tables, unblind=unblind)
        except (DataError, KeyError, ValueError) as error:
            parts.append(_not_combined(study, _reason(error)))
            continue
        if not len(found):
            continue
        if unblind:
            found = found.assign(**{HIDDEN: False})
        else:
            found = without_derivable_syntheses(found, results)
        found, named = study[0].named(found), [*SERIES_KEY, "covariate_name"]
        windows = [t["sccs_covariate"][named] for t in tables if "sccs_covariate" in t]
        if windows:
            names = pd.concat(windows).drop_duplicates(SERIES_KEY)
            found = found.merge(names, on=SERIES_KEY, how="left")
        parts.append(found)
    if not parts:
        return None
    table = _with_databases(pd.concat(parts, ignore_index=True), "databases")
    table = _labelled(table, "rate ratio")
    table["status"] = shown_of(table)
    return View(
        "series-synthesis",
        "Synthesis of case series",
        GROUP,
        "Rate ratios of case series, combined over the databases of this page whose diagnostics "
        "allow it.",
        (
            *ids(*SERIES_KEY),
            *texts(exposure="Exposure", outcome="Outcome", analysis="Analysis"),
            *texts("text", covariate_name="Window"),
            *texts(method="Method"),
            *SYNTHESIS,
        ),
        table,
        "forest",
    )


def _studies(
    sources: Sequence[NamedTables], needed: Sequence[str], design: str
) -> list[list[NamedTables]]:
    """Group the sources that have results of the same analyses, of several databases."""
    studies: dict[frozenset[Any], list[NamedTables]] = {}
    for source in sources:
        if all(len(source.flagged.get(table, ())) for table in needed):
            studies.setdefault(_analyses(source, design), []).append(source)
    return [study for study in studies.values() if len(study) > 1]


def _analyses(source: NamedTables, design: str) -> frozenset[object]:
    """Return the analyses of a source by which databases of one study are recognised."""
    empty = pd.DataFrame(columns=["analysis_id", "description"])
    table = source.flagged.get(f"{design}_analysis", empty)
    named = table[["analysis_id", "description"]].fillna("")
    return frozenset(named.itertuples(index=False, name=None))


def _of_study(sources: Sequence[NamedTables], unblind: bool) -> pd.DataFrame | None:
    """Combine the databases of one study, or state why that is impossible; None without results."""
    tables = [_of_interest(s) for s in sources]
    results = pd.concat([flagged_results(t, "cm") for t in tables], ignore_index=True)
    if not len(results):
        return None
    if results.duplicated(KEY).any():
        return _not_combined(sources, ONE_DATABASE)
    try:
        table = combine_tables(tables, unblind=unblind)
    except (DataError, KeyError, ValueError) as error:
        return _not_combined(sources, _reason(error))
    if unblind:
        return sources[0].named(table.assign(**{HIDDEN: False}))
    return sources[0].named(without_derivable_syntheses(table, results))


def _not_combined(sources: Sequence[NamedTables], why: str) -> pd.DataFrame:
    """Return a line without estimate that states why databases are not combined."""
    names = " and ".join(dict.fromkeys(source.name for source in sources))
    note = f"{names} are not combined: {why}"
    return pd.DataFrame({"method": [""], "rr": [math.nan], "note": [note], HIDDEN: [False]})


def _labelled(table: pd.DataFrame, kind: str | pd.Series) -> pd.DataFrame:
    """Name the kind of the ratios, and their methods in place of a database."""
    of = ("combined: " + table["method"]).where(table["method"].ne(""), "combined")
    return table.assign(kind=kind, database=of)


def _reason(error: Exception) -> str:
    """Describe an error of a synthesis, such as a table without a column."""
    if isinstance(error, KeyError):
        return f"a table has no column {error}"
    return str(error).rstrip(".")


def _of_interest(source: NamedTables) -> dict[str, pd.DataFrame]:
    """Return the tables of a source with the results of outcomes of interest only."""
    tables = dict(source.flagged)
    truth = tables.get("cm_target_comparator_outcome")
    if truth is None:
        return tables
    place = ["target_comparator_id", "outcome_id"]
    asked = pd.MultiIndex.from_frame(truth.loc[truth["outcome_of_interest"].eq(1), place])
    for name in NEEDED:
        places = pd.MultiIndex.from_frame(tables[name][place])
        tables[name] = tables[name][places.isin(asked)]
    return tables


def _of_strategus(sources: Sequence[NamedTables], design: str, unblind: bool) -> View | None:
    """Return the meta-analyses in the tables of Strategus."""
    table = gathered(sources, f"es_{design}_result", partial(_explained, design=design))
    if not len(table):
        return None
    having = [s.flagged for s in sources if f"{design}_result" in s]
    if having and not unblind:
        results = pd.concat([flagged_results(_with_pairs(t), design) for t in having])
        table = without_derivable_syntheses(table, results)
    declared = []
    for name, title in DIAGNOSTICS:
        if f"{name}_diagnostic" in table:
            table[f"{name}{VERDICT}"] = table[f"{name}_diagnostic"]
            declared.append((name, title))
    # Tables of R have no notes.
    unexplained = table["log_rr"].isna() & ~table[HIDDEN].astype(bool) & table["note"].eq("")
    nothing = np.where(table["n_databases"].eq(0), NOTHING_TO_COMBINE, NO_FINITE)
    table["note"] = table["note"].mask(unexplained, pd.Series(nothing, table.index))
    verdicts = {f"{name}_diagnostic": title for name, title in DIAGNOSTICS}
    table[FAILED] = failing(table, verdicts)
    table["status"], table["kind"] = shown_of(table), "rate ratio"
    if design == "cm":
        table["kind"] = ratio_kinds(table, [source.tables for source in sources])
    table["database"] = "combined: " + table.get("method", pd.Series("", table.index)).fillna("")
    names = ("target", "comparator", "outcome") if design == "cm" else ("exposure", "outcome")
    first = ("target_id", "comparator_id") if design == "cm" else ("exposures_outcome_set_id",)
    return View(
        f"synthesis-{design}",
        "Meta-analysis" + (" of case series" if design == "sccs" else ""),
        GROUP,
        "Combined estimates of EvidenceSynthesisModule. An estimate that fails a diagnostic is "
        "not shown.",
        (
            *ids(*first, "outcome_id", "analysis_id", "evidence_synthesis_analysis_id"),
            *(Column(name, title_case(name), "choice") for name in names),
            *texts(analysis="Analysis", method="Method"),
            column("n_databases", "Databases", "whole"),
            *EFFECT,
            *PREDICTED,
            *CALIBRATED,
            *checks(declared),
            *(COUNTS if design == "cm" else ()),
            *texts("text", status="Status"),
            *texts("long", kind="Kind of ratio"),
        ),
        table,
        "forest",
    )


def _explained(source: NamedTables, found: pd.DataFrame, design: str) -> pd.DataFrame:
    """Add diagnostics, the name of the meta-analysis, and reasons of missing estimates."""
    checked = source.tables.get(f"es_{design}_diagnostics_summary")
    key = [c for c in SYNTHESIS_KEY if c in found and checked is not None and c in checked]
    if checked is not None:
        wanted = [c for c in checked if c not in found or c in key]
        found = found.merge(checked[wanted].drop_duplicates(key), on=key, how="left")
    described = source.tables.get("es_analysis")
    if described is not None:
        names = described.drop_duplicates("evidence_synthesis_analysis_id").set_index(
            "evidence_synthesis_analysis_id"
        )["evidence_synthesis_description"]
        found["method"] = found["evidence_synthesis_analysis_id"].map(names)
    return _with_predictions(source, found).assign(note=_reasons(source, found, design))


def _with_predictions(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Add limits for a further database to the estimates that are shown; R's tables have none."""
    limits = source.tables.get("es_prediction", pd.DataFrame()).dropna(axis=1, how="all")
    key = [c for c in SYNTHESIS_KEY if c in found and c in limits]
    names = [c.name for c in PREDICTED]
    if not key or not {*names} <= {*limits}:
        return found.assign(**dict.fromkeys(names, math.nan))
    of_method = limits[limits[key].notna().all(axis=1)]
    added = found.merge(of_method[[*key, *names]].drop_duplicates(key), on=key, how="left")
    shown = ~added[HIDDEN].astype(bool) & added["log_rr"].notna()
    return added.assign(**{name: added[name].where(shown) for name in names})


def _reasons(source: NamedTables, found: pd.DataFrame, design: str) -> NDArray | str:
    """Return the reasons of missing estimates in the notes of a source; R has no notes."""
    first = "outcome_id" if design == "cm" else "exposures_outcome_set_id"
    notes = source.tables.get("es_note", pd.DataFrame({first: []}))
    notes = notes[notes[first].notna()].dropna(axis=1, how="all")
    key = [c for c in notes if c in found and c != "note"]
    if "note" not in notes:
        return ""
    known = notes.drop_duplicates(key)
    return found[key].merge(known, on=key, how="left")["note"].fillna("").to_numpy()


def _with_databases(table: pd.DataFrame, number: str) -> pd.DataFrame:
    """Leave out the questions to which no database has an estimate."""
    return table[table[number].ne(0)].reset_index(drop=True) if number in table else table


def _with_pairs(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Add target and comparator, by which meta-analyses are identified, to comparative results."""
    pairs = tables.get("cm_target_comparator")
    if pairs is None or "cm_result" not in tables:
        return tables
    place = ["target_comparator_id", "target_id", "comparator_id"]
    results = tables["cm_result"].merge(
        pairs[place].drop_duplicates(place[0]), on=place[0], how="left"
    )
    return {**tables, "cm_result": results}
