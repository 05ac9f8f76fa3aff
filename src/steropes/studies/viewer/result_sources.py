"""Released results of several databases, read from archives, folders and Strategus output.

Only the tables and columns of the results model are read, from archives (``results.zip``), from
folders of CSV files and from ``study.json``. Files with exact numbers or with people are never
opened: of a folder with results only its folder ``release`` is used.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from steropes.data.csv_reading import read_csv_content
from steropes.errors import DataError
from steropes.studies.disclosure.release_folder import EXACT_NOTE, RELEASE, released_rules
from steropes.studies.result_files.sccs_results_schema import TABLES as SERIES
from steropes.studies.result_files.table_layouts import TABLES as COMPARATIVE
from steropes.studies.strategus.results_model import FILE_PREFIXES, results_model
from steropes.studies.strategus.synthesis_run import (
    PREDICTION,
    SYNTHESIS_KEY,
    SYNTHESIS_NOTE,
)
from steropes.studies.strategus_plans.synthesis_plan import SYNTHESIS
from steropes.studies.strategus_plans.validation_plan import VALIDATION
from steropes.studies.viewer.prediction_results import (
    VALIDATED,
    prediction_tables_of_source,
)
from steropes.studies.viewer.study_json_tables import STUDY_FILE, study_file_tables

__all__ = ["ARCHIVE", "ResultSource", "read_sources"]

MOST_BYTES = 500_000_000  # The largest table that is read, decompressed.
ARCHIVE = "results.zip"
NOT_KNOWN = "not known"
WHOLE = ("BIGINT", "int", "bigint")
LARGEST = 2.0**63  # Whole numbers of the results model are smaller.
NUMERIC = ("BIGINT", "DOUBLE", "int", "bigint", "float")
PREFIXES = ("cm_", "sccs_", "es_", "cg_", "ci_", "plp_", "database_", "cd_", "c_", "tp_")
IDS = (
    "target_comparator_id", "outcome_id", "analysis_id", "exposures_outcome_set_id", "cohort_id",
    "evidence_synthesis_analysis_id",
)  # fmt: skip
# Tables that several modules of one source have.
SHARED = ("note", "data_note")
# The verdicts on the parts of a specification, with the reasons why some did not run.
VERDICTS = dict.fromkeys(("module", "part", "verdict", "text"), "VARCHAR")
# The notes of modules of a specification that have no analyses.
OF_MODULE = {name: COMPARATIVE["data_note"][name] for name in (
    "topic", "note", "counted", "count", "warning", "database_id",
)}  # fmt: skip
# Findings on cohorts in words, and the people that two of them share.
OF_COHORTS = {
    "cohort_finding": {"cohort_id": "BIGINT"}
    | dict.fromkeys(("topic", "finding", "database_id"), "VARCHAR"),
    "cohort_overlap": {"cohort_id": "BIGINT", "other_cohort_id": "BIGINT"}
    | dict.fromkeys(
        ("both_subjects", "before_subjects", "same_day_subjects", "after_subjects"), "DOUBLE"
    )
    | {"database_id": "VARCHAR"},
}
Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True, repr=False, eq=False)
class ResultSource:
    """The released tables of one archive or folder.

    Attributes
    ----------
    rules : str
        Disclosure rules according to its manifest, or "not known".
    tables : dict of str to DataFrame
        The tables of the results model that it has, by name.
    """

    name: str
    rules: str
    tables: Tables


def read_sources(paths: Sequence[str | Path]) -> list[ResultSource]:
    """Read released results.

    Parameters
    ----------
    paths : sequence of path
        Archives (``results.zip``), output folders of any command, their folders ``release``, output
        folders of Strategus, files ``study.json``, and folders that contain several of these.

    Raises
    ------
    DataError
        A path has no released results, or a table cannot be read.
    """
    if not paths:
        raise DataError("name the results to view: archives, or folders of results")
    found = [source for path in paths for source in _sources(Path(path))]
    names = [source.name for source in found]
    return [
        source if names.count(source.name) == 1 else _numbered(source, names[: n + 1])
        for n, source in enumerate(found)
    ]


def _numbered(source: ResultSource, names: list[str]) -> ResultSource:
    """Append a number to the name of a source, which the next source with that name lacks."""
    name = f"{source.name} ({names.count(source.name)})"
    return ResultSource(name, source.rules, source.tables)


def _sources(path: Path) -> Iterator[ResultSource]:
    """Read the results at a path: one source, or those of the folders within it."""
    if path.suffix == ".duckdb":
        raise DataError(f"{path} has exact numbers; name the archive or folder of the release")
    if path.is_file():
        yield _of_file(path)
        return
    if not path.is_dir():
        raise DataError(f"{path} does not exist")
    own = _of_folder(path)
    if own is not None:
        yield own
        return
    inner = [
        found
        for p in sorted(path.iterdir())
        if (p.is_dir() and (found := _of_folder(p)))
        or (p.suffix == ".zip" and (found := _of_file(p)))
    ]
    if not inner:
        raise DataError(f"{path} has no released results; name a results.zip or a result folder")
    yield from inner


def _of_file(path: Path) -> ResultSource:
    """Read an archive or the file of a one-question study."""
    name = _name_of(path)
    if path.name == STUDY_FILE:
        return ResultSource(name, released_rules(path) or NOT_KNOWN, _of_study(path))
    tables = _of_archive(path)
    if not tables:
        raise DataError(f"{path} has no table of results")
    return ResultSource(name, released_rules(path) or NOT_KNOWN, tables)


def _of_folder(path: Path) -> ResultSource | None:
    """Read the released files of a folder; None if it has none."""
    folder = path / RELEASE if (path / RELEASE).is_dir() else path
    if (folder / EXACT_NOTE).exists():
        return None
    tables: Tables = {}
    read: list[Path] = []
    for file in (folder / ARCHIVE, folder / STUDY_FILE):
        if file.is_file():
            tables |= _of_archive(file) if file.name == ARCHIVE else _of_study(file)
            read.append(file)
    modules = [p for p in sorted(folder.iterdir()) if p.is_dir() and p.name != RELEASE]
    for of in (folder, *modules):
        if (of / EXACT_NOTE).exists():
            continue
        for file in sorted(of.glob("*.csv")):
            name, mark = _table_of(of.name, file.stem), _mark_of(of.name)
            if name in _layouts() and (mark + name not in tables or name in SHARED):
                found = _read_table(name, file.read_bytes(), str(file))
                _add(tables, found, mark)
                read += [file] * len(found)
    if not tables:
        return None
    rules = {released_rules(file, folder) or NOT_KNOWN for file in read}
    tables = prediction_tables_of_source(tables)
    return ResultSource(_name_of(folder), rules.pop() if len(rules) == 1 else NOT_KNOWN, tables)


def _table_of(folder: str, stem: str) -> str:
    """Return the table of a file; folders of some modules leave out the prefix of their tables.

    Up to version 0.x, Strategus appends a number to the names of modules' folders.
    """
    if folder.split("_")[0] == SYNTHESIS and stem == "note":
        return "es_note"
    prefix = FILE_PREFIXES.get(folder.split("_")[0], "")
    return stem if stem.startswith(prefix) or stem in SHARED else prefix + stem


def _name_of(path: Path) -> str:
    """Name a source by its folder, or by its file if that has a name of its own."""
    path = path.resolve()
    if path.is_file() and path.name not in (ARCHIVE, STUDY_FILE):
        return path.stem
    folder = path.parent if path.is_file() else path
    return folder.parent.name if folder.name == RELEASE else folder.name


def _of_study(path: Path) -> Tables:
    """Read the file of a one-question study."""
    _refuse_large(path.stat().st_size, str(path))
    return study_file_tables(path)


def _of_archive(path: Path) -> Tables:
    """Read the known tables of an archive."""
    tables: Tables = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                inner = Path(entry.filename)
                name = _table_of(inner.parent.name, inner.stem)
                if inner.suffix == ".csv" and name in _layouts():
                    _refuse_large(entry.file_size, f"{path}: {entry.filename}")
                    content = archive.read(entry)
                    where = f"{path}: {entry.filename}"
                    _add(tables, _read_table(name, content, where), _mark_of(inner.parent.name))
    except DataError:
        raise
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not an archive of results: {error}") from None
    return prediction_tables_of_source(tables)


def _mark_of(folder: str) -> str:
    """Return how the names of a module's tables begin that are not those of fitted models."""
    return VALIDATED if folder.split("_")[0] == VALIDATION else ""


def _add(tables: Tables, found: Tables, mark: str) -> None:
    """Add a table that was read; the rows of a table that modules share are joined."""
    for own, table in found.items():
        name = own if own in SHARED else mark + own
        before = tables.get(name)
        if name in SHARED and before is not None and len(before):
            both = [before, table] if len(table) else [before]
            table = pd.concat(both, ignore_index=True)
        tables[name] = table


def _refuse_large(size: int, where: str) -> None:
    """Raise if a table takes too much memory."""
    if size > MOST_BYTES:
        raise DataError(f"{where} has {size:,} bytes, more than {MOST_BYTES:,}")


def _read_table(name: str, content: bytes, where: str) -> Tables:
    """Read the known columns of a table, with the types of its layout.

    Returns nothing for a file that shares only its name with a table without prefix, such as an
    OMOP table ``cohort.csv``.
    """
    _refuse_large(len(content), where)
    layouts = _layouts()[name]
    layout = {c: kind for one in layouts for c, kind in one.items()}
    try:
        found = read_csv_content(
            content,
            columns=lambda c: c in layout,
            texts=[c for c, kind in layout.items() if kind not in NUMERIC],
        )
        numbers = [c for c in found if layout[c] in NUMERIC]
        found = found.assign(**{c: pd.to_numeric(found[c]) for c in numbers})
        for c in numbers:
            if layout[c] in WHOLE and not found[c].dropna().abs().lt(LARGEST).all():
                raise ValueError(f"{c} has a number of {LARGEST:.0e} or more")
    except pd.errors.EmptyDataError:
        found = pd.DataFrame(columns=list(layout))
    except (ValueError, TypeError) as error:
        raise DataError(f"{where} is not a table of results: {error}") from None
    gone = min(([c for c in _ids(one) if c not in found] for one in layouts), key=len)
    if gone and name.startswith(PREFIXES):
        raise DataError(f"{where} lacks the columns {', '.join(gone)}")
    return {} if gone else {name: found.reindex(columns=list(layout))}


def _ids(layout: dict[str, str]) -> list[str]:
    """List the columns of a table that identify the subject of a row."""
    return [c for c in layout if c in IDS] or list(layout)[:1]


@cache
def _layouts() -> dict[str, list[dict[str, str]]]:
    """Return the layouts of every table that is read: those of the results model and our own."""
    found: dict[str, list[dict[str, str]]] = {}
    model = results_model()
    for table, of in model.groupby("table_name"):
        layout = dict(zip(of["column_name"], of["data_type"], strict=True))
        found.setdefault(str(table), []).append(layout)
    for layouts in (COMPARATIVE, SERIES):
        for table, columns in layouts.items():
            found.setdefault(table, []).append(columns)
    found["verdicts"] = [VERDICTS]
    found["data_note"].append(OF_MODULE)
    found |= {name: [columns] for name, columns in OF_COHORTS.items()}
    found["es_note"] = [dict.fromkeys(SYNTHESIS_NOTE, "BIGINT") | {"note": "VARCHAR"}]
    limits = dict.fromkeys(PREDICTION, "DOUBLE")
    found["es_prediction"] = [dict.fromkeys(SYNTHESIS_KEY, "BIGINT") | limits]
    return found
