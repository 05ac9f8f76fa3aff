"""Types of data that functions accept from users, before validation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2.typing as nwt
import pandas as pd
from numpy.typing import ArrayLike

__all__ = ["CoefficientsByColumn", "LabelsLike", "TableLike", "VectorLike"]

# A pandas, polars or pyarrow table.
TableLike = pd.DataFrame | nwt.IntoDataFrame
# Numbers with an entry for each row: an array, a list, or a series of any library.
VectorLike = ArrayLike | nwt.IntoSeries
# Hashable labels with an entry for each row.
LabelsLike = ArrayLike | Sequence[Hashable] | nwt.IntoSeries | TableLike
# Coefficients by name or position of a column.
CoefficientsByColumn = Mapping[Any, float] | pd.Series
