"""Meta-analyses of a specification over the result folders of several databases."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from steropes.data.csv_reading import read_csv_content
from steropes.designs.evidence.evidence_synthesis import (
    NO_FINITE,
    NOTHING_TO_COMBINE,
    ONE_HIDDEN,
    DatabaseResult,
    is_of_one_hidden,
    with_names,
)
from steropes.designs.evidence.meta_analysis import Combined, combine_normal, combine_profiles
from steropes.designs.evidence.random_effects import RandomEffects, random_effects
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.errors import DataError
from steropes.studies.diagnostics.archive_blinding import HIDDEN, flagged_results
from steropes.studies.diagnostics.failing_diagnostics import (
    FAILED,
    comparative_names,
    series_names,
    with_failing,
)
from steropes.studies.results.calibrated_results import calibrate_group
from steropes.studies.strategus_plans.synthesis_plan import (
    SynthesisAnalysis,
    SynthesisPlan,
    SynthesisThresholds,
)

__all__ = ["PREDICTION", "SYNTHESIS_KEY", "SYNTHESIS_NOTE", "synthesis_tables"]

# The tables with known ratios, by the prefix of a method's tables.
TRUTH = {"cm": "target_comparator_outcome", "sccs": "exposure"}
# The numbers of an estimate that is not shown.
SHOWN = (
    "rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "i_2", "tau",
    "pi_95_lb", "pi_95_ub",
)  # fmt: skip
# The columns that identify a combined estimate of either method, and those of the tables that R
# does not have: reasons of missing estimates, and limits of the ratio in a further database.
SYNTHESIS_KEY = [
    "target_id", "comparator_id", "outcome_id", "exposures_outcome_set_id", "covariate_id",
    "analysis_id", "evidence_synthesis_analysis_id",
]  # fmt: skip
SYNTHESIS_NOTE = [*SYNTHESIS_KEY, "note"]
PREDICTION = ["pi_95_lb", "pi_95_ub"]
FLAG = "unblind_for_evidence_synthesis"
PASS, FAIL, NOT_EVALUATED = "PASS", "FAIL", "NOT EVALUATED"
# Normal quantiles of a two-sided test of 5 % with a power of 80 %.
DETECTABLE = float(norm.ppf(0.975) + norm.ppf(0.8))


@dataclass(frozen=True)
class _Source:
    """The tables of a method, with the columns that identify a result and its controls."""

    folder: str
    prefix: str
    key: tuple[str, ...]
    group: tuple[str, ...]
    counts: tuple[str, ...]
    outcomes: tuple[str, ...]
    output: str


SOURCES = {
    "CohortMethod": _Source(
        "CohortMethodModule",
        "cm",
        ("target_comparator_id", "outcome_id", "analysis_id"),
        ("target_comparator_id", "analysis_id"),
        (
            "target_subjects", "comparator_subjects", "target_days", "comparator_days",
            "target_outcomes", "comparator_outcomes",
        ),
        ("target_outcomes", "comparator_outcomes"),
        "es_cm",
    ),
    "SelfControlledCaseSeries": _Source(
        "SelfControlledCaseSeriesModule",
        "sccs",
        ("exposures_outcome_set_id", "covariate_id", "analysis_id"),
        ("era_id", "nesting_cohort_id", "covariate_id", "analysis_id"),
        (
            "outcome_subjects", "outcome_events", "outcome_observation_periods",
            "covariate_subjects", "covariate_days", "covariate_eras", "covariate_outcomes",
            "observed_days",
        ),
        ("covariate_outcomes",),
        "es_sccs",
    ),
}  # fmt: skip


def synthesis_tables(plan: SynthesisPlan, folders: Sequence[str | Path]) -> dict[str, pd.DataFrame]:
    """Combine the results of databases.

    Parameters
    ----------
    plan : SynthesisPlan
        The meta-analyses.
    folders : sequence of path
        For each database the folder that contains a folder for each module, such as ``release`` of
        a run, or the result folder of R's Strategus.

    Returns
    -------
    dict of str to DataFrame
        The tables ``es_*``, of which R lacks ``es_prediction``, and ``note``.

    Raises
    ------
    DataError
        A folder lacks results.
    """
    if not folders:
        raise DataError("name the folders of results of the databases")
    made: dict[str, list[pd.DataFrame]] = {}
    notes, predictions = [], []
    for analysis in plan.analyses:
        source = SOURCES[analysis.source]
        results, checks = _combined(analysis, source, folders, plan.thresholds)
        key = [c for c in SYNTHESIS_KEY if c in results]
        notes.append(results[[*key, "note"]])
        known = results[PREDICTION].notna().all(axis=1)
        predictions.append(results.loc[known, [*key, *PREDICTION]])
        kept = results.drop(columns=["note", *PREDICTION])
        made.setdefault(f"{source.output}_result", []).append(kept)
        made.setdefault(f"{source.output}_diagnostics_summary", []).append(checks)
    described = [
        {
            "evidence_synthesis_analysis_id": a.id,
            "evidence_synthesis_description": a.description,
            "source_method": a.source,
            "definition": json.dumps(asdict(a), sort_keys=True),
        }
        for a in plan.analyses
    ]
    tables = {name: pd.concat(parts, ignore_index=True) for name, parts in made.items()}
    reasons = pd.concat(notes, ignore_index=True).reindex(columns=SYNTHESIS_NOTE)
    further = pd.concat(predictions, ignore_index=True)
    tables["es_prediction"] = further.reindex(columns=[*SYNTHESIS_KEY, *PREDICTION])
    return {"es_analysis": pd.DataFrame(described), **tables, "note": reasons}


def _combined(
    analysis: SynthesisAnalysis,
    source: _Source,
    folders: Sequence[str | Path],
    thresholds: SynthesisThresholds,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the combined estimates of an analysis with their diagnostics."""
    results, profiles = _inputs(analysis, source, folders)
    by_profile = dict(tuple(profiles.groupby([*source.key, "database_id"])))
    rows = []
    for key, of in results.groupby(list(source.key), sort=True):
        names = dict(zip(source.key, key, strict=True))
        first = of.iloc[0]
        more = {
            c: first[c] for c in (*source.group, "truth", "target_id", "comparator_id") if c in of
        }
        usable = of[of[FLAG] == 1]
        found = [
            _database_result(r, by_profile.get((*key, r["database_id"])), analysis.normal)
            for r in usable.to_dict("records")
        ]
        part = [
            n for n, r in enumerate(found)
            if (r.has_estimate if analysis.normal else r.has_likelihood)
        ]  # fmt: skip
        included = usable.iloc[part]
        together = [found[n] for n in part]
        line = _estimate(analysis, together, included)
        line |= {name: _total(included[name]) for name in source.counts}
        alone = is_of_one_hidden(together)
        if alone:
            line |= dict.fromkeys((*SHOWN, *source.outcomes), math.nan)
        note = _reason(of, found, alone, line["log_rr"])
        last = {"n_databases": len(part), "note": note, HIDDEN: alone}
        rows.append({**more, **names, **line, **last})
    table = pd.DataFrame(rows)
    hidden = table.pop(HIDDEN)
    ease = _calibrated(table, source)
    checks = _diagnostics(table, ease, thresholds)
    checks["unblind"] = checks["unblind"].mask(hidden, 0)
    both = {"evidence_synthesis_analysis_id": analysis.id}
    return table.assign(**both), checks.assign(**both)


def _inputs(
    analysis: SynthesisAnalysis, source: _Source, folders: Sequence[str | Path]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the chosen databases' results with flags and known ratios, and all their profiles."""
    results, profiles = [], []
    for folder in map(Path, folders):
        table = _read(folder, source, "result")
        flags = _read(folder, source, "diagnostics_summary")
        name, of = TRUTH[source.prefix], {f"{source.prefix}_diagnostics_summary": flags}
        of[f"{source.prefix}_result"] = table
        of[f"{source.prefix}_{name}"] = _read(folder, source, name)
        key = [*source.key, "database_id"]
        detectable = flags[[*key, "mdrr"]].drop_duplicates(key)
        table = flagged_results(of, source.prefix).merge(detectable, on=key, how="left")
        notes = folder / source.folder / "note.csv"
        if notes.is_file():
            of["note"] = read_csv_content(notes.read_bytes(), texts=["database_id"])
        names = comparative_names() if source.prefix == "cm" else series_names()
        table = with_failing(table, of, source.prefix, names)
        results.append(_with_truth(table, folder, source))
        profiles.append(_read(folder, source, "likelihood_profile"))
    found, curves = pd.concat(results, ignore_index=True), pd.concat(profiles, ignore_index=True)
    found["database_id"] = found["database_id"].astype(str)
    curves["database_id"] = curves["database_id"].astype(str)
    repeated = found.duplicated([*source.key, "database_id"])
    if repeated.any():
        named = found.loc[repeated, "database_id"].iloc[0]
        raise DataError(f"two folders have results of the database {named}")
    if analysis.databases:
        found = found[found["database_id"].isin(analysis.databases)]
    if analysis.analyses:
        found = found[found["analysis_id"].isin(analysis.analyses)]
    if not len(found):
        raise DataError(f"analysis {analysis.id}: no results of {analysis.source} are chosen")
    return found, curves


def _read(folder: Path, source: _Source, name: str) -> pd.DataFrame:
    """Read a table of a module."""
    path = folder / source.folder / f"{source.prefix}_{name}.csv"
    try:
        return read_csv_content(path.read_bytes(), texts=["database_id"])
    except (OSError, ValueError, UnicodeDecodeError):
        raise DataError(f"cannot read {path}: name a folder with results by module") from None


def _with_truth(table: pd.DataFrame, folder: Path, source: _Source) -> pd.DataFrame:
    """Add known ratios and the ids by which controls belong together."""
    if source.prefix == "cm":
        truth = _read(folder, source, "target_comparator_outcome")
        pairs = _read(folder, source, "target_comparator")
        truth = truth.rename(columns={"true_effect_size": "truth"})
        on = ["target_comparator_id", "outcome_id"]
        table = table.merge(truth[[*on, "truth"]], on=on, how="left")
        ids = ["target_comparator_id", "target_id", "comparator_id"]
        return table.merge(pairs[ids], on="target_comparator_id", how="left")
    set_id = "exposures_outcome_set_id"
    truth = _read(folder, source, "exposure").rename(columns={"true_effect_size": "truth"})
    sets = _read(folder, source, "exposures_outcome_set")
    table = table.merge(truth[[set_id, "era_id", "truth"]], on=set_id, how="left")
    return table.merge(sets[[set_id, "nesting_cohort_id"]], on=set_id, how="left")


def _database_result(
    row: dict[Any, Any], profile: pd.DataFrame | None, normal: bool
) -> DatabaseResult:
    """Return the result of one database."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lower, upper = np.log([row["ci_95_lb"], row["ci_95_ub"]])
    points = None if profile is None else profile.dropna(subset=["log_likelihood"])
    return DatabaseResult(
        str(row["database_id"]),
        float(row["log_rr"]),
        float(row["se_log_rr"]),
        float(lower),
        float(upper),
        points,
        error="normal" if normal else "",
        hidden=bool(row[HIDDEN]),
    )


def _estimate(
    analysis: SynthesisAnalysis, found: Sequence[DatabaseResult], included: pd.DataFrame
) -> dict[str, float]:
    """Combine results; a single result is returned as it is, and none gives missing values."""
    nan = math.nan
    more = {"i_2": nan, "tau": nan, **dict.fromkeys(PREDICTION, nan)}
    if not found:
        return {**_numbers(nan, nan, nan, nan), **more, "mdrr": math.inf}
    if len(found) == 1:
        own = included.iloc[0]
        names = ("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "mdrr")
        return {**{n: float(own[n]) for n in names}, **more}
    log_rr, se = [r.log_rr for r in found], [r.se for r in found]
    combined: Combined | RandomEffects
    if analysis.method == "Bayesian":
        mean_sd, tau_sd = analysis.prior_sd
        combined = random_effects([r.likelihood() for r in found], mean_sd=mean_sd, tau_sd=tau_sd)
        more["tau"] = combined.tau
    elif analysis.method == "random":
        combined = combine_normal(log_rr, se, random=True)
        more["i_2"] = combined.i_squared
    elif analysis.normal:
        combined = combine_normal(log_rr, se)
    else:
        combined = combine_profiles([r.likelihood() for r in found])
    numbers = _numbers(combined.log_rr, combined.se, combined.lower, combined.upper)
    limits = (ratio_of(combined.predicted_lower), ratio_of(combined.predicted_upper))
    error = numbers["se_log_rr"]
    mdrr = math.exp(DETECTABLE * error) if error < 100 else math.inf
    return {**numbers, **more, **dict(zip(PREDICTION, limits, strict=True)), "mdrr": mdrr}


def _reason(of: pd.DataFrame, found: Sequence[DatabaseResult], alone: bool, log_rr: float) -> str:
    """Return why there is no combined estimate; "" if there is one.

    Parameters
    ----------
    of : DataFrame
        The results of all databases, with the names of the diagnostics that they fail.
    found : sequence of DatabaseResult
        Those that no diagnostic excludes.
    """
    if alone:
        hidden = of[of[FLAG].eq(1) & of[HIDDEN]]
        return with_names(ONE_HIDDEN, hidden[FAILED])
    if math.isfinite(log_rr):
        return ""
    if len(found) and any(r.has_estimate or r.has_likelihood for r in found):
        return NO_FINITE
    return with_names(NOTHING_TO_COMBINE, of.loc[of[FLAG].ne(1), FAILED])


def _numbers(log_rr: float, se: float, lower: float, upper: float) -> dict[str, float]:
    """Return an estimate with p-values of a normal test."""
    z = log_rr / se if se > 0 else math.nan
    return {
        "rr": ratio_of(log_rr),
        "ci_95_lb": ratio_of(lower),
        "ci_95_ub": ratio_of(upper),
        "p": float(2 * norm.sf(abs(z))),
        "one_sided_p": float(norm.sf(z)),
        "log_rr": log_rr,
        "se_log_rr": se,
    }


def _total(counts: pd.Series) -> float:
    """Add released counts; the sum is a limit, and negative, if one of them is."""
    known = counts.dropna()
    if len(known) < len(counts) or not len(counts):
        return math.nan
    total = float(known.abs().sum())
    return -total if (known < 0).any() else total


def _calibrated(table: pd.DataFrame, source: _Source) -> pd.Series:
    """Fill in calibrated estimates, and return the systematic error of each row."""
    for name in ("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr"):
        table[f"calibrated_{name}"] = math.nan
    ease = pd.Series(math.nan, index=table.index)
    everything = pd.Series(True, index=table.index)
    for rows in table.groupby(list(source.group), dropna=False).groups.values():
        ease.loc[rows] = calibrate_group(table, rows, everything, table["truth"])
    return ease


def _diagnostics(
    table: pd.DataFrame, ease: pd.Series, thresholds: SynthesisThresholds
) -> pd.DataFrame:
    """Judge power, systematic error and heterogeneity."""
    keys = ("target_id", "comparator_id", "outcome_id", "exposures_outcome_set_id", "covariate_id")
    found = table[[c for c in (*keys, "analysis_id", "mdrr", "i_2", "tau") if c in table]].copy()
    found["ease"] = ease
    limits = {
        "mdrr": thresholds.mdrr_threshold,
        "ease": thresholds.ease_threshold,
        "i_2": thresholds.i2_threshold,
        "tau": thresholds.tau_threshold,
    }
    shown = pd.Series(True, index=found.index)
    for name, limit in limits.items():
        passes = np.where(found[name].abs() < limit, PASS, FAIL)
        verdict = pd.Series(np.where(found[name].isna(), NOT_EVALUATED, passes), index=found.index)
        found[f"{name}_diagnostic"] = verdict
        shown &= verdict != FAIL
    return found.assign(unblind=shown.astype(int))
