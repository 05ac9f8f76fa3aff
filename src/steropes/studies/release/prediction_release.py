"""Disclosure control of the results of prediction models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steropes.designs.prediction_measures.prediction_calibration import STRATA, calibration_line
from steropes.designs.prediction_measures.prediction_thresholds import classification_measures
from steropes.studies.disclosure.disclosive_digit_rounding import significant, to_unit
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.sums_over_people import released_means
from steropes.studies.prediction.prediction_models import PredictionResult
from steropes.studies.prediction.unsuppressed_prediction_performance import (
    TRAIN,
    EvaluatedPredictions,
    standardized,
)
from steropes.studies.release.prediction_counts import (
    CASES,
    GROUPS,
    PEOPLE,
    prediction_counts,
)
from steropes.studies.release.prediction_people import (
    COUNTED,
    EvaluatedPeople,
    evaluated_people,
    first_evaluation,
    has_rare_outcomes,
    rules_of_entries,
)
from steropes.studies.release.prediction_thresholds import (
    separated_thresholds,
    strata_of,
    thresholds_beside_strata,
)

__all__ = ["released_intercept", "released_result"]

# Statistics with steps that hide the smallest count of people.
STEPPED = ("Eavg", "E90", "Emax")
# Statistics that are the share of people with the outcome for risks without information.
PRECISION = ("AUPRC", "Average Precision")
# Limits whose distance follows from the number of people with the outcome.
LIMITS, LIMIT_UNIT = ("95% lower AUROC", "95% upper AUROC"), 0.01
QUANTILES = {
    "p_05": 0.05, "p_25": 0.25, "median": 0.5, "p_50": 0.5, "p_75": 0.75, "p_95": 0.95,
}  # fmt: skip
# Columns of covariates that are used for the release and are not part of it.
EXACT = ["binary", "outcome_people", *(f"{name}people" for name in GROUPS)]
FINEST = 1e-4  # Released statistics are rounded to it, so that zero is not a rounding error.
Tables = dict[str, pd.DataFrame]


def released_result(
    result: EvaluatedPredictions, rules: DisclosureRules, rare: bool = False
) -> Tables:
    """Return the tables of a model's results for release.

    The people of all tables overlap. Counts are therefore rounded as `DisclosureRules.coarse` does,
    and shares follow from them. If people have several entries, the smallest number of entries is
    one that more people than the suppressed ones must have.

    In training data the predicted risks sum to the number of people with the outcome. All released
    risks are therefore those of a model with another intercept, whose risks sum to the released,
    rounded number, and statistics are those of these risks and numbers. The numbers of training,
    test and folds follow from the rounded total and the shares of the design.

    If few people of a part have the outcome, or few do not have it, nothing is released from which
    the total number with the outcome follows, because the number of the part would follow from it.
    The same applies to a model whose risks are all equal, and to ``rare`` outcomes.

    Smallest and largest risks belong to single people and are withheld, and so are percentiles with
    few people beyond them, and coefficients of covariates with few people, with or without the
    outcome. Risks by age and gender are withheld where few of the training data have the outcome.
    Between any two released thresholds of classification, and beyond the first and last ones, are
    as many people with and without the outcome as the smallest count. The line through the strata
    of calibration follows from the released strata, and is withheld if one of them is.

    Parameters
    ----------
    result : EvaluatedPredictions
        Exact results. Risks of models of other databases are not moved; those that are recalibrated
        here are.
    rare : bool, default False
        Whether another design has few people with this outcome in a part of the same target.
    """
    tables = {
        "plp_attrition": result.attrition,
        "plp_evaluation_statistics": result.statistics,
        "plp_threshold_summary": result.thresholds,
        "plp_calibration_summary": result.calibration,
        "plp_prediction_distribution": result.distribution,
        "plp_demographic_summary": result.demographics,
        "plp_covariate_summary": result.covariates,
    }
    if rules.open:
        return {name: table.drop(columns=EXACT, errors="ignore") for name, table in tables.items()}
    rare = rare or has_rare_outcomes(result, rules)
    rules = rules_of_entries(result, rules)
    parts = evaluated_people(result, rules)
    moves = {name: result.shifted_by(name) for name in parts}
    shifts = {
        name: 0.0 if of is None else _shift(result, parts[of], of) for name, of in moves.items()
    }
    risks = _Risks(parts, shifts, rules, rare)
    counts = prediction_counts(result, parts, rules, rare)
    calibration = _calibration(result.calibration, counts.calibration, risks)
    return {
        "plp_attrition": _attrition(result.attrition, rules, rare),
        "plp_evaluation_statistics": _statistics(result, calibration, risks),
        "plp_threshold_summary": _thresholds(result, calibration, risks),
        "plp_calibration_summary": calibration,
        "plp_prediction_distribution": _distribution(result.distribution, risks),
        "plp_demographic_summary": _demographics(result, counts.demographics, risks),
        "plp_covariate_summary": _covariates(result.covariates, counts.covariates, rare, rules),
    }


def released_intercept(result: PredictionResult, rules: DisclosureRules, rare: bool) -> float:
    """Return the intercept with which risks sum to the released number with the outcome."""
    if rules.open:
        return result.intercept
    if rare or has_rare_outcomes(result, rules):
        return math.nan
    shift = evaluated_people(result, rules_of_entries(result, rules))[TRAIN].intercept()
    return significant(result.intercept + shift)


def _shift(result: EvaluatedPredictions, part: EvaluatedPeople, evaluation: str) -> float:
    """Return what is added to the log odds of risks that were fitted to the outcomes."""
    return part.intercept() if result.sums_to_outcomes(evaluation) else part.shift


def _attrition(table: pd.DataFrame, rules: DisclosureRules, rare: bool) -> pd.DataFrame:
    """Release who remains after each step, by the numbers of people where entries are of few."""
    found = table.drop(columns=EXACT, errors="ignore")
    few = table["unique_people"].map(rules.small)
    for name in ("target_count", "unique_people"):
        found[name] = table[name].map(rules.coarse).mask(few, -rules.least)
    few |= table["outcome_people"].map(rules.small)
    outcomes = table["outcomes"].map(rules.coarse).mask(few, -rules.least)
    return found.assign(outcomes=math.nan if rare else outcomes)


def _statistics(
    result: EvaluatedPredictions, calibration: pd.DataFrame, risks: _Risks
) -> pd.DataFrame:
    """Release statistics; with few people with or without the outcome only their counts."""
    found = []
    for key, part in result.statistics.groupby("evaluation", sort=False):
        name, value = str(key), part.set_index("metric")["value"]
        of = risks.parts[name]
        shown = dict.fromkeys(value.index, math.nan)
        shown["populationSize"] = float(of.shown_people)
        if of.few:
            shown["outcomeCount"] = float(risks.rules.coarse(of.cases))
        elif not risks.rare:
            strata = calibration[calibration["evaluation"] == name]
            sums = result.sums_to_outcomes(name)
            shown |= _measures(value, of, strata, risks, risks.shifts[name], sums)
            shown["outcomeCount"] = float(of.shown_cases)
        found.append(part.assign(value=part["metric"].map(shown)))
    return pd.concat(found)


def _measures(
    value: pd.Series, part: EvaluatedPeople, strata: pd.DataFrame, risks: _Risks, shift: float,
    sums: bool,
) -> dict[str, float]:  # fmt: skip
    """Compute and round the measures of shifted risks and released numbers with the outcome.

    Where risks sum to the number with the outcome, their mean is the share with the outcome, which
    follows from these numbers.
    """
    exact = {str(k): float(x) for k, x in value.items() if k not in COUNTED}
    if not exact:
        return {}
    found = {k: to_unit(significant(x), FINEST) for k, x in exact.items()}
    found |= {k: risks.rules.stepped(exact[k], part.people) for k in STEPPED}
    found |= {k: to_unit(exact[k], LIMIT_UNIT) for k in LIMITS}
    for name in PRECISION:
        found[name] = to_unit(significant(_moved(exact[name], part.shift)), FINEST)
    share = part.shown_cases / max(part.shown_people, 1)
    mean = _moved(exact["calibrationInLarge mean prediction"], shift)
    mean = share if sums else risks.rules.stepped(mean, part.people)
    found["calibrationInLarge mean prediction"] = significant(mean)
    found["calibrationInLarge observed risk"] = significant(share)
    found["brier score"] = significant((1 - found["brier score scaled"]) * mean * (1 - mean))
    # The lines of recalibration of the released risks to the released number.
    for name, gradient in (
        ("calibrationInLarge intercept", 1.0),
        ("weak calibration intercept", found["weak calibration gradient"]),
    ):
        moved = part.intercept(exact[name], gradient) - gradient * shift
        found[name] = to_unit(
            significant(moved if math.isfinite(exact[name]) else math.nan), FINEST
        )
    line = (significant(x) for x in calibration_line(strata))
    names = ("Hosmer-Lemeshow calibration intercept", "Hosmer-Lemeshow calibration gradient")
    return found | dict(zip(names, line, strict=True))


def _moved(risk: float, shift: float) -> float:
    """Add to the log odds of a risk; risks of 0 and 1 stay."""
    if not 0 < risk < 1:
        return risk
    return 1 / (1 + (1 - risk) / risk * math.exp(-shift))


@dataclass(frozen=True)
class _Risks:
    """The release of predicted risks.

    Attributes
    ----------
    parts : mapping of str to EvaluatedPeople
        The people of each evaluation.
    shifts : mapping of str to float
        The number that is added to the log odds of the risks of each evaluation.
    rare : bool
        Whether all risks are withheld.
    """

    parts: Mapping[str, EvaluatedPeople]
    shifts: Mapping[str, float]
    rules: DisclosureRules
    rare: bool

    def shown(self, risks: pd.Series, evaluation: pd.Series) -> pd.Series:
        """Release risks that are no means, of the evaluations of their rows."""
        if self.rare:
            return pd.Series(math.nan, risks.index, dtype=float)
        return self.moved(risks, evaluation).map(significant)

    def moved(self, risks: pd.Series, evaluation: pd.Series) -> pd.Series:
        """Add the shifts of evaluations to risks."""
        both = zip(risks, evaluation, strict=True)
        moved = [_moved(x, self.shifts[str(name)]) for x, name in both]
        return pd.Series(moved, risks.index, dtype=float)

    def summarised(self, table: pd.DataFrame, n: pd.Series) -> pd.DataFrame:
        """Release summaries of the risks of groups of people.

        Which are released depends on the released numbers ``n``, because it would reveal limits of
        exact ones. Means have the steps of shares. A standard deviation is scaled like small
        deviations from the mean.
        """
        n = n.fillna(0).clip(lower=0)
        hidden = (n == 0) | self.rare
        found = table.copy()
        mean = table["average_predicted_probability"]
        moved = self.moved(mean, table["evaluation"])
        scale = (moved * (1 - moved) / (mean * (1 - mean))).where((mean > 0) & (mean < 1), 1.0)
        columns = {
            f"{name}_predicted_probability": share
            for name, share in QUANTILES.items()
            if f"{name}_predicted_probability" in table
        }
        for column, share in columns.items():
            beyond = np.minimum(share, 1 - share) * n
            shown = self.shown(table[column], table["evaluation"])
            found[column] = shown.mask(beyond < self.rules.least)
        spread = (table["st_dev_predicted_probability"] * scale).map(significant)
        of = [self.parts[str(name)].people for name in table["evaluation"]]
        means = [self.rules.stepped(x, k) for x, k in zip(moved, of, strict=True)]
        few = 0.5 * n < self.rules.least
        found["st_dev_predicted_probability"] = spread.mask(few)
        found["average_predicted_probability"] = pd.Series(means, table.index, dtype=float)
        summaries = [
            *columns, "st_dev_predicted_probability", "average_predicted_probability",
        ]  # fmt: skip
        found["average_predicted_probability"] = found["average_predicted_probability"].mask(few)
        found[summaries] = found[summaries].mask(hidden)
        found[["min_predicted_probability", "max_predicted_probability"]] = math.nan
        return found


def _thresholds(
    result: EvaluatedPredictions, calibration: pd.DataFrame, risks: _Risks
) -> pd.DataFrame:
    """Release classifications by thresholds that have enough people between them.

    Numbers of a threshold are sums over strata, so that thresholds that narrow a suppressed one are
    left out.
    """
    table = result.thresholds
    rules, found = risks.rules, []
    for name, part in table.groupby("evaluation", sort=False):
        first = part.iloc[0]
        of = risks.parts[str(name)]
        numbers = int(first["true_count"]), int(first["false_count"])
        kept = part.iloc[separated_thresholds(part, *numbers, rules.least)]
        if risks.rare:
            kept = kept.iloc[:0]
        all_cases = of.shown_cases
        all_others = max(rules.coarse(of.shown_people - all_cases), 0)
        true, false = (
            kept[f"{kind}_positive_count"].map(rules.coarse).to_numpy(dtype=float)
            for kind in ("true", "false")
        )
        true, false = np.minimum(true, all_cases), np.minimum(false, all_others)
        exact, shown = (t[t["evaluation"] == name] for t in (result.calibration, calibration))
        told = thresholds_beside_strata(
            kept["prediction_threshold"].tolist(),
            [*zip(true.tolist(), false.tolist(), strict=True)],
            strata_of(exact, shown, of, rules),
            rules,
        )
        kept, true, false = kept.iloc[told], true[told], false[told]
        released = classification_measures(
            risks.shown(kept["prediction_threshold"], kept["evaluation"]).to_numpy(dtype=float),
            true,
            false,
            all_cases,
            all_others,
        )
        released.insert(0, "evaluation", name)
        found.append(released)
    return pd.concat(found, ignore_index=True) if found else table


def _distribution(table: pd.DataFrame, risks: _Risks) -> pd.DataFrame:
    """Release the distributions of risks of people with and without the outcome."""
    counts = []
    for name, label, n in table[["evaluation", "class_label", "person_count"]].itertuples(
        index=False
    ):
        of = risks.parts[str(name)]
        if risks.rare:
            few = risks.rules.small(n) and label == 1
            counts.append(float(-risks.rules.least) if few else math.nan)
        else:
            cases = of.shown_cases
            counts.append(
                float(cases if label == 1 else risks.rules.coarse(of.shown_people - cases))
            )
    shown = pd.Series(counts, table.index, dtype=float)
    return risks.summarised(table, shown).assign(person_count=shown)


def _demographics(
    result: EvaluatedPredictions, counts: pd.DataFrame, risks: _Risks
) -> pd.DataFrame:
    """Release observed and predicted risks by age and gender.

    Age and gender are covariates, so that the risks of a group show how many people of the training
    data have the outcome, also in its folds and in other people. Groups of few people are left out,
    because a row shows that there are people.
    """
    table = result.demographics
    if table.empty:
        return table
    rules, group = risks.rules, ["age_group", "gen_group"]
    found = risks.summarised(table, counts[PEOPLE])
    trained = table[table["evaluation"] == first_evaluation(result)]
    cases = trained["person_count_with_outcome"]
    few = cases.map(rules.small) | (trained[PEOPLE] - cases).map(rules.small)
    few |= ~counts.loc[trained.index, CASES].ge(0)
    groups = {*trained.loc[few, group].itertuples(index=False, name=None)}
    own = [key in groups for key in table[group].itertuples(index=False, name=None)]
    risk = [name for name in found if str(name).endswith("_predicted_probability")]
    found[risk] = found[risk].mask(pd.Series(own, table.index))
    found = found.assign(**counts)
    return found[~table[PEOPLE].map(rules.small).astype(bool)]


def _calibration(table: pd.DataFrame, counts: pd.DataFrame, risks: _Risks) -> pd.DataFrame:
    """Release observed risks, which follow from rounded counts, and predicted ones.

    Strata that are tenths of the people are counted as tenths of the released number.
    """
    of = table["evaluation"].map(lambda name: risks.parts[str(name)])
    tenth = (table[PEOPLE] - of.map(lambda part: part.people) / STRATA).abs() < 1
    tenths = of.map(lambda part: risks.rules.coarse(round(part.shown_people / STRATA)))
    n, cases = counts[PEOPLE].mask(tenth, tenths.astype(float)), counts[CASES]
    share = (cases / n).where((n > 0) & (cases >= 0))
    return risks.summarised(table, n).assign(
        person_count_at_risk=n,
        person_count_with_outcome=cases,
        observed_incidence=share.clip(upper=1.0),
        prediction_threshold=risks.shown(table["prediction_threshold"], table["evaluation"]),
    )


def _covariates(
    table: pd.DataFrame, counts: pd.DataFrame, rare: bool, rules: DisclosureRules
) -> pd.DataFrame:
    """Release covariates: means of 0/1 ones follow from rounded counts.

    Means and deviations of others have steps that hide the smallest count of the fewest people
    with a value, because exact means of three groups give their sizes; with few people in one
    group, all are withheld. A coefficient is withheld where few people with the covariate,
    or for 0/1 ones few without it, have the outcome or do not have it, because it is nearly the log
    odds ratio of these numbers. With ``rare`` outcomes coefficients and all numbers by outcome are
    withheld.
    """
    if table.empty:
        return table
    found, binary = table.copy(), table["binary"].astype(bool)
    few_values = pd.Series(False, index=table.index)
    few_outcomes = counts.isna().any(axis=1) | rare
    for name in GROUPS:
        count, people = table[f"{name}covariate_count"], table[f"{name}people"]
        few_values |= count.map(rules.small) | people.map(rules.small)
        few_outcomes |= count.map(rules.small) | (people - count).map(rules.small) & binary
    few_values &= ~binary
    fewest = table[[f"{name}covariate_count" for name in GROUPS]].min(axis=1).map(rules.coarse)
    for name in GROUPS:
        count, people = table[f"{name}covariate_count"], table[f"{name}people"]
        hidden = count.map(rules.small) | people.map(rules.small) | few_values
        of_outcomes = rare and name != ""
        hidden |= of_outcomes
        shown, of = counts[f"{name}covariate_count"], people.map(rules.coarse)
        hidden |= shown.isna()
        share = (shown / of).where(of > 0).clip(upper=1.0)
        mean = released_means(table[f"{name}covariate_mean"], fewest, rules)
        spread = released_means(table[f"{name}covariate_st_dev"], fewest, rules)
        found[f"{name}covariate_count"] = shown
        found[f"{name}covariate_mean"] = mean.mask(binary, share).mask(hidden)
        of_share = (share * (1 - share)) ** 0.5
        found[f"{name}covariate_st_dev"] = spread.mask(binary, of_share).mask(hidden)
    coefficient = table["covariate_value"].map(significant)
    found["covariate_value"] = coefficient.mask(few_outcomes)
    found["standardized_mean_diff"] = standardized(found).map(significant)
    return found.drop(columns=EXACT, errors="ignore")
