"""Prevalent new users: starters of a drug matched to users of another one with the same history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data.distinct_values import rank_values
from steropes.data.html_representations import TextInHtml
from steropes.design_matrix import as_design
from steropes.designs.comparative.balance_table import balance_table
from steropes.designs.propensity.score_matching import Match, match_scores, matched_weights
from steropes.designs.values.argument_checks import check_names, check_real, check_whole
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, SeparationError, separation_of
from steropes.models.estimators.conditional_regression import ConditionalLogisticRegression

__all__ = ["PrevalentNewUsers", "prevalent_new_users"]


@dataclass(frozen=True, repr=False, eq=False)
class PrevalentNewUsers(TextInHtml):
    """Starters matched to comparators of their exposure sets.

    Attributes
    ----------
    matched : DataFrame
        A line per person in a matched set: ``row`` (of the table, from 0), ``id``, ``time``,
        ``set``, ``treated`` (1 for the starter) and ``score``. Follow-up begins at ``time`` for all
        of a set; a comparator who starts later appears again as a starter.
    score : ndarray, shape (n,)
        Time-conditional propensity score of each row: the probability to be the starter among the
        people of its exposure set, if there is one. NaN in sets without starters or comparators.
    sets : DataFrame
        A line per exposure set: its columns, ``starters``, ``comparators`` and ``matched``.
    attrition : DataFrame
        ``rule`` and the number of ``starters`` whom it leaves.
    balance : DataFrame
        Balance of the covariates before and after matching; see `balance_table`.
    model : ConditionalLogisticRegression
        The fitted model of the scores.

    See Also
    --------
    prevalent_new_users : Match them.
    """

    matched: pd.DataFrame
    score: NDArray
    sets: pd.DataFrame
    attrition: pd.DataFrame
    balance: pd.DataFrame
    model: ConditionalLogisticRegression = field(repr=False)

    def __repr__(self) -> str:
        before, after = (int(self.attrition["starters"].iloc[k]) for k in (0, -1))
        return f"PrevalentNewUsers({after:,} of {before:,} starters matched)"


def prevalent_new_users(
    data: Any,
    *,
    id: str,
    time: str,
    started: str,
    covariates: Sequence[str],
    within: Sequence[str] = (),
    model: ConditionalLogisticRegression | None = None,
    caliper: float | None = None,
    ratio: int = 1,
    random_state: int = 1,
) -> PrevalentNewUsers:
    """Match starters of a drug to users of a comparator with the same history of it.

    Users of the comparator may have used it for any time when they start the drug. An exposure set
    has the people with the same time since, or number of, comparator prescriptions: those who start
    the drug then, and those who continue the comparator. A conditional logistic model over the sets
    gives time-conditional propensity scores. Starters whose score lies outside those of the
    comparators of their set are left out. Sets are matched from the shortest history to the
    longest, each comparator once.

    Parameters
    ----------
    data : data frame, relation or path
        One row per person and time at which the person used the comparator and could have started
        the drug, as for `compare_groups`.
    id, time : str
        Columns of people, and of the history of the comparator: the number of prescriptions, or
        the time since the first in whole units such as months. Equal values make a set.
    started : str
        Column of 0 and 1: whether the person starts the drug then. It is the person's last row.
    covariates : list of str
        Columns measured at the time of the row.
    within : list of str
        Further columns whose values people of a set share, such as the calendar year: exposure sets
        nested in those of the time.
    model : ConditionalLogisticRegression, optional
        Unfitted model of the scores. Default: maximum likelihood, with Breslow's likelihood, in
        which every starter is compared with the whole set.
    caliper : float, optional
        Largest distance of a pair, in standard deviations of the linear predictor. Default: none.
    ratio : int, default 1
        Largest number of comparators per starter.
    random_state : int, default 1
        Seed of the choice among people with equal scores.

    Returns
    -------
    PrevalentNewUsers
        Matched sets, scores, balance and attrition.

    Raises
    ------
    DataError
        A column cannot be used, a person has two rows of a time or rows after the start, no set
        has starters and comparators, or the model has no finite maximum.

    Notes
    -----
    Matching the longest histories first uses up the comparators of long duration and biases the
    comparison (Webster-Clark and others 2022). The set conditions on the time alone; other aspects
    of the history, such as gaps, must be among ``covariates`` or ``within``. Compare outcomes of
    ``matched`` with errors clustered by person, since comparators may become starters.

    References
    ----------
    Suissa, Moodie and Dell'Aniello (2017), Pharmacoepidemiology and Drug Safety 26:459–468.
    Webster-Clark and others (2022), Pharmacoepidemiology and Drug Safety 31:411–420.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs import prevalent_new_users
    >>> rng = np.random.default_rng(1)
    >>> visits = pd.DataFrame({"id": np.repeat(range(300), 3), "visit": np.tile([1, 2, 3], 300)})
    >>> visits["severe"] = rng.integers(0, 2, 900)
    >>> visits["starts"] = (rng.random(900) < 0.1 + 0.2 * visits["severe"]).astype(int)
    >>> before = visits.groupby("id")["starts"].cumsum() - visits["starts"]
    >>> found = prevalent_new_users(
    ...     visits[before == 0], id="id", time="visit", started="starts", covariates=["severe"]
    ... )
    >>> found.attrition["rule"].tolist()
    ['Starters', 'In a set with comparators', "Score within those of the set's comparators", \
'Matched']
    """
    check_whole("ratio", ratio, least=1)
    width = 0.0
    if caliper is not None:
        width = check_real("caliper", caliper, lambda x: 0 < x < np.inf, "a number above 0")
    histories = Histories.read(data, id, time, started, check_names("covariates", covariates),
                               check_names("within", within))  # fmt: skip
    rows, code = histories.informative(), histories.code
    treated, covered = histories.treated, np.zeros(len(code), dtype=bool)
    fitted, eta = _scores(histories.covariates.loc[rows], treated[rows], code[rows], model)
    predictor = np.full(len(code), np.nan)
    predictor[rows] = eta
    covered[rows] = _within_range(eta, treated[rows], code[rows])
    sets = _match(histories, predictor, covered, width, ratio, random_state)
    return _result(histories, rows, covered, predictor, sets, fitted)


@dataclass(frozen=True, repr=False, eq=False)
class Histories:
    """Rows of people and times.

    Attributes
    ----------
    keys : DataFrame
        The columns that define exposure sets, the time first.
    covariates : DataFrame
    id : Series
    treated : ndarray of int, shape (n,)
        1 where the person starts.
    code : ndarray of int, shape (n,)
        Number of the exposure set, in the order of time.
    """

    keys: pd.DataFrame
    covariates: pd.DataFrame
    id: pd.Series
    treated: NDArray
    code: NDArray

    @classmethod
    def read(
        cls, data: Any, id: str, time: str, started: str, covariates: list[str], within: list[str]
    ) -> Histories:
        """Read and check a table."""
        if not covariates:
            raise DataError("covariates is empty; list the columns of the score.")
        keys, needed = [time, *within], [id, time, *within, started]
        table = read_columns(data, list(dict.fromkeys([*needed, *covariates])), "data")
        treated = _checked(table, id, time, started, needed)
        code = table.groupby(keys, sort=True).ngroup().to_numpy()
        return cls(table[keys], table[covariates], table[id], treated, code)

    def informative(self) -> NDArray:
        """Return the rows of sets with starters and comparators; raise if there are none."""
        count = int(self.code.max()) + 1
        counts = [np.bincount(self.code[self.treated == arm], minlength=count) for arm in (1, 0)]
        rows = np.flatnonzero((counts[0] > 0)[self.code] & (counts[1] > 0)[self.code])
        if not len(rows):
            raise DataError(
                f"No exposure set has starters and comparators; make {self.keys.columns[0]!r} "
                "coarser, or leave columns of within out."
            )
        return rows


def _checked(
    table: pd.DataFrame, id: str, time: str, started: str, needed: Sequence[str]
) -> NDArray:
    """Check ids, times and starts; return the starts as 0 and 1."""
    if table.empty:
        raise DataError("data has no rows.")
    for name in needed:
        if table[name].isna().any():
            row = int(table[name].isna().to_numpy().argmax())
            raise DataError(f"Column {name!r} is missing in row {row} (counted from 0).")
    flags = table[started].to_numpy()
    if not np.isin(flags, (0, 1)).all():
        raise DataError(f"Column {started!r} must have 0 and 1, or False and True, only.")
    flags = flags.astype(np.int64)
    twice = table.duplicated([id, time]).to_numpy()
    if twice.any():
        raise DataError(
            f"Row {int(twice.argmax())} (counted from 0) is the second of its person at the same "
            f"{time!r}; keep one."
        )
    since = table[time].where(flags == 1).groupby(table[id]).transform("min")
    late = (table[time] > since).to_numpy()
    if late.any():
        raise DataError(
            f"Row {int(late.argmax())} (counted from 0) follows the start of its person; leave "
            "such rows out."
        )
    return flags


def _scores(
    X: pd.DataFrame, treated: NDArray, code: NDArray, model: ConditionalLogisticRegression | None
) -> tuple[ConditionalLogisticRegression, NDArray]:
    """Fit the model of the scores; return it and the linear predictors."""
    if model is not None and not isinstance(model, ConditionalLogisticRegression):
        raise DataError(
            f"model must be a ConditionalLogisticRegression, not {type(model).__name__}."
        )
    own = ConditionalLogisticRegression(method="breslow") if model is None else clone(model)
    try:
        own.fit(X, treated, strata=code)
    except SeparationError as error:
        raise DataError(
            "The time-conditional score has no finite maximum: give the model a prior, such as "
            f"ConditionalLogisticRegression(prior=Laplace()), or leave columns out. "
            f"{separation_of('the start', error)}"
        ) from error
    return own, own.linear_predictor(X)


def _within_range(eta: NDArray, treated: NDArray, code: NDArray) -> NDArray:
    """Mark comparators, and starters whose predictor lies within those of their set's others."""
    others = pd.Series(np.where(treated == 0, eta, np.nan)).groupby(code)
    low, high = (others.transform(f).to_numpy() for f in ("min", "max"))
    return np.asarray((treated == 0) | ((eta >= low) & (eta <= high)))


def _match(
    histories: Histories, eta: NDArray, covered: NDArray, caliper: float, ratio: int, seed: int
) -> NDArray:
    """Match set by set, from the shortest history on; return the matched set of each row, or −1."""
    treated, code, person = histories.treated, histories.code, rank_values(histories.id)[1]
    spread = float(np.nanstd(eta, ddof=1))
    value = eta / spread if spread > 0 else np.zeros(len(eta))
    rule = Match(caliper=caliper, scale="propensity score", max_ratio=ratio, seed=seed)
    sets, used, number = np.full(len(eta), -1), np.zeros(person.max() + 1, dtype=bool), 0
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        rows = rows[covered[rows] & ((treated[rows] == 1) | ~used[person[rows]])]
        if len(np.unique(treated[rows])) < 2:
            continue
        found = match_scores(value[rows], treated[rows], rule, ids=person[rows])
        paired = found >= 0
        if paired.any():
            sets[rows[paired]] = found[paired] + number
            number += int(found.max()) + 1
            used[person[rows[paired & (treated[rows] == 0)]]] = True
    return sets


def _result(
    histories: Histories, rows: NDArray, covered: NDArray, eta: NDArray, sets: NDArray,
    model: ConditionalLogisticRegression,
) -> PrevalentNewUsers:  # fmt: skip
    """Tabulate the matched sets, the exposure sets, the attrition and the balance."""
    treated, code = histories.treated, histories.code
    known = np.zeros(len(code), dtype=bool)
    known[rows] = True
    score = np.full(len(code), np.nan)
    own = pd.Series(eta[rows])
    share = np.exp(own - own.groupby(code[rows]).transform("max"))
    score[rows] = share / share.groupby(code[rows]).transform("sum")
    at = np.flatnonzero(sets >= 0)
    at = at[np.lexsort((-treated[at], sets[at]))]
    matched = pd.DataFrame({
        "row": at, "id": histories.id.to_numpy()[at],
        "time": histories.keys.iloc[:, 0].to_numpy()[at], "set": sets[at], "treated": treated[at],
        "score": score[at],
    })  # fmt: skip
    counted = {
        "starters": treated == 1, "comparators": treated == 0,
        "matched": (treated == 1) & (sets >= 0),
    }  # fmt: skip
    table = histories.keys.groupby(code).first()
    rules = {
        "Starters": np.ones(len(code), dtype=bool), "In a set with comparators": known,
        "Score within those of the set's comparators": covered, "Matched": sets >= 0,
    }  # fmt: skip
    balance = pd.DataFrame()
    if len(at):
        weights = matched_weights(sets[rows], treated[rows])
        balance = balance_table(
            as_design(histories.covariates.loc[rows]), treated[rows], weights, estimand="att"
        )
    return PrevalentNewUsers(
        matched,
        score,
        table.assign(**{name: np.bincount(code[who], minlength=len(table))
                        for name, who in counted.items()}),
        pd.DataFrame({
            "rule": list(rules), "starters": [int((left & (treated == 1)).sum())
                                              for left in rules.values()],
        }),
        balance,
        model,
    )  # fmt: skip
