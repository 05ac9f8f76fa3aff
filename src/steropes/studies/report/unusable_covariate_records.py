"""Sentences about recorded values that are not finite numbers, for the page of a grid."""

from __future__ import annotations

import pandas as pd

from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES

__all__ = ["unusable_words"]


def unusable_words(tables: dict[str, pd.DataFrame], comparison: int | None = None) -> list[str]:
    """Describe the records that no covariate uses, in one sentence per covariate analysis.

    Parameters
    ----------
    tables : dict of str to DataFrame
        The result tables of a grid.
    comparison : int, optional
        Only records of this comparison. Default: of the comparison that has most of them.
    """
    found = tables["unusable_value"]
    if comparison is not None:
        found = found[found["target_comparator_id"] == comparison]
    words = []
    for number, of in found.groupby("covariate_analysis_id", sort=True):
        # -n stands for fewer than n.
        most, bound = int(of["records"].max()), int(of["records"].min())
        name = ANALYSES[int(str(number))].name
        if most == 1:
            said = "1 record left out, whose value is no finite number"
        else:
            shown = f"{most:,}" if most > 0 else f"fewer than {-bound:,}"
            said = f"{shown} records left out, whose values are no finite numbers"
        words.append(f"{name}: {said} (not a number, infinite, beyond single precision, or text)")
    return words
