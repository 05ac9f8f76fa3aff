"""Released covariates and scores of a comparative grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.covariates.analysis_catalogue import ANALYSES
from steropes.studies.disclosure.cells import share_unit, small
from steropes.studies.disclosure.rounding import in_ratio, log_unit, significant, smd_unit, to_unit
from steropes.studies.disclosure.rules import DisclosureRules
from steropes.studies.report.score_density import density_of_bars

__all__ = [
    "hidden_names",
    "released_balance",
    "released_densities",
    "released_families",
    "released_scores",
]

POINTS = 100  # The number of points of a density.
WHEN = ("before", "after")
SLACK = 1e-9  # The rounding error of a number of people that is computed from a share.


def released_balance(
    table: pd.DataFrame, covariates: pd.DataFrame, rules: DisclosureRules
) -> pd.DataFrame:
    """Release means and standardised differences of covariates.

    A share is rounded to a unit no smaller than ``least`` people (`share_unit`). The share of fewer
    people becomes a bound, minus that unit, and is missing if fewer people lack the covariate. The
    mean of both arms would reveal the mean of one arm, and is also a bound or missing if that is. A
    standardised difference is missing if one of its two means is, because the missing mean could be
    solved for (a quadratic equation).
    """
    if table.empty or rules.open:
        return table.drop(columns=_sizes(table))
    kinds = covariates.drop_duplicates("covariate_id").set_index("covariate_id")
    analysis = table["covariate_id"].map(kinds["covariate_analysis_id"])
    binary = [not (n in ANALYSES and not ANALYSES[int(n)].binary) for n in analysis.fillna(-1)]
    lines = [
        _covariate(line, b, rules) for line, b in zip(table.to_dict("records"), binary, strict=True)
    ]
    found = pd.DataFrame(lines, columns=list(table.columns))
    return found.drop(columns=_sizes(table))


def _sizes(table: pd.DataFrame) -> list[str]:
    """List the columns of numbers of people, which are not released."""
    return [c for c in table if "_people_" in str(c)]


def _covariate(line: dict[Any, Any], binary: bool, rules: DisclosureRules) -> dict[Any, Any]:
    """Release the means and differences of one covariate."""
    least = rules.least
    moved = {"target": False, "comparator": False, "both": False}
    sizes: list[int] = []
    for when in WHEN:
        n = {arm: int(line[f"{arm}_people_{when}"]) for arm in ("target", "comparator")}
        sizes += [*n.values()]
        means = {arm: float(line[f"{arm}_mean_{when}"]) for arm in n}
        cells = {arm: _share(means[arm], n[arm], binary, rules) for arm in n}
        hidden = {arm: _hidden(means[arm], n[arm], binary, least) for arm in n}
        line |= {f"{arm}_mean_{when}": cell for arm, cell in cells.items()}
        fewest = max(min(n.values()), 1)
        both = float(line[f"mean_{when}"])
        if any(hidden.values()):
            units = {a: share_unit(n[a], least) for a in n}
            high = max(abs(cells[a]) + (0.0 if hidden[a] else units[a]) for a in n)
            line[f"mean_{when}"] = math.nan if math.isnan(high) else -significant(high, 2)
        else:
            line[f"mean_{when}"] = _share(both, fewest, binary, rules)
        unit = smd_unit(means["target"], means["comparator"], fewest, least) if binary else 0.01
        closed = any(hidden.values())
        smd = float(line[f"std_diff_{when}"])
        line[f"std_diff_{when}"] = math.nan if closed else to_unit(smd, unit)
        spread = float(line[f"std_diff_var_{when}"])
        # This is nearly the sum of the reciprocals of the numbers of people.
        spread = in_ratio(spread, log_unit(fewest, least), 2)
        line[f"std_diff_var_{when}"] = math.nan if closed else spread
        moved |= {arm: moved[arm] or hidden[arm] for arm in n}
        moved["both"] |= closed
    unit = smd_unit(0.1, 0.1, max(min(sizes), 1), least)
    for name, of in (
        ("target_std_diff", "target"),
        ("comparator_std_diff", "comparator"),
        ("target_comparator_std_diff", "both"),
    ):
        line[name] = math.nan if moved[of] else to_unit(float(line[name]), unit)
    return line


def _hidden(mean: float, n: int, binary: bool, least: int) -> bool:
    """Check whether few people have a covariate, or few do not."""
    if n < least:
        return True
    return _few(mean * n, least) or (binary and _few((1 - mean) * n, least))


def _few(people: float, least: int) -> bool:
    """Check whether a number of people, computed from a share, is small."""
    return people > 0 and small(people + SLACK, least)


def _share(mean: float, n: int, binary: bool, rules: DisclosureRules) -> float:
    """Round the mean of a covariate; minus a unit for few people with it."""
    least = rules.least
    if n < least:
        return math.nan
    if _few(mean * n, least):
        return -share_unit(n, least)
    if not binary:  # Often a whole number over n, which many digits would reveal.
        return significant(to_unit(mean, share_unit(n, 1)))
    if _few((1 - mean) * n, least):
        return math.nan
    if rules.rounds:
        return round(min(1.0, rules.rounded(round(mean * n)) / rules.rounded(n)), 4)
    unit = share_unit(n, least)
    if mean in (0.0, 1.0):
        return mean
    return min(max(to_unit(mean, unit), unit), to_unit(1 - unit, unit))


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
    kinds = covariates.drop_duplicates("covariate_id").set_index("covariate_id")
    counts = {
        (int(x[place[0]]), int(x[place[1]]), int(x["covariate_id"])): x
        for x in balance.to_dict("records")
    }
    values = []
    for line in table.to_dict("records"):
        of = int(line[place[0]]), int(line[place[1]])
        number = int(line["covariate_id"])
        found = counts.get((*of, number))
        if number == 0:
            fewest = int(sizes.get(of, 0))
        elif found is None:
            fewest = 0
        else:
            kind = int(kinds["covariate_analysis_id"].get(number, -1))
            binary = not (kind in ANALYSES and not ANALYSES[kind].binary)
            fewest = min(
                _fewest(float(found[f"{arm}_mean_before"]), int(found[f"{arm}_people_before"]),
                        binary)
                for arm in ("target", "comparator")
            )  # fmt: skip
        values.append(to_unit(float(line["coefficient"]), log_unit(fewest, rules.least)))
    return table.assign(coefficient=values)


def _fewest(mean: float, n: int, binary: bool) -> int:
    """Count the people of an arm with a covariate, or those without it if they are fewer."""
    if not binary:
        return n
    return max(0, min(round(mean * n), n - round(mean * n)))


def released_families(
    table: pd.DataFrame, balance: pd.DataFrame, covariates: pd.DataFrame, rules: DisclosureRules
) -> pd.DataFrame:
    """Release the balance of families of covariates, without names of covariates of few people.

    The largest differences are those of covariates with a released difference.
    """
    if table.empty or rules.open:
        return table
    unnamed = hidden_names(balance, covariates)
    by = ["target_comparator_id", "analysis_id", "covariate_analysis_id"]
    kinds = covariates[["covariate_id", "analysis_id", by[-1]]]
    told = balance.merge(kinds, on=["covariate_id", "analysis_id"])
    sizes = told[["std_diff_before", "std_diff_after"]].abs().groupby([told[k] for k in by]).max()
    sizes = sizes.reindex(pd.MultiIndex.from_frame(table[by]))
    return table.assign(
        **{f"largest_{when}": sizes[f"std_diff_{when}"].to_numpy() for when in WHEN},
        p_after=table["p_after"].map(lambda p: significant(float(p), 2)),
        worst=["" if (int(a), str(w)) in unnamed else w
               for a, w in zip(table["analysis_id"], table["worst"], strict=True)],
    )  # fmt: skip


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
