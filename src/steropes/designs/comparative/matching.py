"""Matching of two groups as one object: sets, weights and balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.designs.comparative.balance_on_demand import BalanceOnDemand
from steropes.designs.comparative.balance_table import shares_of_groups
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.effective_sample_size import effective_sample_sizes
from steropes.designs.comparative.matching_distances_and_sets import (
    Distance,
    Matcher,
    Method,
    weights_of_pairs,
    weights_of_sets,
)
from steropes.designs.comparative.treatment_model import (
    fit_treatment_model,
    refuse_model_beside_scores,
)
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.propensity.weights_by_estimand import Estimand
from steropes.designs.values.argument_checks import (
    check_flag,
    check_names,
    check_real,
    check_whole,
)
from steropes.designs.values.estimands import check_estimand
from steropes.designs.values.input_checks import require_arms, require_numbers
from steropes.errors import DataError, listed
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = ["Matching"]

# The settings that each method uses besides ``estimand``.
USES: dict[str, tuple[str, ...]] = {
    "nearest": (
        *("distance", "model", "caliper", "column_calipers", "exact", "ratio", "min_ratio"),
        *("replace", "tie_tolerance", "random_state"),
    ),
    "full": ("distance", "model", "caliper", "exact"),
    "coarsened": ("bins", "exact"),
    "cardinality": ("tolerance", "ratio", "model"),
    "strata": ("model", "strata", "exact"),
}


class Matching(BalanceOnDemand):
    """Matched sets of two groups.

    Parameters
    ----------
    method : {"nearest", "full", "coarsened", "cardinality", "strata"}, default "nearest"
        "nearest": greedy matching of the closest pair that is left. "full": sets of one person and
        several of the other group, of which the total distance is least and which include
        everybody. "coarsened": people in the same cells of coarsened covariates. "cardinality":
        the largest groups whose means are within ``tolerance``. "strata": strata of the score.
    estimand : {"att", "atc", "ate"}, default "att"
        Population of the effect. "nearest" without replacement and "cardinality"
        have no "ate".
    distance : {"logit", "score", "mahalanobis"}, default "logit"
        Distance of two people: that of the logits of their propensity scores, of the scores, or
        Mahalanobis' with the pooled covariance within the groups.
    model : estimator, optional
        Unfitted model of the treatment with ``predict_proba``, which is cloned. Default:
        `LogisticRegression` by maximum likelihood.
    caliper : float, optional
        Largest distance of two people in standard deviations of the logit or the score; with
        "mahalanobis" of the logits. Default 0.2 for "nearest" with a score, otherwise none; 0 is
        none.
    column_calipers : mapping of str to float, optional
        Largest differences of columns in their own units, such as ``{"age": 5}``.
    exact : sequence of str, default ()
        Columns in which matched people agree.
    ratio : int, default 1
        Largest number of comparator people per target person; everybody gets a first before
        anybody gets a second. 0 is no limit. With replacement their exact number.
    min_ratio : int, default 1
        Sets with fewer comparator people are dissolved.
    replace : bool, default False
        Whether people may be matched several times. All people who are equally near are matched
        and share one weight.
    tie_tolerance : float, default 0.0
        With ``replace``, squared distances that differ by at most this much count as equal; scores
        are in standard deviations. ``Matching::Match`` of R has 1e-5.
    bins : int or mapping of str to int, optional
        Numbers of intervals of numeric columns for "coarsened"; 0 compares values. Default:
        Sturges' rule.
    tolerance : float, default 0.05
        Largest absolute difference of means for "cardinality", in standard deviations of
        `balance_table`.
    strata : int, default 6
        Number of strata, by quantiles of the scores in the estimand's population.
    random_state : int, default 0
        Determines with the ids who is matched among people with equal distances.

    Attributes
    ----------
    sets_ : ndarray of int, shape (n,)
        Matched set of each person, from 0; −1 for people left out. With replacement there are
        none, because people belong to several sets; access then raises AttributeError.
    pairs_ : DataFrame
        With replacement: rows of both people of each pair, ``person`` and ``match``, and the
        ``weight`` of the match. Otherwise access raises AttributeError, and ``sets_`` has the sets.
    weights_ : ndarray, shape (n,)
        Weights, 0 for people left out. Those of the population are 1, and those of others have the
        mean 1.
    score_ : ndarray, shape (n,), or None
        Propensity scores, if the method has them.
    model_ : estimator or None
        The fitted model of the treatment.
    balance_ : DataFrame
        Balance before and after matching; see `balance_table`.
    effective_sample_size_ : dict of str to float
        (Σw)² / Σw² of the target and of the comparator.
    matched_ : dict of str to int
        Numbers of matched target and comparator people.
    gap_ : float
        For "cardinality", the relative gap to the proven largest number.

    See Also
    --------
    PropensityWeights : Weights by the propensity score.

    References
    ----------
    Austin (2011), Pharmaceutical Statistics 10:150–161. Hansen and Klopfer (2006), Journal of
    Computational and Graphical Statistics 15:609–627 (full). Iacus, King and Porro (2012),
    Political Analysis 20:1–24 (coarsened exact). Zubizarreta, Paredes and Rosenbaum (2014), Annals
    of Applied Statistics 8:204–231 (cardinality). Abadie and Imbens (2006), Econometrica
    74:235–267 (replacement).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs import Matching
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(60, 10, 400).round(), "male": rng.integers(0, 2, 400)})
    >>> treatment = (rng.random(400) < 1 / (1 + np.exp((70 - X["age"]) / 10))).astype(int)
    >>> pairs = Matching(exact=["male"]).fit(X, treatment)
    >>> pairs.matched_
    {'target': 92, 'comparator': 92}
    >>> Matching(method="full").fit(X, treatment).matched_
    {'target': 118, 'comparator': 282}
    """

    def __init__(
        self,
        *,
        method: Method = "nearest",
        estimand: str = "att",
        distance: Distance = "logit",
        model: Any = None,
        caliper: float | None = None,
        column_calipers: Mapping[str, float] | None = None,
        exact: Sequence[str] = (),
        ratio: int = 1,
        min_ratio: int = 1,
        replace: bool = False,
        tie_tolerance: float = 0.0,
        bins: int | Mapping[str, int] | None = None,
        tolerance: float = 0.05,
        strata: int = 6,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.estimand = estimand
        self.distance = distance
        self.model = model
        self.caliper = caliper
        self.column_calipers = column_calipers
        self.exact = exact
        self.ratio = ratio
        self.min_ratio = min_ratio
        self.replace = replace
        self.tie_tolerance = tie_tolerance
        self.bins = bins
        self.tolerance = tolerance
        self.strata = strata
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        treatment: ArrayLike,
        *,
        score: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """Match the people.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Design, shape (n, p)
            Covariates.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator.
        score : array_like, shape (n,), optional
            Propensity scores from elsewhere instead of a model.
        ids : array_like, shape (n,), optional
            Unique ids, with which the order of rows does not matter for people with equal
            distances. Default: row numbers.

        Returns
        -------
        self
            The matched people.

        Raises
        ------
        DataError
            A setting has no effect with the method, or no one can be matched.
        """
        draft = unfitted_copy(self)
        draft._fit(X, treatment, score=score, ids=ids)
        self.__dict__ = draft.__dict__
        return self

    def _fit(
        self,
        X: Any,
        treatment: ArrayLike,
        *,
        score: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> None:
        """Set the fitted attributes."""
        estimand = self._check_settings()
        columns = CovariateColumns.of(X)
        target = require_arms(treatment, "treatment") == 1
        shares_of_groups(None, target, columns.n)
        self.model_, self.score_ = self._scores(columns, target, score)
        self.n_features_in_ = columns.design.p
        matcher = Matcher(self, columns, target, estimand, self.score_, ids)
        self._sets: NDArray | None = None
        self._pairs: pd.DataFrame | None = None
        if self.method == "cardinality":
            chosen, self.gap_ = matcher.cardinality()
            self._sets = matcher.pair_up(chosen)
            self.weights_ = chosen.astype(float)
        elif self.replace:
            pairs = matcher.with_replacement()
            self._pairs = pd.DataFrame(dict(zip(("person", "match", "weight"), pairs, strict=True)))
            self.weights_ = weights_of_pairs(pairs, target)
        else:
            self._sets = matcher.sets()
            self.weights_ = weights_of_sets(self._sets, target, estimand)
        used = self.weights_ > 0
        if not (used & target).any():
            raise DataError(
                "Nobody could be matched: no target and comparator person are within the calliper "
                "and agree in the exact columns. Widen the calliper, or match on fewer columns."
            )
        self.matched_ = {
            "target": int((used & target).sum()), "comparator": int((used & ~target).sum())
        }  # fmt: skip
        self.effective_sample_size_ = effective_sample_sizes(
            self.weights_, target.astype(int), ("comparator", "target")
        )
        self._balance_later(columns, target, self.weights_, estimand)

    @property
    def sets_(self) -> NDArray:
        """Matched set of each person, from 0; −1 for people left out."""
        if self._sets is None:
            raise AttributeError(
                "With replacement people belong to several sets, so that there is no sets_; "
                "pairs_ has the rows and the weight of each match."
            )
        return self._sets

    @property
    def pairs_(self) -> pd.DataFrame:
        """Rows of both people of each match with replacement, and its weight."""
        if self._pairs is None:
            raise AttributeError(
                "pairs_ are those of replace=True; without replacement sets_ has the matched set "
                "of each person."
            )
        return self._pairs

    def _check_settings(self) -> Estimand:
        """Return the estimand; refuse settings that have no effect."""
        for name, known in (("method", get_args(Method)), ("distance", get_args(Distance))):
            if getattr(self, name) not in known:
                raise DataError(
                    f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}."
                )
        given = self.get_params(deep=False)
        plain = type(self)().get_params(deep=False)
        for name in sorted(set(given) - {"method", "estimand", *USES[self.method]}):
            if given[name] is not plain[name] and given[name] != plain[name]:
                raise DataError(f"method={self.method!r} has no {name}; leave it out.")
        estimand = cast(Estimand, check_estimand(self.estimand, ("att", "atu", "ate")))
        pairs_only = self.method == "cardinality" or (self.method == "nearest" and not self.replace)
        if estimand == "ate" and pairs_only:
            raise DataError(
                f"method={self.method!r} matches people of one group; its estimand is 'att' or "
                "'atu'. For 'ate' take method='full', 'coarsened' or 'strata', or replace=True."
            )
        self._check_values()
        self._check_combinations()
        return estimand

    def _check_values(self) -> None:
        """Refuse settings that are no values of their kind."""
        check_flag("replace", self.replace)
        check_names("exact", self.exact)
        if not isinstance(self.column_calipers, Mapping | None):
            raise DataError(
                "column_calipers must be a mapping, such as {'age': 5}, not "
                f"{self.column_calipers!r}."
            )
        bins = self.bins.values() if isinstance(self.bins, Mapping) else [self.bins or 0]
        for name, values, least in (
            ("ratio", [self.ratio], 0), ("min_ratio", [self.min_ratio], 1), ("bins", bins, 0),
            ("strata", [self.strata], 1), ("random_state", [self.random_state], 0),
        ):  # fmt: skip
            for value in values:
                check_whole(name, value, least)
        check_real("tolerance", self.tolerance, lambda x: x > 0, "a number above 0")
        widths = {"tie_tolerance": self.tie_tolerance, "caliper": self.caliper or 0.0}
        own = {f"The calliper of {k!r}": x for k, x in (self.column_calipers or {}).items()}
        for name, width in (widths | own).items():
            check_real(name, width, lambda x: 0 <= x < np.inf, "a finite number of 0 or more")

    def _check_combinations(self) -> None:
        """Refuse settings that contradict each other, or of which one has no effect."""
        if self.replace and (self.min_ratio != 1 or self.ratio < 1):
            raise DataError("replace=True needs a ratio of 1 or more, and no min_ratio.")
        if 0 < self.ratio < self.min_ratio:
            raise DataError(f"min_ratio={self.min_ratio} is above ratio={self.ratio}.")
        if self.method == "cardinality" and self.ratio == 0:
            raise DataError("method='cardinality' needs a ratio of 1 or more.")
        if not self.replace and self.tie_tolerance != 0:
            raise DataError("tie_tolerance goes with replace=True only.")
        if self.method == "full" and self.distance == "mahalanobis" and self.caliper:
            raise DataError(
                "method='full' with distance='mahalanobis' has no caliper; leave it out, or take "
                "distance='logit' or 'score'."
            )
        twice = set(self.bins if isinstance(self.bins, Mapping) else ()).intersection(self.exact)
        if twice:
            raise DataError(f"bins and exact both name {listed(sorted(twice))}; keep one of them.")

    def _scores(
        self, columns: CovariateColumns, target: NDArray, score: ArrayLike | None
    ) -> tuple[Any, NDArray | None]:
        """Return the fitted model and the propensity scores, if the method needs them."""
        refuse_model_beside_scores(self.model, score)
        needed = (
            self.method in ("strata", "cardinality")
            or (self.method in ("nearest", "full") and self.distance != "mahalanobis")
            or bool(self.caliper)
        )
        if score is not None:
            if not needed:
                alone = f"distance={self.distance!r} without a caliper"
                what = alone if self.method in ("nearest", "full") else f"method={self.method!r}"
                raise DataError(f"{what} does not use score; leave it out.")
            given = require_numbers("score", score)
            if len(given) != columns.n:
                raise DataError(f"score has {len(given)} rows and X {columns.n}; they must agree.")
            return None, given
        if not needed:
            if self.model is not None:
                raise DataError(
                    "distance='mahalanobis' without a caliper has no model; leave it out."
                )
            return None, None
        unfitted = LogisticRegression() if self.model is None else self.model
        model, scores = fit_treatment_model(unfitted, columns, target.astype(int))
        return model, scores[:, 1]
