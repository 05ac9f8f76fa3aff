"""Covariates and propensity scores of a comparative grid for release, without small counts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.covariates.weighted_moments import standardized_difference
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.disclosure.disclosive_digit_rounding import (
    in_ratios,
    log_units,
    significant,
    smd_units,
    to_digits,
    to_units,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.group_share_suppression import withheld_complements
from steropes.studies.disclosure.small_cell_suppression import share_units
from steropes.studies.results.propensity_score_density import density_of_bars

__all__ = [
    "hidden_names",
    "released_balance",
    "released_densities",
    "released_families",
    "released_scores",
]

POINTS = 100  # The number of points of a density.
WHEN, ARMS = ("before", "after"), ("target", "comparator")
# Shifts by adjustment, with the arm of each.
SHIFTS = {
    "target_std_diff": "target",
    "comparator_std_diff": "comparator",
    "target_comparator_std_diff": "both",
}


def released_balance(
    table: pd.DataFrame, covariates: pd.DataFrame, rules: DisclosureRules
) -> pd.DataFrame:
    """Release means and standardised differences of covariates.

    A share is rounded to a unit no smaller than ``least`` people (`share_unit`). The share of fewer
    people becomes a bound, minus that unit, and is missing if fewer people lack the covariate. The
    mean of both arms would reveal the mean of one arm, and is also a bound or missing if that is. A
    standardised difference is missing if one of its two means is, because the missing mean could be
    solved for (a quadratic equation). Of covariates of which every person has exactly one, such as
    ages, a further share is missing where the others would narrow a hidden one, and if any share is
    hidden, their common means and differences are computed from released shares. Whether a
    difference is within the threshold is missing for these, and where the difference is. A share
    before adjustment is missing if, less the people who were dropped, it would narrow a hidden one.
    """
    if table.empty or rules.open:
        return table.drop(columns=_sizes(table))
    least, binary = rules.least, _are_binary(table["covariate_id"], covariates)
    groups = _exclusive(table, covariates)
    released: dict[str, NDArray] = {}
    # Whether the mean of each arm, or of one of them, is hidden before or after adjustment.
    moved = dict.fromkeys((*ARMS, "both"), np.zeros(len(table), bool))
    smallest = np.full(len(table), np.iinfo(np.int64).max)
    for when in WHEN:
        n, means, hidden, shares, narrowing = _ReleasedArms.at(when, table, binary, groups, rules)
        fewest = np.maximum(np.minimum(n["target"], n["comparator"]), 1)
        closed = hidden["target"] | hidden["comparator"]
        # A hidden share is a bound already; another one lies within a unit of its rounded value.
        highest = [
            np.abs(shares[arm]) + np.where(hidden[arm], 0.0, share_units(n[arm], least))
            for arm in ARMS
        ]
        common, smd = (table[f"{of}_{when}"].to_numpy(float) for of in ("mean", "std_diff"))
        pooled, difference = _of_shares(shares, n)
        common = np.where(narrowing & ~closed, pooled, common)
        smd = np.where(narrowing & ~closed, difference, smd)
        both = _shares(common, fewest, binary, rules)
        bound = -to_digits(np.maximum(*highest), 2)
        units = np.where(
            binary, smd_units(means["target"], means["comparator"], fewest, least), 0.01
        )
        # The variance is nearly the sum of the reciprocals of the numbers of people.
        variance = table[f"std_diff_var_{when}"].to_numpy(float)
        spread = in_ratios(variance, log_units(fewest, least), 2)
        released |= {f"{arm}_mean_{when}": shares[arm] for arm in ARMS}
        released[f"mean_{when}"] = np.where(closed, bound, both)
        released[f"std_diff_{when}"] = np.where(closed, math.nan, to_units(smd, units))
        released[f"std_diff_var_{when}"] = np.where(closed | narrowing, math.nan, spread)
        balanced = table[f"balanced_{when}"].to_numpy(float)
        untold = np.isnan(released[f"std_diff_{when}"]) | narrowing
        released[f"balanced_{when}"] = np.where(untold, math.nan, balanced)
        for arm, gone in {**hidden, "both": closed}.items():
            moved[arm] = moved[arm] | gone | narrowing
        smallest = np.minimum(smallest, np.minimum(n["target"], n["comparator"]))
    tenth = np.full(len(table), 0.1)
    units = smd_units(tenth, tenth, np.maximum(smallest, 1), least)
    for name, of in SHIFTS.items():
        rounded = to_units(table[name].to_numpy(float), units)
        released[name] = np.where(moved[of], math.nan, rounded)
    return table.assign(**released).drop(columns=_sizes(table))


class _ReleasedArms(NamedTuple):
    """Means of covariates of both arms before or after adjustment, and their released shares.

    Attributes
    ----------
    n, means, hidden, shares : dict of arrays, (k,)
        Of each arm: people, exact means, whether the share is hidden, and the released share.
    narrowing : (k,) bool array
        Whether a set of which every person has one has a hidden share.
    """

    n: dict[str, NDArray]
    means: dict[str, NDArray]
    hidden: dict[str, NDArray]
    shares: dict[str, NDArray]
    narrowing: NDArray

    @classmethod
    def at(
        cls,
        when: str,
        table: pd.DataFrame,
        binary: NDArray,
        groups: pd.DataFrame,
        rules: DisclosureRules,
    ) -> _ReleasedArms:
        """Return those before or after adjustment."""
        least = rules.least
        n = {arm: table[f"{arm}_people_{when}"].to_numpy(np.int64) for arm in ARMS}
        means = {arm: table[f"{arm}_mean_{when}"].to_numpy(float) for arm in ARMS}
        hidden = {arm: _hidden(means[arm], n[arm], binary, least) for arm in ARMS}
        shares = {arm: _shares(means[arm], n[arm], binary, rules) for arm in ARMS}
        narrowing = np.zeros(len(table), bool)
        for arm in ARMS if when == "before" and not rules.rounds else ():
            gone = binary & _narrows_those_left(shares[arm], table, arm, least)
            hidden[arm], shares[arm] = hidden[arm] | gone, np.where(gone, math.nan, shares[arm])
        for arm in ARMS:
            known = np.where(binary & np.isfinite(means[arm]), means[arm], 0.0)  # NaN: nobody.
            counts = np.rint(known * n[arm]).astype(np.int64)
            further, of_set = withheld_complements(groups, counts, hidden[arm], n[arm], rules)
            hidden[arm] = hidden[arm] | further
            shares[arm] = np.where(further, math.nan, shares[arm])
            narrowing |= of_set
        return cls(n, means, hidden, shares, narrowing)


def _narrows_those_left(shares: NDArray, table: pd.DataFrame, arm: str, least: int) -> NDArray:
    """Mark shares before adjustment that leave a lower bound of few people after it.

    Of the people with a covariate at most as many were dropped as of the whole arm.
    """
    n, left = (table[f"{arm}_people_{when}"].to_numpy(np.int64) for when in WHEN)
    mean, dropped = table[f"{arm}_mean_after"].to_numpy(float), n - left
    found = np.zeros(len(table), bool)
    for before, after in ((shares, mean), (1 - shares, 1 - mean)):
        fewest = (before - share_units(n, least) / 2) * n - dropped
        found |= _few(after * left, least) & (fewest > 1)
    return found & (dropped > 0)


def _of_shares(shares: dict[str, NDArray], n: dict[str, NDArray]) -> tuple[NDArray, NDArray]:
    """Compute the mean of both arms and the standardised difference from the shares of the arms."""
    (p, q), (n1, n0) = ([of[arm] for arm in ARMS] for of in (shares, n))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt((p * (1 - p) + q * (1 - q)) / 2)
        mean = (n1 * p + n0 * q) / (n1 + n0)
    return mean, standardized_difference(p, q, spread)


def _sizes(table: pd.DataFrame) -> list[str]:
    """List the columns of numbers of people, which are not released."""
    return [c for c in table if "_people_" in str(c)]


def _are_binary(ids: pd.Series, covariates: pd.DataFrame) -> NDArray:
    """Mark the covariates that are 0 or 1; those of unknown analyses are."""
    kinds = covariates.drop_duplicates("covariate_id").set_index("covariate_id")
    analysis = ids.map(kinds["covariate_analysis_id"])
    return ~analysis.isin([n for n, a in ANALYSES.items() if not a.binary]).to_numpy()


def _exclusive(table: pd.DataFrame, covariates: pd.DataFrame) -> pd.DataFrame:
    """Return the key of the covariates of one kind in one population."""
    kinds = covariates.drop_duplicates("covariate_id").set_index("covariate_id")
    kind = table["covariate_id"].map(kinds["covariate_analysis_id"])
    place = [c for c in ("target_comparator_id", "outcome_id", "analysis_id") if c in table]
    return table[place].assign(kind=kind)


def _hidden(mean: NDArray, n: NDArray, binary: NDArray, least: int) -> NDArray:
    """Mark the covariates that few people have, or few do not."""
    few = _few(mean * n, least) | (binary & _few((1 - mean) * n, least))
    return (n < least) | few


def _few(people: NDArray, least: int) -> NDArray:
    """Mark small numbers of people, computed from shares."""
    return (people > 0) & (people + 1e-9 < least)  # Shares have rounding errors.


def _shares(mean: NDArray, n: NDArray, binary: NDArray, rules: DisclosureRules) -> NDArray:
    """Round the means of covariates; minus a unit for few people with it."""
    least = rules.least
    units = share_units(n, least)
    if rules.rounds:
        pairs = zip(mean.tolist(), n.tolist(), strict=True)
        found = np.array([_rounded_share(m, k, rules) for m, k in pairs])
    else:
        found = np.minimum(np.maximum(to_units(mean, units), units), 1 - units)
        found = np.where((mean == 0) | (mean == 1), mean, found)
    found[_few((1 - mean) * n, least)] = math.nan
    # The mean of a number is often a whole number over n, which many digits would reveal.
    number = ~binary
    found[number] = to_digits(to_units(mean[number], share_units(n[number], 1)), 3)
    found = np.where(_few(mean * n, least), -units, found)
    return np.where(n < least, math.nan, found)


def _rounded_share(mean: float, n: int, rules: DisclosureRules) -> float:
    """Divide rounded counts; NaN if a mean is unknown or the group is empty."""
    if n == 0 or math.isnan(mean):
        return math.nan
    return round(min(1.0, rules.rounded(round(mean * n)) / rules.rounded(n)), 4)


def released_scores(
    table: pd.DataFrame,
    balance: pd.DataFrame,
    covariates: pd.DataFrame,
    bars: pd.DataFrame,
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Release coefficients of propensity models, in steps that hide ``least`` people.

    The intercept of a model without other coefficients is the log ratio of the sizes of the arms,
    and a coefficient is nearly a log odds ratio of four counts.

    Parameters
    ----------
    table : DataFrame
        Exact ``cm_propensity_model``; covariate 0 is the intercept.
    balance, covariates : DataFrame
        Exact ``cm_shared_covariate_balance`` and ``cm_covariate``.
    bars : DataFrame
        ``preference_histogram``, whose bars hold the people of each arm.
    """
    if table.empty or rules.open:
        return table
    place = ["target_comparator_id", "analysis_id"]
    before = bars[bars["adjusted"] == 0]
    sizes = before.groupby([*place, "arm"])["people"].sum().groupby(place).min()
    counts = [f"{arm}_{of}_before" for arm in ARMS for of in ("mean", "people")]
    key = [*place, "covariate_id"]
    found = table[key].merge(balance[[*key, *counts]], on=key, how="left")
    binary = _are_binary(table["covariate_id"], covariates)
    fewest = np.full(len(table), np.inf)
    for arm in ARMS:
        n = found[f"{arm}_people_before"].to_numpy(float)
        having = np.rint(found[f"{arm}_mean_before"].to_numpy(float) * n)
        fewer = np.where(binary, np.maximum(np.minimum(having, n - having), 0), n)
        fewest = np.minimum(fewest, np.where(np.isnan(n), 0, fewer))
    of_models = sizes.reindex(pd.MultiIndex.from_frame(table[place]), fill_value=0).to_numpy()
    fewest = np.where(table["covariate_id"] == 0, of_models, fewest)
    units = log_units(fewest, rules.least)
    return table.assign(coefficient=to_units(table["coefficient"].to_numpy(float), units))


def released_families(
    table: pd.DataFrame, balance: pd.DataFrame, covariates: pd.DataFrame, rules: DisclosureRules
) -> pd.DataFrame:
    """Release the balance of families of covariates.

    The largest differences, and the covariate with the largest one, are those of covariates with a
    released difference. Only those of which it is released whether they exceed the threshold are
    counted as beyond it.
    """
    if table.empty or rules.open:
        return table
    by, key = ["target_comparator_id", "analysis_id"], "covariate_analysis_id"
    kinds = covariates[["covariate_id", "analysis_id", key, "covariate_name"]]
    told = balance.merge(kinds, on=["covariate_id", "analysis_id"])
    places, families = [told[k] for k in (*by, key)], pd.MultiIndex.from_frame(table[[*by, key]])
    sizes = told[[f"std_diff_{when}" for when in WHEN]].abs()
    largest = sizes.groupby(places).max().reindex(families)
    over = told[[f"balanced_{when}" for when in WHEN]].eq(0).groupby(places).sum()
    after = sizes["std_diff_after"].sort_values(ascending=False, kind="stable").dropna()
    first = told.loc[after.index].drop_duplicates([*by, key]).set_index([*by, key])
    return table.assign(
        **{f"largest_{when}": largest[f"std_diff_{when}"].to_numpy() for when in WHEN},
        **{f"over_{w}": over[f"balanced_{w}"].reindex(families).to_numpy() for w in WHEN},
        p_after=table["p_after"].map(lambda p: significant(float(p), 2)),
        worst=first["covariate_name"].reindex(families).fillna("").to_numpy(),
    )


def hidden_names(balance: pd.DataFrame, covariates: pd.DataFrame) -> set[tuple[int, str]]:
    """Return analysis and name of covariates whose difference after adjustment is withheld."""
    gone = balance[balance["std_diff_after"].isna()]
    named = gone[["covariate_id", "analysis_id"]].merge(
        covariates[["covariate_id", "analysis_id", "covariate_name"]],
        on=["covariate_id", "analysis_id"],
    )
    return {
        (int(a), str(n)) for a, n in zip(named["analysis_id"], named["covariate_name"], strict=True)
    }


def released_densities(
    bars: pd.DataFrame, rules: DisclosureRules
) -> dict[str, list[dict[str, object]]]:
    """Compute densities of the preference score before and after adjustment, from histograms."""
    names = ("cm_preference_score_dist", "preference_score_after")
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    key = ["target_comparator_id", "analysis_id", "database_id"]
    for place, of in bars.groupby([*key, "adjusted"], sort=True):
        curves = {}
        for arm in ("target", "comparator"):
            own = of[of["arm"] == arm]
            counts = np.zeros((3, 4 * (POINTS - 1)))
            counts[:, own["bar"].to_numpy(int)] = own[["people", "mass", "squares"]].to_numpy().T
            if counts[0].sum() < max(rules.least, 1):
                curves[arm] = np.full(POINTS, math.nan)
                continue
            curves[arm] = density_of_bars(counts[0], counts[1], counts[2], POINTS, rules.least)[1]
            if not rules.open:
                curves[arm] = curves[arm].round(3)
        x = np.linspace(0, 1, POINTS)
        tables[names[int(place[3])]] += [
            {
                "target_comparator_id": int(place[0]),
                "analysis_id": int(place[1]),
                "preference_score": float(x[i]),
                "target_density": float(curves["target"][i]),
                "comparator_density": float(curves["comparator"][i]),
                "database_id": place[2],
            }
            for i in range(POINTS)
        ]
    return tables
