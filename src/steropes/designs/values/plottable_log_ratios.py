"""Base class of results with a log ratio and its limits, with a method that plots the ratio."""

from __future__ import annotations

from typing import Any

import pandas as pd

from steropes.data.html_representations import FieldsInHtml
from steropes.data.plottable_result_tables import drawn_by
from steropes.designs.values.ratios_from_logarithms import ratio_of

__all__ = ["DrawnEffect"]


class DrawnEffect(FieldsInHtml):
    """Base class of results with ``log_rr`` and its limits ``lower`` and ``upper``."""

    log_rr: float
    lower: float
    upper: float

    def plot(self, *, ratio: str = "Ratio", **options: Any) -> Any:
        """Draw the ratio with its limits by `steropes.plots.ratio_forest`.

        Parameters
        ----------
        ratio : str
            The name of the ratio, such as "Hazard ratio".
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        columns = ("log_rr", "lower", "upper")
        values = [ratio_of(getattr(self, name)) for name in columns]
        table = pd.DataFrame([values], [type(self).__name__.lower()], list(columns))
        return drawn_by("ratio_forest", table, columns=columns, ratio=ratio, **options)
