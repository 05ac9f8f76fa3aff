"""Results of prediction models, with the designs and cohorts that their tables number."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pandas as pd

__all__ = ["VALIDATED", "prediction_tables_of_source"]

Tables = Mapping[str, pd.DataFrame]
# Begins the names of tables of validations, whose numbers are not those of fitted models.
VALIDATED = "validated "
# Validations have numbers from here on in a source that has fitted models too.
FIRST_VALIDATION = 1_000_000
# Tables of settings that the details of a model show: the table, its id in designs, and its text.
SETTINGS = {
    "population": ("plp_population_settings", "population_setting_id"),
    "covariates": ("plp_covariate_settings", "covariate_setting_id"),
    "split": ("plp_split_settings", "split_setting_id"),
    "learner": ("plp_model_settings", "model_setting_id"),
}
RESULTS = (
    "plp_evaluation_statistics", "plp_threshold_summary", "plp_calibration_summary",
    "plp_prediction_distribution", "plp_demographic_summary", "plp_covariate_summary",
    "plp_attrition",
)  # fmt: skip
# Fields of the details of a fit that are shown; R's also contain a table of attrition with counts.
DETAILS = ("modelName", "trainingDate", "variance", "converged", "folds")
# R's package writes -1 in place of counts below its default limit.
R_SUPPRESSED, R_LIMIT = -1, 5


def prediction_tables_of_source(tables: Tables) -> dict[str, pd.DataFrame]:
    """Replace the tables of prediction models by those that views show.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables of one source. Tables ``plp_*`` number databases and cohorts in their own way.

    Returns
    -------
    dict of str to DataFrame
        The table ``prediction`` has a row for each evaluated model, with the ids of its database
        and cohorts. Of the other tables of prediction models only results are kept.
    """
    own = ("plp_", VALIDATED)
    found = {name: table for name, table in tables.items() if not name.startswith(own)}
    validated = {
        name.removeprefix(VALIDATED): table
        for name, table in tables.items()
        if name.startswith(VALIDATED)
    }
    for first, of in ((0, tables), (FIRST_VALIDATION, validated)):
        if "plp_performances" not in of:
            continue
        made = {"prediction": _models(of)}
        made |= {name: _with_limits(of[name]) for name in RESULTS if name in of}
        for name, table in made.items():
            ids = [c for c in ("performance_id", "model_design_id") if c in table]
            table = table.assign(**{c: table[c] + first for c in ids})
            both = [t for t in (found.get(name), table) if t is not None and len(t)]
            found[name] = pd.concat(both, ignore_index=True) if both else table
        if "database_meta_data" not in found and "plp_database_meta_data" in of:
            found["database_meta_data"] = of["plp_database_meta_data"]
    return found


def _models(tables: Tables) -> pd.DataFrame:
    """Return the evaluated models with the ids of their databases and cohorts, and settings."""
    found = tables["plp_performances"].copy()
    number = found["model_design_id"].map("{:.0f}".format)
    fitted = found["model_development"].ne(0)
    found["design"] = ("design " + number).where(fitted, "model " + number)
    databases = _lookup(tables, "plp_database_details", "database_id", "database_meta_data_id")
    cohorts = _lookup(tables, "plp_cohorts", "cohort_id", "cohort_definition_id")
    names = _lookup(tables, "plp_cohorts", "cohort_id", "cohort_name")
    for kind in ("validation", "development"):
        number = found[f"{kind}_database_id"]
        found[kind] = number.map(databases).fillna(number.map("database {:.0f}".format))
    for role in ("target", "outcome"):
        number = found[f"{role}_id"]
        found[f"{role}_name"] = number.map(names)
        found[f"{role}_id"] = number.map(cohorts).astype(float)
    designs = tables.get("plp_model_designs")
    if designs is not None:
        key = "model_design_id"
        ids = [key, *(number for _, number in SETTINGS.values())]
        found = found.drop(columns=ids[1:], errors="ignore")
        found = found.merge(designs.reindex(columns=ids).drop_duplicates(key), on=key, how="left")
        for title, (table, number) in SETTINGS.items():
            text = table.removeprefix("plp_") + "_json"
            found[title] = found[number].map(_lookup(tables, table, number, text))
    models = tables.get("plp_models")
    if models is not None:
        key = "model_design_id"
        columns = [key, "model_type", "train_details", "intercept"]
        found = found.merge(
            models.reindex(columns=columns).drop_duplicates(key), on=key, how="left"
        )
        found["train_details"] = found["train_details"].map(_without_counts)
    found["period"] = found["tar_id"].map(_periods(tables))
    return found.drop(columns=["validation_database_id", "development_database_id"]).rename(
        columns={"validation": "database_id"}
    )


def _without_counts(text: object) -> str | None:
    """Return the details of a fit with only the fields that count no people."""
    try:
        details = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if not isinstance(details, dict):
        return None
    return json.dumps({k: details[k] for k in DETAILS if k in details})


def _periods(tables: Tables) -> dict[object, str]:
    """Describe the times at risk by their numbers."""
    table = tables.get("plp_tars")
    found = {}
    for line in [] if table is None else table.to_dict("records"):
        ends = (
            f"{line[f'tar_{end}_anchor']} + {line[f'tar_{end}_day']:.0f} days"
            for end in ("start", "end")
        )
        found[line["tar_id"]] = " to ".join(ends)
    return found


def _lookup(tables: Tables, table: str, number: str, value: str) -> dict[object, object]:
    """Return the values of a table by its numbers."""
    found = tables.get(table)
    if found is None or number not in found or value not in found:
        return {}
    return dict(found[[number, value]].dropna().itertuples(index=False, name=None))


def _with_limits(table: pd.DataFrame) -> pd.DataFrame:
    """Replace the counts that R's package suppressed by the negative of the limit."""
    counts = [c for c in table if c.endswith("_count") or "person_count" in c]
    return table.assign(**{c: table[c].mask(table[c].eq(R_SUPPRESSED), -R_LIMIT) for c in counts})
