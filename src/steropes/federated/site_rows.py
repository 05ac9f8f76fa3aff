"""A site's rows, read from its table according to the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..backends import host_backend
from ..data import (
    check_exposure,
    check_offset,
    check_strata,
    check_weights,
)
from ..data.csv_reading import read_csv_file
from ..data.input_types import LabelsLike, TableLike
from ..design_matrix import Design, design_of_numbers, has_names
from ..errors import DataError
from ..fit import Problem
from ..select.folds import cut
from .federated_plan import FederatedPlan
from .planned_models import SiteColumns
from .row_hashes import SiteTable, column_values

__all__ = ["SiteData", "SiteRows", "read_rows", "read_table"]

# A table, or a mapping of ``"X"`` and vectors by name.
OpenTable: TypeAlias = dict[str, Any] | TableLike
# A table, the path to one, or a mapping of ``"X"`` and vectors by name; see `read_rows`.
SiteData: TypeAlias = str | Path | dict[str, Any] | TableLike


@dataclass(frozen=True)
class SiteRows:
    """The rows of a site.

    Attributes
    ----------
    problem : Problem
        The problem without an intercept; dense columns are centred if the model allows it.
    unit : (n,) int array
        The person of each row; the stratum (person, matched set) if the model conditions on one.
    event : (n,) bool array or None
        Whether each row has an event; None for linear models.
    y : (n,) array
        Outcome, or the time of survival models.
    entry : (n,) array or None
        Times of late entry.
    strata : (n,) int array or None
    codes : (n,) int array or None
        Causes of events if several; 0 is censored.
    table : SiteTable
        All columns of the site's table.
    held_out : (n, folds · repeats) bool array or None
        The rows that each fold leaves out, if folds choose the variance.
    rare : int
        Number of people whose values were replaced because their combination is rare.
    """

    problem: Problem
    table: SiteTable
    unit: np.ndarray
    event: np.ndarray | None
    y: np.ndarray
    entry: np.ndarray | None = None
    strata: np.ndarray | None = None
    codes: np.ndarray | None = None
    held_out: np.ndarray | None = None
    rare: int = 0

    @property
    def design(self) -> Design:
        """The covariates."""
        design = self.problem.design
        assert isinstance(design, Design)
        return design


def read_rows(
    data: SiteData, plan: FederatedPlan, site: int = 0,
    replaced: Mapping[str, np.ndarray] | None = None,
) -> SiteRows:  # fmt: skip
    """Read a site's table.

    Parameters
    ----------
    data : data frame or Arrow table, path to a Parquet or CSV file, or mapping
        The table. A mapping has ``"X"`` (any numbers that `as_design` accepts, with the
        names of the plan's columns) and vectors by the names of their columns.
    site : int
        Position of the site in the plan, on which its folds depend.
    replaced : mapping of str to (n,) arrays, optional
        Other values of some columns, in whatever role.

    Raises
    ------
    DataError
        A column is missing, or has values that the model cannot use.
    """
    given = read_table(data)
    names, take, design = _columns_of(given, plan)
    table = SiteTable(names, take, design)
    if replaced:
        names, take, design = _columns_of(_with_values(given, plan, replaced), plan)
        table = SiteTable(names, take, design, table)
    return _rows(design, take, plan, site, table)


def read_table(data: SiteData) -> OpenTable:
    """Read the table if it is a file."""
    return _read_file(Path(data)) if isinstance(data, str | Path) else data


def _columns_of(
    data: OpenTable, plan: FederatedPlan
) -> tuple[list[str], Callable[[str], ArrayLike], Design]:
    """Return the names of all columns, a function that returns one, and the design."""
    if isinstance(data, dict):
        design, take = _given(data, plan)
        return [name for name in data if name != "X"], take, design
    frame = nw.from_native(data, eager_only=True)
    gone = [c for c in plan.table_columns if c not in frame.columns]
    if gone:
        raise DataError(
            f"the table has no column {gone[0]!r}"
            + (f" (nor {len(gone) - 1} others of the plan)" if len(gone) > 1 else "")
        )
    design = design_of_numbers(frame.select(list(plan.columns)).to_native())
    return list(frame.columns), lambda name: frame[name].to_numpy(), design


def _with_values(
    data: OpenTable, plan: FederatedPlan, replaced: Mapping[str, np.ndarray]
) -> OpenTable:
    """Return a table with other values of some columns, stored in the same way."""
    if not isinstance(data, dict):
        frame = nw.from_native(data, eager_only=True)
        new = [nw.new_series(name, x, backend=frame.implementation)
               for name, x in replaced.items() if name in frame.columns]  # fmt: skip
        return frame.with_columns(*new).to_native()
    out = {**data, **{name: x for name, x in replaced.items() if name in data}}
    own = {name: x for name, x in replaced.items() if name in plan.columns}
    X = _matrix_of(data["X"]) if isinstance(data["X"], Design) else data["X"]
    if own and has_names(X):
        out["X"] = _with_values(X, plan, own)
    elif own and sparse.issparse(X):
        columns = sparse.csc_array(X)
        out["X"] = sparse.hstack(
            [sparse.csc_array(own[name][:, None]) if name in own else columns[:, [j]]
             for j, name in enumerate(plan.columns)], format="csc",
        )  # fmt: skip
    elif own:
        dense = np.array(X, np.float64)
        for name, x in own.items():
            dense[:, plan.columns.index(name)] = x
        out["X"] = dense
    return out


def _matrix_of(design: Design) -> sparse.csc_array:
    """Return the columns of a design."""
    found = list(column_values(design.uncentered()))
    ends = np.cumsum([0, *(len(at) for at, _ in found)])
    values = [x * scale for (_, x), scale in zip(found, design.scale, strict=True)]
    rows = np.concatenate([at for at, _ in found])
    return sparse.csc_array((np.concatenate(values), rows, ends), shape=(design.n, design.p))


def _read_file(path: Path) -> TableLike:
    """Read a Parquet or CSV file."""
    if not path.exists():
        raise DataError(f"there is no file {path}")
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path)
    if path.suffix == ".csv":
        return read_csv_file(path)
    raise DataError(f"{path}: a site's table must be a .parquet or a .csv file")


def _given(data: dict[str, Any], plan: FederatedPlan) -> tuple[Design, Callable[[str], ArrayLike]]:
    """Return the design of a mapping of data, and a function that returns its vectors."""
    if "X" not in data:
        raise DataError("a mapping of data needs 'X', the covariates")
    X = data["X"]
    design = (
        design_of_numbers(X) if has_names(X) else design_of_numbers(X, names=list(plan.columns))
    )
    if list(design.names) != list(plan.columns):
        odd = [n for n in design.names if n not in plan.columns]
        odd += [n for n in plan.columns if n not in design.names]
        what = f"{odd[0]!r} is in one and not in the other" if odd else "their order differs"
        raise DataError(f"the columns of X are not those of the plan: {what}")

    def take(name: str) -> ArrayLike:
        if name not in data:
            raise DataError(f"the data have no {name!r}")
        return data[name]

    return design, take


def _rows(
    design: Design, take: Callable[[str], ArrayLike], plan: FederatedPlan, site: int,
    table: SiteTable,
) -> SiteRows:  # fmt: skip
    """Create the rows from a design and a function that returns other columns."""
    n = design.n

    def vector(name: str | None) -> ArrayLike | None:
        return None if name is None else take(name)

    weights = check_weights(vector(plan.weight), n)
    offset = check_offset(vector(plan.offset), n, not plan.planned.quadratic)
    log_exposure = check_exposure(vector(plan.exposure), n)
    if log_exposure is not None:
        offset = log_exposure if offset is None else offset + log_exposure
    strata = check_strata(vector(plan.strata), n) if plan.strata is not None else None
    found = plan.planned.read(SiteColumns(take, weights, strata, plan, host_backend()))
    likelihood = found.likelihood
    if plan.intercepts or plan.has_own_intercepts or likelihood.shift_invariant:
        design = design.centered()
    problem = Problem(design, likelihood, weights, offset, None, list(plan.columns))
    within = plan.planned.within_strata
    unit = strata if within and strata is not None else np.arange(n)
    held_out = None
    if plan.folds:
        groups = vector(plan.groups)
        held_out = _folds(plan, site, found.labels, within, unit, groups, weights)
    return SiteRows(
        problem, table, unit, found.event, np.asarray(found.y), found.entry, strata, found.codes,
        held_out,
    )  # fmt: skip


def _folds(
    plan: FederatedPlan, site: int, label: np.ndarray | None, within: bool, unit: np.ndarray,
    groups: LabelsLike | None, weights: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Draw the rows that each fold leaves out, as a cross-validation of these rows alone does."""
    chooser = replace(plan.chooser(site), groups=groups)
    fold, pairs = cut(chooser, label, unit if within else None, weights)
    return np.stack([fold[:, r] == f for r, f in pairs], axis=1)
