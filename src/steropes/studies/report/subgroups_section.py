"""Effects within subgroups, and ratios of the effects with and without a characteristic."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from steropes.data.number_formatting import counted, deciding_p, effect
from steropes.designs.values.arm_names import ARMS
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.grid_page_data import KEY, Comparison, View
from steropes.studies.report.page_parts import Rows
from steropes.studies.report.svg_canvas import Picture

__all__ = ["Subgroups", "subgroup_table", "subgroups"]


@dataclass(frozen=True)
class Subgroups:
    """Effects within subgroups of an outcome, and ratios of these effects.

    ``withheld`` names the analyses of which neither may be released.
    """

    interactions: Rows
    effects: Rows
    forest: Picture | None
    withheld: str


def subgroups(
    view: View, comparison: Comparison, outcome: int, analyses: list[int]
) -> Subgroups | None:
    """Describe the subgroups of some analyses of an outcome; None if there are none."""
    called = _names(view)
    units: set[str] = set()
    levels: list[tuple[str, ...]] = []
    ratios: list[tuple[str, ...]] = []
    drawn: list[Row] = []
    withheld: list[str] = []
    for a in analyses:
        key = {"target_comparator_id": comparison.id, "outcome_id": outcome, "analysis_id": a}
        released = view.rows("cm_interaction_result", **key)
        if released.empty and len(view.rows("subgroup", **key)):
            withheld.append(view.label(a))
        for found in released.to_dict("records"):
            covariate = int(found["interaction_covariate_id"])
            name = called.get(covariate, f"covariate {covariate}")
            units.add(view.unit(a))
            ends = [found[c] for c in ("rr", "ci_95_lb", "ci_95_ub")]
            calibrated = [found[f"calibrated_{c}"] for c in ("rr", "ci_95_lb", "ci_95_ub")]
            ratios.append(
                (
                    view.label(a),
                    name,
                    effect(*ends),
                    deciding_p(found["p"]),
                    effect(*calibrated) or "–",
                )
            )
            for line in view.rows("subgroup", **key, interaction_covariate_id=covariate).to_dict(
                "records"
            ):
                who = f"{name}, {'yes' if line['level'] else 'no'}"
                own = (line["rr"], line["ci_95_lb"], line["ci_95_ub"])
                counts = [counted(line[f"{x}_{w}"]) for w in ("subjects", "outcomes") for x in ARMS]
                levels.append((view.label(a), who, *counts, effect(*own) or "none"))
                drawn.append(Row(f"{who} ({view.label(a)})", *own))
    if not ratios and not withheld:
        return None
    picture = forest(f"subgroups-{comparison.id}-{outcome}", drawn, " or ".join(sorted(units)))
    return Subgroups(ratios, levels, view.collect(picture), ", ".join(withheld))


def subgroup_table(view: View) -> pd.DataFrame:
    """Return the subgroups of all outcomes of interest that may be shown, with their names."""
    found = view.tables["subgroup"]
    shown = view.results.estimates(view.unblind)
    found = found.merge(shown[KEY], on=KEY)
    names = found["interaction_covariate_id"].map(_names(view))
    found.insert(4, "characteristic", names)
    return found


def _names(view: View) -> dict[int, str]:
    """Return the names of covariates by id."""
    table = view.results.tables["cm_covariate"].drop_duplicates("covariate_id")
    return dict(zip(table["covariate_id"], table["covariate_name"].astype(str), strict=True))
