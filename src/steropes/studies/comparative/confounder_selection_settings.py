"""Settings of the selection of covariates for each outcome (hdPS)."""

from __future__ import annotations

from typing import Annotated, Literal

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Whole, YesNo

__all__ = ["SelectedConfounders"]


class SelectedConfounders(Settings):
    """Selection of the covariates of the propensity model for each outcome (hdPS).

    Covariates are ranked by the bias that their absence could cause in the effect on the outcome,
    and the first ``k`` are in the propensity model with the demographic ones.

    Parameters
    ----------
    k : int, default 500
        Largest number of selected columns.
    per_dimension : int, optional
        Largest number of covariates of each analysis that are considered, by prevalence; 0 for all.
        Default: 200.
    rank_by : {"bias", "treatment", "outcome"}, default "bias"
        As of `HighDimensionalPropensityScore`.
    drop_instruments : bool, default False
        Leave out columns that predict the treatment alone.

    References
    ----------
    Schneeweiss and others (2009), Epidemiology 20:512–522.

    Examples
    --------
    >>> from steropes.studies.comparative import SelectedConfounders
    >>> SelectedConfounders(k=200).rank_by
    'bias'
    """

    k: Annotated[int, Whole(1)] = 500
    per_dimension: Annotated[int, Whole()] = 200
    rank_by: Literal["bias", "treatment", "outcome"] = "bias"
    drop_instruments: YesNo = False
