"""Tables of a case series before small counts are hidden, in the layout of R's results model.

The layout is that of SelfControlledCaseSeries 6. Some columns and one table serve only
`disclosure.series_table_release`, which turns these tables into the ones for release.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from steropes.designs.case_series.interval_rows import PROBE
from steropes.studies.database.data_quality_notes import note_rows
from steropes.studies.diagnostics.diagnostic import FAIL, NOT_EVALUATED
from steropes.studies.diagnostics.diagnostic_catalogue import SERIES, further_diagnostics
from steropes.studies.result_files.sccs_results_schema import EXACT
from steropes.studies.sccs.results.sccs_diagnostics import Diagnostics
from steropes.studies.sccs.results.unsuppressed_series_results import ExactSeries
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings

__all__ = [
    "ESTIMATE",
    "FORMER_VERDICTS",
    "PROBE_ID",
    "covariate_ids",
    "exact_tables",
    "weekly_eras",
    "window_rows",
]

FIRST_WINDOW, PROBE_ID = 1000, 99
SPLINE_IDS = {"age": 100, "season": 200, "calendar": 300}
KINDS = {"exposure": "rx", "condition": "dx"}
# Columns of ``CaseSeries.estimates`` with another name in the tables.
ESTIMATE = {"lower": "ci_95_lb", "upper": "ci_95_ub", "se": "se_log_rr"}
MONTHS = {"year": "calendar_year", "month": "calendar_month"}
# Diagnostics of an earlier version of R's results model, which still requires their verdicts.
FORMER_VERDICTS = ("time_trend_diagnostic", "pre_exposure_diagnostic")
COVER = {"cases": "cover_before_after_subjects"}

Rows: TypeAlias = pd.DataFrame | list[dict[str, Any]]


def exact_tables(
    study: ExactSeries, analysis_id: int = 1, set_id: int = 1, database_id: str | None = None
) -> dict[str, pd.DataFrame]:
    """Return all tables of a study.

    Parameters
    ----------
    analysis_id, set_id : int, default 1
        Ids of the analysis and of the exposures-outcome set.
    database_id : str, optional
        Default: the name of the database.
    """
    where = {
        "analysis_id": analysis_id,
        "exposures_outcome_set_id": set_id,
        "database_id": database_id or study.source or "database",
    }
    ids = covariate_ids(study)
    rows: dict[str, Rows] = {
        "sccs_analysis": _analysis(study),
        "sccs_covariate_analysis": _windows(study),
        "sccs_exposures_outcome_set": _question(study),
        "sccs_exposure": _exposures(study),
        "sccs_era": _eras(study),
        "sccs_covariate": _covariates(study, ids),
        "sccs_attrition": _attrition(study, ids),
        "sccs_result": _results(study, ids),
        "sccs_covariate_result": _covariate_results(study, ids),
        "sccs_likelihood_profile": _profiles(study, ids),
        "sccs_spline": _splines(study),
        "sccs_censor_model": _censoring(study),
        "sccs_time_trend": _time_trend(study),
        "sccs_time_to_event": _time_to_event(study),
        "sccs_age_spanning": _age_spans(study),
        "sccs_calendar_time_spanning": study.calendar_spans().rename(columns=MONTHS | COVER),
        "sccs_time_period": _period(study),
        "sccs_diagnostics_summary": [_summary(d, ids[d.covariate]) for d in study.diagnostics],
        "sccs_further_diagnostic": _further(study, ids),
        "note": [_note(study)],
        "data_note": note_rows(study.data_notes, {}),
        "covariate_count": _counts(study, ids),
    }
    return {name: _in_layout(name, table, where) for name, table in rows.items()}


def _note(study: ExactSeries) -> dict[str, Any]:
    """Return the note that holds for all exposures of interest, and unconverged fits."""
    lines = study.estimates.loc[study.of_interest]
    notes = lines["note"].unique()
    own = str(notes[0]) if len(notes) == 1 else _missing(lines)
    line: dict[str, Any] = {
        "note": study.model.status if study.model.status != "OK" else own,
        "sampling": None if study.sampling is None else study.sampling.sentence(),
    }
    if study.diagnostics:
        fits = study.diagnostics[0].verdicts["convergence"]
        line["convergence_diagnostic"] = fits.verdict
        line["unconverged"] = fits.finding if fits.verdict == FAIL else None
    return line


def _further(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return the diagnostics that the specification adds, of each exposure."""
    return [
        {"covariate_id": ids[of.covariate], "diagnostic": d.key, "value": v.value,
         "verdict": v.verdict}
        for of in study.diagnostics
        for d in further_diagnostics(study.settings.thresholds)
        for v in [of.verdicts[d.key]]
    ]  # fmt: skip


def _missing(lines: pd.DataFrame) -> str:
    """Give the reasons of missing estimates of several exposures, each with its exposures.

    Notes of zero and infinite estimates are left out, because the note is that of all exposures,
    of which some may not be shown.
    """
    gone = lines[lines["log_rr"].isna() & lines["note"].ne("")]
    reasons = []
    for note, of in gone.groupby("note", sort=False):
        names = [str(name) for name in of.index[:3]] + ["…"] * (len(of) > 3)
        reasons.append(f"{note} ({', '.join(names)})")
    return "; ".join(reasons)


def covariate_ids(study: ExactSeries) -> dict[str, int]:
    """Number the covariates: 99 the probe, 100 age, 200 season, 300 calendar, 1000 windows."""
    ids = {}
    at = FIRST_WINDOW
    for name, column in zip(study.intervals.names, study.intervals.columns, strict=True):
        if name == PROBE:
            ids[name] = PROBE_ID
        elif column.window >= 0:
            ids[name] = at
            at += 1
    names = study.intervals.names[study.intervals.X.shape[1] :]
    if study.effects is not None:
        begin = 0
        for effect in study.effects.effects:
            for k, name in enumerate(names[begin : begin + len(effect.names)]):
                ids[name] = SPLINE_IDS[effect.kind] + k
            begin += len(effect.names)
    return ids


# -- tables --------------------------------------------------------------------------------------


def _in_layout(name: str, rows: Rows, where: dict[str, object]) -> pd.DataFrame:
    """Arrange rows in the columns of a table, and fill in the ids that it has."""
    columns = EXACT[name]
    table = pd.DataFrame(rows).assign(**{k: v for k, v in where.items() if k in columns})
    return table.reindex(columns=list(columns))


def _analysis(study: ExactSeries) -> Rows:
    """Return the analysis with its settings as JSON."""
    definition = json.dumps(asdict(study.settings), indent=1, default=str)
    return [{"description": "case series", "definition": definition}]


def _question(study: ExactSeries) -> Rows:
    """Return the outcome and the nesting cohort."""
    rules = study.settings.cases
    return [{"outcome_id": rules.outcome, "nesting_cohort_id": rules.nesting_cohort}]


def _windows(study: ExactSeries) -> Rows:
    """Return the exposure windows and the probe."""
    return window_rows(study.settings, PROBE in study.intervals.names)


def window_rows(settings: CaseSeriesSettings, probe: bool) -> Rows:
    """Return the exposure windows of an analysis, and the probe if it has one."""
    windows = [
        (k + 1, w.label, int(w.of_interest), int(bool(w.pre_exposure)), 0)
        for k, w in enumerate(settings.windows)
    ]
    if probe:
        windows.append((PROBE_ID, PROBE, 0, 0, 1))
    names = (
        "covariate_analysis_id", "covariate_analysis_name", "variable_of_interest", "pre_exposure",
        "end_of_observation_period",
    )  # fmt: skip
    return [dict(zip(names, window, strict=True)) for window in windows]


def weekly_eras(study: ExactSeries) -> dict[str, int]:
    """Return the id by which outcomes by week are stored for each window of interest.

    Windows of the same eras share their weeks. Of several eras, the id is the first that no other
    window has.
    """
    columns = dict(zip(study.intervals.names, study.intervals.columns, strict=True))
    ids: dict[tuple[int, ...], int] = {}
    eras = {name: tuple(columns[name].eras) for name in study.exposures}
    for of in sorted({*eras.values()}, key=lambda of: (len(of), of)):
        ids[of] = next((era for era in of if era not in ids.values()), of[0] if of else 0)
    return {name: ids[of] for name, of in eras.items()}


def _exposures(study: ExactSeries) -> Rows:
    """Return the exposures of interest."""
    columns = study.intervals.columns
    eras = dict.fromkeys(c.eras[0] for c in columns if c.of_interest and c.eras)
    return [{"era_id": era} for era in eras]


def _eras(study: ExactSeries) -> Rows:
    """Return the eras in use."""
    table = study.eras.rename(columns={"name": "era_name"})
    return table.assign(era_type=table["kind"].map(KINDS))


def _covariates(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return the covariates with their ids, and the days of windows that begin or end with an era.

    Days are counted from the start of an era, and are missing where they depend on its end.
    """
    columns = dict(zip(study.intervals.names, study.intervals.columns, strict=True))
    days = {
        k: (float(w.start) if w.start_at == "start" else math.nan,
            float(w.end) if w.end_at == "start" else math.nan)
        for k, w in enumerate(study.settings.windows)
    }  # fmt: skip
    unknown = math.nan, math.nan
    return [
        {
            "covariate_analysis_id": columns[n].window + 1 if columns[n].window >= 0 else None,
            "covariate_id": i,
            "covariate_name": n,
            "era_id": columns[n].eras[0] if len(columns[n].eras) == 1 else 0,
            "first_day": days.get(columns[n].window, unknown)[0],
            "last_day": days.get(columns[n].window, unknown)[1],
        }
        for n, i in ids.items()
    ]


def _attrition(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return the attrition of each exposure of interest, ending with its own cases."""
    counted = {
        "outcome_subjects": ("subjects", "subjects"),
        "outcome_events": ("events", "observed_events"),
        "outcome_observation_periods": ("periods", "periods"),
        "observed_days": ("days", "observed_days"),
    }
    table, parts = study.attrition, []
    for name in study.of_interest:
        own = study.intervals.statistics.loc[name]
        counts = {
            column: np.append(table[of_all].to_numpy(np.int64), np.int64(own[of_exposed]))
            for column, (of_all, of_exposed) in counted.items()
        }
        part = pd.DataFrame(counts).assign(
            description=[*table["rule"], "having the covariate of interest"],
            sequence_number=np.arange(1, len(table) + 2),
            covariate_id=ids[name],
        )
        parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else []


def _counts(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return cases, spans, days and outcomes of each covariate, and what is compared."""
    columns = ["subjects", "periods", "eras", "days", "events", "observed_events",
               "compared_days", "compared_total", "compared_events"]  # fmt: skip
    known = [n for n in ids if n in study.intervals.statistics.index]
    table = study.intervals.statistics.loc[known, columns].astype(np.int64)
    return table.reset_index(drop=True).assign(covariate_id=[ids[n] for n in known])


def _results(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return the estimates and counts of the exposures of interest."""
    names = study.of_interest
    counted = {"subjects": "covariate_subjects", "days": "covariate_days",
               "eras": "covariate_eras", "events": "covariate_outcomes"}  # fmt: skip
    counts = study.intervals.statistics.loc[names, list(counted)].astype(np.int64)
    table = study.estimates.loc[names].rename(columns=ESTIMATE).join(counts.rename(columns=counted))
    _, subjects, events, periods, days = study.intervals.attrition
    return table.reset_index(drop=True).assign(
        covariate_id=[ids[name] for name in names],
        outcome_subjects=subjects,
        outcome_events=events,
        outcome_observation_periods=periods,
        observed_days=days,
    )


def _covariate_results(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return the rate ratios of all covariates."""
    table = study.estimates.loc[list(ids)].rename(columns=ESTIMATE)
    return table.reset_index(drop=True).assign(covariate_id=list(ids.values()))


def _profiles(study: ExactSeries, ids: dict[str, int]) -> Rows:
    """Return the likelihood profiles."""
    parts = [t.assign(covariate_id=ids[name]) for name, t in study.model.profiles.items()]
    return pd.concat(parts, ignore_index=True) if parts else []


def _splines(study: ExactSeries) -> Rows:
    """Return the effect at each knot, relative to the first."""
    rows = []
    words = {"age": "age", "season": "season", "calendar": "calendar time"}
    for effect in study.effects.effects if study.effects else ():
        beta = study.effect_coefficients(effect)
        basis = effect.basis(effect.knots)
        # A part without events has an infinite coefficient, which counts only within the part.
        values = np.where(basis > 0, basis * np.where(basis > 0, beta, 0.0), 0.0).sum(axis=1)
        for knot, value in zip(effect.knots, values - values[0], strict=True):
            rows.append((words[effect.kind], knot, math.exp(value)))
    return pd.DataFrame(rows, columns=["spline_type", "knot_month", "rr"])


def _censoring(study: ExactSeries) -> Rows:
    """Return the parameters of the model of event-dependent observation."""
    model = study.censoring
    return [
        {"parameter_id": k + 1, "parameter_value": v, "model_type": model.kind.title()}
        for k, v in enumerate(model.parameters)
    ] if model is not None else []  # fmt: skip


def _time_trend(study: ExactSeries) -> Rows:
    """Return observed over expected outcomes by month."""
    table = study.monthly.rename(columns=MONTHS | {"observed": "observed_outcomes"})
    return table.assign(observed_subjects=table["cases"].round().astype(np.int64))


def _time_to_event(study: ExactSeries) -> Rows:
    """Return outcomes by week around the start of each exposure, once for all of its windows."""
    names: dict[int, str] = {}
    for name, era in weekly_eras(study).items():
        names.setdefault(era, name)
    parts = [
        study.time_to_event(name)
        .rename(columns={"observed": "observed_subjects"})
        .assign(era_id=era)
        for era, name in names.items()
    ]
    return pd.concat(parts, ignore_index=True) if parts else []


def _age_spans(study: ExactSeries) -> Rows:
    """Return the cases that cover each month of age; empty if ages are unknown."""
    unknown = np.isnan(study.population.age).any()
    return [] if unknown else study.age_spans().rename(columns=COVER)


def _period(study: ExactSeries) -> Rows:
    """Return the first and last day of observation."""
    p = study.population
    first, last = p.restricted or (
        np.datetime64(int((p.observed + p.start).min()), "D"),
        np.datetime64(int((p.observed + p.end).max()), "D"),
    )
    return [{"min_date": str(first), "max_date": str(last)}]


def _summary(d: Diagnostics, covariate_id: int) -> dict[str, object]:
    """Return the diagnostics of one exposure by R's columns."""
    row: dict[str, Any] = {"covariate_id": covariate_id}
    for diagnostic in SERIES:
        if diagnostic.verdict_column not in EXACT["sccs_diagnostics_summary"]:
            continue
        verdict = d.verdicts[diagnostic.key]
        if diagnostic.ends is None:
            row[diagnostic.column] = getattr(verdict, diagnostic.value)
        else:
            row |= zip(diagnostic.ends, (verdict.lower, verdict.upper), strict=True)
        row[diagnostic.verdict_column] = verdict.verdict
    return {
        **row,
        "unblind": int(d.unblind),
        "unblind_for_evidence_synthesis": int(d.unblind_for_evidence_synthesis),
        **dict.fromkeys(("time_trend_p", "pre_exposure_p"), math.nan),
        **dict.fromkeys(FORMER_VERDICTS, NOT_EVALUATED),
    }
