"""All tables of a comparative grid for release, with small counts suppressed."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

import pandas as pd

from steropes.designs.effects.outcome_summaries import detectable_ratio_of_counts
from steropes.designs.values.arm_names import ARMS
from steropes.studies.database.data_quality_notes import released_notes
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.diagnostic import NOT_EVALUATED
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.disclosure.counts_in_text import released_notes_column
from steropes.studies.disclosure.disclosive_digit_rounding import (
    in_ratio,
    significant,
    smd_unit,
    to_unit,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import released_controls, released_truth
from steropes.studies.disclosure.released_table_rows import column, each_row
from steropes.studies.release.grid_counts import KEY, GridCounts, released_counts
from steropes.studies.release.grid_covariates_and_scores import (
    hidden_names,
    released_balance,
    released_densities,
    released_families,
    released_scores,
)
from steropes.studies.release.grid_effects import GridEffects, released_grid_effects
from steropes.studies.release.grid_survival_curves import released_curves, released_follow_up
from steropes.studies.result_files.table_layouts import TABLES
from steropes.studies.results.calibrated_results import calibrated_tables

__all__ = ["RARE", "release_grid"]

Tables = Mapping[str, pd.DataFrame]
PRECISION = "precision_diagnostic"
RARE = 0.05  # The assumed share of people with a covariate.
BALANCES = ("cm_shared_covariate_balance", "cm_covariate_balance")
# The largest differences among the diagnostics, with the keys of their tables in `BALANCES`.
LARGEST = {
    "shared_max_sdm": ("target_comparator_id", "analysis_id"),
    "max_sdm": ("target_comparator_id", "outcome_id", "analysis_id"),
}


def release_grid(
    exact: Tables,
    thresholds: DiagnosticThresholds,
    kinds: Mapping[int, str],
    rules: DisclosureRules,
) -> dict[str, pd.DataFrame]:
    """Make the tables for release.

    Parameters
    ----------
    exact : mapping of str to DataFrame
        Tables of the store.
    kinds : mapping of int to str
        Kinds of the outcome models by the ids of the analyses, in decreasing precedence of the
        analyses' counts.

    Returns
    -------
    dict of str to DataFrame
        In the layout of ``table_layouts.TABLES``. Calibrated estimates depend on released estimates
        only, because withheld ones could be derived from them otherwise.
    """
    tables, covariates = _with_balance(exact, rules), exact["cm_covariate"]
    if rules.open:
        tables["cm_kaplan_meier_dist"] = exact["cm_kaplan_meier_dist"]
        return _laid_out(tables)
    tables["cm_target_comparator_outcome"] = released_truth(exact["cm_target_comparator_outcome"])
    counts = released_counts(
        exact["cm_result"], exact["cm_attrition"], exact["cm_target_comparator"], [*kinds], rules
    )
    effects = released_grid_effects(tables, counts, rules)
    calibrated = calibrated_tables(
        effects.results,
        _with_judged_power(exact["cm_diagnostics_summary"], counts, effects, kinds, rules),
        effects.interactions,
        tables["cm_target_comparator_outcome"],
        exact["note"],
        exact["further_diagnostic"],
        thresholds,
    )
    unnamed = hidden_names(tables[BALANCES[0]], covariates)
    largest = _all_largest_differences(exact, tables)
    tables |= {
        "cm_result": calibrated.results,
        "cm_interaction_result": calibrated.interactions,
        "cm_diagnostics_summary": _checks(calibrated.checks, counts, effects, largest, rules),
        "further_diagnostic": _further(exact["further_diagnostic"], counts, rules),
        "cm_attrition": counts.attrition,
        "cm_likelihood_profile": effects.profiles,
        "subgroup": effects.subgroups,
        "effect_by_period": effects.periods,
        "absolute_effect": effects.absolute,
        "note": _notes(effects.notes, unnamed, calibrated.results, thresholds, rules),
        "cm_kaplan_meier_dist": released_curves(
            exact["cm_kaplan_meier_dist"], counts, effects.secrecy, rules
        ),
        "cm_follow_up_dist": released_follow_up(exact["cm_follow_up_dist"], counts, rules),
        "covariate_family": released_families(
            exact["covariate_family"], tables[BALANCES[0]], covariates, rules
        ),
        "cm_propensity_model": released_scores(
            exact["cm_propensity_model"],
            exact[BALANCES[0]],
            covariates,
            exact["preference_histogram"],
            rules,
        ),
        "positive_control": released_controls(exact["positive_control"], rules),
        "data_note": released_notes(exact["data_note"], rules),
        "unusable_value": exact["unusable_value"].assign(
            records=column(rules.count(int(n)) for n in exact["unusable_value"]["records"])
        ),
    }
    return _laid_out(tables)


def _notes(
    notes: pd.DataFrame,
    unnamed: Container[tuple[int, str]],
    results: pd.DataFrame,
    thresholds: DiagnosticThresholds,
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Release the notes of results, without the names of hidden covariates.

    The number of outcomes is judged as it is released, because a limit among the values of a
    suppressed number would narrow it.
    """
    worst = [
        "" if (int(analysis), str(name)) in unnamed else name
        for analysis, name in zip(notes["analysis_id"], notes["worst_covariate"], strict=True)
    ]
    released = released_notes_column(notes["note"], rules)
    declared = {d.key: d for d in declared_diagnostics(thresholds, "comparative")}
    precision = declared["precision"].chosen(thresholds)
    fewest = {
        tuple(line[k] for k in KEY): min(_possible_outcomes(line, rules))
        for line in results.to_dict("records")
    }
    words = {key: precision.word(n, thresholds) for key, n in fewest.items()}
    keys = notes[KEY].itertuples(index=False, name=None)
    known = zip(keys, notes[PRECISION], strict=True)
    judged = [word if word == NOT_EVALUATED else words[key] for key, word in known]
    return notes.assign(note=released, worst_covariate=worst, **{PRECISION: judged})


def _possible_outcomes(line: dict[Any, Any], rules: DisclosureRules) -> list[int]:
    """Return the smallest number of outcomes for which that of each arm can stand."""
    shown = [int(line[f"{arm}_outcomes"]) for arm in ARMS]
    return [n if n >= 0 else max(-n - rules.least, 1) for n in shown]


def _with_judged_power(
    checks: pd.DataFrame,
    counts: GridCounts,
    effects: GridEffects,
    kinds: Mapping[int, str],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Compute detectable ratios that are withheld from the fewest outcomes that are possible.

    Their verdicts remain in the release and decide on the estimate. Those of exact numbers would
    tell on which side of a limit a suppressed number of outcomes is.
    """
    released = {
        tuple(int(line[k]) for k in KEY): line for line in counts.results.to_dict("records")
    }
    exact = {tuple(int(line[k]) for k in KEY): line for line in counts.exact.to_dict("records")}

    def judged(line: dict[Any, Any]) -> dict[Any, Any]:
        """Replace the ratio of one result."""
        key = tuple(int(line[k]) for k in KEY)
        s = effects.secrecy[(key[0], key[1], key[2])]
        if not (s.closed or s.events):
            return line
        people = [int(exact[key][f"{arm}_subjects"]) for arm in ARMS]
        events = sum(_possible_outcomes(released[key], rules))
        if events and sum(people):
            share = people[0] / sum(people)
            line["mdrr"] = detectable_ratio_of_counts(events, sum(people), share, kinds[key[2]])
        return line

    return each_row(checks, judged)


def _with_balance(exact: Tables, rules: DisclosureRules) -> dict[str, pd.DataFrame]:
    """Return the tables with released balance and with densities, which have no exact table."""
    tables = dict(exact)
    for name, rows in released_densities(exact["preference_histogram"], rules).items():
        tables[name] = pd.DataFrame(rows, columns=list(TABLES[name]))
    for name in BALANCES:
        tables[name] = released_balance(exact[name], exact["cm_covariate"], rules)
    return tables


def _laid_out(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Select the released columns, in their order."""
    return {name: tables[name][list(columns)] for name, columns in TABLES.items()}


def _further(table: pd.DataFrame, counts: GridCounts, rules: DisclosureRules) -> pd.DataFrame:
    """Round further diagnostics as shares of the smaller arm are rounded."""
    people = _smaller_arm(counts)
    sizes = [people[key] for key in table[KEY].itertuples(index=False, name=None)]
    values = [rules.stepped(x, n) for x, n in zip(table["value"].astype(float), sizes, strict=True)]
    return table.assign(value=values)


def _smaller_arm(counts: GridCounts) -> dict[tuple[int, ...], int]:
    """Count the people of the smaller arm of each result, after its adjustment.

    Some diagnostics are shares of the people before adjustment. The smaller number after it makes
    their steps wider, so that they hide as many people of either.
    """
    return {
        tuple(int(line[k]) for k in KEY): min(int(line[f"{arm}_subjects"]) for arm in ARMS)
        for line in counts.exact.to_dict("records")
    }


def _all_largest_differences(
    exact: Tables, tables: Tables
) -> dict[str, dict[tuple[int, ...], float]]:
    """Find the largest released differences of both balance tables, by diagnostic."""
    return {
        name: _largest_differences(exact[table], tables[table], key)
        for (name, key), table in zip(LARGEST.items(), BALANCES, strict=True)
    }


def _largest_differences(
    exact: pd.DataFrame, released: pd.DataFrame, key: tuple[str, ...]
) -> dict[tuple[int, ...], float]:
    """Find the largest differences after adjustment that are released as those of a covariate."""
    found = {}
    sizes = exact["std_diff_after"].abs()
    for place, of in sizes.groupby([exact[k] for k in key]):
        if of.notna().any():
            size = abs(float(released.at[of.idxmax(), "std_diff_after"]))
            if not math.isnan(size):
                found[tuple(int(k) for k in place)] = size
    return found


def _checks(
    table: pd.DataFrame,
    counts: GridCounts,
    effects: GridEffects,
    largest: Mapping[str, Mapping[tuple[int, ...], float]],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Round diagnostics whose digits would reveal counts, and keep their verdicts."""
    people = _smaller_arm(counts)

    def released(line: dict[Any, Any]) -> dict[Any, Any]:
        """Round the diagnostics of one result."""
        key = tuple(int(line[k]) for k in KEY)
        n, s = people[key], effects.secrecy[(key[0], key[1], key[2])]
        # The covariate with the largest difference may be a rare one.
        unit = smd_unit(RARE, RARE, max(n, 1), rules.least)
        for name in (*LARGEST, "generalizability_max_sdm"):
            size = to_unit(float(line[name]), unit)
            if math.isinf(unit) and name in LARGEST:
                size = largest[name].get(tuple(int(line[k]) for k in LARGEST[name]), math.nan)
            line[name] = size
        for name in ("sdm_family_wise_min_p", "shared_sdm_family_wise_min_p"):
            line[name] = significant(float(line[name]), 2)
        for name in ("equipoise", "attrition_fraction"):
            line[name] = rules.stepped(float(line[name]), n)
        if s.closed or s.events:
            line["mdrr"] = math.nan
        elif s.step:  # It depends on the share of the people who are in the target arm.
            line["mdrr"] = in_ratio(float(line["mdrr"]), s.step)
        return line

    return each_row(table, released)
