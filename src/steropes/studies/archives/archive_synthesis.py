"""Meta-analyses over the result archives that comparative grids write at several databases."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.data.csv_reading import read_csv_content
from steropes.designs.evidence.evidence_synthesis import (
    COUNTS,
    DatabaseResult,
    synthesis_rows,
    without_results,
)
from steropes.errors import DataError
from steropes.studies.archives.names_of_archive_ids import ArchiveNames
from steropes.studies.diagnostics.archive_blinding import HIDDEN, flagged_results
from steropes.studies.diagnostics.failing_diagnostics import (
    FAILED,
    comparative_names,
    with_failing,
)
from steropes.studies.disclosure.release_folder import released_rules
from steropes.studies.result_files.table_layouts import TABLES

__all__ = ["combine_archives", "combine_tables", "with_kinds"]

MOST_BYTES = 500_000_000  # The largest table; a hundred thousand profiles have some 200 million.

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]
FLAG = "unblind_for_evidence_synthesis"
DATABASE = "database_id"
# The required tables, with their numeric columns.
NEEDED = {
    "cm_result": ("log_rr", "se_log_rr"),
    "cm_diagnostics_summary": (FLAG,),
    "cm_likelihood_profile": ("log_rr", "log_likelihood"),
}
# Tables that are optional, with the columns without which they are ignored.
OPTIONAL = {
    "cm_analysis": ("analysis_id",),
    "cm_target_comparator": ("target_comparator_id", "target_id", "comparator_id"),
    "cm_target_comparator_outcome": (*KEY[:2], "true_effect_size", "outcome_of_interest"),
    "cohort": ("cohort_id", "name"),
    "note": (*KEY, DATABASE, "interval"),
}
Tables = dict[str, pd.DataFrame]


def combine_archives(paths: Sequence[str | Path], *, unblind: bool = False) -> pd.DataFrame:
    """Combine the results of databases.

    The profile of a weighted analysis is not a likelihood: where others are combined by their
    profiles, such a result takes part with its robust (or bootstrap) standard error. If a single
    database has a result, the fixed-effect and normal methods return its own estimate and limits.
    If this result fails a diagnostic, such as that of power, no method returns it.

    Parameters
    ----------
    paths : sequence of path
        One archive (``results.zip``) per database, from steropes or R's CohortMethod.
    unblind : bool, default False
        Include estimates that fail a diagnostic. By default a database takes part only with
        estimates that pass ``unblind_for_evidence_synthesis``.

    Returns
    -------
    DataFrame
        One row per question, outcome, analysis and ``method``: "fixed, profile", "fixed, normal",
        "random, normal" and "random, Bayesian"; the names ``target``, ``comparator``, ``outcome``
        and ``analysis``; ``databases``, ``rr``, ``ci_95_lb``, ``ci_95_ub``, ``log_rr``,
        ``se_log_rr``, ``i_squared``, ``tau``, ``pi_95_lb`` and ``pi_95_ub`` (limits of the ratio in
        a further database, with random effects) and ``note``. The note gives the reason for missing
        numbers, the databases left out, and those that take part by a standard error.
        ``disclosure`` gives the rules under which each archive was released, from the manifest in
        its folder.

    Raises
    ------
    DataError
        A file is not such an archive, or two archives are of one database.

    See Also
    --------
    combine_profiles : Combine likelihood profiles.
    random_effects : Combine likelihoods with effects that differ.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import GridSpec
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.comparative import Question, StudyAnalysis
    >>> from steropes.studies import combine_archives, run_grid, synthetic_database
    >>> sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    >>> crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    >>> archives = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, seed in (("north", 1), ("south", 2)):
    ...         spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,), database_id=name)
    ...         _ = run_grid(synthetic_database(400, seed), spec, f"{folder}/{name}")
    ...         archives.append(f"{folder}/{name}/release/results.zip")
    ...     table = combine_archives(archives, unblind=True)
    >>> table["method"].tolist()
    ['fixed, profile', 'fixed, normal', 'random, normal', 'random, Bayesian']
    """
    if not paths:
        raise DataError("name the archives to combine")
    read = [_read(Path(p)) for p in paths]
    _refuse_repeated([Path(p) for p in paths], read)
    rules = _rules_of([Path(p) for p in paths], read)
    return combine_tables(read, unblind=unblind).assign(disclosure=rules)


def combine_tables(read: Sequence[Tables], *, unblind: bool = False) -> pd.DataFrame:
    """Combine the tables of archives, as `combine_archives` does.

    Parameters
    ----------
    read : sequence of dict of str to DataFrame
        The tables of each archive.
    unblind : bool, default False
        Include estimates that fail a diagnostic.
    """
    results = _together([with_kinds(r) for r in read])
    checks, profiles = (_together([r[t] for r in read]) for t in list(NEEDED)[1:])
    for table, of in (("cm_result", results), ("cm_diagnostics_summary", checks)):
        _refuse_repeated_rows(table, of)
    usable = results[FLAG].eq(1)
    if unblind:
        results, usable = results.assign(**{HIDDEN: False}), usable | True
    names, by_result = ArchiveNames(read), dict(tuple(profiles.groupby([*KEY, DATABASE])))
    lines = []
    for key, of in results.groupby(KEY, sort=True):
        own = of[usable[of.index]]
        found = [_result(r, by_result.get((*key, r[DATABASE]))) for r in own.to_dict("records")]
        named, differ = names.of(*key), names.differing(*key)
        for line in synthesis_rows(found) if found else without_results(of[FAILED]):
            note = "; ".join(str(n) for n in (line["note"], differ) if n)
            lines.append({**dict(zip(KEY, key, strict=True)), **named, **line, "note": note})
    columns = [*KEY, "target", "comparator", "outcome", "analysis", "method", "databases"]
    columns += ["rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr", "i_squared", "tau"]
    columns += ["pi_95_lb", "pi_95_ub", "note"]
    return pd.DataFrame(lines, columns=columns)


def _rules_of(paths: list[Path], read: list[Tables]) -> str:
    """List the rules of disclosure control under which each database's archive was released."""
    found = []
    for path, tables in zip(paths, read, strict=True):
        rules = released_rules(path) or "not known"
        found += [f"{name}: {rules}" for name in tables["cm_result"][DATABASE].unique()]
    return "; ".join(found)


def _together(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables, except empty ones, whose columns have no type."""
    return pd.concat([t for t in tables if len(t)] or tables[:1], ignore_index=True)


def _refuse_repeated(paths: list[Path], read: list[Tables]) -> None:
    """Raise if archives share a database, which would count twice."""
    of: dict[str, list[str]] = {}
    with_results = 0
    for path, tables in zip(paths, read, strict=True):
        databases = tables["cm_result"][DATABASE].unique()
        with_results += len(databases) > 0  # An archive may have no result.
        for database in databases:
            of.setdefault(str(database), []).append(str(path))
    twice = {database: where for database, where in of.items() if len(where) > 1}
    if twice:
        where = "; ".join(f"{d} is in {' and in '.join(paths)}" for d, paths in twice.items())
        raise DataError(
            f"{with_results} archives contain {len(of)} database{'s' * (len(of) != 1)}: {where}. "
            "Give the archive of each database once, and each database its own database_id"
        )


def _refuse_large(path: Path, entry: zipfile.ZipInfo) -> None:
    """Raise if a table takes too much memory once it is decompressed."""
    if entry.file_size > MOST_BYTES:
        raise DataError(
            f"{path}: {entry.filename} has {entry.file_size:,} bytes once decompressed, more than "
            f"{MOST_BYTES:,}"
        )


def _refuse_repeated_rows(table: str, rows: pd.DataFrame) -> None:
    """Raise if a database has two results of one question, which would count twice."""
    again = rows[rows.duplicated([*KEY, DATABASE])]
    if len(again):
        where = ", ".join(f"{c} {again[c].iloc[0]}" for c in (*KEY, DATABASE))
        raise DataError(f"{table}.csv has more than one row of {where}; rows must be unique")


def _read(path: Path) -> Tables:
    """Read the tables of an archive and check their columns."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(n).name: n for n in archive.namelist()}
            tables = {}
            for table, numbers in (NEEDED | dict.fromkeys(OPTIONAL, ())).items():
                if f"{table}.csv" not in names:
                    if table in OPTIONAL:
                        continue
                    raise DataError(f"{path} has no {table}.csv; it is not an archive of results")
                _refuse_large(path, archive.getinfo(names[f"{table}.csv"]))
                with archive.open(names[f"{table}.csv"]) as file:
                    found = read_csv_content(file.read(), texts=_texts(table))
                needed = OPTIONAL.get(table, (*KEY, DATABASE, *numbers))
                gone = [c for c in needed if c not in found]
                if gone and table in OPTIONAL:
                    continue
                if gone:
                    raise DataError(f"{path}: {table}.csv lacks the columns {', '.join(gone)}")
                tables[table] = found.assign(**{c: pd.to_numeric(found[c]) for c in numbers})
            return tables
    except DataError:
        raise
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        # pandas raises ValueError for text that it cannot parse.
        raise DataError(f"{path} is not an archive of results: {error}") from None


def _texts(table: str) -> list[str]:
    """List the columns of text of a table."""
    return [c for c, kind in TABLES[table].items() if kind == "VARCHAR"]


def with_kinds(tables: Tables) -> pd.DataFrame:
    """Add to the results whether each is hidden or weighted, and the kind of its interval."""
    results, analyses = flagged_results(tables, "cm"), tables.get("cm_analysis")
    models: dict[int, tuple[bool, str]] = {}
    if analyses is not None and "definition" in analyses:
        models = {
            int(number): _model(definition)
            for number, definition in zip(
                analyses["analysis_id"], analyses["definition"], strict=True
            )
        }
    weighted, interval = (
        [models.get(int(a), (False, ""))[k] for a in results["analysis_id"]] for k in (0, 1)
    )
    found = results.assign(weighted=weighted, interval=interval)
    found = with_failing(found, tables, "cm", comparative_names())
    if "note" in tables and len(found):
        kinds = tables["note"][[*KEY, DATABASE, "interval"]].rename(columns={"interval": "noted"})
        found = found.merge(kinds, on=[*KEY, DATABASE], how="left")
        found["interval"] = found["noted"].fillna(found["interval"])
    return found


def _model(definition: object) -> tuple[bool, str]:
    """Read from a definition whether the model is weighted, and the kind of its interval."""
    try:
        read = json.loads(str(definition))
    except (ValueError, RecursionError):
        return False, ""
    if not isinstance(read, dict):
        return False, ""
    ours, theirs = read.get("outcome_model"), read.get("fitOutcomeModelArgs")
    if isinstance(ours, dict):
        return ours.get("weighted") is True, str(ours.get("interval", ""))
    if isinstance(theirs, dict):  # The definition is R's.
        kind = "bootstrap" if theirs.get("bootstrapCi") is True else "profile"
        return theirs.get("inversePtWeighting") is True, kind
    return False, ""


def _result(line: dict[str, Any], profile: pd.DataFrame | None) -> DatabaseResult:
    """Convert a row of ``cm_result`` and its profile."""
    lower, upper = (
        math.nan if math.isnan(x) else math.log(x) if x > 0 else -math.inf
        for x in (float(line.get(c, math.nan)) for c in ("ci_95_lb", "ci_95_ub"))
    )
    kind = line["interval"]
    robust = kind if kind in ("robust", "bootstrap") else COUNTS if line["weighted"] else ""
    return DatabaseResult(
        line[DATABASE], float(line["log_rr"]), float(line["se_log_rr"]), lower, upper, profile,
        robust, bool(line["weighted"]), bool(line[HIDDEN]), str(line[FAILED]),
    )  # fmt: skip
