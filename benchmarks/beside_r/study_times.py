"""Time the steps of studies in R and here, on the same simulated database."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.omop import HARMED

from steropes.designs.case_series.calendar_time_splines import Spline
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.studies import OmopDatabase, case_series, case_series_settings
from steropes.studies.cohorts import TimeAtRisk, circe_cohorts
from steropes.studies.comparative import Question, Workbench
from steropes.studies.comparative.cohort_method_presets import cohort_method

from .drawn_study import COMPARATOR, TARGET, cohort_definitions, write_databases
from .r_programs import RTooSlow, run_r
from .timed_task import TimedTask, keep_time, read_times

__all__ = ["time_studies"]

PACKAGES = ("CohortMethod", "SelfControlledCaseSeries")
SMALL = 1500  # people of the database with which kernels are compiled
Steps = list[tuple[str, float, Any]]


def time_studies(people: int, limit: float, results: Path | None = None) -> Iterator[TimedTask]:
    """Time a cohort study and a case series, step by step.

    Parameters
    ----------
    people : int
        People of the simulated database.
    limit : float
        Processor seconds after which R is stopped.
    results : Path, optional
        File to which tasks are appended; a package whose tasks it has is not run again.
    """
    known = {t.other for t in read_times(results)}
    with tempfile.TemporaryDirectory() as made:
        folder, small = Path(made) / "db", Path(made) / "small"
        for package in PACKAGES:
            if package in known:
                continue
            if not folder.exists():
                write_databases(folder, people, 1)
                write_databases(small, SMALL, 2)
            steps = _cohort_study if package == "CohortMethod" else _case_series
            steps(small)  # compiles the kernels
            ours, theirs = steps(folder), _steps_of_r(folder, package, limit)
            for name, seconds, found in ours:
                r = theirs.get(name)
                task = TimedTask(
                    f"{people:,} people",
                    name,
                    seconds,
                    limit if r is None else r["seconds"],
                    finished=r is not None,
                    other=package,
                )
                print(f"{name}: {found} here, {None if r is None else r['estimate']} in R")
                yield keep_time(results, task)


def _steps_of_r(folder: Path, package: str, limit: float) -> dict[str, Any]:
    """Run R's steps and return their seconds and estimates by name."""
    try:
        said = run_r("study_times.R", folder, package, *map(str, (TARGET, COMPARATOR, HARMED)),
                     limit=limit)  # fmt: skip
    except RTooSlow as stopped:
        said = stopped.printed
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    found = {line["step"]: line for line in lines}
    for name in ("windows", "windows and three splines"):
        parts = [found.get(step) for step in ("extraction", f"intervals, {name}", f"fit, {name}")]
        if None not in parts:
            found[name] = parts[-1] | {"seconds": sum(part["seconds"] for part in parts)}
    return found


def _clocked(steps: Steps, name: str, make: Callable[[], Any]) -> Any:
    """Run a step, and append its name and processor seconds."""
    started = time.process_time()
    made = make()
    steps.append((name, time.process_time() - started, None))
    return made


def _cohort_study(folder: Path) -> Steps:
    """Run the steps of R's script for CohortMethod."""
    steps: Steps = []
    rules = PropensityRules(high_correlation=1, repeats=1)
    at_risk = TimeAtRisk(start=0, end=365, end_anchor="cohort start", look_back=99_999)
    scored = cohort_method(1, at_risk=at_risk, propensity=rules, unadjusted=True)
    matched = cohort_method(2, at_risk=at_risk, propensity=rules, match=Match())
    question = Question(TARGET, COMPARATOR, (HARMED,), exclude=(TARGET, COMPARATOR))
    with OmopDatabase(folder / "omop.duckdb") as db:
        bench = Workbench(db, circe_cohorts(db, cohort_definitions()))
        _clocked(steps, "extraction", lambda: bench.features(question, scored))
        _clocked(steps, "score, ten folds", lambda: bench.shared(question, scored))
        _clocked(steps, "matching and balance", lambda: bench.shared(question, matched))
        found = _clocked(steps, "outcome", lambda: bench.run(question, HARMED, matched))
    steps[-1] = (*steps[-1][:2], str(found.estimate))
    return steps


def _case_series(folder: Path) -> Steps:
    """Run case series with the windows and splines of R's script for SelfControlledCaseSeries."""
    steps: Steps = []
    splines = {"age": Spline(5), "season": Spline(5), "calendar": Spline(5), "spline_cases": 10**6}
    with OmopDatabase(folder / "omop.duckdb") as db:
        cohorts = circe_cohorts(db, cohort_definitions())
        for name, more in (("windows", {}), ("windows and three splines", splines)):
            settings = case_series_settings(
                HARMED,
                TARGET,
                outcomes_from="cohort",
                exposures_from="cohort",
                prior="none",
                **more,
            )
            study = _clocked(steps, name, lambda s=settings: case_series(db, s, cohorts=cohorts))
            steps[-1] = (*steps[-1][:2], study.estimates["rr"].iloc[0])
    return steps
