"""Calls of the rows of the page for scikit-learn and statsmodels, whose numbers must agree."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.linear_model import (
    GammaRegressor,
    Lasso,
    LassoCV,
    LogisticRegressionCV,
    PoissonRegressor,
)
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import OneHotEncoder
from statsmodels.discrete.conditional_models import ConditionalLogit
from statsmodels.miscmodels.ordinal_model import OrderedModel

import steropes
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    GammaRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    NegativeBinomialRegression,
    Normal,
    PoissonRegression,
    Surv,
)

Pairs = Iterator[tuple[object, object, float]]  # ours, theirs, and the relative tolerance
ROWS: dict[str, Callable[[], Pairs]] = {}


def row(first: str) -> Callable[[Callable[[], Pairs]], Callable[[], Pairs]]:
    """Enter the comparison of the row with this text in its first column."""

    def enter(compare: Callable[[], Pairs]) -> Callable[[], Pairs]:
        ROWS[first] = compare
        return compare

    return enter


@cache
def table() -> pd.DataFrame:
    """Draw 300 people with an outcome of each kind."""
    rng = np.random.default_rng(4)
    n = 300
    df = pd.DataFrame({"x": rng.normal(size=n), "z": rng.integers(0, 2, n) * 1.0})
    eta = 0.5 * df["x"] - 0.4 * df["z"]
    df["site"] = rng.choice(["a", "b", "c"], n)
    df["set"], df["id"] = np.arange(n) // 5, np.arange(n) // 2
    df["dead"] = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1.0
    df["weight"] = 3 + eta + rng.normal(size=n)
    df["cost"] = np.exp(eta) * rng.gamma(2.0, 0.5, n)
    df["years"] = rng.uniform(0.5, 2, n)
    df["count"] = rng.negative_binomial(2, 2 / (2 + 3 * df["years"] * np.exp(eta))) * 1.0
    df["class"] = np.digitize(eta + rng.logistic(size=n), [-0.7, 0.7])
    df["time"], df["event"] = np.ceil(rng.exponential(np.exp(-eta)) * 20), rng.integers(0, 2, n)
    return df


def X() -> pd.DataFrame:
    return table()[["x", "z"]]


def with_constant() -> pd.DataFrame:
    return sm.add_constant(X())


def logit() -> object:
    return sm.Logit(table()["dead"], with_constant()).fit(disp=0, tol=1e-12)


def ols() -> object:
    return sm.OLS(table()["weight"], with_constant()).fit()


def ours_logistic() -> LogisticRegression:
    return LogisticRegression().fit(X(), table()["dead"])


def ours_linear() -> LinearRegression:
    return LinearRegression().fit(X(), table()["weight"])


def all_of(model: object) -> np.ndarray:
    return np.append(model.intercept_, model.coef_)


# scikit-learn ------------------------------------------------------------------------------------


@row("`classes_`, always sorted")
def classes_in_the_order_of_categories() -> Pairs:
    df = table()
    y = pd.Series(pd.Categorical(np.where(df["dead"] == 1, "case", "control"), ["control", "case"]))
    ours, theirs = LogisticRegression().fit(df[["x"]], y), TheirLogistic(C=np.inf)
    yield ours.coef_, -theirs.fit(df[["x"]], y).coef_[0], 1e-3  # which models "control"
    assert ours.classes_.tolist() == theirs.classes_.tolist()[::-1]
    positions = y.cat.codes
    theirs.fit(df[["x"]], positions)
    for scoring in ("roc_auc", "neg_log_loss"):
        score = get_scorer(scoring)
        own = LogisticRegression().fit(df[["x"]], positions)
        yield score(own, df[["x"]], positions), score(theirs, df[["x"]], positions), 1e-4


@row("`LogisticRegression(penalty=None)`")
def _() -> Pairs:
    theirs = TheirLogistic(C=np.inf, tol=1e-10, max_iter=1000).fit(X(), table()["dead"])
    yield all_of(ours_logistic()), all_of(theirs), 1e-5


@row('`LogisticRegression(penalty="l1", C=c)`')
def _() -> Pairs:
    c = 0.1
    theirs = TheirLogistic(l1_ratio=1, C=c, solver="saga", tol=1e-10, max_iter=10**5)
    ours = LogisticRegression(prior=Laplace(2 * c**2)).fit(X(), table()["dead"])
    yield all_of(ours), all_of(theirs.fit(X(), table()["dead"])), 1e-5


@row('`LogisticRegression(penalty="l2", C=c)`')
def _() -> Pairs:
    c = 0.1
    theirs = TheirLogistic(C=c, tol=1e-10, max_iter=1000).fit(X(), table()["dead"])
    yield (
        all_of(LogisticRegression(prior=Normal(c)).fit(X(), table()["dead"])),
        all_of(theirs),
        1e-5,
    )


@row("`LogisticRegression` of three or more classes")
def _() -> Pairs:
    c = 0.1
    theirs = TheirLogistic(C=c, tol=1e-10, max_iter=1000).fit(X(), table()["class"])
    ours = MultinomialLogisticRegression(prior=Normal(c)).fit(X(), table()["class"])
    yield ours.coef_, theirs.coef_, 1e-4
    yield ours.intercept_, theirs.intercept_ - theirs.intercept_[0], 1e-4


@row("`LogisticRegressionCV(scoring=)`, `LassoCV`")
def _() -> Pairs:
    labels, y = np.arange(300) % 5, table()["dead"]
    folds = [(np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k in range(5)]
    grid = np.array([0.003, 0.01, 0.1])
    theirs = LogisticRegressionCV(
        Cs=grid, cv=folds, scoring="neg_log_loss", tol=1e-10, max_iter=1000, l1_ratios=(0,),
        use_legacy_attributes=False,
    ).fit(X(), y)  # fmt: skip
    cv = CrossValidation(folds=folds, search=list(grid), scoring="neg_log_loss")
    yield LogisticRegression(prior=Normal(), cv=cv).fit(X(), y).prior_.variance, theirs.C_, 1e-9
    alphas = np.array([0.3, 0.1, 0.03])
    theirs = LassoCV(alphas=alphas, cv=folds).fit(X(), table()["weight"])
    cv = CrossValidation(folds=folds, search=list(2 / (alphas * 300) ** 2), scoring="mse")
    ours = LinearRegression(prior=Laplace(), cv=cv).fit(X(), table()["weight"])
    yield np.sqrt(2 / ours.prior_.variance) / 300, theirs.alpha_, 1e-9


@row('`class_weight="balanced"`, `class_weight={1: 5.0}`')
def _() -> Pairs:
    for weight in ("balanced", {1: 5.0}):
        theirs = TheirLogistic(C=1.0, class_weight=weight, tol=1e-10).fit(X(), table()["dead"])
        ours = LogisticRegression(prior=Normal(1.0), class_weight=weight)
        yield all_of(ours.fit(X(), table()["dead"])), all_of(theirs), 1e-5


@row("`Lasso(alpha=a)`")
def _() -> Pairs:
    theirs = Lasso(alpha=0.1, tol=1e-12).fit(X(), table()["weight"])
    ours = LinearRegression(prior=Laplace(2 / (0.1 * 300) ** 2)).fit(X(), table()["weight"])
    yield all_of(ours), all_of(theirs), 1e-6


@row("`PoissonRegressor(alpha=a)`")
def _() -> Pairs:
    df = table()
    theirs = PoissonRegressor(alpha=0.1, tol=1e-12, max_iter=10**4).fit(X(), df["count"])
    ours = PoissonRegression(prior=Normal(1 / (0.1 * 300))).fit(X(), df["count"])
    yield all_of(ours), all_of(theirs), 1e-5


@row('`OneHotEncoder(drop="first")` in a pipeline')
def _() -> Pairs:
    coded = OneHotEncoder(drop="first", sparse_output=False).fit_transform(table()[["site"]])
    theirs = TheirLogistic(C=1.0, tol=1e-10).fit(coded, table()["dead"])
    ours = LogisticRegression(prior=Normal(1.0)).fit(table()[["site"]], table()["dead"])
    yield all_of(ours), all_of(theirs), 1e-5


@row("`GammaRegressor(alpha=a)`")
def _() -> Pairs:
    theirs = GammaRegressor(alpha=0.1, tol=1e-12, max_iter=10**4).fit(X(), table()["cost"])
    ours = GammaRegression(prior=Normal(1 / (0.1 * 300))).fit(X(), table()["cost"])
    yield all_of(ours), all_of(theirs), 1e-5


@row("`coef_` of shape (1, p)")
def _() -> Pairs:
    theirs = TheirLogistic(C=np.inf).fit(X(), table()["dead"])
    yield (1, *ours_logistic().coef_.shape), theirs.coef_.shape, 0


@row("`pickle`, `joblib.dump`")
def _() -> Pairs:
    for model in (TheirLogistic(C=1.0).fit(X(), table()["dead"]), ours_logistic()):
        copy = pickle.loads(pickle.dumps(model))
        yield copy.predict_proba(X()), model.predict_proba(X()), 0


@row("`GroupKFold`, `groups=`")
def _() -> Pairs:
    y, groups = table()["dead"], table()["set"]
    folds = list(GroupKFold(5).split(X(), y, groups))
    model = LogisticRegression(
        prior=Laplace(), cv=CrossValidation(5, groups=groups, random_state=0)
    )
    held_out = model.fit(X(), y).cv_results_
    assert len(held_out) > 0
    for train, test in folds:  # no group is on both sides, in theirs as in ours
        assert not {*groups[train]} & {*groups[test]}
    given = LogisticRegression(prior=Laplace(), cv=CrossValidation(folds=folds)).fit(X(), y)
    yield np.isfinite(given.coef_), np.ones(2), 0


@row("`n_iter_`, `ConvergenceWarning`")
def _() -> Pairs:
    from sklearn.exceptions import ConvergenceWarning

    yield issubclass(steropes.NotConvergedWarning, ConvergenceWarning), True, 0
    yield ours_logistic().n_iter_ > 0, True, 0


# statsmodels -------------------------------------------------------------------------------------


@row("`Logit(y, add_constant(X)).fit()`")
def _() -> Pairs:
    yield all_of(ours_logistic()), logit().params, 1e-7


@row('`smf.logit("y ~ x", data)`')
def _() -> Pairs:
    formula = "dead ~ x + C(site)"
    theirs = smf.logit(formula, table()).fit(disp=0, tol=1e-12)
    ours = LogisticRegression.from_formula(formula, table())
    yield ours.summary()["coef"], theirs.params.to_numpy()[[0, 3, 1, 2]], 1e-7


@row("`GLM(family=Poisson(), exposure=e)`")
def _() -> Pairs:
    df = table()
    theirs = sm.GLM(
        df["count"], with_constant(), family=sm.families.Poisson(), exposure=df["years"]
    )
    ours = PoissonRegression().fit(X(), df["count"], exposure=df["years"])
    theirs = theirs.fit(tol=1e-12)
    yield all_of(ours), theirs.params, 1e-7
    yield ours.summary()["se"], theirs.bse, 1e-6


@row("`GLM(family=Gamma(links.Log()))`")
def _() -> Pairs:
    family = sm.families.Gamma(sm.families.links.Log())
    theirs = sm.GLM(table()["cost"], with_constant(), family=family).fit(tol=1e-12)
    ours = GammaRegression().fit(X(), table()["cost"])
    # Its own errors are those of the expected information.
    information = -theirs.model.hessian(theirs.params, scale=theirs.scale, observed=True)
    yield all_of(ours), theirs.params, 1e-6
    yield ours.dispersion_, theirs.scale, 1e-6
    yield ours.summary()["se"], np.sqrt(np.diag(np.linalg.inv(information))), 1e-5


@row("`NegativeBinomial(y, X)`")
def _() -> Pairs:
    theirs = sm.NegativeBinomial(table()["count"], with_constant())
    theirs = theirs.fit(disp=0, method="newton", maxiter=200, tol=1e-12)
    ours = NegativeBinomialRegression().fit(X(), table()["count"])
    yield np.append(all_of(ours), ours.dispersion_), theirs.params, 1e-5
    yield ours.summary()["se"], theirs.bse.iloc[:-1], 1e-4


@row("`GLM(family=NegativeBinomial(alpha=a))`")
def _() -> Pairs:
    family = sm.families.NegativeBinomial(alpha=0.5)
    theirs = sm.GLM(table()["count"], with_constant(), family=family).fit(tol=1e-12)
    ours = NegativeBinomialRegression(dispersion=0.5).fit(X(), table()["count"])
    yield all_of(ours), theirs.params, 1e-6


@row("`MNLogit(y, add_constant(X)).fit()`")
def _() -> Pairs:
    theirs = sm.MNLogit(table()["class"], with_constant()).fit(disp=0, tol=1e-12)
    ours = MultinomialLogisticRegression(reference=0).fit(X(), table()["class"])
    yield ours.coef_[1:], theirs.params.to_numpy()[1:].T, 1e-6
    yield ours.intercept_[1:], theirs.params.to_numpy()[0], 1e-6


@row("`PHReg(..., strata=)`")
def _() -> Pairs:
    df = table()
    theirs = sm.PHReg(df["time"], X(), df["event"], strata=df["site"], ties="efron").fit()
    ours = CoxRegression().fit(X(), Surv(df["time"], df["event"]), strata=df["site"])
    yield ours.coef_, theirs.params, 1e-5


@row("`ConditionalLogit(groups=)`")
def _() -> Pairs:
    df = table()
    varies = df.groupby("set")["dead"].transform("nunique") > 1  # others do not count, and warn
    theirs = ConditionalLogit(df["dead"][varies], X()[varies], groups=df["set"][varies])
    theirs = theirs.fit(disp=0)
    ours = ConditionalLogisticRegression().fit(X(), df["dead"], strata=df["set"])
    yield ours.coef_, theirs.params, 1e-4


@row('`OrderedModel(distr="logit")`')
def _() -> Pairs:
    theirs = OrderedModel(table()["class"], X(), distr="logit")
    theirs = theirs.fit(method="newton", disp=0, tol=1e-12)
    ours = CumulativeProbabilityModel(link="logit").fit(X(), table()["class"])
    yield ours.coef_, theirs.params.iloc[:2], 1e-5
    yield ours.summary()["se"], theirs.bse.iloc[:2], 1e-4


@row("`params`, `bse`, `tvalues`, `pvalues`")
def _() -> Pairs:
    ours, theirs = ours_logistic().summary(), logit()
    for name, attribute in {"coef": "params", "se": "bse", "z": "tvalues", "p": "pvalues"}.items():
        yield ours[name], getattr(theirs, attribute), 1e-5
    ours, theirs = ours_linear().summary(), ols()
    for name, attribute in {"coef": "params", "se": "bse", "t": "tvalues", "p": "pvalues"}.items():
        yield ours[name], getattr(theirs, attribute), 1e-5


@row("`conf_int()`, `cov_params()`")
def _() -> Pairs:
    ours, theirs = ours_logistic(), logit()
    yield ours.confint()[["lower", "upper"]], theirs.conf_int(), 1e-6
    yield ours.vcov(), theirs.cov_params(), 1e-6


@row("`resid_deviance`, `resid_pearson`, `resid_response`")
def _() -> Pairs:
    family = sm.families.Binomial()
    theirs = sm.GLM(table()["dead"], with_constant(), family=family).fit(tol=1e-12)
    for kind in ("deviance", "pearson", "response"):
        yield ours_logistic().checks.residuals(kind), getattr(theirs, f"resid_{kind}"), 1e-6


@row("`get_influence().dfbetas`")
def _() -> Pairs:
    ours = ours_linear().checks.residuals("dfbetas")
    theirs = ols().get_influence().dfbetas[:, 1:]
    # One Newton step and one scale for all rows, where statsmodels refits without the row.
    yield np.corrcoef(np.ravel(ours[["x", "z"]]), np.ravel(theirs))[0, 1], 1.0, 1e-3


@row("`compare_lr_test(small)`")
def _() -> Pairs:
    small = sm.OLS(table()["weight"], with_constant()[["const", "x"]]).fit()
    ours = LinearRegression().fit(X()[["x"]], table()["weight"])
    ours = steropes.compare_nested_fits(ours, ours_linear())
    yield ours[["chisq", "p", "df"]].iloc[1], ols().compare_lr_test(small), 1e-6


@row('`cov_type="HC0"` … `"HC3"`, `"cluster"`')
def _() -> Pairs:
    for kind in ("HC0", "HC1", "HC2", "HC3"):
        theirs = sm.OLS(table()["weight"], with_constant()).fit(cov_type=kind)
        ours = ours_linear().vcov(kind="robust" if kind == "HC0" else kind)
        yield ours, theirs.cov_params(), 1e-6
    options = {"groups": table()["id"], "use_correction": False}
    theirs = sm.OLS(table()["weight"], with_constant()).fit(cov_type="cluster", cov_kwds=options)
    yield ours_linear().vcov(kind="robust", cluster=table()["id"]), theirs.cov_params(), 1e-6


@row('`wald_test("a = b")`, `t_test`')
def _() -> Pairs:
    theirs = logit().wald_test("x = z", scalar=True)
    ours = ours_logistic().inference.linear_hypothesis("x = z")
    yield ours[["chisq", "p"]], [theirs.statistic, theirs.pvalue], 1e-5
    theirs = ols().wald_test("x = z", scalar=True)  # F in linear models, which is χ² / df
    yield ours_linear().inference.linear_hypothesis("x = z")["chisq"], theirs.statistic, 1e-6


@row("`anova_lm(typ=2)`, `wald_test_terms`")
def _() -> Pairs:
    formula = "weight ~ x + C(site)"
    theirs = sm.stats.anova_lm(smf.ols(formula, table()).fit(), typ=2)
    ours = LinearRegression.from_formula(formula, table()).inference.term_tests()
    f = theirs["F"] * theirs["df"]
    yield ours[["chisq", "df"]].iloc[:2], np.array([f, theirs["df"]]).T[[1, 0]], 1e-6
    formula = "dead ~ x + C(site)"
    theirs = smf.logit(formula, table()).fit(disp=0, tol=1e-12).wald_test_terms(scalar=True).table
    ours = LogisticRegression.from_formula(formula, table()).inference.term_tests()
    yield ours["p"].iloc[:2], theirs["pvalue"][["x", "C(site)"]].astype(float), 1e-6


@row("`llf`, `llnull`, `aic`, `bic`")
def _() -> Pairs:
    ours, theirs = ours_logistic(), logit()
    numbers = [ours.log_likelihood_, ours.null_log_likelihood_, ours.aic_, ours.bic_]
    yield numbers, [theirs.llf, theirs.llnull, theirs.aic, theirs.bic], 1e-8


@row("`get_prediction().summary_frame()`")
def _() -> Pairs:
    theirs = ols().get_prediction(with_constant()).summary_frame()
    ours = ours_linear().effects.predictions(X(), "response")
    yield ours[["lower", "upper"]], theirs[["mean_ci_lower", "mean_ci_upper"]], 1e-7
    ours = ours_linear().effects.predictions(X(), "observation")
    yield ours[["lower", "upper"]], theirs[["obs_ci_lower", "obs_ci_upper"]], 1e-7


@row("`get_margeff(dummy=True)`")
def _() -> Pairs:
    theirs = logit().get_margeff(dummy=True).summary_frame()
    ours = ours_logistic().effects.average(X())
    yield ours[["effect", "se"]], theirs[["dy/dx", "Std. Err."]], 1e-4


@row("`fit_regularized`")
def _() -> Pairs:
    alpha = np.array([0.0, 10.0, 10.0])
    theirs = sm.Logit(table()["dead"], with_constant())
    theirs = theirs.fit_regularized(alpha=alpha, disp=0, acc=1e-12, trim_mode="off")
    ours = LogisticRegression(prior=Laplace(2 / 10.0**2)).fit(X(), table()["dead"])
    yield all_of(ours), theirs.params, 1e-4
