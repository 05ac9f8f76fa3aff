"""Compare the demonstration with the results that R's CohortMethod ships, number by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.effects.effect_estimate import estimate_effect
from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.designs.propensity.score_matching import match_scores
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_builders import condition_cohorts, drug_era_cohorts
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.comparative.analysis_result import AnalysisResult
from steropes.studies.comparative.cohort_method_presets import cohort_method_demo
from steropes.studies.comparative.grid_questions_and_analyses import Outcome, Question
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.results.comparative_result_rows import diagnostics_row
from steropes.studies.specifications.demonstration import DEMO, demo_database

__all__ = ["compare_with_cohort_method"]

Line = tuple[int, str, float, float]
OUTCOME = 3
TIED = (2, 4)  # Analyses that depend on the order of people with equal scores.
ORDERS = 20
# R does not evaluate the balance of each outcome's people in this demonstration.
NOT_EVALUATED = {"balance_diagnostic"}


def compare_with_cohort_method(
    folder: str | Path, database: str | Path | OmopDatabase | Any = None
) -> pd.DataFrame:
    """Run the four analyses of CohortMethod's demonstration and compare the results.

    Parameters
    ----------
    folder : str or Path
        Folder of R's ``cm_*.csv`` files (plain or gzipped).
    database : str, Path, connection or OmopDatabase, optional
        The demonstration's database. Default: the one that comes with ``steropes[demo]``.

    Returns
    -------
    DataFrame
        ``analysis``, ``quantity``, ``r``, ``here`` and ``difference``. For tables with many numbers
        the largest difference is given. Analyses 2 and 4 match people with equal scores, whom R
        takes in the order of its rows: quantities that depend on this order are given as the range
        over 20 orders of the ties, and ``here`` is R's number if it lies in the range, else the
        nearer end.

    Raises
    ------
    DataError
        A file is missing.
    """
    tables = {
        name: _read(Path(folder), f"cm_{name}")
        for name in (
            *("attrition", "result", "follow_up_dist", "likelihood_profile", "kaplan_meier_dist"),
            *("diagnostics_summary", "shared_covariate_balance", "interaction_result"),
        )
    }
    drugs = (DEMO["target"], DEMO["comparator"])
    lines: list[Line] = []
    with opened(demo_database() if database is None else database, "main", "UTC") as db:
        cohorts = drug_era_cohorts(db, {1: drugs[0], 2: drugs[1]}) + condition_cohorts(
            db, {OUTCOME: DEMO["outcome"]}
        )
        bench = Workbench(db, cohorts)
        question = Question(1, 2, (Outcome(OUTCOME),), exclude=drugs)
        everybody: pd.DataFrame | None = None  # before matching; the first analysis has no scores
        for analysis in cohort_method_demo():
            result = bench.run(question, OUTCOME, analysis)
            of = {name: _rows(table, analysis.id) for name, table in tables.items()}
            lines += _compare(result, of)
            if everybody is None:
                everybody = pd.DataFrame(result.people)
            if analysis.id in TIED:
                lines += _over_orders(result, everybody, of)
    found = pd.DataFrame(lines, columns=["analysis", "quantity", "r", "here"])
    return found.assign(difference=(found["r"] - found["here"]).abs())


def _read(folder: Path, name: str) -> pd.DataFrame:
    """Read one of R's tables."""
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.exists():
            return pd.read_csv(path)
    raise DataError(f"{folder} holds no {name}.csv")


def _rows(table: pd.DataFrame, analysis: int) -> pd.DataFrame:
    """Select an analysis in the first comparison, the only one with people."""
    rows = table[table["analysis_id"] == analysis]
    if "outcome_id" in rows:
        rows = rows[rows["outcome_id"] == OUTCOME]
    first = rows["target_comparator_id"].max() if len(rows) else 0
    return rows[rows["target_comparator_id"] == first].reset_index(drop=True)


def _compare(result: AnalysisResult, of: dict[str, pd.DataFrame]) -> Iterator[Line]:
    """Compare everything of an analysis that does not depend on the order of ties."""
    number = result.analysis.id
    for exposure, arm in ((1, "target"), (2, "comparator")):
        rules = of["attrition"][of["attrition"]["exposure_id"] == exposure]
        here = result.attrition[f"{arm}_people"]
        for rule, r, mine in zip(rules["description"], rules["subjects"], here, strict=True):
            yield number, f"{arm}: {rule}", float(r), float(mine)
    checks = of["diagnostics_summary"].iloc[0]
    if result.shared.scores is not None:
        yield number, "equipoise", float(checks["equipoise"]), result.diagnostics.equipoise
    if number in TIED:
        return
    verdicts = diagnostics_row(result.diagnostics)
    for name in ("unblind", "unblind_for_evidence_synthesis"):
        yield number, name, float(checks[name]), float(verdicts[name])
    if result.shared.balance is not None:
        theirs = float(checks["shared_max_sdm"])
        yield number, "largest difference", theirs, result.diagnostics.shared_difference
    judged = [n for n in verdicts if n.endswith("_diagnostic")]
    same = sum(str(checks[n]) == str(verdicts[n]) for n in judged if n not in NOT_EVALUATED)
    yield number, "verdicts", float(len({*judged} - NOT_EVALUATED)), float(same)
    wanted, estimate = of["result"].iloc[0], result.estimate
    for name, mine in result.counts.items():
        yield number, name, float(wanted[name]), float(mine)
    for name, value in (("log_rr", estimate.log_rr), ("llr", estimate.llr)):
        yield number, name, float(wanted[name]), value
    for name, end, value in (
        ("ci_95_lb", "lower limit of log_rr (R ends its search early)", estimate.lower),
        ("ci_95_ub", "upper limit of log_rr (R ends its search early)", estimate.upper),
    ):
        yield number, end, float(np.log(wanted[name])), value
    for name, value in (
        ("se_log_rr", estimate.se), ("p", estimate.p), ("one_sided_p", estimate.one_sided_p)
    ):  # fmt: skip
        yield number, f"{name} (from those limits)", float(wanted[name]), value
    yield number, "detectable ratio", float(checks["mdrr"]), result.diagnostics.detectable
    follow = of["follow_up_dist"].iloc[0]
    days = [n for n in result.follow_up if n.endswith("days")]
    mine = np.array([result.follow_up[n] for n in days], float)
    worst = float(np.abs(follow[days].to_numpy(float) - mine).max())
    yield number, "follow-up quantiles, largest difference", 0.0, worst
    dates = [n for n in result.follow_up if n.endswith("date")]
    same = sum(str(follow[n]) == str(result.follow_up[n]) for n in dates)
    yield number, "first and last dates of both arms", float(len(dates)), float(same)
    yield from _profile(result, of["likelihood_profile"])
    if number == 1:
        yield from _curves(result, of)
    if result.shared.balance is not None:
        yield from _balance(result, of["shared_covariate_balance"])


def _profile(result: AnalysisResult, profile: pd.DataFrame) -> Iterator[Line]:
    """Compare the profile likelihood and its slope."""
    people = result.people
    weights = people.get("weight")
    groups = TwoGroupCox.of(
        people["time"], people["event"], people["treated"], weights, ties="breslow"
    )
    apart = groups.log_likelihood(profile["log_rr"]) - profile["log_likelihood"].to_numpy()
    number = result.analysis.id
    yield number, "profile after a constant, largest difference", 0.0, float(np.ptp(apart))
    slope = np.abs(groups.gradient(profile["log_rr"]) - profile["gradient"].to_numpy())
    yield number, "slope of the profile, largest difference", 0.0, float(slope.max())


def _curves(result: AnalysisResult, of: dict[str, pd.DataFrame]) -> Iterator[Line]:
    """Compare Kaplan–Meier curves."""
    known = [c for c in result.curves if c in of["kaplan_meier_dist"]]
    curves = of["kaplan_meier_dist"][known].to_numpy(float)
    worst = np.nanmax(np.abs(curves - result.curves[known].to_numpy(float)))
    yield 1, "Kaplan-Meier curves and limits, largest difference", 0.0, float(worst)


def _over_orders(
    result: AnalysisResult, people: pd.DataFrame, of: dict[str, pd.DataFrame]
) -> Iterator[Line]:
    """Compare R's estimates with their range over orders of people with equal scores."""
    analysis, shared = result.analysis, result.shared
    assert analysis.match is not None
    assert shared.scores is not None
    assert shared.features is not None
    model = replace(analysis.outcome_model, interval="wald")
    ratios, products = [], []
    for seed in range(ORDERS):
        rule = replace(analysis.match, seed=seed)
        ids = people["person_id"].to_numpy()
        sets = match_scores(shared.scores.score, people["treated"], rule, ids=ids)
        kept = people[sets >= 0]
        features = shared.features.take(kept["row"].to_numpy())
        found = estimate_effect(kept, model, sets=sets[sets >= 0], features=features)
        ratios.append(np.exp(found.log_rr))
        products += np.exp(found.interactions["log_rr"]).tolist()
    number = analysis.id
    yield _within(number, "hazard ratio", float(of["result"]["rr"].iloc[0]), ratios)
    if products:
        theirs = float(of["interaction_result"]["rr"].iloc[0])
        yield _within(number, "ratio of ratios", theirs, products)


def _within(number: int, quantity: str, theirs: float, found: list[float]) -> Line:
    """Compare R's number with a range."""
    low, high = min(found), max(found)
    label = f"{quantity}; {low:.3f} to {high:.3f} over {ORDERS} orders of equal scores"
    return number, label, theirs, min(max(theirs, low), high)


def _balance(result: AnalysisResult, table: pd.DataFrame) -> Iterator[Line]:
    """Compare standardised differences and means of covariates."""
    assert result.shared.balance is not None
    both = table.merge(result.shared.balance.table, on="covariate_id", suffixes=("", "_here"))
    yield result.analysis.id, "covariates with the same id", float(len(table)), float(len(both))
    for when in ("before", "after"):
        apart = (both[f"std_diff_{when}"] - both[f"smd_{when}"]).abs().max()
        label = f"standardised differences {when} (R's have 3 digits), largest difference"
        yield result.analysis.id, label, 0.0, float(apart)
    worst = 0.0
    for name in (
        f"{arm}_mean_{w}" for arm in ("target", "comparator") for w in ("before", "after")
    ):
        shown = both[both[name] >= 0]  # R writes negative numbers for small cells.
        worst = max(worst, float((shown[name] - shown[f"{name}_here"]).abs().max()))
    yield (
        result.analysis.id,
        "means of covariates (R's have 3 digits), largest difference",
        0.0,
        worst,
    )
