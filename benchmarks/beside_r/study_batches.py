"""Run drawn studies in both programs, several in one process of R, and keep a file of results."""

from __future__ import annotations

import json
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from steropes.studies.strategus.specification_run import run_specification
from steropes.studies.strategus_plans.specification_plan import read_specification_plan

from .drawn_study import shared_resources, strategus_specification, write_databases
from .irregular_rows_in_r import ODDITIES, READINGS, Reading, given_cohorts, write_as_r_reads
from .r_programs import run_r
from .table_comparison import Reason, StudyComparison, Table, compare_tables

__all__ = [
    "StudyKind", "compare_stored", "compare_studies", "explain_by_reading", "read_results",
    "stored_study",
]  # fmt: skip

LARGEST_STORED = 60_000  # bytes of a table


@dataclass(frozen=True)
class StudyKind:
    """A kind of study that a module of Strategus runs in both programs.

    Attributes
    ----------
    module : str
        Name of the module.
    script : str
        R's script, which reads the settings and the SQLite database of each folder.
    draw : callable
        Draws settings from a seed and a number of analyses.
    tables : mapping of str to Table
        R's tables that are compared.
    reasons : sequence of Reason
        Why cells may differ; the first that concerns a cell is counted.
    further : callable, optional
        Adds the comparison of a folder's numbers that tables alone do not allow.
    stored : sequence of str
        Tables of which small ones are stored as test data.
    specify : callable, optional
        Returns the specification of a folder, given its shared resources. Default: the settings
        that R's script writes, for the one module.
    mark : callable, optional
        Adds to the analyses, by id, what the results of a folder tell and reasons ask.
    """

    module: str
    script: str
    draw: Callable[[int, int], dict[str, Any]]
    tables: Mapping[str, Table]
    reasons: Sequence[Reason]
    further: Callable[..., None] | None = None
    specify: Callable[[Path, dict[str, Any]], dict[str, Any]] | None = None
    mark: Callable[[Path, dict[int, dict[str, Any]]], None] | None = None
    stored: Sequence[str] = ()


def compare_studies(
    kind: StudyKind,
    seeds: Sequence[int],
    people: int,
    analyses: int = 4,
    folder: Path | None = None,
    results: Path | None = None,
    batch: int = 10,
    odd: bool = False,
) -> Iterator[StudyComparison]:
    """Run the studies of some seeds in both programs and compare their tables.

    Parameters
    ----------
    kind : StudyKind
    seeds : sequence of int
    people : int
        Number of people of each simulated database.
    analyses : int
        Number of drawn analyses of each study.
    folder : Path, optional
        Where to keep databases and results; R does not run again where its results are. Default: a
        temporary folder.
    results : Path, optional
        A file to which each comparison is appended; seeds that it has are not run again.
    batch : int
        Studies of one process of R, which loads its packages once.
    odd : bool
        Whether each database has irregular rows of one kind, of which successive seeds have
        successive ones.

    Yields
    ------
    StudyComparison
        The comparison of each seed that was run.
    """
    done = {r.seed for r in read_results(results)} if results is not None else set()
    left = [seed for seed in seeds if seed not in done]
    for start in range(0, len(left), batch):
        with tempfile.TemporaryDirectory() as made:
            root = Path(made) if folder is None else folder
            for found in _batch(kind, left[start : start + batch], people, analyses, root, odd):
                if results is not None:
                    with results.open("a", encoding="utf-8") as file:
                        file.write(found.as_json() + "\n")
                yield found


def read_results(path: Path) -> list[StudyComparison]:
    """Read a file of results; an absent file has none."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [StudyComparison.from_json(line) for line in lines]


def _batch(
    kind: StudyKind, seeds: Sequence[int], people: int, analyses: int, root: Path, odd: bool
) -> Iterator[StudyComparison]:
    """Write the databases, run R once for all of them, and compare one by one."""
    folders = [root / str(seed) for seed in seeds]
    waiting = [folder for folder in folders if not (folder / "r.json").exists()]
    for folder in waiting:
        seed = int(folder.name)
        settings = kind.draw(seed, analyses)
        if odd:
            settings["oddity"] = [*ODDITIES][seed % len(ODDITIES)]
        write_databases(folder, people, seed, [ODDITIES[settings["oddity"]]] if odd else ())
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    if waiting:
        run_r(kind.script, *waiting)
    for seed, folder in zip(seeds, folders, strict=True):
        found = StudyComparison(seed)
        try:
            _compare(kind, folder, found)
        except Exception as error:  # a raw error is a finding, and the other studies go on
            found.failed = f"failed here: {type(error).__name__}: {error}"
        yield found


def _compare(kind: StudyKind, folder: Path, out: StudyComparison) -> None:
    """Compare the study of a folder, and with irregular rows also as R reads them."""
    _compare_folder(kind, folder, out)
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    reading = READINGS.get((kind.module, settings.get("oddity", "")))
    if reading is None or out.failed:
        return
    edited = folder / "as_r_reads"
    write_as_r_reads(folder, edited, reading.edits)
    other = StudyComparison(out.seed)
    if any(a["population"].get("censorAtNewRiskWindow") for a in settings["analyses"]):
        # One of two rows of a person has no day before the risk window of the other one.
        _compare_folder(kind, folder, other, before=edited)
    else:
        with given_cohorts():
            _compare_folder(kind, edited, other)
    explain_by_reading(out, other, reading)


def explain_by_reading(out: StudyComparison, edited: StudyComparison, reading: Reading) -> None:
    """Replace a comparison by that of the edited rows, and count what the edits explain.

    R divides the number of people by that of periods, of which the edits change both.
    """
    counts = {values for cell, values in edited.apart.items() if "outcome_subjects" in cell}
    once = {
        cell
        for cell, (ours, theirs) in edited.apart.items()
        if re.match(reading.once, cell)
        and (cell not in out.apart or any(np.isclose(ours * b, theirs * a) for a, b in counts))
    }
    explained = len(out.apart.keys() - edited.apart.keys()) + len(once)
    out.explained = edited.explained + Counter({f"{reading.kind}: {reading.words}": explained})
    out.apart = {cell: values for cell, values in edited.apart.items() if cell not in once}
    out.differ = Counter(cell.split(" (")[0] for cell in out.apart)
    out.examples = [e for e in edited.examples if e.startswith(tuple(out.differ))]
    out.compared, out.failed = edited.compared, edited.failed


def _compare_folder(
    kind: StudyKind, folder: Path, out: StudyComparison, before: Path | None = None
) -> None:
    """Run the study of a folder here and compare it with R's results.

    Another folder may have the people before the rules of time at risk.
    """
    said = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    if said.get("error"):
        out.failed = f"R failed: {said['error'].strip()[-300:]}"
        return
    out.seconds["R"] = said["seconds"]
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    specification = folder / "study.json"
    if kind.specify is None:
        made = strategus_specification(folder, kind.module)
    else:
        made = kind.specify(folder, shared_resources())
    specification.write_text(json.dumps(made), encoding="utf-8")
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run_specification(
            folder / "omop.duckdb",
            read_specification_plan(specification),
            folder / "here",
            database_id="simulated",
            disclosure="none",
        )
    out.seconds["steropes"] = time.perf_counter() - started
    if done.failed:
        out.failed = f"failed here: {done.failed}"
        return
    by_id = {analysis["id"]: analysis for analysis in settings["analyses"]}
    if kind.mark is not None:
        kind.mark(folder, by_id)
    compare_tables(out, kind.tables, kind.reasons, by_id, folder / "here", folder / "r")
    if kind.further is not None:
        kind.further(folder, out, *([] if before is None else [before]))


def stored_study(kind: StudyKind, folder: Path, people: int) -> dict[str, Any]:
    """Return the settings and R's smaller tables of a folder, to be compared without R."""
    names = ["settings.json", "specifications.json", "r.json"]
    tables = sorted((folder / "r").glob("*.csv"))
    small = [t for t in tables if t.stem in kind.stored and t.stat().st_size < LARGEST_STORED]
    files = {n: (folder / n).read_text(encoding="utf-8") for n in names}
    files |= {f"r/{t.name}": t.read_text(encoding="utf-8") for t in small}
    return {"module": kind.module, "seed": int(folder.name), "people": people, "files": files}


def compare_stored(kind: StudyKind, stored: Mapping[str, Any], folder: Path) -> StudyComparison:
    """Run a stored study here, and compare it with R's stored tables."""
    place = folder / str(stored["seed"])
    write_databases(place, stored["people"], stored["seed"])
    for name, text in stored["files"].items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    found = StudyComparison(stored["seed"])
    given = stored["files"]
    tables = {name: table for name, table in kind.tables.items() if f"r/{name}.csv" in given}
    _compare(replace(kind, tables=tables), place, found)
    return found
