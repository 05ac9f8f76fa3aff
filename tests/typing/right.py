"""What a user writes, which has to pass ``mypy --strict``; it is never run."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import steropes
from steropes import (
    Censored,
    ConditionalLogisticRegression,
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    CyclopsSearch,
    ElasticNet,
    EqualQuantileBins,
    FineGrayRegression,
    FusedLaplace,
    GammaRegression,
    GroupLaplace,
    InformationCriterion,
    KaplanMeier,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    NegativeBinomialRegression,
    Normal,
    PoissonRegression,
    PooledLogisticRegression,
    SelfControlledCaseSeries,
    StandardizedSurvival,
    StudySettings,
    Surv,
    as_design,
    comparative_study,
    compare_links,
    glmnet_lambda,
    kaplan_meier,
)
from steropes.data.plottable_result_tables import Curves
from steropes.models.cumulative.predictions import Prediction

X = np.array([[0.0], [1.0], [0.0], [1.0]])
y = Surv([3, 1, 2, 2], np.array([1, 1, 0, 1]), entry=[0, 0, 1, 0])
days: dict[str, list[float]] = {"x0": [90.0, 180.0]}

cox = CoxRegression(
    prior=Laplace(0.1, exclude=["x0"]),
    cv=CrossValidation(5, search=[0.01, 0.1], random_state=np.random.default_rng(1)),
    ties="breslow",
    time_varying=days,
)
assert_type(cox.fit(X, y, strata=["a", "a", "b", "b"]), CoxRegression)
assert_type(cox.predict_survival(X, [1.0, 2.0]), NDArray[Any])
assert_type(cox.coef_, NDArray[Any])
assert_type(cox.validation.concordance(X, y), float)
assert_type(cox.validation.concordance(X, y, return_se=True), tuple[float, float])
assert_type(cox.curves.standardized_survival(X, [1.0]), StandardizedSurvival)
assert_type(cox.converged_, bool)
assert_type(cox.optimality_, float)
cox.summary(0.9, kind="robust", cluster=[1, 1, 2, 2])
cox.confint("x0", method="robust").loc["x0", "lower"]
cox.confint("x0", method="profile")
cox.inference.profile("x0", points=[0.0, 0.5])["log_likelihood"]
cox.inference.bootstrap(20, cluster=[1, 1, 2, 2], random_state=1).confint(0.9, method="bca")
assert_type(cox.set_params(tol=1e-6), CoxRegression)

logistic = LogisticRegression(prior=Normal(np.ones(1)), cv=10, fit_intercept=False, random_state=1)
assert_type(logistic.fit(X, [0, 1, 0, 1]).predict_proba(X), NDArray[Any])
several = CrossValidation(
    5, rule="one_standard_error", groups=["a", "b"], compare={"exclude": [["x0"], []]}
)
LogisticRegression(prior=FusedLaplace([["x0", 0]]), cv=several).fit(X, y, fixed={"x0": 0.5})
CrossValidation(search=CyclopsSearch(0.01), stratify=["a", "b"])
LogisticRegression(prior=GroupLaplace({"x0": "a"}), cv=InformationCriterion("ebic", 0.5))
LogisticRegression(class_weight={0: 1.0, 1: 5.0}).fit(X, [0, 1, 0, 1])
MultinomialLogisticRegression(class_weight="balanced").fit(
    X, list("abca"), offset=[[0.0, 0.1, 0.2]] * 4, fixed={"b:x0": 0.5}
)
better: bool = logistic.score(X, [0, 1, 0, 1]) > 0.5
LinearRegression(prior=ElasticNet(1.0, [2.0], exclude=0), solver="ccd", n_jobs=-1, verbose=True)
GammaRegression(prior=Laplace(0.1)).fit(X, [1.0, 2.0, 0.5, 3.0]).summary(kind="HC3")
NegativeBinomialRegression(dispersion=0.5).fit(X, [1, 0, 2, 1]).confint(method="HC1")
multinomial = MultinomialLogisticRegression(reference="a", prior=Normal(1.0)).fit(X, list("abca"))
assert_type(multinomial.predict_proba(X), NDArray[Any])
PoissonRegression(prior=None, device="auto").fit(X, [1, 0, 2, 1], exposure=[1.0, 2.0, 1.0, 1.0])
FineGrayRegression(cause=2)
ConditionalLogisticRegression(method="efron")
assert_type(
    SelfControlledCaseSeries().fit(X, [0, 1, 1, 0], strata=[1, 1, 2, 2], exposure=[1, 2, 3, 4]),
    SelfControlledCaseSeries,
)
PooledLogisticRegression(breaks=[0, 30, 60], baseline="interval", time_varying={"x0": np.log})
PooledLogisticRegression(interval=30, baseline=3, time_varying=1)

cumulative = CumulativeProbabilityModel(link="probit", reduce=EqualQuantileBins(100))
cumulative.fit(X, Censored([1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 3.0, 0.5])).confint(method="profile")
assert_type(cumulative.predict_cdf(X, [1.0]), NDArray[Any])
assert_type(cumulative.predict_quantile(X, 0.5, level=0.95), Prediction)
compare_links(cumulative, X, [1, 2, 3, 4], links=["logit", "cauchit"])

assert_type(as_design(X).p, int)
assert_type(kaplan_meier(y), KaplanMeier)
assert_type(kaplan_meier(y, groups=[1, 1, 2, 2]), Curves[KaplanMeier])
assert_type(glmnet_lambda(0.1, 100), np.float64)


def study(database: str) -> float:
    settings = StudySettings(target=1, comparator=2, outcome=3, risk_days=365)
    return float(len(comparative_study(database, settings, progress=print).people))


def tell(error: steropes.SeparationError) -> list[str]:
    return error.columns
