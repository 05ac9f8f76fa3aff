"""Division of rows into folds, with even classes and undivided strata and groups."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..data import check_strata
from ..errors import DataError
from ..solve.data_term import RowMultiples
from .variance_chooser_interface import FoldSettings, Seed

__all__ = [
    "Seed",
    "TrainingRows",
    "WithAllRows",
    "cut",
    "make_folds",
    "random_generator",
    "read_splits",
]


def units_of(
    groups: ArrayLike | None, together: np.ndarray | None, there: np.ndarray
) -> np.ndarray | None:
    """Return codes (m,) of the units that stay whole in a fold, or None if rows are independent.

    Parameters
    ----------
    groups : (n,) labels or None
        The user's groups.
    together : (n,) int array or None
        Strata that the model keeps whole. A group and a stratum with a common row are in one unit,
        together with all that overlap with them.
    there : (n,) bool array
        The m rows that count; the others have no code.
    """
    n = int(there.sum())
    together = _of_rows(together, there)
    if groups is None:
        return together
    code = _of_rows(_codes(groups, len(there), "groups", "group"), there)
    if together is None or code is None:
        return code
    sets, people = int(together.max()) + 1, int(code.max()) + 1
    shape = (sets + people, sets + people)
    links = sparse.coo_array((np.ones(n, np.int8), (together, sets + code)), shape=shape)
    return connected_components(links.tocsr(), directed=False)[1][together].astype(np.int64)


def classes_of(
    stratify: bool | ArrayLike, label: np.ndarray | None, there: np.ndarray
) -> np.ndarray | None:
    """Return codes (m,) of the classes to distribute evenly over the folds, or None for none.

    Parameters
    ----------
    stratify : bool or (n,) labels
        The user's classes; True for those of the model.
    label : (n,) int array or None
        The model's classes.
    there : (n,) bool array
        The m rows that count.

    Returns
    -------
    (m,) int array or None
        The rarest of the user's classes has the highest code, which a group of several classes
        receives.
    """
    if isinstance(stratify, bool | np.bool_):
        return label[there] if stratify and label is not None else None
    code = _of_rows(_codes(stratify, len(there), "stratify", "class"), there)
    assert code is not None
    rank = np.empty(int(code.max()) + 1, np.int64)
    rank[np.argsort(-np.bincount(code), kind="stable")] = np.arange(len(rank))
    return rank[code]


def _of_rows(codes: np.ndarray | None, there: np.ndarray) -> np.ndarray | None:
    """Return codes 0, 1, … of some of the rows, as if there were no others."""
    if codes is None or there.all():
        return codes
    return check_strata(codes[there], int(there.sum()))


def _codes(labels: ArrayLike, n: int, argument: str, one: str) -> np.ndarray:
    """Return codes of the labels that the user gave for an argument."""
    try:
        code = check_strata(labels, n)
    except DataError as error:
        words = str(error).replace("strata", argument).replace("stratum", one)
        raise DataError(f"CrossValidation: {words}") from None
    assert code is not None
    return code


def random_generator(random_state: Seed) -> np.random.Generator:
    """Return NumPy's generator for a seed, or the one given."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"random_state must be None, a whole number from 0 or a numpy.random.Generator, not "
            f"{random_state!r}: {error}."
        ) from None


def cut(
    cv: FoldSettings, label: np.ndarray | None, together: np.ndarray | None, weights: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Divide the rows according to a `CrossValidation`.

    Parameters
    ----------
    cv : CrossValidation
    label, together : (n,) int arrays or None
        Those of the model, as in `make_folds`; the cross-validation may specify others.
    weights : (n,) array
        Rows with a weight of zero are absent; the others are divided as if they were alone.

    Returns
    -------
    fold : (n, repeats) int array
        The fold of each row in each repeat (or split); −1 of a row without weight.
    pairs : list of (repeat, fold)
        The parts to hold out in turn.
    """
    n, there = len(weights), np.asarray(weights) > 0
    label = classes_of(cv.stratify, label, there)
    if isinstance(cv.folds, Sequence):
        fold = read_splits(cv.folds, together, there)
        pairs = [(r, 0) for r in range(fold.shape[1])]
    else:
        units = units_of(cv.groups, together, there)
        folds, count = int(float(cv.folds)), int(there.sum())
        cut_there = make_folds(folds, int(cv.repeats), label, units, count, cv.random_state)
        pairs = [(r, f) for r in range(int(cv.repeats)) for f in range(folds)]
        fold = cut_there
        if count < n:
            fold = np.full((n, cut_there.shape[1]), -1, cut_there.dtype)
            fold[there] = cut_there
    fold = np.asfortranarray(fold)  # It is read by repeats.
    for r, f in pairs:
        if not (there & (fold[:, r] != f)).any():
            raise DataError(f"All weight is in fold {f}; use fewer folds.")
    return fold, pairs


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Row weights of folds, for `steropes.fit.Replicates`.

    This is a separate object because a method of the object that holds the replicates would create
    a reference cycle, which keeps all arrays until Python's collector runs.

    Parameters
    ----------
    weights : (n,) array
    fold, pairs
        As returned by `cut`.
    """

    weights: np.ndarray
    fold: np.ndarray
    pairs: list[tuple[int, int]]

    def __call__(self, numbers: Sequence[int]) -> np.ndarray:
        """Return the weights of some folds, zero for held-out rows, (n, b)."""
        out = np.empty((len(self.weights), len(numbers)))
        for b, (r, f) in enumerate(self.pairs[k] for k in numbers):
            np.multiply(self.weights, self.fold[:, r] != f, out=out[:, b])
        return out

    def multiples(self, numbers: Sequence[int]) -> RowMultiples:
        """Return the same weights with one byte for each row and fold."""
        times = np.empty((len(numbers), len(self.weights)), np.uint8)
        for b, (r, f) in enumerate(self.pairs[k] for k in numbers):
            np.not_equal(self.fold[:, r], f, out=times[b], casting="unsafe")
        return RowMultiples(self.weights, times)


@dataclass(frozen=True, eq=False)
class WithAllRows:
    """Row weights of folds followed by one more replicate with all rows."""

    folds: TrainingRows

    def __call__(self, numbers: Sequence[int]) -> np.ndarray:
        """Return the weights of some folds and of all rows, (n, b)."""
        own = [k for k in numbers if k < len(self.folds.pairs)]
        whole = np.tile(self.folds.weights[:, None], (1, len(numbers) - len(own)))
        return np.concatenate([self.folds(own), whole], axis=1)

    def multiples(self, numbers: Sequence[int]) -> RowMultiples:
        """Return the same weights with one byte for each row and replicate."""
        own = self.folds.multiples([k for k in numbers if k < len(self.folds.pairs)])
        more = len(numbers) - len(own.times)
        times = np.pad(own.times, ((0, more), (0, 0)), constant_values=1)
        return RowMultiples(self.folds.weights, times)


def make_folds(
    folds: int,
    repeats: int,
    label: np.ndarray | None,
    together: np.ndarray | None,
    n: int,
    random_state: Seed,
) -> np.ndarray:
    """Assign rows to folds at random.

    Parameters
    ----------
    label : (n,) int array or None
        Outcome classes to distribute evenly over the folds.
    together : (n,) int array or None
        Codes of strata that stay whole in a fold.
    n : int
        Number of rows.

    Returns
    -------
    (n, repeats) int array
        The fold of each row in each repeat.
    """
    rng = random_generator(random_state)
    if together is None:
        units, of_unit = n, None
        unit_label = label
    else:
        units, of_unit = int(together.max()) + 1, together
        unit_label = None
        if label is not None:
            unit_label = np.zeros(units, np.int64)
            np.maximum.at(unit_label, together, label)
    if units < folds:
        parts = "rows" if together is None else "strata or groups"
        raise DataError(f"{folds} folds need at least as many {parts}; there are {units} {parts}.")
    number = np.int16 if folds <= np.iinfo(np.int16).max else np.int64  # Saves memory.
    out = np.empty((n, repeats), number)
    for r in range(repeats):
        fold = np.empty(units, number)
        if unit_label is None:
            fold[rng.permutation(units)] = np.arange(units) % folds
        else:
            start = 0
            for value in np.unique(unit_label):
                at = np.flatnonzero(unit_label == value)
                # Continue where the last class ended, so that fold sizes differ by at most one.
                fold[at[rng.permutation(len(at))]] = (np.arange(len(at)) + start) % folds
                start += len(at)
        out[:, r] = fold if of_unit is None else fold[of_unit]
    return out


def read_splits(
    splits: Iterable[tuple[ArrayLike, ArrayLike]], together: np.ndarray | None, there: np.ndarray
) -> np.ndarray:
    """Convert (train, test) pairs of row numbers to folds: 0 is held out, 1 is in training.

    Parameters
    ----------
    splits : iterable of (train, test)
        Row numbers, or masks, of all n rows.
    together : (n,) int array or None
        Codes of strata that must be whole.
    there : (n,) bool array
        Rows that count; the others are −1.

    Returns
    -------
    (n, number of splits) int array
    """
    n, columns = len(there), []
    for k, parts in enumerate(splits):
        train, test = (_row_numbers(rows, k, n) for rows in parts)
        if len(test) == 0:
            raise DataError(f"Split {k} has no test rows.")
        column = np.full(n, -1, np.int16)
        column[train] = 1
        if (column[test] == 1).any():
            raise DataError(f"Split {k} has row {test[column[test] == 1][0]} in both parts.")
        column[test] = 0
        if (column < 0).any():
            raise DataError(
                f"Split {k} leaves row {int(np.argmax(column < 0))} out; train and test must be "
                "all rows together."
            )
        column[~there] = -1
        if not (column == 0).any():
            raise DataError(f"Split {k} has no test rows with a positive weight.")
        if together is not None:
            held = np.zeros(int(together.max()) + 1, bool)
            held[together[column == 0]] = True
            if (held[together] & (column == 1)).any():
                row = int(np.argmax(held[together] & (column == 1)))
                raise DataError(f"Split {k} cuts the stratum of row {row}; keep strata whole.")
        columns.append(column)
    if not columns:
        raise DataError("folds has no splits.")
    fold = np.stack(columns, axis=1)
    _warn_untested(fold)
    return fold


def _row_numbers(rows: ArrayLike, split: int, n: int) -> np.ndarray:
    """Return one part of a split as distinct row numbers from 0 to n − 1."""
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if rows.shape != (n,):
            raise DataError(f"Split {split} is a mask of {rows.size} rows, but X has {n}.")
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (
        rows.size and (rows.dtype.kind not in "iu" or not -n <= rows.min() <= rows.max() < n)
    ):
        raise DataError(f"Split {split} must hold numbers of rows of X, which has {n}.")
    rows = rows.astype(np.int64) % n
    listed, count = np.unique(rows, return_counts=True)
    if (count > 1).any():
        raise DataError(
            f"Split {split} lists row {listed[count > 1][0]} twice, but a row is either in a part "
            "or not; give it a sample_weight of 2 instead."
        )
    return rows


def _warn_untested(fold: np.ndarray) -> None:
    """Warn of rows that no split scores.

    A single split is a validation set, which leaves the others out on purpose.
    """
    if fold.shape[1] == 1:
        return
    untested = (fold != 0).all(axis=1) & (fold >= 0).any(axis=1)
    if untested.any():
        warnings.warn(
            f"{int(untested.sum())} of {len(fold)} rows are in no split's test part (the first is "
            f"row {int(untested.argmax())}): their predictions have no influence on the choice. "
            "Splits of k folds test every row once.",
            UserWarning,
            stacklevel=2,
        )
