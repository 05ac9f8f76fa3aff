"""Table 1: baseline characteristics of both arms."""

from __future__ import annotations

import pandas as pd

from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.propensity.covariate_balance import Balance
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES

__all__ = ["characteristics", "table_one"]

GENERAL = (
    *(4006969, 438409, 4212540, 255573, 201606, 4182210, 440383, 201820, 318800, 192671, 439727),
    *(432867, 316866, 4104000, 433736, 80180, 255848, 140168, 4030518, 80809, 435783, 4279309),
    *(81893, 81902, 197494, 4134440),
)
CARDIOVASCULAR = (*(313217, 381591, 317576, 321588, 316139, 4185932, 321052, 440417, 444247),)
NEOPLASMS = (*(4044013, 432571, 40481902, 443392, 4112853, 4180790, 443388, 197508, 200962),)
MEDICATION = (
    *(21601782, 21602796, 21604686, 21604389, 21603932, 21601387, 21602028, 21600960, 21601664),
    *(21601744, 21601461, 21600046, 21603248, 21600712, 21603890, 21601853, 21604254, 21604489),
    21604752,
)
SECTIONS: tuple[tuple[str, int, tuple[int, ...]], ...] = (
    ("Age group", 3, ()),
    ("Gender", 1, ()),
    ("Race", 4, ()),
    ("Ethnicity", 5, ()),
    ("Medical history: general", 210, GENERAL),
    ("Medical history: cardiovascular disease", 210, CARDIOVASCULAR),
    ("Medical history: neoplasms", 210, NEOPLASMS),
    ("Medication use", 410, MEDICATION),
    ("Charlson comorbidity index", 901, ()),
    ("CHADS2", 903, ()),
    ("CHA2DS2-VASc", 904, ()),
    ("Diabetes complications severity index", 902, ()),
)


def table_one(balance: Balance) -> ResultTable:
    """Tabulate the characteristics of both arms before and after adjustment.

    The covariates are those of FeatureExtraction's Table 1: demographics, 26 general, 9
    cardiovascular and 9 neoplastic conditions and 19 drug classes in the long window, and the
    scores.

    Parameters
    ----------
    balance : Balance
        Balance of the arms.

    Returns
    -------
    DataFrame
        ``section``, ``characteristic``, ``target_before``, ``comparator_before``,
        ``smd_before`` and the same three ``_after``: percentages of 0/1 covariates, means of the
        others. Covariates that no one has are left out.

    References
    ----------
    Austin and Stuart (2015), Statistics in Medicine 34:3661–3679 (standardised differences).

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import covariate_balance
    >>> from steropes.studies.cohorts import compare_cohorts
    >>> from steropes.studies.covariates import FeatureRules, table_one
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import read_cohorts
    >>> from steropes.studies.covariates import extract_features
    >>> db = synthetic_database(200)
    >>> entries = compare_cohorts(db, read_cohorts(db), 1, 2).entries
    >>> features = extract_features(db, entries, FeatureRules(analyses=(1, 3, 210)))
    >>> table = table_one(covariate_balance(features, entries["treated"], np.ones(len(entries))))
    >>> sorted(set(table["section"]))
    ['Age group', 'Gender', 'Medical history: cardiovascular disease', 'Medical history: general']
    """
    known = balance.table.set_index("covariate_id")
    rows = []
    for chosen in characteristics(balance.table).to_dict("records"):
        line = known.loc[chosen["covariate_id"]]
        row = {"section": chosen["section"], "characteristic": chosen["name"]}
        for when in ("before", "after"):
            for arm in ("target", "comparator"):
                row[f"{arm}_{when}"] = chosen["unit"] * line[f"{arm}_mean_{when}"]
            row[f"smd_{when}"] = line[f"smd_{when}"]
        rows.append(row)
    columns = ["section", "characteristic"] + [
        f"{column}_{when}"
        for when in ("before", "after")
        for column in ("target", "comparator", "smd")
    ]
    captions = {
        f"{column}_{when}": f"{caption}, {when}"
        for when in ("before", "after")
        for column, caption in (("target", "Target"), ("comparator", "Comparator"), ("smd", "SMD"))
    }
    labels = ["section", "characteristic"]
    table = pd.DataFrame(rows, columns=columns)
    return present(table, "love_plot", captions=captions, labels=labels)


def characteristics(covariates: pd.DataFrame) -> pd.DataFrame:
    """Select the covariates of Table 1, in its order.

    Parameters
    ----------
    covariates : DataFrame
        ``covariate_id``, ``name``, ``analysis_id``.

    Returns
    -------
    DataFrame
        ``section``, ``covariate_id``, ``name`` (short) and ``unit``: 100 for percentages of 0/1
        covariates, 1 for means.
    """
    known = covariates.drop_duplicates("covariate_id").set_index("covariate_id")
    rows = []
    for section, analysis, concepts in SECTIONS:
        ids = [c * 1000 + analysis for c in concepts]
        if not concepts:
            ids = sorted(known.index[known["analysis_id"] == analysis])
        unit = 100.0 if ANALYSES[analysis].binary else 1.0
        rows += [
            (section, i, _short(str(known.at[i, "name"])), unit) for i in ids if i in known.index
        ]
    return pd.DataFrame(rows, columns=["section", "covariate_id", "name", "unit"])


def _short(name: str) -> str:
    """Drop the window and the kind from a name; the section shows them."""
    return name.split(": ", 1)[-1]
