"""Compare cohort studies by CohortMethod's rules, where its conventions differ from ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tests.parity.r_cohort_rules import (
    RPeople,
    r_balance,
    r_curve,
    r_density,
    r_smallest_p,
    r_weights,
)

from steropes.designs.effects.effect_estimate import estimate_effect
from steropes.studies import OmopDatabase
from steropes.studies.comparative import Workbench
from steropes.studies.comparative.analysis_result import AnalysisResult
from steropes.studies.strategus_plans.specification_plan import read_specification_plan

from .irregular_rows_in_r import cohorts_of
from .table_comparison import CONVENTION, Analysis, StudyComparison

__all__ = ["compare_by_r_rules", "mark_ties"]

ROUNDED = 5.1e-4  # R writes balance with three decimals.
CLOSE = 1e-4
TIES = "the order of people with equal scores"


@dataclass(frozen=True)
class _Answer:
    """A result with the covariates of everybody in the cohorts, and the arms of these."""

    result: AnalysisResult
    covariates: NDArray
    X: NDArray
    treated: NDArray


@lru_cache(maxsize=1)
def _answers(folder: Path) -> list[_Answer]:
    """Answer all questions of a folder by all analyses."""
    plan = read_specification_plan(folder / "study.json").comparative
    assert plan is not None
    found = []
    with OmopDatabase(folder / "omop.duckdb") as db:
        bench = Workbench(db, cohorts_of(db), plan.thresholds)
        for question in plan.questions:
            for analysis in plan.analyses:
                features = bench.all_features(question, analysis)
                treated = bench.comparison(question, analysis).entries["treated"].to_numpy() == 1
                ids = features.columns["covariate_id"].to_numpy()
                X = features.matrix().toarray()
                found += [
                    _Answer(bench.run(question, outcome.id, analysis), ids, X, treated)
                    for outcome in question.outcomes
                ]
    return found


def mark_ties(folder: Path, analyses: dict[int, Analysis]) -> None:
    """Mark analyses with sets by the order of people with equal scores, or repeated outcomes."""
    for answer in _answers(folder):
        shared = answer.result.shared
        if shared.scores is not None:
            scores = shared.scores.score.round(10)
            treated = shared.population.people["treated"].to_numpy()
            tied = len(np.unique(np.column_stack([scores, treated]), axis=0)) < len(scores)
            analyses[answer.result.analysis.id]["tied"] = tied
        drawn = analyses[answer.result.analysis.id]
        people = answer.result.people
        repeated = (people["outcomes"] > people["event"]).any()
        drawn["repeated"] = drawn["outcome"]["modelType"] == "poisson" and bool(repeated)


def compare_by_r_rules(folder: Path, out: StudyComparison, before: Path | None = None) -> None:
    """Compare balance, densities and curves after computing them by R's rules.

    Another folder may have the people before the rules of time at risk.
    """
    everybody = [RPeople(a.X, a.treated) for a in _answers(folder if before is None else before)]
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    analyses = {analysis["id"]: analysis for analysis in settings["analyses"]}
    mark_ties(folder, analyses)
    tables = {
        name: pd.read_csv(path) if path.exists() else pd.DataFrame({"analysis_id": []})
        for name in (
            "cm_shared_covariate_balance", "cm_covariate_balance", "cm_diagnostics_summary",
            "cm_preference_score_dist", "cm_kaplan_meier_dist", "cm_result",
        )
        for path in (folder / "r" / f"{name}.csv",)
    }  # fmt: skip
    for answer, people in zip(_answers(folder), everybody, strict=True):
        drawn = analyses[answer.result.analysis.id]
        rows = {
            name: t[(t["analysis_id"] == drawn["id"])
                    & (t.get("outcome_id", answer.result.outcome) == answer.result.outcome)]
            for name, t in tables.items()
        }  # fmt: skip
        for table, item, ours, theirs, close in _pairs(answer, people, drawn, rows):
            _compare(out, drawn, f"{table}.by R's rules", item, ours, theirs, close)


def _compare(
    out: StudyComparison, drawn: Analysis, cell: str, item: str, ours: Any, theirs: Any,
    close: float,
) -> None:  # fmt: skip
    """Count the numbers of a cell, and those that differ."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    same = (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= close * np.maximum(1.0, np.abs(b)))
    out.compared[cell] += len(a)
    apart = int((~same).sum())
    if apart and "match" in drawn and drawn["tied"]:
        out.explained[f"{CONVENTION}: {TIES}"] += apart
    elif apart:
        out.differ[cell] += apart
        where = f"{cell} ({drawn['id']}: {item}: "
        out.apart |= {f"{where}{k})": (a[k], b[k]) for k in np.flatnonzero(~same)}
        k = int(np.flatnonzero(~same)[0])
        out.examples.append(f"{cell} {drawn['id']}: {item}: {apart} differ, {a[k]} / {b[k]}")


def _pairs(
    answer: _Answer, before: RPeople, drawn: Analysis, rows: dict[str, pd.DataFrame]
) -> Iterator[tuple[str, str, Any, Any, float]]:
    """Yield table, item, our numbers by R's rules, R's numbers, and the tolerance."""
    for table, people in zip(
        ("cm_shared_covariate_balance", "cm_covariate_balance"), _after(answer, drawn), strict=True
    ):
        theirs = rows[table]
        if len(theirs):
            yield from _balance(table, answer, before, people, theirs, rows)
    scores = answer.result.shared.scores
    theirs = rows["cm_preference_score_dist"]
    if len(theirs) and scores is not None:
        treated = answer.result.shared.population.people["treated"].to_numpy() == 1
        for arm, of in (("target", treated), ("comparator", ~treated)):
            found = r_density(scores.preference[of], len(theirs))
            name = f"{arm}_density"
            yield "cm_preference_score_dist", name, found, theirs[name], CLOSE
    yield from _curves(answer, rows["cm_kaplan_meier_dist"])
    yield from _outcome(answer, drawn, rows["cm_result"])


def _weights(answer: _Answer, drawn: Analysis) -> NDArray:
    """Return R's weights of everybody in the cohorts, missing for people without a score."""
    shared = answer.result.shared
    weights = np.full(len(answer.treated), np.nan)
    if shared.scores is not None:
        people = shared.population.people
        own = r_weights(
            shared.scores.score.round(10), people["treated"].to_numpy() == 1,
            drawn["propensity"]["estimator"],
        )  # fmt: skip
        weights[people["row"].to_numpy()] = np.minimum(
            own, drawn.get("truncate", {}).get("maxWeight", np.inf)
        )
    return weights


def _outcome(
    answer: _Answer, drawn: Analysis, theirs: pd.DataFrame
) -> Iterator[tuple[str, str, Any, Any, float]]:  # fmt: skip
    """Yield the outcomes that R counts in Poisson models, and the estimate by R's weights."""
    people = answer.result.people
    if not len(theirs):
        return
    if drawn["outcome"]["modelType"] == "poisson":
        for value, arm in ((1, "target"), (0, "comparator")):
            events = people["outcomes"][people["treated"] == value].sum()
            yield "cm_result", f"{arm}_outcomes", [events], theirs[f"{arm}_outcomes"], 0.0
    finite = theirs[["log_rr", "ci_95_lb", "ci_95_ub"]].notna().all(axis=None)
    if drawn["outcome"].get("inversePtWeighting") and finite and (answer.result.estimate.se > 0):
        weights = _weights(answer, drawn)[people["row"].to_numpy()]
        found = estimate_effect(people, answer.result.analysis.outcome_model, weights=weights)
        lower, upper = np.exp(found.lower), np.exp(found.upper)
        for name, ours in (("log_rr", found.log_rr), ("ci_95_lb", lower), ("ci_95_ub", upper)):
            yield "cm_result", name, [ours], theirs[name], 1e-3


def _after(answer: _Answer, drawn: Analysis) -> tuple[RPeople, RPeople]:
    """Return R's people after adjustment: of all outcomes, and of the one outcome."""
    result, shared = answer.result, answer.result.shared
    everybody = shared.population.people
    weights = _weights(answer, drawn)
    kept = everybody["row"].to_numpy()
    sets = None
    if shared.adjusted is not None:
        kept, sets = kept[shared.adjusted.kept], shared.adjusted.sets
    some = result.people["row"].to_numpy()
    adjusted = any(part in drawn for part in ("match", "stratify", "trim", "truncate"))

    def people(rows: NDArray, sets: NDArray | None, weighted: bool) -> RPeople:
        w = weights[rows] if weighted else None
        return RPeople(answer.X[rows], answer.treated[rows], w, sets)

    own_sets = result.people["set"].to_numpy() if "set" in result.people else None
    return (
        people(kept, sets, shared.scores is not None),
        people(some, own_sets, adjusted and shared.scores is not None),
    )


def _balance(
    table: str, answer: _Answer, before: RPeople, after: RPeople,
    theirs: pd.DataFrame, rows: dict[str, pd.DataFrame],
) -> Iterator[tuple[str, str, Any, Any, float]]:  # fmt: skip
    """Yield the columns of a table of balance, and the diagnostics that follow from it."""
    ours = r_balance(before, after).assign(covariate_id=answer.covariates)
    both = theirs.merge(ours, on="covariate_id", suffixes=("", "_here"))
    yield table, "covariates", [len(both)], [len(theirs)], 0.0
    for name in ours.columns.drop("covariate_id"):
        close = CLOSE if "_var_" in name else ROUNDED
        yield table, name, both[f"{name}_here"], both[name], close
    summary = rows["cm_diagnostics_summary"]
    if not len(summary):
        return
    shared = "shared_" if "shared" in table else ""
    smallest = f"{shared}sdm_family_wise_min_p"
    found = {
        f"{shared}max_sdm": ours["std_diff_after"].abs().max(),
        smallest: min(r_smallest_p(after), key=lambda p: abs(p - summary[smallest].iloc[0])),
    }
    if shared and len(rows["cm_result"]):
        shifts = {"att": "target", "atu": "comparator"}
        shift = shifts.get(rows["cm_result"]["target_estimator"].iloc[0], "target_comparator")
        found["generalizability_max_sdm"] = ours[f"{shift}_std_diff"].abs().max()
    for name, value in found.items():
        yield "cm_diagnostics_summary", name, [value], summary[name].iloc[:1], CLOSE


def _curves(
    answer: _Answer, theirs: pd.DataFrame
) -> Iterator[tuple[str, str, Any, Any, float]]:  # fmt: skip
    """Yield the curves of both arms at R's days."""
    if not len(theirs):
        return
    people = answer.result.people
    time, event, treated = (people[name].to_numpy() for name in ("time", "event", "treated"))
    sets = people["set"].to_numpy() if "set" in people else None
    for arm in ("target", "comparator"):
        found = r_curve(
            time, event, treated == 1, sets, arm == "target", theirs["time_day"].to_numpy()
        )
        for name in found:
            column = theirs[f"{arm}_{name}"]
            shown = column.notna().to_numpy()
            yield "cm_kaplan_meier_dist", f"{arm} {name}", found[name][shown], column[shown], 1e-6
