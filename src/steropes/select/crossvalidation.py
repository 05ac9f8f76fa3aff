"""Cross-validation of a prior's variance along a warm-started path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from ..fit import Problem
from .cyclops_search import CyclopsSearch
from .folds import Seed, random_generator
from .prior_comparison import check_compared, choose_among
from .variance_search import FoldScore, Progress, Selection

__all__ = ["FOLDS", "LIKELIHOOD_SCORES", "CrossValidation", "check_search"]

FOLDS = 10  # The default number of folds here and in designs.
# The scores that are log-likelihoods, of which the search knows the slopes.
LIKELIHOOD_SCORES = ("held_out", "difference")


@dataclass(frozen=True)
class CrossValidation(FieldsInHtml):
    """Choose the variance of a prior by cross-validation.

    Parameters
    ----------
    folds : int, or sequence of (train, test) pairs of row numbers
        Number of parts into which the rows are divided (or the strata, if the likelihood
        conditions on them), with the outcome distributed evenly. Rows with a weight of zero belong
        to no part. Alternatively the splits of a scikit-learn splitter, in which all rows that are
        not test rows must be training rows. No part may list a row twice, and rows that no split
        tests cause a warning.
    repeats : int
        Number of times that the rows are divided.
    search : "auto", sequence of float, or CyclopsSearch
        Variances to try. ``"auto"`` follows a path from the variance at which the first
        coefficient leaves zero to beyond the best one, and then refines around the best until the
        score is flat to 0.01 standard errors. With more than 200 nonzero coefficients each
        variance costs much more than the one before. The search then also computes the slope of
        the score from the derivative of the folds' optima (Bertrand and others 2022) and goes no
        farther than to the maximum. With a lasso on large data, the full data predict its place:
        where a further coefficient gains no more than it costs (Zou and others 2007). Folds are
        then fitted only at the first variance and around that place; list variances to obtain
        scores along the whole path. Of variances with equal scores up to rounding, the smallest is
        chosen. `CyclopsSearch` is the search of the R package Cyclops.
    rule : {"best", "one_standard_error"}
        ``"best"``: the variance with the best mean score (the default). ``"one_standard_error"``:
        the smallest variance with a mean score within one standard error of the best, a simpler
        model that is about as good (Breiman and others 1984, §3.4.3); ``search="auto"`` locates it
        to a tenth in log variance. The standard error is that of the folds of one repeat, √repeats
        times the column ``se``, because repeats add no information about other data.
    scoring : {"held_out", "difference", "deviance", "auc", "concordance", "brier", "mse"}, str or \
callable
        ``"held_out"``: the log-likelihood of the held-out rows alone, which is a proper score for
        every family. For Cox's model it is their own partial likelihood, as in Cyclops. This is the
        default. ``"difference"``: the log-likelihood of the full data minus that of the training
        rows (Verweij and van Houwelingen 1993). For Cox's model it compares held-out events with
        all rows at risk and is less noisy if a fold has few events. The two are equal if the
        log-likelihood is a sum over rows. Both include constants such as −log y! of counts, which
        do not depend on the variance but contribute to ``se``. Matched sets with a single row
        contribute nothing. Training rows without an event that could have been another row's are
        rejected, and so are held-out rows if no fold has such an event.
        Other scores measure predictions of the held-out rows: ``"deviance"`` (all families; in
        linear, logistic, Poisson and gamma models against the saturated model, otherwise −2 times
        the log-likelihood, for each unit of weight), ``"auc"`` (logistic models, multinomial
        ones as the mean of each class against all others, and pooled ones over the intervals that
        people begin at risk), ``"concordance"`` (Cox, Fine–Gray, cumulative and logistic models,
        and conditional ones of cases and controls of the same stratum), ``"brier"`` (logistic and
        multinomial models, pooled ones over intervals, and integrated over time in Cox and
        Fine–Gray models) and ``"mse"`` (linear), or, in generalised linear and multinomial models,
        a name of scikit-learn such as ``"balanced_accuracy"``,
        ``"neg_log_loss"`` or ``"roc_auc_ovr"``. A callable receives an object with the methods
        ``predict``, ``predict_proba`` and ``decision_function`` of the model, row numbers to pass
        to these, and the rows' outcome (0 and 1 in logistic models, 0 to K − 1 in multinomial
        ones). As in scikit-learn, larger is better, and the signs of deviance, Brier score and mean
        squared error are changed. The search then follows the log-likelihood, a smooth function,
        and divides the steps around the best score.
    groups : (n,) labels, optional
        Rows with the same label are in one fold: all rows of a person, a family or a site. With
        strata that stay whole, a group and a stratum that share rows stay together.
    stratify : bool or (n,) labels
        Classes that are distributed evenly over the folds: those of the outcome (True, the
        default), none (False), or labels such as site and outcome. A group with several classes
        counts as the rarest of the labels, or as having the event.
    compare : mapping of names to sequences, optional
        Other settings of the prior to choose, by name, each from a few values. All combinations
        are compared on the same folds, each along its own path of variances.
        ``{"normal_variance": [0.1, 1, 10]}`` of an `ElasticNet` chooses both of its variances, as
        the path then changes that of the Laplace part alone. ``{"variance": [a, b]}`` with arrays
        or mappings compares relative variances of groups of columns. ``cv_results_`` has a column
        for each setting (``prior__variance`` for ``variance``), with the position in the sequence
        unless the value is a number or text.
    random_state : int, numpy Generator or None
        Seed of the divisions. None uses the estimator's ``random_state``; if that is None too,
        each fit draws new folds.
    memory : float
        Bytes that the states of the replicates may take together; further replicates are fitted in
        turn.
    tol : float
        Largest KKT violation, in units of λ, of the folds' fits. It is ten times as large with more
        than 500 nonzero coefficients, and thirty times with more than 700 and twenty rows for each,
        but at most a tenth of λ, because λ is small then. In measurements this changed mean scores
        near the best by less than a hundredth of their standard error, and by a thirtieth in a
        linear model with nearly as many nonzero coefficients as rows. Small data are fitted more
        exactly. The final fit uses the estimator's own ``tol``.

    See Also
    --------
    steropes.plots.cross_validation_curve : Draw the scores.
    InformationCriterion : Choice by AIC, BIC or EBIC, without folds.

    References
    ----------
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10, §4.4.
    Verweij and van Houwelingen (1993), Statistics in Medicine 12:2305–2314.
    Breiman, Friedman, Olshen and Stone (1984), Classification and Regression Trees.
    Bertrand and others (2022), Journal of Machine Learning Research 23:149.
    Zou, Hastie and Tibshirani (2007), Annals of Statistics 35:2173–2192.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = X @ [1.0, 0.0, 0.0, 0.0] + rng.standard_normal(200)
    >>> cv = steropes.CrossValidation(5, search=[0.001, 0.01, 0.1], random_state=1)
    >>> model = steropes.LinearRegression(prior=steropes.Laplace(), cv=cv).fit(X, y)
    >>> model.variance_
    0.1
    >>> model.cv_results_[["variance", "nonzero"]].to_numpy().tolist()
    [[0.001, 1.0], [0.01, 1.0], [0.1, 2.0]]

    The mean squared error in place of the log-likelihood:

    >>> cv = steropes.CrossValidation(5, search=[0.001, 0.1], scoring="mse", random_state=1)
    >>> model = steropes.LinearRegression(prior=steropes.Laplace(), cv=cv).fit(X, y)
    >>> model.cv_results_["mean"].round(2).tolist()
    [-0.85, -0.78]
    """

    folds: int | Sequence[tuple[Any, Any]] = FOLDS
    repeats: int = 1
    search: Literal["auto"] | Sequence[float] | np.ndarray | CyclopsSearch = "auto"
    rule: Literal["best", "one_standard_error"] = "best"
    scoring: str | Callable[..., float] = "held_out"
    groups: Any = None
    stratify: Any = True
    compare: Mapping[str, Sequence[Any]] | None = None
    random_state: Seed = None
    memory: float = 4e9
    tol: float = 1e-3

    def check(self) -> None:
        """Reject invalid settings.

        Raises
        ------
        DataError
            The message names the setting.
        """
        if isinstance(self.folds, Real):
            if not _whole(float(self.folds), 2):
                raise DataError(f"folds must be a whole number from 2, not {self.folds!r}.")
        elif not isinstance(self.folds, Sequence) or isinstance(self.folds, str):
            raise DataError(
                "folds must be a whole number or a list of (train, test) pairs such as "
                f"list(splitter.split(X, y)), not {self.folds!r}."
            )
        elif self.repeats != 1:
            raise DataError("repeats has no meaning where folds are given as splits.")
        elif self.groups is not None or self.stratify is not True:
            raise DataError("groups and stratify have no meaning where folds are given as splits.")
        if not (isinstance(self.repeats, Real) and _whole(self.repeats, 1)):
            raise DataError(f"repeats must be a whole number from 1, not {self.repeats!r}.")
        for name in ("tol", "memory"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 < float(value) < np.inf):
                raise DataError(f"{name} must be positive and finite, not {value!r}.")
        if not (isinstance(self.scoring, str) or callable(self.scoring)):
            raise DataError(
                f"scoring must be the name of a score or a callable, not {self.scoring!r}."
            )
        if not isinstance(self.rule, str) or self.rule not in ("best", "one_standard_error"):
            raise DataError(f"rule must be 'best' or 'one_standard_error', not {self.rule!r}.")
        check_search(self.search)
        if isinstance(self.search, CyclopsSearch) and self.rule != "best":
            raise DataError("CyclopsSearch has a rule of its own; leave rule='best'.")
        if isinstance(self.search, CyclopsSearch) and self.scoring not in LIKELIHOOD_SCORES:
            raise DataError("CyclopsSearch follows the log-likelihood; leave scoring='held_out'.")
        check_compared(self.compare)

    @property
    def _figure_options(self) -> dict[str, str]:
        """How the scores and the choice are named in a plot of the results."""
        scoring = f"score ({self.scoring})" if isinstance(self.scoring, str) else "score"
        log_likelihood = isinstance(self.scoring, str) and self.scoring in LIKELIHOOD_SCORES
        return {
            "score": f"Held-out {'log-likelihood' if log_likelihood else scoring}",
            "rule": "the search's own choice" if self.rule == "best"
            else "within one standard error of the best",
        }  # fmt: skip

    def run(
        self, problem: Problem, progress: Progress | None = None, measure: FoldScore | None = None
    ) -> Selection:
        """Evaluate variances; estimators call this method.

        Parameters
        ----------
        problem : Problem
            A model with its data and prior, a `steropes.fit.Problem`.
        progress : callable, optional
            Function that reports progress.
        measure : callable, optional
            The score that ``scoring`` names, unless that is a log-likelihood: a function of the
            problem, coefficients of the scaled columns, the weights of training and of held-out
            rows, and the log-likelihood of the latter. Estimators know how to predict from these.

        Returns
        -------
        Selection
            The chosen variance with its prior, the table of results and a start for the final fit.

        Raises
        ------
        DataError
            If a setting is invalid.
        """
        from .fold_fits_along_path import choose

        self.check()
        if measure is None and self.scoring not in LIKELIHOOD_SCORES:
            raise DataError(f"scoring={self.scoring!r} needs the predictions of an estimator.")
        fixed: list[CrossValidation] = []

        def each(part: Problem, alone: bool) -> Selection:
            if not alone and not fixed:  # A generator would draw other folds for each candidate.
                seed = int(random_generator(self.random_state).integers(2**63))
                fixed.append(replace(self, random_state=seed))
            return choose(self if alone else fixed[0], part, progress, measure)

        return choose_among(self, problem, each)


def check_search(search: str | Sequence[float] | np.ndarray | CyclopsSearch) -> None:
    """Reject a search that does not determine which variances to try."""
    if isinstance(search, CyclopsSearch):
        search.check()
    elif isinstance(search, str):
        if search != "auto":
            raise DataError(f"search must be 'auto' or variances, not {search!r}.")
    else:
        try:
            values = np.asarray(search, np.float64)
        except (TypeError, ValueError):
            raise DataError(f"search must be variances, not {search!r}.") from None
        if values.ndim != 1 or len(values) == 0 or not ((values > 0) & (values < np.inf)).all():
            raise DataError("search must be a non-empty sequence of positive, finite variances.")


def _whole(x: float, least: int) -> bool:
    """Return whether a number is whole and not too small."""
    return not isinstance(x, bool) and bool(np.isfinite(x)) and x == int(x) and x >= least
