"""Removal of crude risks from which estimates that fail a diagnostic would follow.

Incidence rates and prediction models count the outcomes of a cohort. If the cohort is an arm of a
comparison that is not shown, or the exposure of a case series that is not, these are the numbers
that pages hide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from steropes.studies.covariates.window_summaries import NO_WINDOW
from steropes.studies.diagnostics.archive_blinding import HIDDEN, flagged_results

__all__ = ["HIDDEN_RISK", "hidden_questions", "without_hidden_risks"]

Tables = Mapping[str, pd.DataFrame]
HIDDEN_RISK = "not shown: an estimate of its cohort and outcome is hidden"
KEY = ["database_id", "cohort_id", "outcome_id"]
# Columns of incidence rates that count outcomes, or follow from such a count. The person-days lack
# the days after outcomes.
OF_INCIDENCE = (
    "person_outcomes_pe", "person_outcomes", "outcomes_pe", "outcomes", "person_days",
    "incidence_proportion_p100p", "incidence_rate_p100py",
)  # fmt: skip
# Diagnostics of cohorts with covariates of windows, and the first of the people that cohorts share.
OF_WINDOWS = ("cd_temporal_covariate_value", "cd_temporal_covariate_value_dist")
OF_OVERLAP = ("both_subjects", "before_subjects", "same_day_subjects", "after_subjects")
# Tables of characterizations with the outcomes of a target: ids of both cohorts, and columns that
# identify rows. Groups of people without an outcome have outcome 0.
OF_OUTCOMES = {
    "c_time_to_event": (
        "target_cohort_definition_id", "outcome_cohort_definition_id", ("time_to_event",),
    ),
    "c_dechallenge_rechallenge": (
        "target_cohort_definition_id", "outcome_cohort_definition_id",
        ("dechallenge_stop_interval", "dechallenge_evaluation_window"),
    ),
    "c_covariates": (
        "target_cohort_id", "outcome_cohort_id", ("covariate_id", "min_characterization_mean"),
    ),
    "c_covariates_continuous": ("target_cohort_id", "outcome_cohort_id", ("covariate_id",)),
    "c_cohort_counts": ("target_cohort_id", "outcome_cohort_id", ()),
}  # fmt: skip
# Tables of prediction models whose rows depend on the number of people with the outcome.
OF_RISKS = (
    "plp_threshold_summary", "plp_calibration_summary", "plp_prediction_distribution",
    "plp_demographic_summary", "plp_covariate_summary",
)  # fmt: skip
# Statistics of prediction models from which no number of outcomes follows. The width of the
# interval of the area under the curve gives this number to about a tenth.
NOT_OF_OUTCOMES = ("populationSize", "AUROC")


def hidden_questions(sources: Sequence[Tables]) -> pd.DataFrame:
    """List the cohorts and outcomes of questions of which no estimate may be shown.

    Parameters
    ----------
    sources : sequence of mapping
        Released tables of several archives or folders.

    Returns
    -------
    DataFrame
        ``database_id``, ``cohort_id`` and ``outcome_id``. Subsets of a cohort are represented by
        the cohort that they were made from.
    """
    roots = _roots(sources)
    parts = []
    for design, asked in (("cm", _comparisons), ("sccs", _exposures)):
        flagged = [
            asked(flagged_results(tables, design), tables)
            for tables in sources
            if f"{design}_result" in tables
        ]
        if flagged:
            found = pd.concat(flagged, ignore_index=True)
            group = [c for c in found if c not in (HIDDEN, "cohort_id")]
            flag = found[HIDDEN].astype(bool)
            keys = [found[c] for c in group]
            found[HIDDEN] = flag.groupby(keys, dropna=False).transform("all")
            parts.append(found.loc[found[HIDDEN], KEY])
    questions = pd.concat(parts) if parts else pd.DataFrame(columns=KEY)
    named = {c: questions[c].map(lambda i: roots.get(i, i)) for c in KEY[1:]}
    return questions.assign(**named).drop_duplicates().reset_index(drop=True)


def without_hidden_risks(
    tables: Tables, questions: pd.DataFrame, sources: Sequence[Tables]
) -> dict[str, pd.DataFrame]:
    """Return tables without the numbers of outcomes of hidden questions.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables of one source. Those of prediction models have the table ``prediction``.
    questions : DataFrame
        As by `hidden_questions`.
    sources : sequence of mapping
        Tables of all sources, which define subsets.

    Returns
    -------
    dict of str to DataFrame
        The column `HIDDEN` of incidence rates and of the table ``prediction`` marks redacted rows.
    """
    found, roots = dict(tables), _roots(sources)
    rates = tables.get("ci_incidence_summary")
    if rates is not None:
        outcome = _outcome_cohorts(rates, tables.get("ci_outcome_def"))
        hidden = _is_hidden(rates, rates["target_cohort_definition_id"], outcome, questions, roots)
        columns = [c for c in OF_INCIDENCE if c in rates]
        shown = rates[columns].astype(float).mask(hidden)
        found["ci_incidence_summary"] = rates.assign(**shown, **{HIDDEN: hidden})
    found |= _without_later_windows(tables, questions, roots)
    for name, (target, outcome, keys) in OF_OUTCOMES.items():
        if name in tables:
            table = tables[name]
            hidden = _is_hidden(table, table[target], table[outcome], questions, roots)
            kept = [target, outcome, *keys]
            numbers = table.select_dtypes("number").drop(columns=kept, errors="ignore")
            shown = numbers.astype(float).mask(hidden)
            found[name] = table.assign(**shown, **{HIDDEN: hidden})
    shared = tables.get("cohort_overlap")
    if shared is not None:
        both = shared["cohort_id"], shared["other_cohort_id"]
        hidden = _is_hidden(shared, *both, questions, roots)
        hidden |= _is_hidden(shared, *both[::-1], questions, roots)
        counts = shared[[*OF_OVERLAP]].astype(float).mask(hidden)
        found["cohort_overlap"] = shared.assign(**counts, **{HIDDEN: hidden})
    models = tables.get("prediction")
    if models is not None:
        hidden = _is_hidden(models, models["target_id"], models["outcome_id"], questions, roots)
        found["prediction"] = models.assign(**{HIDDEN: hidden})
        found |= _without_risks(tables, set(models.loc[hidden, "performance_id"]))
    return found


def _comparisons(results: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Return both arms of each result of a comparative study."""
    pairs = tables.get("cm_target_comparator")
    place = "target_comparator_id"
    if pairs is None:
        return pd.DataFrame(columns=[place, *KEY, HIDDEN])
    arms = pd.concat(
        [
            pairs[[place, f"{arm}_id"]].rename(columns={f"{arm}_id": "cohort_id"})
            for arm in ("target", "comparator")
        ]
    )
    found = results[[place, "outcome_id", "database_id", HIDDEN]].merge(
        arms.drop_duplicates(), on=place
    )
    return found[[place, *KEY, HIDDEN]]


def _exposures(results: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Return the exposures of each result of a case series."""
    place = "exposures_outcome_set_id"
    outcomes, exposures = (tables.get(f"sccs_{n}") for n in ("exposures_outcome_set", "exposure"))
    if outcomes is None or exposures is None:
        return pd.DataFrame(columns=[place, *KEY, HIDDEN])
    found = results[[place, "database_id", HIDDEN]].merge(
        outcomes[[place, "outcome_id"]].drop_duplicates(), on=place
    )
    eras = exposures[[place, "era_id"]].rename(columns={"era_id": "cohort_id"})
    return found.merge(eras.drop_duplicates(), on=place)[[place, *KEY, HIDDEN]]


def _roots(sources: Sequence[Tables]) -> dict[object, object]:
    """Return the cohort from which each subset was made."""
    parents: dict[object, object] = {}
    for tables in sources:
        defined = tables.get("cg_cohort_definition")
        if defined is not None and "subset_parent" in defined:
            known = defined[["cohort_definition_id", "subset_parent"]].dropna()
            parents |= dict(known.astype(float).itertuples(index=False, name=None))
    found = {}
    for cohort in parents:
        root, seen = cohort, {cohort}
        while (parent := parents.get(root, root)) not in seen:
            root = parent
            seen.add(root)
        found[cohort] = root
    return found


def _outcome_cohorts(rates: pd.DataFrame, defined: pd.DataFrame | None) -> pd.Series:
    """Return the outcome cohort of each rate; NaN if it is not defined."""
    if defined is None:
        return pd.Series(math.nan, index=rates.index)
    key = ["ref_id", "outcome_id"]
    cohorts = defined[[*key, "outcome_cohort_definition_id"]].drop_duplicates(key)
    found = rates[key].merge(cohorts, on=key, how="left")["outcome_cohort_definition_id"]
    found.index = rates.index
    return found


def _is_hidden(
    table: pd.DataFrame,
    cohort: pd.Series,
    outcome: pd.Series,
    questions: pd.DataFrame,
    roots: Mapping[object, object],
) -> pd.Series:
    """Mark the rows of hidden questions; an unknown outcome could be that of any of them."""
    place = table["database_id"].astype(str), cohort.map(lambda i: roots.get(i, i)).astype(float)
    hidden = pd.DataFrame(
        {"database": questions["database_id"].astype(str)}
        | {c: questions[c].astype(float) for c in KEY[1:]}
    )
    rows = pd.MultiIndex.from_arrays([*place, outcome.map(lambda i: roots.get(i, i)).astype(float)])
    found = rows.isin(pd.MultiIndex.from_frame(hidden))
    of_cohort = pd.MultiIndex.from_arrays([*place]).isin(
        pd.MultiIndex.from_frame(hidden[["database", "cohort_id"]])
    )
    return pd.Series(found | (outcome.isna().to_numpy() & of_cohort), index=table.index)


def _without_later_windows(
    tables: Tables, questions: pd.DataFrame, roots: Mapping[object, object]
) -> dict[str, pd.DataFrame]:
    """Return the covariates of windows without those after the index of cohorts that are compared.

    Records after the index include those of the outcome, and other cohorts may be the outcome.
    """
    times = tables.get("cd_temporal_time_ref")
    before = [] if times is None else times.loc[times["end_day"] <= 0, "time_id"].tolist()
    found = {}
    for name in OF_WINDOWS:
        table = tables.get(name)
        if table is None:
            continue
        unknown = pd.Series(math.nan, index=table.index)
        of_arm = _is_hidden(table, table["cohort_id"], unknown, questions, roots)
        hidden = of_arm & ~table["time_id"].isin([*before, NO_WINDOW])
        keys = ("cohort_id", "time_id", "covariate_id")
        numbers = table.select_dtypes("number").drop(columns=[*keys], errors="ignore")
        found[name] = table.assign(**numbers.astype(float).mask(hidden), **{HIDDEN: hidden})
    return found


def _without_risks(tables: Tables, hidden: set[object]) -> dict[str, pd.DataFrame]:
    """Return the tables of prediction models without the risks of hidden questions."""
    found = {
        name: tables[name][~tables[name]["performance_id"].isin(hidden)]
        for name in OF_RISKS
        if name in tables
    }
    statistics, attrition = tables.get("plp_evaluation_statistics"), tables.get("plp_attrition")
    if statistics is not None:
        gone = statistics["performance_id"].isin(hidden) & ~statistics["metric"].isin(
            NOT_OF_OUTCOMES
        )
        found["plp_evaluation_statistics"] = statistics[~gone]
    if attrition is not None:
        outcomes = attrition["outcomes"].astype(float)
        outcomes = outcomes.mask(attrition["performance_id"].isin(hidden))
        found["plp_attrition"] = attrition.assign(outcomes=outcomes)
    return found
