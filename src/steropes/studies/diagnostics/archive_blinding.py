"""Removal of results that fail a diagnostic from archives, which contain them with flags.

The rules are those of pages and of R's viewer. Results of control outcomes, of which the effect is
known, are shown. A result without diagnostics is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from steropes.studies.diagnostics.result_blinding import (
    EFFECT,
    NO_NOTE,
    NOT_SHOWN,
    NOTES,
    OF_EFFECT,
    OUTCOMES,
    tells_of_outcomes,
    tells_the_arm,
    without_effects,
)

__all__ = [
    "HIDDEN",
    "SYNTHESIS",
    "blinded_archive",
    "flagged_results",
    "without_derivable_syntheses",
]

Tables = Mapping[str, pd.DataFrame]
HIDDEN = "hidden"  # The column that marks hidden results.
HIDDEN_PART = "not shown: hidden estimates of databases could follow"
SYNTHESIS = "unblind_for_evidence_synthesis"
_COMPARATIVE = ["target_comparator_id", "outcome_id", "analysis_id", "database_id"]
_SERIES = ["exposures_outcome_set_id", "analysis_id", "covariate_id", "database_id"]
# Tables of comparative studies whose rows are about an effect or about outcomes.
_OF_EFFECT = ("cm_interaction_result", "cm_likelihood_profile", *OF_EFFECT)
_OF_SERIES = ("sccs_likelihood_profile", "sccs_covariate_result", "sccs_time_to_event")


def flagged_results(tables: Tables, design: str) -> pd.DataFrame:
    """Return the results of a design with `HIDDEN` and the flag of evidence synthesis.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Released tables.
    design : {"cm", "sccs"}
        Comparative studies or case series.
    """
    results, checks = tables[f"{design}_result"], tables.get(f"{design}_diagnostics_summary")
    key = _COMPARATIVE if design == "cm" else _SERIES
    if checks is None:
        return results.assign(**{HIDDEN: True, SYNTHESIS: 0})
    if "unblind" not in checks:  # Archives with one flag only have that of evidence synthesis.
        checks = checks.assign(unblind=checks[SYNTHESIS])
    flags = checks[[*key, "unblind", SYNTHESIS]].drop_duplicates(key)
    found = results.merge(flags, on=key, how="left")
    shown = found["unblind"].eq(1) | _controls(found, tables, design)
    return found.assign(**{HIDDEN: ~shown}).drop(columns="unblind")


def blinded_archive(tables: Tables) -> dict[str, pd.DataFrame]:
    """Return released tables without the results that may not be shown.

    Effects, likelihoods, curves and numbers of outcomes of these results are removed. The column
    `HIDDEN` of the tables of results marks them.
    """
    found = dict(tables)
    if "cm_result" in tables:
        found |= _comparative(tables)
    if "sccs_result" in tables:
        found |= _series(found)  # Both designs may share one table of notes.
    for name in ("es_cm", "es_sccs"):
        if f"{name}_result" in tables:
            found[f"{name}_result"] = _synthesis(tables, name)
    gone = [] if "cm_result" in tables else [*_OF_EFFECT]
    gone += [] if "sccs_result" in tables else [*_OF_SERIES]
    gone += [] if {"cm_result", "sccs_result"} & {*tables} else ["note"]
    return {name: table for name, table in found.items() if name not in gone}


def without_derivable_syntheses(combined: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Hide combined estimates from which the hidden estimates of databases could follow.

    Estimates that lack power are hidden but take part in evidence synthesis. A single one could be
    computed from the combined estimate and the estimates that are shown, and several from
    combinations by several methods or over several sets of databases. So a combined estimate is
    shown only if all estimates in it are, and not if exactly one of them is unknown.

    Parameters
    ----------
    combined : DataFrame
        Combined estimates, with the columns of ``results`` that identify a question.
    results : DataFrame
        The results of all databases by `flagged_results`.
    """
    key = ["target_id", "comparator_id", *_COMPARATIVE, *_SERIES]
    key = [c for c in key if c != "database_id"]
    key = [c for c in dict.fromkeys(key) if c in combined and c in results]
    part = results[results[SYNTHESIS].eq(1)]
    sizes = part.groupby(key)[HIDDEN].agg(hidden_ones="sum", known="size").reset_index()
    sizes = combined[key].merge(sizes, on=key, how="left").fillna({"hidden_ones": 0, "known": 0})
    marked = sizes["hidden_ones"].gt(0).to_numpy()
    if "n_databases" in combined:
        marked |= (combined["n_databases"].to_numpy() - sizes["known"].to_numpy()) == 1
    found = combined.copy()
    outcomes = [c for c in (*OUTCOMES, "covariate_outcomes") if c in found]
    found = found.astype(dict.fromkeys(outcomes, "Int64"))
    numbers = [
        c for c in (*EFFECT, "i_squared", "i_2", "tau", "pi_95_lb", "pi_95_ub") if c in found
    ]
    found.loc[marked, numbers] = math.nan
    found.loc[marked, outcomes] = pd.NA
    if "note" in found:
        found.loc[marked, "note"] = HIDDEN_PART
    return found.assign(**{HIDDEN: marked | found.get(HIDDEN, False)})


def _controls(results: pd.DataFrame, tables: Tables, design: str) -> pd.Series:
    """Mark the results of control outcomes, whose effects are known."""
    nobody = pd.Series(False, index=results.index)
    if design == "cm":
        truth = tables.get("cm_target_comparator_outcome")
        if truth is None:
            return nobody
        control = truth["true_effect_size"].notna()
        if "outcome_of_interest" in truth:
            control &= truth["outcome_of_interest"].ne(1)
        key = ["target_comparator_id", "outcome_id"]
    else:
        truth = tables.get("sccs_exposure")
        if truth is None:
            return nobody
        control, key = truth["true_effect_size"].notna(), ["exposures_outcome_set_id"]
    places = pd.MultiIndex.from_frame(results[key])
    known = pd.MultiIndex.from_frame(truth.loc[control, key])
    of_interest = pd.MultiIndex.from_frame(truth.loc[~control, key])
    return pd.Series(places.isin(known) & ~places.isin(of_interest), index=results.index)


def _is_hidden(table: pd.DataFrame, results: pd.DataFrame, key: Sequence[str]) -> pd.Series:
    """Mark the rows of a table that belong to no result that is shown."""
    key = [c for c in key if c in table]
    shown = pd.MultiIndex.from_frame(results.loc[~results[HIDDEN], key])
    hidden = pd.MultiIndex.from_frame(results.loc[results[HIDDEN], key])
    places = pd.MultiIndex.from_frame(table[key])
    return pd.Series(~places.isin(shown) | places.isin(hidden), index=table.index)


def _comparative(tables: Tables) -> dict[str, pd.DataFrame]:
    """Redact the tables of comparative studies."""
    results = flagged_results(tables, "cm")
    redacted = without_effects(results.assign(unblind=(~results[HIDDEN]).astype(int)), OUTCOMES)
    found = {"cm_result": redacted.drop(columns=["unblind", SYNTHESIS])}
    for name in _OF_EFFECT:
        if name in tables:
            found[name] = tables[name][~_is_hidden(tables[name], results, _COMPARATIVE)]
    notes = tables.get("note")
    if notes is not None and "outcome_id" in notes and notes["outcome_id"].notna().any():
        found["note"] = _notes(notes, results)
    return found


def _notes(notes: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Redact numbers in the notes, and texts that reveal which arm had no outcome."""
    found, hidden = notes.copy(), _is_hidden(notes, results, _COMPARATIVE)
    found.loc[hidden, [c for c in NOTES if c in found]] = math.nan
    if "e_value_form" in found:
        found.loc[hidden, "e_value_form"] = None
    none = results[["target_outcomes", "comparator_outcomes"]].eq(0)
    some = results[["target_subjects", "comparator_subjects"]].ne(0).all(axis=1)
    tells = results[(none.sum(axis=1) == 1) & some & results[HIDDEN]]
    places = pd.MultiIndex.from_frame(notes[_COMPARATIVE])
    reveals = places.isin(pd.MultiIndex.from_frame(tells[_COMPARATIVE]))
    texts = found["note"].fillna("")
    reveals = (reveals & texts.map(tells_of_outcomes)) | (hidden & texts.map(tells_the_arm))
    found.loc[reveals, "note"] = NO_NOTE
    return found


def _series(tables: Tables) -> dict[str, pd.DataFrame]:
    """Redact the tables of case series."""
    results = flagged_results(tables, "sccs")
    flags = results.assign(unblind=(~results[HIDDEN]).astype(int))
    redacted = without_effects(flags, ("covariate_outcomes",))
    found = {"sccs_result": redacted.drop(columns=["unblind", SYNTHESIS])}
    profiles = tables.get("sccs_likelihood_profile")
    if profiles is not None:
        found["sccs_likelihood_profile"] = profiles[~_is_hidden(profiles, results, _SERIES)]
    group = [c for c in _SERIES if c != "covariate_id"]
    windows = tables.get("sccs_covariate_result")
    if windows is not None:  # Windows of the same exposure reveal its effect.
        kept = ~_is_hidden(windows, results, group) | _is_diagnostic(windows, tables)
        found["sccs_covariate_result"] = windows[kept]
    weeks = tables.get("sccs_time_to_event")
    if weeks is not None:
        kept = ~_is_hidden(weeks, results, group) | weeks["week"].lt(0)
        found["sccs_time_to_event"] = weeks[kept]
    notes = tables.get("note")
    if notes is not None and "exposures_outcome_set_id" in notes:
        tells = results[results[HIDDEN] & results["log_rr"].notna()]
        places = pd.MultiIndex.from_frame(notes[group])
        reveals = places.isin(pd.MultiIndex.from_frame(tells[group]))
        if notes["exposures_outcome_set_id"].notna().any():
            found["note"] = notes.assign(note=notes["note"].mask(reveals, NOT_SHOWN))
    return found


def _is_diagnostic(windows: pd.DataFrame, tables: Tables) -> pd.Series:
    """Mark the windows before exposure and before the end of observation, which are diagnostics."""
    covariates, kinds = tables.get("sccs_covariate"), tables.get("sccs_covariate_analysis")
    if covariates is None or kinds is None:
        return pd.Series(False, index=windows.index)
    before = kinds[kinds["pre_exposure"].eq(1) | kinds["end_of_observation_period"].eq(1)]
    place = ["analysis_id", "covariate_analysis_id"]
    named = covariates.merge(before[place].drop_duplicates(), on=place)
    key = ["exposures_outcome_set_id", "analysis_id", "covariate_id"]
    places = pd.MultiIndex.from_frame(windows[key])
    return pd.Series(places.isin(pd.MultiIndex.from_frame(named[key])), index=windows.index)


def _synthesis(tables: Tables, name: str) -> pd.DataFrame:
    """Redact combined estimates that fail a diagnostic of the synthesis."""
    results, checks = tables[f"{name}_result"], tables.get(f"{name}_diagnostics_summary")
    ids = ("target_id", "comparator_id", "outcome_id", "exposures_outcome_set_id", "covariate_id")
    key = [c for c in (*ids, "analysis_id", "evidence_synthesis_analysis_id") if c in results]
    if checks is None:
        shown = pd.Series(False, index=results.index)
    else:
        flags = checks[[*key, "unblind"]].drop_duplicates(key)
        shown = results[key].merge(flags, on=key, how="left")["unblind"].eq(1)
        shown.index = results.index
    outcomes = tuple(c for c in (*OUTCOMES, "covariate_outcomes") if c in results)
    redacted = without_effects(results.assign(unblind=shown.astype(int)), outcomes)
    return redacted.drop(columns="unblind").assign(**{HIDDEN: ~shown})
