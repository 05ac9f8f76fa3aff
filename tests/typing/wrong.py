"""Mistakes that an editor has to show; each line names the error that mypy has to report there."""

import numpy as np

import steropes
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    FineGrayRegression,
    InformationCriterion,
    Laplace,
    LogisticRegression,
    PooledLogisticRegression,
    StudySettings,
    Surv,
    coefficient_path,
    fit_many,
)

X = np.zeros((2, 1))
y = Surv([1.0, 2.0], [1, 0])

steropes.CoxRegresion()  # error: attr-defined
LogisticRegression(class_weight="equal")  # error: arg-type
CoxRegression(tie="efron")  # error: call-arg
CoxRegression(ties="exact")  # error: arg-type
CoxRegression(solver="lbfgs")  # error: arg-type
CoxRegression(device="gpu")  # error: arg-type
CoxRegression(prior="laplace")  # error: arg-type
CoxRegression(prior=Laplace)  # error: arg-type
CoxRegression(cv="auto")  # error: arg-type
CrossValidation(rule="simplest")  # error: arg-type
InformationCriterion("cp")  # error: arg-type
CoxRegression(time_varying=[90, 180])  # error: arg-type
CoxRegression(random_state="1")  # error: arg-type
LogisticRegression(fit_intercept="no")  # error: arg-type
LogisticRegression(tol="small")  # error: arg-type
LogisticRegression(max_iter=None)  # error: arg-type
ConditionalLogisticRegression(method="approximate")  # error: arg-type
ConditionalLogisticRegression(fit_intercept=True)  # error: call-arg
CumulativeProbabilityModel(link="log")  # error: arg-type
CumulativeProbabilityModel(solver="ccd")  # error: arg-type
CumulativeProbabilityModel(reduce="bins")  # error: arg-type
FineGrayRegression(device="mps")  # error: arg-type
FineGrayRegression(ties="efron")  # error: call-arg
PooledLogisticRegression(baseline="spline")  # error: arg-type
Laplace(sd=1.0)  # error: call-arg
Laplace(variance="1")  # error: arg-type
CrossValidation(scoring=0.5)  # error: arg-type
CrossValidation(search="grid")  # error: arg-type
CrossValidation(fold=5)  # error: call-arg
Surv([1.0], [1], start=[0.0])  # error: call-arg
StudySettings(target=1, comparator=2, outcome="3")  # error: arg-type

model = CoxRegression().fit(X, y)
model.sumary()  # error: attr-defined
model.predict_proba(X)  # error: attr-defined
print(model.coefs_)  # error: attr-defined
model.fit(X, y, weights=[1, 1])  # error: call-arg
model.summary(kind="hc1")  # error: arg-type
model.confint(method="likelihood")  # error: arg-type
model.vcov(clusters=[1, 2])  # error: call-arg
model.loglik_ = 1.0  # error: attr-defined
fit_many(CoxRegression, X, {"death": y})  # error: arg-type
coefficient_path("cox", X, y, [0.1, 1.0])  # error: arg-type
