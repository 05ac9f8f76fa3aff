"""Studies of a database of `benchmarks.omop`: processor seconds and memory of whole commands.

    python -m benchmarks.studies study --people 1000000
    python -m benchmarks.studies grid --people 1000000 --jobs 2
    python -m benchmarks.studies estimates --people 50000
    python -m benchmarks.studies series --people 1000000
    python -m benchmarks.studies series-grid --people 50000
    python -m benchmarks.studies combine --people 50000
    python -m benchmarks.studies controls

``study`` compares the drugs of the largest pair; ``grid`` asks two questions of 20 outcomes by four
analyses; ``estimates`` asks them of 42 outcomes, which are 336 estimates; ``series`` is a case
series with splines of age, season and calendar time; ``series-grid`` has 24 of them, six drugs by
two outcomes with splines of age and season, with and without a window before the drug; ``combine``
pools a grid of two databases, which are made beforehand; ``controls`` is ``steropes demo
--controls``. Databases are kept in ``--folder``. The figures are of the command and its child
processes, without making the database.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from joblib.externals.loky import get_reusable_executor

from steropes.designs import Match, OutcomeModel, PropensityRules, Stratify
from steropes.designs.case_series import Spline
from steropes.studies import GridSpec, run_grid
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.grids.sccs_grid import run_case_series_grid
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
)
from steropes.studies.specifications import ControlSet

from .omop import CONTROLS, HARMED, PAIRS, SEASONAL, UNHARMED, make_database

OUTCOMES = (HARMED, UNHARMED)


def specification(database_id: str) -> GridSpec:
    """Two questions, two outcomes, 18 negative controls and four analyses."""
    propensity = PropensityRules()
    pairs = [pair[:2] for pair in PAIRS[1:]]
    return GridSpec(
        CohortSources(
            drugs={c: ConceptSet((c,)) for pair in pairs for c in pair},
            conditions={c: ConceptSet((c,)) for c in OUTCOMES},
        ),
        tuple(Question(*pair, OUTCOMES, exclude=pair) for pair in pairs),
        (
            StudyAnalysis(1, "crude", features=None, propensity=None, unadjusted=True),
            StudyAnalysis(2, "matched", propensity=propensity, match=Match()),
            StudyAnalysis(
                3,
                "stratified",
                propensity=propensity,
                stratify=Stratify(5),
                outcome_model=OutcomeModel(stratified=True),
            ),
            StudyAnalysis(
                4, "weighted", propensity=propensity, outcome_model=OutcomeModel(weighted=True)
            ),
        ),
        ControlSet(concepts=CONTROLS[:18]),
        database_id=database_id,
    )


def series_specification() -> CaseSeriesGrid:
    """Six drugs by two outcomes, with splines of age and season, by two analyses."""
    drugs = sorted({drug for pair in PAIRS for drug in pair[:2]})
    questions = tuple(SeriesQuestion(d, o) for d in drugs for o in (HARMED, SEASONAL))
    splines = {"age": Spline(), "season": Spline()}
    return CaseSeriesGrid(
        questions,
        (
            SeriesAnalysis(1, "with a window before", splines),
            SeriesAnalysis(2, "without it", splines | {"pre_exposure_days": 0}),
        ),
    )


def study(database: Path, folder: Path, jobs: int) -> Any:
    """Compare the drugs of the largest pair as the command does."""
    from steropes.studies.cli.command_line import run

    target, comparator, _ = PAIRS[0]
    asked = ["--target", target, "--comparator", comparator, "--outcome", HARMED]
    run(["study", str(database), *map(str, asked), "--output", str(folder)])


def grid(database: Path, folder: Path, jobs: int) -> Any:
    """Run the grid."""
    return run_grid(database, specification("first"), folder, jobs=jobs, progress=print)


def estimates(database: Path, folder: Path, jobs: int) -> Any:
    """Run the grid with all negative controls."""
    asked = replace(specification("first"), controls=ControlSet(concepts=CONTROLS))
    return run_grid(database, asked, folder, jobs=jobs)


def series_grid(database: Path, folder: Path, jobs: int) -> Any:
    """Run the grid of case series."""
    return run_case_series_grid(database, series_specification(), folder, jobs=jobs)


def series(database: Path, folder: Path, jobs: int) -> Any:
    """Run the case series as the command does."""
    from steropes.studies.cli.command_line import run

    asked = ["--exposure", PAIRS[0][0], "--outcome", SEASONAL, "--age", "--season", "--calendar"]
    run(["sccs", str(database), *map(str, asked), "--output", str(folder)])


def controls(database: Path, folder: Path, jobs: int) -> Any:
    """Run the demonstration on controls."""
    from steropes.studies.cli.command_line import run

    run(["demo", "--controls", "--output", str(folder)])


def _archive(people: int, seed: int, folder: Path) -> Path:
    """Return the archive of a grid on a small database; made once."""
    place = folder / f"grid-{people}-{seed}"
    if not (place / "release" / "results.zip").exists():
        run_grid(_database(people, seed, folder), specification(f"database {seed}"), place)
    return place / "release" / "results.zip"


def _database(people: int, seed: int, folder: Path) -> Path:
    """Return the path of a database; made once."""
    path = folder / f"claims-{people}-{seed}.duckdb"
    if not path.exists():
        print(f"making {path}", flush=True)
        make_database(path, people, seed)
    return path


def main() -> None:
    """Run a benchmark in this process and print its cost."""
    commands: dict[str, Callable[[Path, Path, int], Any]] = {
        "study": study,
        "grid": grid,
        "estimates": estimates,
        "series": series,
        "series-grid": series_grid,
        "controls": controls,
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=[*commands, "combine"])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    if given.name == "combine":
        from steropes.studies.cli.command_line import run

        archives = [str(_archive(given.people, given.seed + k, given.folder)) for k in (0, 1)]
        before = _seconds()
        run(["combine", *archives, "--unblind", "--quiet"])
    else:
        database = Path()
        if given.name != "controls":
            database = _database(given.people, given.seed, given.folder)
        with tempfile.TemporaryDirectory() as output:
            before = _seconds()
            found = commands[given.name](database, Path(output), given.jobs)
            print(found or "")
    # Worker processes are counted only once they have ended.
    get_reusable_executor().shutdown(wait=True)
    after = _seconds()
    own, children = (resource.getrusage(who).ru_maxrss / 2**20 for who in _WHO)
    print(
        f"{given.name}: {after[1] - before[1]:.1f} processor s, {after[0] - before[0]:.0f} s, "
        f"peak {own:.2f} GiB" + (f", largest child {children:.2f} GiB" if children else "")
    )


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _seconds() -> tuple[float, float]:
    """Return elapsed seconds, and those of all processors."""
    used = [resource.getrusage(who) for who in _WHO]
    return time.perf_counter(), sum(u.ru_utime + u.ru_stime for u in used)


if __name__ == "__main__":
    main()
