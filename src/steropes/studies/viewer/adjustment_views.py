"""Views of the adjustment of comparative studies: balance, propensity models and scores."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from steropes.studies.formatting.released_numbers import family_name, title_case
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered
from steropes.studies.viewer.view_columns import COMPARISON, GROUP, QUESTION, RESULT_IDS, SHARED_IDS
from steropes.studies.viewer.view_definition import Column, View, column, ids, important, texts

__all__ = ["adjustment_views", "with_covariates"]

MEANS = tuple(
    Column(f"{arm}_mean_{when}", f"{title_case(arm)} {when}", "bounded")
    for when in ("before", "after")
    for arm in ("target", "comparator")
)
BALANCE = (
    *important((
        *texts("text", covariate="Covariate"),
        column("std_diff_before", "SMD before", "difference"),
        column("std_diff_after", "SMD after", "difference"),
    )),
    *MEANS,
    *texts("text", family="Family"),
)  # fmt: skip


def adjustment_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of adjustment, also those without rows."""
    return [*_balance(sources), _model(sources), _scores(sources)]


def with_covariates(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Add the names of covariates and of their families."""
    names = source.tables.get("cm_covariate")
    if names is None:
        return found.assign(covariate=found["covariate_id"].map(lambda i: f"covariate {i}"))
    own = names.drop_duplicates("covariate_id").set_index("covariate_id")
    covariate = found["covariate_id"].map(own["covariate_name"])
    found = found.assign(covariate=covariate.fillna("").map(title_case))
    families = source.tables.get("cm_covariate_analysis")
    if families is not None and "covariate_analysis_id" in own:
        named = families.drop_duplicates("covariate_analysis_id").set_index("covariate_analysis_id")
        numbers = found["covariate_id"].map(own["covariate_analysis_id"])
        found["family"] = numbers.map(named["covariate_analysis_name"].map(family_name, "ignore"))
    return found


def _balance(sources: Sequence[NamedTables]) -> list[View]:
    """Return the balance among all who could be at risk, and among the people of each outcome."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the covariates, and put the most unequal ones first."""
        size = found["std_diff_after"].abs()
        order = size.sort_values(ascending=False, kind="stable", na_position="last").index
        return with_covariates(source, found.loc[order])

    shared = View(
        "balance",
        "Balance",
        GROUP,
        "Means and standardised mean differences (SMD) of all covariates before and after "
        "adjustment.",
        (*SHARED_IDS, *ids("covariate_id"), *COMPARISON, *BALANCE),
        gathered(sources, "cm_shared_covariate_balance", more),
        "balance",
    )
    own = View(
        "outcome-balance",
        "Balance by outcome",
        GROUP,
        "Balance among the people of each outcome.",
        (*RESULT_IDS, *ids("covariate_id"), *QUESTION, *BALANCE),
        gathered(sources, "cm_covariate_balance", more),
        "balance",
    )
    return [shared, own]


def _model(sources: Sequence[NamedTables]) -> View:
    """Return the coefficients of the propensity models."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the covariates, and put the strongest first."""
        found = with_covariates(source, found)
        found["covariate"] = found["covariate"].mask(found["covariate_id"].eq(0), "Intercept")
        size = found["coefficient"].abs()
        return found.loc[size.sort_values(ascending=False, kind="stable").index]

    return View(
        "propensity-model",
        "Propensity model",
        GROUP,
        "Coefficients of the propensity models, the strongest first.",
        (
            *SHARED_IDS,
            *ids("covariate_id"),
            *COMPARISON,
            *important(texts("text", covariate="Covariate")),
            *important((column("coefficient", "Coefficient"),)),
            *texts("text", family="Family"),
        ),
        gathered(sources, "cm_propensity_model", more),
    )


def _scores(sources: Sequence[NamedTables]) -> View:
    """Return the densities of the preference score before and after adjustment."""
    parts = [
        gathered(sources, table).assign(when=when)
        for table, when in (
            ("cm_preference_score_dist", "before"),
            ("preference_score_after", "after"),
        )
    ]
    parts = [part for part in parts if len(part)]
    return View(
        "scores",
        "Preference scores",
        GROUP,
        "Densities of the preference score before and after adjustment; 0.3 to 0.7 is equipoise.",
        (
            *SHARED_IDS,
            *COMPARISON,
            *texts(when="Adjustment"),
            column("preference_score", "Preference score"),
            column("target_density", "Target density"),
            column("comparator_density", "Comparator density"),
        ),
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(),
        "scores",
    )
