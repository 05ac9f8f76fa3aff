"""Table 1 of a comparison, from the means of covariates that the study releases."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd

from steropes.data.number_formatting import number
from steropes.studies.covariates.characteristics_table import characteristics
from steropes.studies.report.grid_page_data import Comparison, View
from steropes.studies.report.page_parts import Rows

__all__ = ["characteristics_of_arms", "characteristics_table"]

COLUMNS = ("target_before", "comparator_before", "smd_before", "target_after", "comparator_after")


def characteristics_table(view: View, comparison: Comparison) -> pd.DataFrame:
    """Return Table 1 of every analysis that adjusts.

    Returns
    -------
    DataFrame
        ``analysis_id``, ``section``, ``characteristic``, ``target_before``,
        ``comparator_before``, ``smd_before`` and the same ``_after``: percentages of 0/1
        covariates and means of the others; -x stands for less than x percent.
    """
    parts = [_of_analysis(view, comparison, a.id).assign(analysis_id=a.id) for a in view.analyses]
    columns = ["analysis_id", "section", "characteristic", *COLUMNS, "smd_after"]
    known = [p for p in parts if len(p)]
    return pd.concat(known)[columns] if known else pd.DataFrame(columns=columns)


def characteristics_of_arms(view: View, comparison: Comparison, analysis: int) -> dict[str, Rows]:
    """Return the sections of Table 1 of one analysis; empty if it does not adjust."""
    made = _of_analysis(view, comparison, analysis)
    sections: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for line in made.to_dict("records"):
        cells = [
            number(line[c], 2) if c.startswith("smd") else _share(line[c])
            for c in (*COLUMNS, "smd_after")
        ]
        sections[line["section"]].append((line["characteristic"], *cells))
    return dict(sections)


def _of_analysis(view: View, comparison: Comparison, analysis: int) -> pd.DataFrame:
    """Return the characteristics of one analysis in their sections."""
    key = {"target_comparator_id": comparison.id, "analysis_id": analysis}
    means = view.rows("cm_shared_covariate_balance", **key).set_index("covariate_id")
    named = view.rows("cm_covariate", analysis_id=analysis)
    chosen = characteristics(
        pd.DataFrame(
            {
                "covariate_id": named["covariate_id"],
                "name": named["covariate_name"],
                "analysis_id": named["covariate_analysis_id"],
            }
        )
    )
    chosen = chosen[chosen["covariate_id"].isin(means.index)]
    of = means.loc[chosen["covariate_id"]]
    made = {"section": chosen["section"].to_numpy(), "characteristic": chosen["name"].to_numpy()}
    unit = chosen["unit"].to_numpy()
    for when in ("before", "after"):
        for arm in ("target", "comparator"):
            made[f"{arm}_{when}"] = unit * of[f"{arm}_mean_{when}"].to_numpy()
        made[f"smd_{when}"] = of[f"std_diff_{when}"].to_numpy()
    return pd.DataFrame(made)


def _share(x: float) -> str:
    """Format a percentage or mean, where -x stands for less than x."""
    return f"<{number(-x, 1)}" if x < 0 else number(x, 1)
