"""Covariates for a propensity score, chosen among all codes by their potential to confound."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from steropes.data import refuse_other_order
from steropes.data.array_conversion import as_series
from steropes.data.plottable_result_tables import ResultTable, drawn_by, present
from steropes.design_matrix.design_from_arrays_and_tables import has_names
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.covariates.covariates_by_column import Covariates, IntoCovariates
from steropes.designs.covariates.record_counts import recurrence_levels
from steropes.designs.values.argument_checks import check_flag, check_real, check_whole
from steropes.designs.values.input_checks import require_arms, require_numbers
from steropes.errors import DataError, listed
from steropes.models.fitting.sklearn_base_types import BaseEstimator
from steropes.models.repeated_fits.outcome_inputs import read_outcomes

__all__ = ["HighDimensionalPropensityScore"]

RankBy: TypeAlias = Literal["bias", "treatment", "outcome"]
# Significance of the association with the treatment, over all columns, and the p-value of that with
# the outcome above which a column counts as an instrument.
TREATMENT_P, OUTCOME_P = 0.05, 0.2


class HighDimensionalPropensityScore(BaseEstimator):
    """Select covariates by the bias that leaving them out could cause.

    Codes become 0/1 columns of recurrence (`recurrence_levels`). A column with the prevalences P₁
    and P₀ in the two groups and the risk ratio R of the outcome can bias the risk ratio of the
    treatment by the factor M = (P₁ (R − 1) + 1) / (P₀ (R − 1) + 1) (Bross 1966). The columns with
    the largest ``|ln M|`` are selected, for each outcome. The treatment model itself is that of
    `PropensityWeights`, `Matching` or `compare_groups`, which take the selected columns.

    Parameters
    ----------
    k : int, default 500
        Largest number of selected columns.
    per_dimension : int or None, default 200
        Largest number of codes of each dimension of the data that are considered, by prevalence;
        None for all.
    min_people : int, default 1
        Smallest number of people with a code.
    rank_by : {"bias", "treatment", "outcome"}, default "bias"
        ``|ln M|``; or ``|ln(P₁ / P₀)|``, which needs no outcomes and so is stable if these are few
        (Rassen and others 2011); or ``|ln R|``.
    correction : float, default 0.1
        Added to all four cells of a table with an empty cell, so that ratios are finite and a
        column that no one without the outcome has is not lost.
    invert_protective : bool, default False
        Replace R below 1 by 1 / R, as Schneeweiss and others (2009) wrote. False takes R as it is,
        as the R packages do: then M does not depend on whether a column or its absence is coded 1.
    drop_instruments : bool, default False
        Leave out columns that predict the treatment alone: associated with it at p < 0.05 after
        Bonferroni's correction, but not with the outcome within groups (p > 0.2, Mantel–Haenszel).
        With few outcomes this test has little power, and confounders may be lost.

    Attributes
    ----------
    levels_ : Covariates
        The 0/1 columns.
    outcomes_ : list of str
        Names of the outcomes.
    n_features_in_ : int
        Number of codes.

    See Also
    --------
    steropes.designs.covariates.count_records : Counts of codes from a long table of records.
    OutcomeAdaptiveLasso : Selection by an outcome model with all columns.

    Notes
    -----
    Numbers of people and of outcomes with each column, for all outcomes, are products of the sparse
    matrix of columns with a sparse matrix of outcomes.

    References
    ----------
    Schneeweiss and others (2009), Epidemiology 20:512–522. Rassen and others (2011), American
    Journal of Epidemiology 173:1404–1413. Bross (1966), Journal of Chronic Diseases 19:637–647.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs import HighDimensionalPropensityScore
    >>> rng = np.random.default_rng(0)
    >>> counts = pd.DataFrame(rng.poisson(0.3, (2000, 30))).add_prefix("code ")
    >>> frail = (counts["code 3"] > 0).to_numpy()
    >>> treatment = rng.binomial(1, np.where(frail, 0.7, 0.4))
    >>> stroke = rng.binomial(1, np.where(frail, 0.3, 0.1))
    >>> chosen = HighDimensionalPropensityScore(k=5).fit(counts, treatment, stroke)
    >>> chosen.ranks().loc[0, ["name", "log_bias"]].tolist()[0]
    'code 3_once'
    >>> chosen.covariates().columns.shape[0]
    5
    """

    def __init__(
        self,
        *,
        k: int = 500,
        per_dimension: int | None = 200,
        min_people: int = 1,
        rank_by: RankBy = "bias",
        correction: float = 0.1,
        invert_protective: bool = False,
        drop_instruments: bool = False,
    ) -> None:
        self.k = k
        self.per_dimension = per_dimension
        self.min_people = min_people
        self.rank_by = rank_by
        self.correction = correction
        self.invert_protective = invert_protective
        self.drop_instruments = drop_instruments

    def fit(self, X: IntoCovariates, treatment: ArrayLike, outcome: Any) -> Self:
        """Count people and outcomes by column.

        Parameters
        ----------
        X : Covariates, data frame, sparse matrix or array_like, shape (n, p)
            Counts of codes, such as those of `count_records`, or 0/1 covariates.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator.
        outcome : array_like, shape (n,), or data frame or array, shape (n, m)
            One outcome of 0 and 1, or several. Columns of tables and series keep their names.

        Returns
        -------
        self
            The fitted object.

        Raises
        ------
        DataError
            A setting or input cannot be used.
        """
        refuse_other_order(X, treatment=treatment, outcome=outcome)
        refuse_other_order(treatment, "treatment", outcome=outcome)
        draft = unfitted_copy(self)
        draft._fit(X, treatment, outcome)
        self.__dict__ = draft.__dict__
        return self

    def _fit(self, X: IntoCovariates, treatment: ArrayLike, outcome: Any) -> None:
        """Set the fitted attributes."""
        self._check_settings()
        counts = Covariates.of(X)
        target = require_arms(treatment, "treatment") == 1
        y, self.outcomes_ = _outcomes(outcome, counts.n)
        if len(target) != counts.n:
            raise DataError(f"treatment has {len(target)} values for {counts.n} rows of X.")
        if target.all() or not target.any():
            raise DataError("treatment has people of one group only.")
        levels = recurrence_levels(
            counts, per_dimension=self.per_dimension, min_people=self.min_people
        )
        treated = target.astype(float)
        own = sp.hstack([sp.csr_array(treated[:, None]), y, y.multiply(treated[:, None])])
        m = len(self.outcomes_)
        found = (levels.matrix().T @ own.tocsr()).toarray().astype(np.int32)
        self._people = levels.columns["people"].to_numpy(dtype=float)
        self._treated, self._cases = found[:, 0], found[:, 1 : m + 1]
        self._treated_cases = found[:, m + 1 :]
        self._groups = float(target.sum()), float((~target).sum())
        self._all_cases = np.asarray(y.sum(axis=0)).ravel()
        self._all_treated_cases = np.asarray(y[target].sum(axis=0)).ravel()
        self.levels_, self.n_features_in_ = levels, len(counts.columns)

    def _check_settings(self) -> None:
        """Refuse settings out of range."""
        check_whole("k", self.k, 1)
        check_whole("min_people", self.min_people, 1)
        if self.per_dimension is not None:
            check_whole("per_dimension", self.per_dimension, 1)
        if self.rank_by not in ("bias", "treatment", "outcome"):
            raise DataError(
                f"rank_by must be 'bias', 'treatment' or 'outcome', not {self.rank_by!r}."
            )
        wanted = "a number above 0, at most 1"
        check_real("correction", self.correction, lambda x: 0 < x <= 1, wanted)
        check_flag("invert_protective", self.invert_protective)
        check_flag("drop_instruments", self.drop_instruments)

    def ranks(self, outcome: str | None = None) -> ResultTable:
        """Return all columns with their potential to confound, the selected ones first.

        Parameters
        ----------
        outcome : str, optional
            Name of the outcome; not needed if there is one.

        Returns
        -------
        ResultTable
            ``name``, ``code``, ``dimension`` and ``level``; ``people`` with the column;
            ``target_share`` and ``comparator_share`` (P₁ and P₀); ``risk_ratio`` of the outcome
            (R); ``log_bias`` (ln M); ``z_treatment`` and ``z_outcome`` (statistics of the
            association with the treatment, and with the outcome within groups); ``instrument``;
            and ``selected``.

        Raises
        ------
        DataError
            There is no such outcome.
        """
        table = self._measures(self._number_of(outcome))
        order = self._order(table)
        ordered = table.iloc[order].reset_index(drop=True)
        return present(ordered, "confounder_ranks")

    def covariates(self, outcome: str | None = None) -> Covariates:
        """Return the selected columns.

        Parameters
        ----------
        outcome : str, optional
            Name of the outcome; not needed if there is one.

        Returns
        -------
        Covariates
            The columns in the order of ``levels_``, for `compare_groups`, `PropensityWeights`,
            `Matching` and other methods and, by their ``design``, for models.

        Raises
        ------
        DataError
            There is no such outcome, or no column is selected.
        """
        chosen = self._measures(self._number_of(outcome))["selected"].to_numpy()
        if not chosen.any():
            raise DataError("no column is selected: none differs between groups of treatment")
        return self.levels_.select(np.flatnonzero(chosen))

    def plot(self, outcome: str | None = None, **options: Any) -> Any:
        """Draw the columns with the largest potential to confound.

        Parameters
        ----------
        outcome : str, optional
            Name of the outcome; not needed if there is one.
        **options
            As of `steropes.plots.confounder_ranks`.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return drawn_by("confounder_ranks", self.ranks(outcome), **options)

    def _number_of(self, outcome: str | None) -> int:
        """Return the position of an outcome."""
        check_is_fitted(self, "levels_")
        if outcome is None and len(self.outcomes_) == 1:
            return 0
        if str(outcome) not in self.outcomes_:
            raise DataError(f"outcome must be one of {listed(self.outcomes_)}, not {outcome!r}.")
        return self.outcomes_.index(str(outcome))

    def _measures(self, number: int) -> pd.DataFrame:
        """Compute the measures of all columns for an outcome."""
        n1, n0 = self._groups
        people, a1 = self._people, self._treated.astype(float)
        p1, p0 = a1 / n1, (people - a1) / n0
        cases = self._cases[:, number].astype(float)
        total = float(self._all_cases[number])
        cells = [cases, people - cases, total - cases, n1 + n0 - people - total + cases]
        risk_ratio = _ratio(cells, self.correction)
        strength = np.exp(np.abs(np.log(risk_ratio))) if self.invert_protective else risk_ratio
        log_bias = np.log1p(p1 * (strength - 1)) - np.log1p(p0 * (strength - 1))
        table = self.levels_.columns[["name", "code", "dimension", "level", "people"]].assign(
            target_share=p1, comparator_share=p0, risk_ratio=risk_ratio, log_bias=log_bias,
            z_treatment=self._z_treatment(), z_outcome=self._z_outcome(number),
        )  # fmt: skip
        limit = norm.isf(TREATMENT_P / 2 / len(table))
        table["instrument"] = (table["z_treatment"].abs() > limit) & (
            table["z_outcome"].abs() < norm.isf(OUTCOME_P / 2)
        )
        table["selected"] = False
        best = self._order(table)[: self.k]
        table.loc[table.index[best], "selected"] = True
        table["selected"] &= self._strength(table) > 0
        return table

    def _strength(self, table: pd.DataFrame) -> NDArray:
        """Return the measure by which columns are ranked; those left out have −1."""
        if self.rank_by == "bias":
            found = table["log_bias"].abs().to_numpy()
        elif self.rank_by == "outcome":
            found = np.abs(np.log(table["risk_ratio"].to_numpy()))
        else:
            n1, n0 = self._groups
            a1, a0 = table["target_share"] * n1, table["comparator_share"] * n0
            cells = [x.to_numpy() for x in (a1, n1 - a1, a0, n0 - a0)]
            found = np.abs(np.log(_ratio(cells, self.correction)))
        constant = (table["people"] == sum(self._groups)).to_numpy()
        left_out = table["instrument"].to_numpy() & self.drop_instruments
        return np.where(constant | left_out, -1.0, found)

    def _order(self, table: pd.DataFrame) -> NDArray:
        """Return the positions of columns by rank; ties keep the order of columns."""
        return np.argsort(-self._strength(table), kind="stable")

    def _z_treatment(self) -> NDArray:
        """Compute the statistics of the association with the treatment."""
        n1, n0 = self._groups
        n, people = n1 + n0, self._people
        variance = people * (n - people) * n1 * n0 / (n**2 * (n - 1))
        return _standardized(self._treated - people * n1 / n, variance)

    def _z_outcome(self, number: int) -> NDArray:
        """Compute the Mantel–Haenszel statistics of an outcome within groups of treatment."""
        treated = self._treated_cases[:, number].astype(float)
        own_cases = float(self._all_treated_cases[number])
        parts = (
            (treated, self._treated, own_cases, self._groups[0]),
            (self._cases[:, number] - treated, self._people - self._treated,
             float(self._all_cases[number]) - own_cases, self._groups[1]),
        )  # fmt: skip
        excess, variance = np.zeros(len(treated)), np.zeros(len(treated))
        for cases, with_column, total, n in parts:
            excess += cases - with_column * total / n
            spread = with_column * (n - with_column) * total * (n - total)
            variance += spread / (n**2 * max(n - 1, 1))
        return _standardized(excess, variance)


def _ratio(cells: list[NDArray], correction: float) -> NDArray:
    """Return (a / (a + b)) / (c / (c + d)), with a correction in tables with an empty cell."""
    table = np.array(cells)
    a, b, c, d = table + np.where((table == 0).any(axis=0), correction, 0.0)
    return np.asarray((a / (a + b)) / (c / (c + d)))


def _standardized(excess: NDArray, variance: NDArray) -> NDArray:
    """Return differences divided by their standard deviations; zero without variance."""
    some = variance > 0
    return np.where(some, excess / np.sqrt(np.where(some, variance, 1.0)), 0.0)


def _outcomes(outcome: Any, n: int) -> tuple[sp.csr_array, list[str]]:
    """Return outcomes of 0 and 1 as a sparse matrix, (n, m), and their names."""
    columns = []
    named = _named(outcome, n)
    for name, values in named.items():
        own = require_numbers(f"outcome {name!r}", values)
        if len(own) != n:
            raise _wrong_shape(np.shape(values), n)
        if not np.isin(own, (0, 1)).all():
            row = int(np.argmin(np.isin(own, (0, 1))))
            raise DataError(f"outcome {name!r}: row {row} (counted from 0) must be 0 or 1.")
        if own.min() == own.max():
            raise DataError(f"outcome {name!r} is the same for everybody; leave it out.")
        columns.append(sp.csr_array(own[:, None]))
    return sp.csr_array(sp.hstack(columns)), list(named)


def _named(outcome: Any, n: int) -> dict[str, Any]:
    """Return the outcomes by name: of columns, of a series, or "outcome", or y0, y1 and so on."""
    if has_names(outcome):
        return {name: own["y"] for name, own in read_outcomes(outcome, {}).items()}
    series = as_series(outcome)
    values = np.asarray(outcome)
    if values.ndim == 1:
        return {str((series is not None and series.name) or "outcome"): values}
    if values.ndim != 2 or len(values) != n or not values.shape[1]:
        raise _wrong_shape(values.shape, n)
    return {f"y{j}": column for j, column in enumerate(values.T)}


def _wrong_shape(shape: tuple[int, ...], n: int) -> DataError:
    """Return the error of outcomes that do not fit the rows."""
    return DataError(
        f"outcome has the shape {shape}; one value for each of {n} rows of X is needed, or a "
        "column of them for each outcome."
    )
