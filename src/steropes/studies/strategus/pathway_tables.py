"""Result tables of pathways, as R's TreatmentPatterns writes them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.pathway_release import released_pathways
from steropes.studies.strategus.treatment_pathways import TargetPathways
from steropes.studies.strategus_plans.pathway_plan import PathwayPlan
from steropes.version import __version__

__all__ = ["pathway_tables"]

ANALYSIS = 1  # The number that R gives to the only analysis of the module.
DESCRIPTION = "Pathways of events"
EVERYBODY = {"age": "all", "sex": "all", "index_year": "all"}


def pathway_tables(
    found: Sequence[TargetPathways],
    plan: PathwayPlan,
    database: pd.DataFrame,
    rules: DisclosureRules,
) -> dict[str, pd.DataFrame]:
    """Release the pathways of all targets.

    Parameters
    ----------
    found : sequence of TargetPathways
        The pathways of each target.
    plan : PathwayPlan
        The plan.
    database : DataFrame
        The table ``database_meta_data``.
    rules : DisclosureRules
        Rules that the counts follow.
    """
    exact = {
        name: pd.concat(
            [
                getattr(of, name).assign(target_cohort_id=of.target, target_cohort_name=of.name)
                for of in found
            ],
            ignore_index=True,
        )
        for name in ("paths", "durations", "people", "attrition")
    }
    of_database = {"analysis_id": ANALYSIS, "database_id": database["database_id"].iloc[0]}
    made = {n: t.assign(**of_database) for n, t in released_pathways(exact, rules).items()}
    people = made["people"]
    counts = {
        f"tp_counts_{name}": people[people["kind"] == kind].rename(columns={"value": kind})
        for kind, name in (("age", "age"), ("sex", "sex"), ("index_year", "year"))
    }
    version = f"steropes {__version__}"
    return {
        "tp_analyses": pd.DataFrame([{"analysis_id": ANALYSIS, "description": DESCRIPTION}]),
        "tp_arguments": pd.DataFrame([{**of_database, "arguments": plan.json_text}]),
        "tp_attrition": made["attrition"],
        "tp_cdm_source_info": database.assign(**of_database),
        **counts,
        "tp_metadata": pd.DataFrame([{**of_database, "package_version": version}]),
        "tp_summary_event_duration": made["durations"],
        "tp_treatment_pathways": made["paths"].assign(**EVERYBODY),
    }
