"""Small cells: counts of people that a site does not disclose, not even within a total.

The counts in a table can be computed from sums over rows at a few coefficients. The rules therefore
examine the rows themselves rather than the numbers of a message. Columns with few values, the
event, and the times of a common grid are factors. Cells are those of each factor, of each pair of
factors (including their most frequent levels, so that differences are cells as well), and of all
factors jointly if the answers are numerous enough to compute them (`answer_ledger`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ..data.group_checks_and_counts import count_distinct
from ..errors import listed
from .federated_constants import ADMISSION
from .federated_plan import FederatedPlan
from .owner_rules import OwnerRules
from .row_hashes import column_values, mixed
from .site_rows import SiteRows

__all__ = ["Factor", "SiteCells", "factor_of"]


@dataclass(frozen=True)
class Factor:
    """A variable with few levels.

    Attributes
    ----------
    rows : tuple of int arrays
        The rows at each level except the most frequent one.
    complete : bool
        Whether the levels are all values of the column. Otherwise the column has many values, one
        of which occurs in at least half of the rows, and all other rows form the second level.
    column : str
        The column of a factor with another name.
    """

    name: str
    rows: tuple[np.ndarray, ...]
    complete: bool = True
    column: str = ""


class SiteCells:
    """The cells of a site's rows under a plan.

    Parameters
    ----------
    others : sequence of Factor
        Factors of earlier plans on the same people; their cells with those of this plan are
        counted too.
    part : (n,) int array, optional
        Rows with the same number are in the totals of the same plans; −1 for those in none. By
        default, those with a positive weight are part 0.
    """

    def __init__(
        self, rows: SiteRows, plan: FederatedPlan, rules: OwnerRules,
        others: Sequence[Factor] = (), part: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.plan, self.rules = rows, plan, rules
        self.own = rows.problem.weights > 0
        self.part = np.where(self.own, 0, -1) if part is None else part
        self.counted = self.part >= 0
        self.own_units = plan.planned.within_strata
        self.covariates = list(_covariates(rows, self.counted, rules.levels))
        self.outcomes = list(self._outcomes())
        self.others = list(others)

    # -- factors -----------------------------------------------------------------------------------

    def _outcomes(self) -> Iterator[Factor]:
        """Yield the factors of the outcome: events by cause, and times of shared risk sets."""
        rows, plan = self.rows, self.plan
        if plan.planned.quadratic:
            yield from factor_of(plan.outcome, rows.y, self.counted, self.rules.levels)
            return
        assert rows.event is not None
        event = rows.event.astype(float)
        if rows.codes is not None:
            event = np.where(rows.event, 1.0, np.where(rows.codes > 0, 2.0, 0.0))
        name = plan.event or plan.outcome
        yield _levels_of(name, event, self.counted)
        if plan.shares_risk_sets and plan.times:
            yield _levels_of(plan.outcome, rows.y, self.counted)
            if rows.entry is not None:
                yield _levels_of(plan.entry or "", rows.entry, self.counted)
        yield from self._roles()

    def _roles(self) -> Iterator[Factor]:
        """Yield the factors of columns in other roles, whose values the totals depend on too."""
        rows, plan = self.rows, self.plan
        names = [plan.weight, plan.offset, plan.exposure, plan.groups]
        if plan.planned.of_times:
            names.append(plan.strata)
            names += [] if plan.shares_risk_sets else [plan.outcome, plan.entry]
        for name in dict.fromkeys(n for n in names if n is not None):
            x = rows.table.column(name)
            if x is not None:
                yield from factor_of(name, x, self.counted, self.rules.levels)

    def people(self, among: np.ndarray) -> int:
        """Count the people among some rows, given as a bool array."""
        return count_distinct(self.rows.unit[among & self.counted])

    # -- cells that are too small ------------------------------------------------------------------

    def refusals(
        self,
        pairs: Sequence[str],
        further: Callable[[SiteCells, np.ndarray], list[str]],
    ) -> list[str]:
        """Return sentences on cells of single factors and of pairs that are too small.

        The own rows and the training rows of each fold are examined as well, since the sums of one
        part follow from those of the other and of all rows.

        Parameters
        ----------
        pairs : sequence of str
            The covariates of Hessians, all pairs of which are examined; each covariate is examined
            with each outcome in any case.
        further : callable
            A further examination of the rows of a part, such as `refuse_dominated`.
        """
        if self.rules.least <= 1:
            return []
        for part in range(int(self.part.max(initial=-1)) + 1):
            among = self.part == part
            out = self._small(pairs, among) or further(self, among)
            if out:
                return out
        if self.rows.held_out is None:
            return []
        for k, held in enumerate(self.rows.held_out.T):
            for part in (held, ~held):
                small = self._small((), self.own & part)
                if small:
                    return [f"in fold {k} {small[0]}; or have fewer folds"]
        return []

    def rare_values(self) -> list[str]:
        """Return a sentence on values of single columns that too few people have, if any."""
        if self.people(self.own) < self.rules.least:
            return []  # another sentence says so
        small = self._small_pairs([], [*self.covariates, *self.outcomes], self.own, False)
        single = [name for (name, *rest) in small if not rest]
        return [self._rare(single)] if single else []

    def _rare(self, names: Sequence[str]) -> str:
        """Word the refusal of columns with rare values."""
        named = listed(list(dict.fromkeys(names)), ADMISSION.max_named)
        return (
            f"fewer than {self.rules.least} people have one of the values of {named}: leave the "
            "column out of the plan, merge it with others, or make a grid of times coarser"
        )

    def _small(self, pairs: Sequence[str], among: np.ndarray) -> list[str]:
        """Return sentences on small cells among some rows; see `refusals`."""
        least = self.rules.least
        if self.people(among) < least:
            return [f"there are fewer than {least} people"]
        wanted = set(pairs)
        free = [f for f in self.covariates if f.name in wanted]
        rest = [f for f in self.covariates if f.name not in wanted]
        groups = [(free, [*self.outcomes, *(self.others if wanted else ())])]
        groups += [
            (rest[i : i + ADMISSION.covariates_at_once], self.outcomes)
            for i in range(0, len(rest), ADMISSION.covariates_at_once)
        ]
        single: list[tuple[str, ...]] = []
        both: list[tuple[str, ...]] = []
        for k, (covariates, others) in enumerate(groups):
            for small in self._small_pairs(covariates, others, among, k == 0):
                (both if len(small) == 2 else single).append(small)
        if single:
            return [self._rare([name for (name,) in single])]
        if both:
            named = "; ".join(
                f"{one!r} and {other!r}" for one, other in both[: ADMISSION.max_named]
            )
            return [
                f"fewer than {least} people have some value of one and some value of the other of "
                f"{named}: leave columns out of the plan, merge them, or make a grid of times "
                "coarser"
            ]
        return []

    def _small_pairs(
        self, covariates: Sequence[Factor], others: Sequence[Factor], among: np.ndarray, every: bool
    ) -> list[tuple[str, ...]]:
        """Return the factors, and pairs of factors, with a cell that is too small.

        Parameters
        ----------
        among : (n,) bool array
            The rows to count.
        every : bool
            Whether to examine pairs of two covariates too, and not only pairs with one of the
            others.
        """
        factors = [*covariates, *others]
        if not factors:
            return []
        m, is_covariate = len(factors), np.arange(len(factors)) < len(covariates)
        pair = ~(is_covariate[:, None] & is_covariate) | every
        pair &= ~np.eye(m, dtype=bool)
        members = [[r[among[r]] for r in f.rows] for f in factors]
        if self.own_units:  # people have several rows, so the complement of a level is a level too
            at = np.flatnonzero(among)
            members = [[*own, np.setdiff1d(at, np.concatenate([*own, at[:0]]))] for own in members]
        owner = np.repeat(np.arange(m), [len(own) for own in members])
        levels = [r for own in members for r in own]
        indptr = np.cumsum([0, *(len(r) for r in levels)])
        index = np.concatenate([*levels, np.empty(0, np.int64)]).astype(np.int64)
        Z = sparse.csc_array((np.ones(len(index)), index, indptr), shape=(len(among), len(levels)))
        if self.own_units:
            small = self._of_people(Z, owner, m)
        else:
            small = self._of_rows(Z, owner, m, int(among.sum()), pair)
        out: list[tuple[str, ...]] = [(factors[j].name,) for j in np.flatnonzero(np.diag(small))]
        for i, j in zip(*np.nonzero(np.triu(small & pair, 1)), strict=True):
            out.append((factors[i].name, factors[j].name))
        return out

    def _too_few(self, count: np.ndarray) -> np.ndarray:
        """Return which counts are positive but below the owner's limit."""
        return (count > 0) & (count < self.rules.least)

    def _of_people(self, Z: sparse.csc_array, owner: np.ndarray, m: int) -> np.ndarray:
        """Find small cells as in `_of_rows`, counting people with rows at both levels."""
        units, unit = np.unique(self.rows.unit, return_inverse=True)
        by_row, out = Z.tocsr(), np.zeros((m, m), bool)
        for k in range(Z.shape[1]):
            rows = Z.indices[Z.indptr[k] : Z.indptr[k + 1]]
            at = (np.ones(len(rows)), (unit[rows], np.arange(len(rows))))
            of = sparse.csr_array(at, shape=(len(units), len(rows)))
            few = self._too_few(np.asarray(((of @ by_row[rows]) > 0).sum(axis=0)).ravel())
            few &= (owner != owner[k]) | (np.arange(len(owner)) == k)
            out[owner[k], owner[few]] = True
        return out | out.T

    def _of_rows(
        self, Z: sparse.csc_array, owner: np.ndarray, m: int, n: int, pair: np.ndarray
    ) -> np.ndarray:
        """Find pairs of factors, (m, m) bool, with a small cell; single factors on the diagonal.

        Parameters
        ----------
        Z : (n, K) sparse array
            Indicators of all levels except the most frequent ones.
        owner : (K,) int array
            The factor of each level.
        m : int
            Number of factors.
        n : int
            Number of rows.
        pair : (m, m) bool array
            The pairs to examine.
        """
        F = np.zeros((len(owner), m))
        F[np.arange(len(owner)), owner] = 1.0
        size, G = np.asarray(Z.sum(axis=0)).ravel(), (Z.T @ Z).toarray()
        found = F.T @ (self._too_few(G) & pair[np.ix_(owner, owner)]) @ F > 0
        rest = G @ F  # rows at any level of another factor except its most frequent one
        beyond = F.T @ (self._too_few(size[:, None] - rest) & pair[owner]) > 0
        total = F.T @ size
        neither = n - total[:, None] - total + F.T @ rest
        found = found | beyond | beyond.T | (self._too_few(neither) & pair)
        np.fill_diagonal(found, (F.T @ self._too_few(size) > 0) | self._too_few(n - total))
        return found

    # -- the table of all columns together ---------------------------------------------------------

    @cached_property
    def few(self) -> tuple[int, bool]:
        """Number of combinations of covariates with few values, and whether a cell is small.

        Combinations are counted for covariates alone, because the outcome enters the sums of most
        models in few numbers; cells are those of covariates and outcome.
        """
        pattern = self._of_part()
        complete = [f for f in self.covariates if f.complete]
        self._add(pattern, complete)
        combinations = count_distinct(pattern[self.counted])
        self._add(pattern, self.outcomes)
        return combinations, self._has_small(pattern)

    def tables(
        self, plans: Sequence[tuple[frozenset[str], int]]
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield how many numbers several plans disclose together, and the table of their columns.

        Columns that one plan has as a covariate can be the outcome or the weight of another, so
        that no plan alone shows which combinations of values its numbers can determine. The plans
        with the fewest combinations come first, since these need the fewest numbers.

        Parameters
        ----------
        plans : sequence of (frozenset of str, int)
            The columns of each plan in all roles, and the numbers that it discloses.

        Yields
        ------
        tuple of int, int, bool
            The numbers, the combinations of values, and whether one of them is small.
        """
        factors: dict[str, list[Factor]] = {}
        for f in [*self.covariates, *self.outcomes, *self.others]:
            factors.setdefault(f.column or f.name, []).append(f)

        def of(names: frozenset[str]) -> list[Factor]:
            return [f for name in sorted(names) for f in factors.get(name, ()) if f.complete]

        sizes = []
        for names, _ in plans:
            pattern = self._of_part()
            self._add(pattern, of(names))
            sizes.append(count_distinct(pattern[self.counted]))
        pattern, known, numbers = self._of_part(), frozenset[str](), 0
        for k in np.argsort(sizes, kind="stable"):
            names, more = plans[k]
            self._add(pattern, of(names - known))
            known, numbers = known | names, numbers + more
            yield numbers, count_distinct(pattern[self.counted]), self._has_small(pattern)

    def _of_part(self) -> np.ndarray:
        """Return a hash of the plans that each row takes part in, (n,) uint64."""
        return mixed(self.part.astype(float), -11)

    def _add(self, pattern: np.ndarray, factors: Sequence[Factor]) -> None:
        """Add hashes of the levels of factors to those of the rows."""
        for factor in factors:
            j = int.from_bytes(factor.name.encode(), "big") % (1 << 31)
            for k, rows in enumerate(factor.rows):
                pattern[rows] += _weight(j, k)

    @cached_property
    def all(self) -> tuple[int, bool]:
        """The same as `few` for all covariates, with weights and offsets."""
        part = self._of_part()
        combinations = count_distinct((self._covariate_pattern + part)[self.counted])
        return combinations, self._has_small(self.pattern + part)

    @cached_property
    def _covariate_pattern(self) -> np.ndarray:
        """A hash of the covariates, weight, offset and times of each row, (n,) uint64."""
        pattern, problem = np.zeros(len(self.counted), np.uint64), self.rows.problem
        for j, (rows, values) in enumerate(column_values(self.rows.design)):
            pattern[rows] += mixed(values, j)
        times = [self.rows.y, self.rows.entry] if self.plan.planned.of_times else []
        for j, x in enumerate([problem.weights, problem.offset, *times]):
            if x is not None:
                pattern += mixed(x, -1 - j)
        return pattern

    @cached_property
    def pattern(self) -> np.ndarray:
        """A hash of all values of each row, (n,) uint64."""
        codes = self.rows.codes if self.rows.codes is not None else self.rows.y
        pattern = self._covariate_pattern + mixed(np.asarray(codes, float), -9)
        if self.rows.event is not None:
            pattern = pattern + mixed(self.rows.event.astype(float), -10)
        return pattern

    def _has_small(self, pattern: np.ndarray) -> bool:
        """Return whether a combination of values occurs in too few people."""
        pattern, unit = pattern[self.counted], self.rows.unit[self.counted]
        order = np.lexsort((unit, pattern))
        pattern, unit = pattern[order], unit[order]
        first = np.ones(len(order), bool)  # of the rows of a person with one pattern
        first[1:] = (pattern[1:] != pattern[:-1]) | (unit[1:] != unit[:-1])
        people = np.unique(pattern[first], return_counts=True)[1]
        return bool((people < self.rules.least).any())


def _weight(j: int, k: int) -> np.uint64:
    """Hash level k of factor j, such that sums of hashes identify the levels."""
    return mixed(np.array([float(k + 1)]), j)[0]


def _covariates(rows: SiteRows, counted: np.ndarray, most: int) -> Iterator[Factor]:
    """Yield the covariates that are factors."""
    for name, (at, values) in zip(rows.design.names, column_values(rows.design), strict=True):
        if len(at) == len(counted):
            x = np.empty(len(counted))
            x[at] = values
            yield from factor_of(name, x, counted, most)
            continue
        some = counted[at]
        yield from _sparse_factor(name, at[some], values[some], int(counted.sum()), most)


def _sparse_factor(
    name: str, at: np.ndarray, values: np.ndarray, n: int, most: int
) -> Iterator[Factor]:
    """Yield the factor of a column that is zero in all other rows, if it is one."""
    found, code = np.unique(values, return_inverse=True)
    if len(found) + 1 <= most:
        yield Factor(name, tuple(at[code == k] for k in range(len(found))))
    elif 2 * len(at) <= n:
        yield Factor(name, (at,), complete=False)


def factor_of(name: str, x: np.ndarray, counted: np.ndarray, most: int) -> Iterator[Factor]:
    """Yield a factor of the values if they are few, or of the rows without a dominant value."""
    found, size = np.unique(x[counted], return_counts=True)
    if len(found) <= most:
        yield _levels_of(name, x, counted)
    elif 2 * size.max() >= counted.sum():
        common = found[int(size.argmax())]
        yield Factor(name, (np.flatnonzero(counted & (x != common)),), complete=False)


def _levels_of(name: str, x: np.ndarray, counted: np.ndarray) -> Factor:
    """Create the factor of all values of a column, with the most common one implicit."""
    found, size = np.unique(x[counted], return_counts=True)
    common = found[int(size.argmax())] if len(found) else np.nan
    rows = tuple(np.flatnonzero(counted & (x == v)) for v in found if v != common)
    return Factor(name, rows)
