"""Exact tables of a case series, in the layout of SelfControlledCaseSeries 6's results model.

Some columns and one table serve only `disclosure.series`, which turns these tables into the ones
for release.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.studies.database.data_notes import note_rows
from steropes.studies.sccs.intervals import PROBE
from steropes.studies.sccs.sccs_diagnostics import NOT_EVALUATED, Diagnostics

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = [
    "covariate_ids",
    "exact_tables",
]

FIRST_WINDOW, PROBE_ID = 1000, 99
SPLINE_IDS = {"age": 100, "season": 200, "calendar": 300}
KINDS = {"exposure": "rx", "condition": "dx"}


def exact_tables(
    study: CaseSeries, analysis_id: int = 1, set_id: int = 1, database_id: str | None = None
) -> dict[str, pd.DataFrame]:
    """Return all tables of a study.

    Parameters
    ----------
    study : CaseSeries
    analysis_id, set_id : int, default 1
        Ids of the analysis and of the exposures-outcome set.
    database_id : str, optional
        Default: the name of the database.
    """
    base: dict[str, Any] = {"analysis_id": analysis_id, "exposures_outcome_set_id": set_id}
    end = {"database_id": database_id or study.source or "database"}
    ids = covariate_ids(study)
    return {
        "sccs_analysis": _analysis(study, analysis_id),
        "sccs_covariate_analysis": _windows(study, analysis_id),
        "sccs_exposures_outcome_set": pd.DataFrame(
            [{"exposures_outcome_set_id": set_id, "outcome_id": study.settings.cases.outcome,
              "nesting_cohort_id": study.settings.cases.nesting_cohort}]
        ),
        "sccs_exposure": _exposures(study, set_id),
        "sccs_era": _framed(base, study.eras.assign(era_type=study.eras["kind"].map(KINDS))[
            ["era_type", "era_id", "name"]].rename(columns={"name": "era_name"}), end),
        "sccs_covariate": _framed(base, _covariates(study, ids), end),
        "sccs_attrition": _attrition(study, ids, base, end),
        "sccs_result": _framed(base, _results(study, ids), end),
        "sccs_covariate_result": _framed(base, _covariate_results(study, ids), end),
        "sccs_likelihood_profile": _framed(base, _profiles(study, ids), end),
        "sccs_spline": _framed(base, _splines(study), end),
        "sccs_censor_model": _framed(base, _censoring(study), end),
        "sccs_time_trend": _framed(base, _time_trend(study), end),
        "sccs_time_to_event": _framed(base, _time_to_event(study), end),
        "sccs_age_spanning": _framed(base, _age_spans(study), end),
        "sccs_calendar_time_spanning": _framed(base, _calendar_spans(study), end),
        "sccs_time_period": _framed(base, _period(study), {}),
        "sccs_diagnostics_summary": _framed(base, _diagnostics(study, ids), end),
        "data_note": _data_notes(study, base, end),
        "covariate_count": _framed(base, _counts(study, ids), end),
    }  # fmt: skip


def covariate_ids(study: CaseSeries) -> dict[str, int]:
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


def _framed(base: dict[str, Any], table: pd.DataFrame, end: dict[str, Any]) -> pd.DataFrame:
    """Add the ids to a table, as its first and last columns."""
    out = table.copy()
    for k, (name, value) in enumerate(base.items()):
        out.insert(k, name, value)
    return out.assign(**end)


def _analysis(study: CaseSeries, number: int) -> pd.DataFrame:
    """Return the analysis with its settings as JSON."""
    definition = json.dumps(asdict(study.settings), indent=1, default=str)
    line = {"analysis_id": number, "description": "case series", "definition": definition}
    return pd.DataFrame([line])


def _windows(study: CaseSeries, number: int) -> pd.DataFrame:
    """Return the exposure windows and the probe."""
    rows = [
        {
            "analysis_id": number,
            "covariate_analysis_id": k + 1,
            "covariate_analysis_name": w.label,
            "variable_of_interest": int(w.of_interest),
            "pre_exposure": int(bool(w.pre_exposure)),
            "end_of_observation_period": 0,
        }
        for k, w in enumerate(study.settings.windows)
    ]
    if PROBE in study.intervals.names:
        probe = {"covariate_analysis_id": PROBE_ID, "covariate_analysis_name": PROBE}
        flags = {"variable_of_interest": 0, "pre_exposure": 0, "end_of_observation_period": 1}
        rows.append({**rows[0], **probe, **flags})
    return pd.DataFrame(rows)


def _exposures(study: CaseSeries, set_id: int) -> pd.DataFrame:
    """Return the exposures of interest."""
    ids = [c.eras[0] for c in study.intervals.columns if c.of_interest and c.eras]
    return pd.DataFrame(
        {"exposures_outcome_set_id": set_id, "era_id": ids, "true_effect_size": math.nan}
    )


def _covariates(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    """Return the covariates with their ids."""
    columns = dict(zip(study.intervals.names, study.intervals.columns, strict=True))
    rows = [
        {
            "covariate_analysis_id": columns[n].window + 1 if columns[n].window >= 0 else None,
            "covariate_id": i,
            "covariate_name": n,
            "era_id": columns[n].eras[0] if len(columns[n].eras) == 1 else 0,
        }
        for n, i in ids.items()
    ]
    return pd.DataFrame(rows)


def _attrition(
    study: CaseSeries, ids: dict[str, int], base: dict[str, Any], end: dict[str, Any]
) -> pd.DataFrame:
    """Return the attrition of each exposure of interest, ending with its own cases."""
    table = study.attrition
    parts = []
    for name in study.of_interest:
        own = study.intervals.statistics.loc[name]
        counted = {"subjects": "subjects", "events": "observed_events", "periods": "periods",
                   "days": "observed_days"}  # fmt: skip
        counts = {c: np.append(table[c].to_numpy(np.int64), np.int64(own[k]))
                  for c, k in counted.items()}  # fmt: skip
        parts.append(
            pd.DataFrame(
                {
                    "outcome_subjects": counts["subjects"],
                    "outcome_events": counts["events"],
                    "outcome_observation_periods": counts["periods"],
                    "observed_days": counts["days"],
                    "description": [*table["rule"], "having the covariate of interest"],
                    "sequence_number": np.arange(1, len(table) + 2),
                    "covariate_id": ids[name],
                }
            )
        )
    return _framed(base, pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), end)


def _counts(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    """Return cases, spans, days and outcomes of each covariate, and the compared outcomes."""
    columns = ["subjects", "periods", "eras", "days", "events", "observed_events",
               "compared_events"]  # fmt: skip
    known = [n for n in ids if n in study.intervals.statistics.index]
    table = study.intervals.statistics.loc[known, columns].astype(np.int64)
    table.insert(0, "covariate_id", [ids[n] for n in known])
    return table.reset_index(drop=True)


def _results(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    """Return the estimates and counts of the exposures of interest."""
    _, subjects, events, periods, days = study.intervals.attrition
    rows = []
    for name in study.of_interest:
        e, s = study.estimates.loc[name], study.intervals.statistics.loc[name]
        rows.append(
            {
                "covariate_id": ids[name],
                "rr": e["rr"],
                "ci_95_lb": e["lower"],
                "ci_95_ub": e["upper"],
                "p": e["p"],
                "one_sided_p": e["one_sided_p"],
                "outcome_subjects": subjects,
                "outcome_events": events,
                "outcome_observation_periods": periods,
                "covariate_subjects": int(s["subjects"]),
                "covariate_days": int(s["days"]),
                "covariate_eras": int(s["eras"]),
                "covariate_outcomes": int(s["events"]),
                "observed_days": days,
                "log_rr": e["log_rr"],
                "se_log_rr": e["se"],
                "llr": e["llr"],
                **dict.fromkeys(
                    (f"calibrated_{k}" for k in ("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p",
                                                 "log_rr", "se_log_rr")), math.nan,
                ),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _data_notes(study: CaseSeries, base: dict[str, Any], end: dict[str, Any]) -> pd.DataFrame:
    """Return the notes on the database, a table that R does not have."""
    columns = [*base, "topic", "note", "counted", "count", "warning", *end]
    rows = note_rows(study.data_notes, {**base, **end})
    return pd.DataFrame(rows, columns=columns)


def _covariate_results(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    """Return the rate ratios of all covariates."""
    table = study.estimates.loc[list(ids), ["rr", "lower", "upper"]]
    table = table.rename(columns={"lower": "ci_95_lb", "upper": "ci_95_ub"})
    table.insert(0, "covariate_id", list(ids.values()))
    return table.reset_index(drop=True)


def _profiles(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    """Return the likelihood profiles."""
    parts = [t.assign(covariate_id=ids[name]) for name, t in study.model.profiles.items()]
    columns = ["log_rr", "log_likelihood", "gradient", "covariate_id"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _splines(study: CaseSeries) -> pd.DataFrame:
    """Return the effect at each knot, relative to the first."""
    rows = []
    words = {"age": "age", "season": "season", "calendar": "calendar time"}
    for effect in study.effects.effects if study.effects else ():
        beta = study.effect_coefficients(effect)
        values = effect.basis(effect.knots) @ beta
        for knot, value in zip(effect.knots, values - values[0], strict=True):
            rows.append((words[effect.kind], knot, math.exp(value)))
    return pd.DataFrame(rows, columns=["spline_type", "knot_month", "rr"])


def _censoring(study: CaseSeries) -> pd.DataFrame:
    """Return the parameters of the model of event-dependent observation."""
    model = study.censoring
    rows = [] if model is None else [
        (k + 1, v, model.kind.title()) for k, v in enumerate(model.parameters)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["parameter_id", "parameter_value", "model_type"])


def _time_trend(study: CaseSeries) -> pd.DataFrame:
    """Return observed over expected outcomes by month."""
    m = study.monthly
    return pd.DataFrame(
        {
            "calendar_year": m["year"],
            "calendar_month": m["month"],
            "observed_subjects": m["cases"].round().astype(np.int64),
            "ratio": m["ratio"],
            "adjusted_ratio": m["adjusted_ratio"],
            "observed_outcomes": m["observed"],
        }
    )


def _time_to_event(study: CaseSeries) -> pd.DataFrame:
    """Return outcomes by week around the start of each exposure."""
    parts = []
    for name in study.exposures:
        t = study.time_to_event(name)
        eras = dict(zip(study.intervals.names, study.intervals.columns, strict=True))[name].eras
        parts.append(
            pd.DataFrame(
                {
                    "era_id": eras[0] if eras else 0,
                    "week": t["week"],
                    "observed_subjects": t["observed"],
                    "outcomes": t["outcomes"],
                }
            )
        )
    columns = ["era_id", "week", "observed_subjects", "outcomes"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _age_spans(study: CaseSeries) -> pd.DataFrame:
    """Return the cases that cover each month of age; empty if ages are unknown."""
    if np.isnan(study.population.age).any():
        return pd.DataFrame(columns=["age_month", "cover_before_after_subjects"])
    t = study.age_spans()
    return pd.DataFrame(
        {
            "age_month": t["age_month"],
            "cover_before_after_subjects": t["cases"],
        }
    )


def _calendar_spans(study: CaseSeries) -> pd.DataFrame:
    """Return the cases that cover each calendar month."""
    t = study.calendar_spans()
    return pd.DataFrame(
        {
            "calendar_year": t["year"],
            "calendar_month": t["month"],
            "cover_before_after_subjects": t["cases"],
        }
    )


def _period(study: CaseSeries) -> pd.DataFrame:
    """Return the first and last day of observation."""
    p = study.population
    first, last = p.restricted or (
        np.datetime64(int((p.observed + p.start).min()), "D"),
        np.datetime64(int((p.observed + p.end).max()), "D"),
    )
    return pd.DataFrame([{"min_date": str(first), "max_date": str(last)}])


def _diagnostics(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    """Return the diagnostics of each exposure of interest."""
    return pd.DataFrame([_summary(d, ids[d.covariate]) for d in study.diagnostics])


def _summary(d: Diagnostics, covariate_id: int) -> dict[str, Any]:
    """Return the diagnostics of one exposure by R's columns."""
    v = d.verdicts
    return {
        "covariate_id": covariate_id,
        "time_stability_p": v["time stability"].p,
        "time_stability_diagnostic": v["time stability"].verdict,
        "event_exposure_lb": v["pre-exposure"].lower,
        "event_exposure_ub": v["pre-exposure"].upper,
        "event_exposure_diagnostic": v["pre-exposure"].verdict,
        "event_observation_lb": v["end of observation"].lower,
        "event_observation_ub": v["end of observation"].upper,
        "event_observation_diagnostic": v["end of observation"].verdict,
        "rare_outcome_prevalence": v["rarity"].value,
        "rare_outcome_diagnostic": v["rarity"].verdict,
        "mdrr": v["detectable ratio"].value,
        "mdrr_diagnostic": v["detectable ratio"].verdict,
        "ease": v["EASE"].value,
        "ease_diagnostic": v["EASE"].verdict,
        "unblind": int(d.unblind),
        "unblind_for_evidence_synthesis": int(d.unblind_for_evidence_synthesis),
        "time_trend_p": math.nan,
        "pre_exposure_p": math.nan,
        "time_trend_diagnostic": NOT_EVALUATED,
        "pre_exposure_diagnostic": NOT_EVALUATED,
    }
