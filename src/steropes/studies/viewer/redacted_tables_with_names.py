"""The tables of a source for display: redacted, with small counts suppressed, and with names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.diagnostics.archive_blinding import HIDDEN, blinded_archive
from steropes.studies.diagnostics.crude_risk_redaction import hidden_questions, without_hidden_risks
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.suppression_of_received_results import with_suppressed_counts
from steropes.studies.viewer.result_names import ResultNames, database_labels
from steropes.studies.viewer.result_sources import ResultSource

__all__ = ["NamedTables", "gathered", "named_tables", "stacked"]

Tables = Mapping[str, pd.DataFrame]


class NamedTables:
    """The tables of one source that may be shown, with the names of their ids.

    Attributes
    ----------
    name : str
        Name of the source.
    least : int
        Smaller counts are suppressed.
    tables : mapping of str to DataFrame
        The tables that may be shown.
    flagged : mapping of str to DataFrame
        The tables before the redaction of results that fail a diagnostic, which only evidence
        synthesis may use.
    """

    def __init__(
        self,
        source: ResultSource,
        labels: Mapping[str, str],
        every: Sequence[Tables],
        rules: DisclosureRules,
        hidden: pd.DataFrame | None,
    ) -> None:
        self.name, self.least = source.name, rules.least
        self.flagged = with_suppressed_counts(source.tables, rules)
        shown = dict(self.flagged)
        if hidden is not None:
            shown = without_hidden_risks(blinded_archive(self.flagged), hidden, every)
        self.tables = {name: _with_flag(name, table) for name, table in shown.items()}
        self.labels = labels
        self.names = ResultNames(source.tables, every)

    def __contains__(self, table: str) -> bool:
        return table in self.tables and len(self.tables[table]) > 0

    def named(self, table: str | pd.DataFrame) -> pd.DataFrame:
        """Return a table with the names of its databases, cohorts, exposures and analyses.

        Rows of outcomes of interest come before those of controls, and those of whole cohorts
        before those of their subsets.
        """
        found = self.tables[table] if isinstance(table, str) else table
        found = found.copy()
        design = "sccs" if "exposures_outcome_set_id" in found else "cm"
        if "database_id" in found:
            found["database"] = found["database_id"].map(self.labels)
        elif len(set(self.labels.values())) == 1:
            found["database"] = next(iter(self.labels.values()))
        if "target_comparator_id" in found and "cm_target_comparator" in self.tables:
            ids = ["target_comparator_id", "target_id", "comparator_id"]
            pairs = self.tables["cm_target_comparator"][ids].drop_duplicates(ids[0])
            found = found.drop(columns=ids[1:], errors="ignore").merge(pairs, on=ids[0], how="left")
        if design == "sccs" and "sccs_exposures_outcome_set" in self.tables:
            found = self._with_question(found)
        for place, title, name in (
            ("target_id", "target", self.names.cohorts),
            ("comparator_id", "comparator", self.names.cohorts),
            ("outcome_id", "outcome", self.names.cohorts),
            ("exposure_era_id", "exposure", self.names.eras),
            ("analysis_id", "analysis", lambda i: self.names.analyses(i, design)),
        ):
            if place in found:
                found[title] = _mapped(found[place], name)
        order = np.lexsort((self._of_subsets(found), self._of_controls(found, design)))
        return found.iloc[order].reset_index(drop=True)

    def _of_subsets(self, found: pd.DataFrame) -> NDArray:
        """Mark the rows of comparisons of subsets of cohorts."""
        defined = self.tables.get("cg_cohort_definition")
        if defined is None or "is_subset" not in defined:
            return np.zeros(len(found), bool)
        subsets = defined.loc[defined["is_subset"] == 1, "cohort_definition_id"]
        of = [found[name].isin(subsets) for name in ("target_id", "comparator_id") if name in found]
        return np.any(of, axis=0) if of else np.zeros(len(found), bool)

    def _of_controls(self, found: pd.DataFrame, design: str) -> NDArray:
        """Mark the rows of controls, whose true ratio is known."""
        key = ["target_comparator_id", "outcome_id"]
        asked = self.tables.get("cm_target_comparator_outcome")
        if design == "sccs" and "true_effect_size" in found:
            return found["true_effect_size"].notna().to_numpy()
        if design == "sccs" or asked is None or not {*key} <= {*found}:
            return np.zeros(len(found), bool)
        of = pd.MultiIndex.from_frame(asked.loc[asked["true_effect_size"].notna(), key])
        return pd.MultiIndex.from_frame(found[key]).isin(of)

    def _with_question(self, found: pd.DataFrame) -> pd.DataFrame:
        """Add outcome and exposure of the question of a case series."""
        key = "exposures_outcome_set_id"
        asked = self.tables["sccs_exposures_outcome_set"][[key, "outcome_id"]]
        found = found.merge(asked.drop_duplicates(key), on=key, how="left")
        if "sccs_exposure" in self.tables:
            exposures = self.tables["sccs_exposure"][[key, "era_id", "true_effect_size"]]
            exposures = exposures.rename(columns={"era_id": "exposure_era_id"})
            found = found.merge(exposures.drop_duplicates(key), on=key, how="left")
        return found


def named_tables(
    sources: Sequence[ResultSource], rules: DisclosureRules, *, unblind: bool
) -> list[NamedTables]:
    """Prepare the tables of all sources for display.

    Parameters
    ----------
    rules : DisclosureRules
        Smaller counts than these rules release are suppressed.
    unblind : bool
        Also show results that fail a diagnostic.
    """
    every = [source.tables for source in sources]
    labels = database_labels(sources)
    hidden = None if unblind else hidden_questions(every)
    return [
        NamedTables(source, of, every, rules, hidden)
        for source, of in zip(sources, labels, strict=True)
    ]


def gathered(
    sources: Sequence[NamedTables],
    table: str,
    more: Callable[[NamedTables, pd.DataFrame], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Join a table of all sources that have it, with names.

    Parameters
    ----------
    more : callable, optional
        Adds columns to the named table of a source.
    """
    parts = []
    for source in sources:
        if table in source:
            found = source.named(table)
            parts.append(found if more is None else more(source, found))
    return stacked(parts)


def stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join tables below each other; columns that are empty in all of them stay."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame()
    columns = dict.fromkeys(c for part in parts for c in part)
    # Empty columns have no type of their own and would change that of others.
    found = pd.concat([part.dropna(axis=1, how="all") for part in parts], ignore_index=True)
    return found.reindex(columns=[*columns])


def _mapped(ids: pd.Series, name: Callable[[Sequence[object]], list[str]]) -> pd.Series:
    """Name ids, each of them once."""
    codes, unique = pd.factorize(ids, use_na_sentinel=True)
    names = np.array([*name(unique.tolist()), ""], dtype=object)
    return pd.Series(names[codes], index=ids.index)


def _with_flag(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Mark results as shown where nothing is redacted."""
    if name.endswith("_result") and HIDDEN not in table:
        return table.assign(**{HIDDEN: False})
    return table
