"""Disclosure control of the results of prediction models."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

import numpy as np
import pandas as pd

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.rounding import significant, to_unit
from steropes.studies.strategus.prediction_calibration import calibration_line
from steropes.studies.strategus.prediction_models import PredictionResult, standardized
from steropes.studies.strategus.prediction_thresholds import classification_measures

__all__ = ["few_trained", "released_result"]

# Statistics that reveal a number of people with the outcome if they are given to all digits.
SHARES = (
    "brier score", "calibrationInLarge mean prediction", "calibrationInLarge observed risk",
    "Eavg", "E90", "Emax",
)  # fmt: skip
# Statistics that follow from the strata of calibration.
OF_STRATA = ("Hosmer-Lemeshow calibration intercept", "Hosmer-Lemeshow calibration gradient")
HUNDREDTHS = 100  # Released thresholds have at least so large a part of the people between them.
QUANTILES = {
    "p_05": 0.05, "p_25": 0.25, "median": 0.5, "p_50": 0.5, "p_75": 0.75, "p_95": 0.95,
}  # fmt: skip
GROUPS = ("", "with_no_outcome_", "with_outcome_")
# Columns of covariates that are used for the release and are not part of it.
EXACT = ["binary", *(f"{name}people" for name in GROUPS)]
TRAIN = "Train"  # The evaluation in the training data.
FINEST = 1e-4  # Released statistics are rounded to it, so that zero is not a rounding error.
Tables = dict[str, pd.DataFrame]


def released_result(result: PredictionResult, rules: DisclosureRules) -> Tables:
    """Return the tables of a model's results for release.

    The people of all tables overlap. Counts are therefore rounded as `DisclosureRules.coarse` does,
    and shares follow from them. Statistics have three significant digits, and those that would
    reveal a number of people have steps that hide the smallest count. Smallest and largest risks
    belong to single people and are withheld, and so are percentiles with few people beyond them,
    and coefficients of covariates that few people have. Between any two released thresholds of
    classification, and beyond the first and last ones, are as many people with and without the
    outcome as the smallest count. The line through the strata of calibration follows from the
    released strata, and is withheld if one of them is.

    In training data the predicted risks sum to the number of people with the outcome, in total and,
    but for the known penalty, in each group that is a covariate. Mean risks therefore have the
    steps of shares, and all risks are withheld where few people have the outcome or do not have it:
    in the whole evaluation, and in groups by age and gender of the training data.
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
    people, few = _evaluated(result.statistics, rules)
    calibration = _calibration(result.calibration, people, few, rules)
    return {
        "plp_attrition": _coarse(
            result.attrition, ("target_count", "unique_people", "outcomes"), rules
        ),
        "plp_evaluation_statistics": _statistics(result.statistics, calibration, rules),
        "plp_threshold_summary": _thresholds(result.thresholds, rules),
        "plp_calibration_summary": calibration,
        "plp_prediction_distribution": _risks(
            result.distribution, "person_count", people, few, rules
        ),
        "plp_demographic_summary": _demographics(result.demographics, people, few, rules),
        "plp_covariate_summary": _covariates(result.covariates, few_trained(result, rules), rules),
    }


def few_trained(result: PredictionResult, rules: DisclosureRules) -> bool:
    """Check whether few people of the training data have the outcome, or few do not have it.

    The intercept and the coefficients of the model would then reveal their number.
    """
    return TRAIN in _evaluated(result.statistics, rules)[1]


def _evaluated(table: pd.DataFrame, rules: DisclosureRules) -> tuple[dict[str, int], set[str]]:
    """Return the people of each evaluation, and the evaluations with few of either outcome."""
    value = table.set_index(["evaluation", "metric"])["value"]
    people = {str(k): int(n) for k, n in value.xs("populationSize", level="metric").items()}
    cases = value.xs("outcomeCount", level="metric").astype(int)
    few = {k for k, n in people.items() if rules.small(cases[k]) or rules.small(n - cases[k])}
    return people, few


def _coarse(table: pd.DataFrame, names: Sequence[str], rules: DisclosureRules) -> pd.DataFrame:
    """Round the counts of a table."""
    return table.assign(**{name: table[name].map(rules.coarse) for name in names})


def _statistics(
    table: pd.DataFrame, calibration: pd.DataFrame, rules: DisclosureRules
) -> pd.DataFrame:
    """Release statistics; with few people with or without the outcome only their counts."""
    found = []
    for name, part in table.groupby("evaluation", sort=False):
        value = part.set_index("metric")["value"]
        people, cases = int(value["populationSize"]), int(value["outcomeCount"])
        few = rules.small(cases) or rules.small(people - cases)
        shown = {}
        for metric, x in value.items():
            if metric in ("populationSize", "outcomeCount"):
                shown[metric] = float(rules.coarse(int(x)))
            elif few:
                shown[metric] = math.nan
            else:
                fine = to_unit(significant(x), FINEST)
                shown[metric] = rules.stepped(x, people) if metric in SHARES else fine
        if not few:
            strata = calibration[calibration["evaluation"] == name]
            shown |= _following(shown, strata)
        found.append(part.assign(value=part["metric"].map(shown)))
    return pd.concat(found)


def _following(shown: Mapping[str, float], strata: pd.DataFrame) -> dict[str, float]:
    """Compute the statistics that follow from other released numbers, whose digits they reveal."""
    found: dict[str, float] = {}
    if "brier score scaled" in shown:
        mean = shown["calibrationInLarge mean prediction"]
        most = mean * (1 - mean)
        ratio = 1 - shown["brier score"] / most if most > 0 else math.nan
        found["brier score scaled"] = significant(ratio)
    if OF_STRATA[0] in shown:
        line = [significant(x) for x in calibration_line(strata)]
        found |= dict(zip(OF_STRATA, line, strict=True))
    return found


def _thresholds(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release classifications by thresholds that have enough people between them."""
    found = []
    for name, part in table.groupby("evaluation", sort=False):
        first = part.iloc[0]
        cases, others = int(first["true_count"]), int(first["false_count"])
        kept = part.iloc[_separated(part, cases, others, rules.least)]
        all_cases, all_others = rules.coarse(cases), rules.coarse(others)
        true, false = (
            kept[f"{kind}_positive_count"].map(rules.coarse).to_numpy(dtype=float)
            for kind in ("true", "false")
        )
        threshold = kept["prediction_threshold"].map(significant).to_numpy(dtype=float)
        released = classification_measures(
            threshold,
            np.minimum(true, all_cases),
            np.minimum(false, all_others),
            all_cases,
            all_others,
        )
        released.insert(0, "evaluation", name)
        found.append(released)
    return pd.concat(found, ignore_index=True) if found else table


def _separated(table: pd.DataFrame, cases: int, others: int, least: int) -> list[int]:
    """Choose thresholds with ``least`` people of both kinds between them and beyond them.

    Candidates are hundredths of the people, so that none depends on the outcome of a person.
    """
    step = max(least, (cases + others) // HUNDREDTHS)
    kept, last, candidate = [], (0, 0), 0
    counts = [f"{kind}_positive_count" for kind in ("true", "false")]
    for i, (true, false) in enumerate(table[counts].itertuples(index=False, name=None)):
        if true + false < candidate + step:
            continue
        candidate = true + false
        beyond = min(cases - true, others - false)
        if min(true - last[0], false - last[1], beyond) >= least:
            kept.append(i)
            last = (true, false)
    return kept


def _demographics(
    table: pd.DataFrame, people: Mapping[str, int], few: Container[str], rules: DisclosureRules
) -> pd.DataFrame:
    """Release observed and predicted risks by age and gender."""
    if table.empty:
        return table
    found = _risks(table, "person_count_at_risk", people, few, rules)
    cases = table["person_count_with_outcome"]
    hidden = cases.map(rules.small) | (table["person_count_at_risk"] - cases).map(rules.small)
    hidden &= table["evaluation"] == TRAIN
    risks = [name for name in found if name.endswith("_predicted_probability")]
    found[risks] = found[risks].mask(hidden)
    return _coarse(found, ["person_count_with_outcome"], rules)


def _risks(
    table: pd.DataFrame,
    count: str,
    people: Mapping[str, int],
    few: Container[str],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Release summaries of predicted risks of groups of people.

    ``people`` are those of each evaluation, and ``few`` evaluations without any summary.
    """
    n, evaluation = table[count], table["evaluation"]
    hidden = n.map(rules.small) | evaluation.map(lambda name: name in few)
    found = _coarse(table, [count], rules)
    for name in ("average", "st_dev", *QUANTILES):
        column = f"{name}_predicted_probability"
        if column not in table:
            continue
        share = QUANTILES.get(name, 0.5)
        beyond = np.minimum(share, 1 - share) * n
        shown = table[column].map(significant)
        if name == "average":
            pairs = zip(table[column], evaluation.map(people), strict=True)
            shown = pd.Series([rules.stepped(x, of) for x, of in pairs], table.index, dtype=float)
        found[column] = shown.mask(hidden | (beyond < rules.least))
    found[["min_predicted_probability", "max_predicted_probability"]] = math.nan
    return found


def _calibration(
    table: pd.DataFrame, people: Mapping[str, int], few: Container[str], rules: DisclosureRules
) -> pd.DataFrame:
    """Release observed risks, which follow from rounded counts, and predicted ones."""
    found = _risks(table, "person_count_at_risk", people, few, rules)
    found = _coarse(found, ["person_count_with_outcome"], rules)
    n, cases = found["person_count_at_risk"], found["person_count_with_outcome"]
    share = (cases / n).where((n > 0) & (cases >= 0))
    thresholds = table["prediction_threshold"].map(significant)
    thresholds = thresholds.mask(table["evaluation"].map(lambda name: name in few))
    return found.assign(observed_incidence=share.clip(upper=1.0), prediction_threshold=thresholds)


def _covariates(table: pd.DataFrame, unfitted: bool, rules: DisclosureRules) -> pd.DataFrame:
    """Release covariates: means of 0/1 ones follow from rounded counts.

    Means of others have more digits, and the third one follows from two of them; with few people
    in one group, all are withheld. ``unfitted`` withholds the coefficients.
    """
    if table.empty:
        return table
    found, binary = table.copy(), table["binary"].astype(bool)
    few_values = pd.Series(False, index=table.index)
    for name in GROUPS:
        few_values |= table[f"{name}covariate_count"].map(rules.small)
        few_values |= table[f"{name}people"].map(rules.small)
    few_values &= ~binary
    for name in GROUPS:
        count, people = table[f"{name}covariate_count"], table[f"{name}people"]
        hidden = count.map(rules.small) | people.map(rules.small) | few_values
        shown, of = count.map(rules.coarse), people.map(rules.coarse)
        share = (shown / of).where(of > 0).clip(upper=1.0)
        mean = table[f"{name}covariate_mean"].map(significant)
        spread = table[f"{name}covariate_st_dev"].map(significant)
        found[f"{name}covariate_count"] = shown
        found[f"{name}covariate_mean"] = mean.mask(binary, share).mask(hidden)
        of_share = (share * (1 - share)) ** 0.5
        found[f"{name}covariate_st_dev"] = spread.mask(binary, of_share).mask(hidden)
    few = table["covariate_count"].map(rules.small) | unfitted
    found["covariate_value"] = table["covariate_value"].map(significant).mask(few)
    found["standardized_mean_diff"] = standardized(found).map(significant)
    return found.drop(columns=EXACT)
