"""The tables of SelfControlledCaseSeries 6's results model, without small cells.

In these tables a negative count −n means "fewer than n". A count of 1 to ``min_cell`` − 1 is
−min_cell; a count from which such a one would follow by subtraction is a negative bound too.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.studies.data_notes import note_rows, released_notes, rules_of
from steropes.studies.disclosure import Bound, chain, part, small
from steropes.studies.plain_text import csv_text
from steropes.studies.sccs.diagnostics import NOT_EVALUATED, Diagnostics
from steropes.studies.sccs.intervals import PROBE

if TYPE_CHECKING:
    from steropes.studies.sccs.study import CaseSeries

__all__ = [
    "public_attrition",
    "public_counts",
    "public_diagnostics",
    "result_tables",
    "write_tables",
]

FIRST_WINDOW, PROBE_ID = 1000, 99
SPLINE_IDS = {"age": 100, "season": 200, "calendar": 300}
KINDS = {"exposure": "rx", "condition": "dx"}


def result_tables(
    study: CaseSeries, analysis_id: int = 1, set_id: int = 1, database_id: str | None = None
) -> dict[str, pd.DataFrame]:
    """All tables of a study.

    Parameters
    ----------
    study : CaseSeries
    analysis_id, set_id : int, default 1
        Numbers of the analysis and of the exposures-outcome set.
    database_id : str, optional
        Default: what the database calls itself.
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
    }  # fmt: skip


def write_tables(tables: dict[str, pd.DataFrame], folder: str | Path) -> list[Path]:
    """Write the tables as CSV files; returns their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        path = folder / f"{name}.csv"
        path.write_text(csv_text(table), encoding="utf-8")
        paths.append(path)
    return paths


def covariate_ids(study: CaseSeries) -> dict[str, int]:
    """Numbers of the covariates: 99 the probe, 100 age, 200 season, 300 calendar, 1000 windows."""
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


def public_attrition(study: CaseSeries) -> pd.DataFrame:
    """What each rule leaves, as numbers or bounds; days are dropped where people are a bound."""
    least = study.settings.min_cell
    table = study.attrition
    columns = {c: chain(table[c].tolist(), least) for c in ("subjects", "events", "periods")}
    days = [
        None if any(isinstance(columns[c][i], Bound) for c in columns) else int(n)
        for i, n in enumerate(table["days"])
    ]
    return pd.DataFrame({"rule": table["rule"], **columns, "days": days}, dtype=object)


def public_counts(study: CaseSeries, name: str) -> dict[str, int | Bound]:
    """Cases with a covariate: ``subjects``, ``periods``, their ``observed_events`` and ``events``.

    All cases are told everywhere, and so neither those with it nor those without it may be few. The
    ``events`` are those in the covariate's own time.
    """
    least, line = study.settings.min_cell, study.intervals.statistics.loc[name]
    _, subjects, events, periods, _ = study.intervals.attrition
    inside, observed = int(line["events"]), int(line["observed_events"])
    told = part(inside, events, least)
    if inside and small(observed - inside, least):  # of none inside, all observed are outside
        told = Bound(least) if small(inside, least) else Bound(max(events, least))
    return {
        "subjects": part(int(line["subjects"]), subjects, least),
        "periods": part(int(line["periods"]), periods, least),
        "observed_events": part(observed, events, least),
        "events": told,
    }


def public_diagnostics(study: CaseSeries) -> list[Diagnostics]:
    """The diagnostics without numbers from which a count would follow that is a bound elsewhere.

    The detectable ratio tells the events of the cases with the exposure, whose share of time is
    told; and a share of all people, with all its digits, tells how many they are.
    """
    subjects = public_attrition(study)["subjects"]
    rounded = len(subjects) > 0 and isinstance(subjects.iloc[0], Bound)
    found = []
    for d in study.diagnostics:
        verdicts = dict(d.verdicts)
        told = int(study.intervals.statistics.loc[d.covariate, "compared_events"])
        few = small(told, study.settings.min_cell)  # in a risk interval design fewer than all
        if few or isinstance(public_counts(study, d.covariate)["observed_events"], Bound):
            verdicts["detectable ratio"] = replace(
                verdicts["detectable ratio"],
                value=math.nan,
                finding="Rate ratio found with a probability of 80%: not told, as the outcomes of "
                "the cases with the exposure are not.",
            )
        if rounded:
            share = verdicts["rarity"].value
            verdicts["rarity"] = replace(verdicts["rarity"], value=float(f"{share:.2g}"))
        found.append(replace(d, verdicts=verdicts))
    return found


# -- tables --------------------------------------------------------------------------------------


def _framed(base: dict[str, Any], table: pd.DataFrame, end: dict[str, Any]) -> pd.DataFrame:
    out = table.copy()
    for k, (name, value) in enumerate(base.items()):
        out.insert(k, name, value)
    return out.assign(**end)


def _analysis(study: CaseSeries, number: int) -> pd.DataFrame:
    definition = json.dumps(asdict(study.settings), indent=1, default=str)
    line = {"analysis_id": number, "description": "case series", "definition": definition}
    return pd.DataFrame([line])


def _windows(study: CaseSeries, number: int) -> pd.DataFrame:
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
    ids = [c.eras[0] for c in study.intervals.columns if c.of_interest and c.eras]
    return pd.DataFrame(
        {"exposures_outcome_set_id": set_id, "era_id": ids, "true_effect_size": math.nan}
    )


def _covariates(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
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
    """The rules, and as the last one having the covariate, for each of interest."""
    least = study.settings.min_cell
    table = study.attrition
    parts = []
    for name in study.of_interest:
        own = public_counts(study, name)
        told = {"subjects": "subjects", "events": "observed_events", "periods": "periods"}
        # the rules are told alike with every covariate: one would tell what another hides
        counts = {
            c: [_bound(n) for n in (*chain(table[c].tolist(), least), own[k])]
            for c, k in told.items()
        }
        few = np.array(counts["subjects"]) < 0
        last = study.intervals.statistics.loc[name, "observed_days"]
        days = np.append(table["days"].to_numpy(np.int64), np.int64(last))
        parts.append(
            pd.DataFrame(
                {
                    "outcome_subjects": counts["subjects"],
                    "outcome_events": counts["events"],
                    "outcome_observation_periods": counts["periods"],
                    "observed_days": np.where(few, -(days // 10_000 + 1) * 10_000, days),
                    "description": [*table["rule"], "having the covariate of interest"],
                    "sequence_number": np.arange(1, len(days) + 1),
                    "covariate_id": ids[name],
                }
            )
        )
    return _framed(base, pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), end)


def _bound(n: int | Bound) -> int:
    return -int(n.limit) if isinstance(n, Bound) else int(n)


def _hide(n: Any, least: int) -> int:
    return -least if small(int(n), least) else int(n)


def _results(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    least = study.settings.min_cell
    _, subjects, events, periods, days = study.intervals.attrition
    rows = []
    for name in study.of_interest:
        e, s = study.estimates.loc[name], study.intervals.statistics.loc[name]
        told = public_counts(study, name)
        rows.append(
            {
                "covariate_id": ids[name],
                "rr": e["rr"],
                "ci_95_lb": e["lower"],
                "ci_95_ub": e["upper"],
                "p": e["p"],
                "one_sided_p": e["one_sided_p"],
                "outcome_subjects": _hide(subjects, least),
                "outcome_events": _hide(events, least),
                "outcome_observation_periods": _hide(periods, least),
                "covariate_subjects": _bound(told["subjects"]),
                "covariate_days": _hide(s["days"], least),
                "covariate_eras": _hide(s["eras"], least),
                "covariate_outcomes": _bound(told["events"]),
                "observed_days": _hide(days, least),
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
    """Notes on the database; this table is ours and not R's."""
    columns = [*base, "topic", "note", "counted", "count", "warning", *end]
    rows = note_rows(study.data_notes, {**base, **end})
    return released_notes(pd.DataFrame(rows, columns=columns), rules_of(study.settings.min_cell))


def _covariate_results(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    table = study.estimates.loc[list(ids), ["rr", "lower", "upper"]]
    table = table.rename(columns={"lower": "ci_95_lb", "upper": "ci_95_ub"})
    table.insert(0, "covariate_id", list(ids.values()))
    return table.reset_index(drop=True)


def _profiles(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    parts = [t.assign(covariate_id=ids[name]) for name, t in study.model.profiles.items()]
    columns = ["log_rr", "log_likelihood", "gradient", "covariate_id"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _splines(study: CaseSeries) -> pd.DataFrame:
    """The effect at each knot, against that at the first."""
    rows = []
    words = {"age": "age", "season": "season", "calendar": "calendar time"}
    for effect in study.effects.effects if study.effects else ():
        beta = study.effect_coefficients(effect)
        values = effect.basis(effect.knots) @ beta
        for knot, value in zip(effect.knots, values - values[0], strict=True):
            rows.append((words[effect.kind], knot, math.exp(value)))
    return pd.DataFrame(rows, columns=["spline_type", "knot_month", "rr"])


def _censoring(study: CaseSeries) -> pd.DataFrame:
    model = study.censoring
    rows = [] if model is None else [
        (k + 1, v, model.kind.title()) for k, v in enumerate(model.parameters)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["parameter_id", "parameter_value", "model_type"])


def _time_trend(study: CaseSeries) -> pd.DataFrame:
    least, m = study.settings.min_cell, study.monthly
    seen = [_hide(n, least) for n in m["cases"].round()]
    few = np.array(seen) < 0
    return pd.DataFrame(
        {
            "calendar_year": m["year"],
            "calendar_month": m["month"],
            "observed_subjects": seen,
            "ratio": m["ratio"].where(~few),
            "adjusted_ratio": m["adjusted_ratio"].where(~few),
        }
    )


def _time_to_event(study: CaseSeries) -> pd.DataFrame:
    least = study.settings.min_cell
    parts = []
    for name in study.exposures:
        t = study.time_to_event(name)
        eras = dict(zip(study.intervals.names, study.intervals.columns, strict=True))[name].eras
        parts.append(
            pd.DataFrame(
                {
                    "era_id": eras[0] if eras else 0,
                    "week": t["week"],
                    "observed_subjects": [_hide(n, least) for n in t["observed"]],
                    "outcomes": [_hide(n, least) for n in t["outcomes"]],
                }
            )
        )
    columns = ["era_id", "week", "observed_subjects", "outcomes"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _age_spans(study: CaseSeries) -> pd.DataFrame:
    least = study.settings.min_cell
    if np.isnan(study.population.age).any():
        return pd.DataFrame(columns=["age_month", "cover_before_after_subjects"])
    t = study.age_spans()
    return pd.DataFrame(
        {
            "age_month": t["age_month"],
            "cover_before_after_subjects": [_hide(n, least) for n in t["cases"]],
        }
    )


def _calendar_spans(study: CaseSeries) -> pd.DataFrame:
    least, t = study.settings.min_cell, study.calendar_spans()
    return pd.DataFrame(
        {
            "calendar_year": t["year"],
            "calendar_month": t["month"],
            "cover_before_after_subjects": [_hide(n, least) for n in t["cases"]],
        }
    )


def _period(study: CaseSeries) -> pd.DataFrame:
    p = study.population
    first, last = p.restricted or (
        _month_only(int((p.observed + p.start).min())),
        _month_only(int((p.observed + p.end).max())),
    )
    return pd.DataFrame([{"min_date": str(first), "max_date": str(last)}])


def _month_only(day: int) -> str:
    """The first of the month: the first and the last day are each of somebody."""
    return f"{np.datetime64(day, 'D').astype('datetime64[M]')}-01"


def _diagnostics(study: CaseSeries, ids: dict[str, int]) -> pd.DataFrame:
    return pd.DataFrame([_summary(d, ids[d.covariate]) for d in public_diagnostics(study)])


def _summary(d: Diagnostics, covariate_id: int) -> dict[str, Any]:
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
