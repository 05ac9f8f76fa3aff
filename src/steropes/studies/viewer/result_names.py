"""Names of databases, cohorts, analyses and covariates in the results of several sources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from steropes.designs.effects.outcome_families import ratio_name
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.result_sources import ResultSource

__all__ = ["ResultNames", "database_labels", "ratio_kinds"]

Tables = Mapping[str, pd.DataFrame]
# Tables with names of cohorts, and their columns of ids and names; the first one wins.
COHORTS = (
    ("cohort", "cohort_id", "name"),
    ("cg_cohort_definition", "cohort_definition_id", "cohort_name"),
    ("cd_cohort", "cohort_id", "cohort_name"),
    ("cg_cohort_definition_neg_ctrl", "cohort_id", "cohort_name"),
    ("question_name", "outcome_id", "outcome_name"),
    ("ci_outcome_def", "outcome_cohort_definition_id", "outcome_name"),
    ("ci_target_def", "target_cohort_definition_id", "target_name"),
    ("prediction", "target_id", "target_name"),
    ("prediction", "outcome_id", "outcome_name"),
)
ERAS = (("question_name", "era_id", "exposure_name"), ("sccs_era", "era_id", "era_name"))
RATIO = "ratio"  # The name of a ratio whose kind is not known.


class ResultNames:
    """Names of the ids in one source; ids that it does not name have those of other sources.

    Parameters
    ----------
    own : mapping of str to DataFrame
        Tables of the source.
    """

    def __init__(self, own: Tables, others: Sequence[Tables] = ()) -> None:
        every = [own, *others]
        self._cohorts = _entries(every, COHORTS)
        self._eras = {**self._cohorts, **_entries(every, ERAS)}
        self._analyses = {
            table: _told_apart(_entries(every, ((table, "analysis_id", "description"),)))
            for table in ("cm_analysis", "sccs_analysis")
        }

    def cohorts(self, ids: Iterable[object]) -> list[str]:
        """Name cohorts."""
        return [self._cohorts.get(i) or _numbered("cohort", i) for i in _keys(ids)]

    def eras(self, ids: Iterable[object]) -> list[str]:
        """Name exposures of case series."""
        return [self._eras.get(i) or _numbered("exposure", i) for i in _keys(ids)]

    def analyses(self, ids: Iterable[object], design: str) -> list[str]:
        """Name the analyses of a design, "cm" or "sccs"."""
        named = self._analyses[f"{design}_analysis"]
        return [named.get(i) or _numbered("analysis", i) for i in _keys(ids)]


def database_labels(sources: Sequence[ResultSource]) -> list[dict[str, str]]:
    """Label the databases of each source, by their ids.

    A database is called by its id or, where the id is a number, by its abbreviation. Names
    of sources are appended if several have results of one design under the same label.
    """
    labels = [_own_labels(source.tables) for source in sources]
    for design in (
        "cm_result",
        "sccs_result",
        "ci_incidence_summary",
        "prediction",
        "cd_cohort_count",
    ):
        with_results = [
            {of[i] for i in _ids(source.tables, design) if i in of}
            for source, of in zip(sources, labels, strict=True)
        ]
        for n, source in enumerate(sources):
            others = set().union(*with_results[:n], *with_results[n + 1 :])
            for i, label in labels[n].items():
                if label in others and label in with_results[n]:
                    labels[n][i] = f"{label} ({source.name})"
    return labels


def ratio_kinds(results: pd.DataFrame, sources: Sequence[Tables]) -> pd.Series:
    """Name the kind of ratio of each row of comparative results, by the settings of its analysis.

    Parameters
    ----------
    sources : sequence of mapping of str to DataFrame
        Tables; those with ``cm_analysis`` have the settings.
    """
    kinds: dict[object, str] = {}
    for tables in sources:
        for i, text in _pairs(tables, "cm_analysis", "analysis_id", "definition"):
            kinds.setdefault(i, _ratio_kind(text))
    analyses = results.get("analysis_id", pd.Series(index=results.index, dtype=float))
    return analyses.map(kinds).fillna(RATIO)


def _ratio_kind(definition: str) -> str:
    """Name the ratio that an analysis estimates, by its settings in JSON."""
    try:
        read = json.loads(definition)
        ours, theirs = read.get("outcome_model"), read.get("fitOutcomeModelArgs")
        if isinstance(ours, dict):
            kind, weighted = ours["kind"], ours.get("weighted") is True
            interval = str(ours.get("interval"))
        else:
            kind, weighted = theirs["modelType"], theirs.get("inversePtWeighting") is True
            interval = "bootstrap" if theirs.get("bootstrapCi") is True else "profile"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return RATIO
    return ratio_name(str(kind), weighted=weighted, interval=interval)


def _own_labels(tables: Tables) -> dict[str, str]:
    """Label the databases of one source."""
    found = {i: i for name in tables for i in _ids(tables, name)}
    for table, name in (
        ("database_meta_data", "cdm_source_abbreviation"),
        ("cd_database", "database_name"),
        ("database", "name"),
    ):
        for i, text in _pairs(tables, table, "database_id", name):
            if str(i).lstrip("-").isdigit():
                found[str(i)] = text
    return found


def _ids(tables: Tables, name: str) -> list[str]:
    """List the databases of a table."""
    table = tables.get(name)
    if table is None or "database_id" not in table:
        return []
    return [str(i) for i in table["database_id"].dropna().unique()]


def _entries(tables: Sequence[Tables], places: Sequence[tuple[str, str, str]]) -> dict[object, str]:
    """Collect names by id; earlier tables and places have precedence."""
    found: dict[object, str] = {}
    for own in tables:
        for place in places:
            for i, text in _pairs(own, *place):
                found.setdefault(i, title_case(text))
    return found


def _told_apart(names: Mapping[object, str]) -> dict[object, str]:
    """Put the id before names that several analyses have, so that their rows differ."""
    times = Counter(names.values())
    return {i: f"{i}: {name}" if times[name] > 1 else name for i, name in names.items()}


def _pairs(tables: Tables, table: str, number: str, name: str) -> list[tuple[object, str]]:
    """Return ids with their names in a table, if it has both columns."""
    found = tables.get(table)
    if found is None or number not in found or name not in found:
        return []
    known = found[[number, name]].dropna().drop_duplicates()
    keys = _keys(known[number])
    return [(i, str(text).strip()) for i, text in zip(keys, known[name], strict=True)]


def _keys(ids: Iterable[object]) -> list[object]:
    """Return ids as whole numbers, so that 3.0 is 3; texts stay as they are."""
    return [int(i) if isinstance(i, float) and i == i else i for i in ids]


def _numbered(kind: str, i: object) -> str:
    """Call a thing without a name by its id; "" if it has none."""
    return "" if i is None or pd.isna(i) else f"{kind} {i}"
