"""Calls of the rows of the page for lifelines and scikit-survival, whose numbers must agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache

import lifelines
import lifelines.datasets
import numpy as np
import pandas as pd
import sksurv.datasets
import sksurv.metrics
from lifelines import statistics
from lifelines.utils import concordance_index, restricted_mean_survival_time
from sklearn.model_selection import GridSearchCV
from sksurv.compare import compare_survival
from sksurv.linear_model import CoxnetSurvivalAnalysis, CoxPHSurvivalAnalysis
from sksurv.nonparametric import (
    cumulative_incidence_competing_risks,
    kaplan_meier_estimator,
)
from sksurv.util import Surv as TheirSurv

import steropes
from steropes import CoxRegression, CrossValidation, Laplace, Normal, Surv

Pairs = Iterator[tuple[object, object, float]]  # ours, theirs, and the relative tolerance
ROWS: dict[str, Callable[[], Pairs]] = {}
PRECISE = {"fit_options": {"precision": 1e-12}}
NAMES = ["x", "z"]


def row(first: str) -> Callable[[Callable[[], Pairs]], Callable[[], Pairs]]:
    """Enter the comparison of the row that begins with this text."""

    def enter(compare: Callable[[], Pairs]) -> Callable[[], Pairs]:
        ROWS[first] = compare
        return compare

    return enter


@cache
def table() -> pd.DataFrame:
    """Draw 200 people without tied times, which the packages treat differently."""
    rng = np.random.default_rng(4)
    n = 200
    df = pd.DataFrame({"x": rng.normal(size=n), "z": rng.integers(0, 2, n) * 1.0})
    df["T"] = rng.exponential(np.exp(0.4 * df["z"] - 0.5 * df["x"])) + 0.05
    df["E"] = (rng.random(n) < 0.7) * 1
    df["cause"] = df["E"] * rng.integers(1, 3, n)
    df["start"] = df["T"] * rng.uniform(0, 0.5, n)
    df["w"] = rng.integers(1, 4, n) * 1.0
    # Version 0.30 of lifelines multiplies robust errors and dfbetas by the columns' deviations.
    df[NAMES] /= df[NAMES].std()
    df["site"], df["id"] = rng.choice(["a", "b", "c"], n), np.arange(n) // 2
    return df


def outcome() -> np.ndarray:
    return Surv(table()["T"], table()["E"])


def their_outcome() -> np.ndarray:
    return TheirSurv.from_arrays(table()["E"] == 1, table()["T"])


def X() -> pd.DataFrame:
    return table()[NAMES]


def fitted(*more: str, **options: object) -> lifelines.CoxPHFitter:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights without robust=True
        columns = [*NAMES, "T", "E", *more]
        return lifelines.CoxPHFitter().fit(table()[columns], "T", "E", **options, **PRECISE)


def cox() -> CoxRegression:
    return CoxRegression().fit(X(), outcome())


def sksurv_cox() -> CoxPHSurvivalAnalysis:
    return CoxPHSurvivalAnalysis(ties="efron", tol=1e-12).fit(X(), their_outcome())


# Between event times lifelines interpolates survival, which is a step function here.
TIMES = np.sort(table()["T"][table()["E"] == 1])[[20, 50, 90]]


@row('`CoxPHFitter().fit(df, "T", "E")`')
def _() -> Pairs:
    yield cox().coef_, fitted().params_, 1e-6
    yield cox().coef_, sksurv_cox().coef_, 1e-6


@row("`penalizer=, l1_ratio=`")
def _() -> Pairs:
    theirs = lifelines.CoxPHFitter(penalizer=0.1, l1_ratio=0.0)
    theirs = theirs.fit(table()[[*NAMES, "T", "E"]], "T", "E", **PRECISE)
    # lifelines' penalty is ½ n penalizer Σ β² of columns that are divided by their deviations.
    variance = 1 / (0.1 * 200 * X().std() ** 2)
    ours = CoxRegression(prior=Normal(variance.to_numpy())).fit(X(), outcome())
    yield ours.coef_, theirs.params_, 1e-4
    theirs = CoxnetSurvivalAnalysis(alphas=[0.05], l1_ratio=1.0, tol=1e-12, max_iter=10**6)
    theirs = theirs.fit(X(), their_outcome())
    ours = CoxRegression(prior=Laplace(2 / (0.05 * 200) ** 2), ties="breslow")
    yield ours.fit(X(), outcome()).coef_, theirs.coef_[:, 0], 1e-5


@row("cross-validate by hand")
def _() -> Pairs:
    labels = np.arange(200) % 4
    folds = [(np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k in range(4)]
    alphas = [1.0, 30.0, 1000.0]
    model = CoxPHSurvivalAnalysis(ties="efron", tol=1e-12)
    theirs = GridSearchCV(model, {"alpha": alphas}, cv=folds).fit(X(), their_outcome())
    search = [1 / alpha for alpha in alphas]
    cv = CrossValidation(folds=folds, search=search, scoring="concordance")
    ours = CoxRegression(prior=Normal(), cv=cv).fit(X(), outcome())
    yield 1 / ours.prior_.variance, theirs.best_params_["alpha"], 1e-9


@row('`strata=["site"]`')
def _() -> Pairs:
    ours = CoxRegression().fit(X(), outcome(), strata=table()["site"])
    yield ours.coef_, fitted("site", strata=["site"]).params_, 1e-6


@row("`entry_col=`")
def _() -> Pairs:
    y = Surv(table()["T"], table()["E"], entry=table()["start"])
    ours = CoxRegression().fit(X(), y)
    yield ours.coef_, fitted("start", entry_col="start").params_, 1e-6


@row("`weights_col=`, `cluster_col=`")
def _() -> Pairs:
    theirs = fitted("w", "id", weights_col="w", cluster_col="id", robust=True)
    ours = CoxRegression().fit(X(), outcome(), sample_weight=table()["w"])
    yield ours.coef_, theirs.params_, 1e-6
    errors = ours.summary(kind="robust", cluster=table()["id"])["se"]
    yield errors, theirs.summary["se(coef)"], 1e-5


@row("`CoxTimeVaryingFitter`")
def _() -> Pairs:
    df = table()
    theirs = lifelines.CoxTimeVaryingFitter().fit(
        df[[*NAMES, "start", "T", "E"]].assign(row=np.arange(200)), id_col="row", event_col="E",
        start_col="start", stop_col="T", fit_options={"precision": 1e-12},
    )  # fmt: skip
    ours = CoxRegression().fit(X(), Surv(df["T"], df["E"], entry=df["start"]))
    yield ours.coef_, theirs.params_, 1e-6


@row("`print_summary()`, `summary`")
def _() -> Pairs:
    theirs = fitted().summary
    same = {"coef": "coef", "exp(coef)": "exp(coef)", "se": "se(coef)", "z": "z", "p": "p"}
    same |= {"lower": "coef lower 95%", "upper": "coef upper 95%"}
    yield cox().summary()[list(same)], theirs[list(same.values())], 1e-5


@row("`predict_partial_hazard`")
def _() -> Pairs:
    theirs = fitted().predict_partial_hazard(X())  # relative to the means
    yield np.exp(cox().predict(X()) - cox().predict(X().mean().to_frame().T)), theirs, 1e-5
    yield cox().predict(X()), sksurv_cox().predict(X()), 1e-6


@row("`predict_survival_function`")
def _() -> Pairs:
    theirs = fitted().predict_survival_function(X()[:5], TIMES).T
    breslow = CoxRegression(ties="breslow").fit(X(), outcome())
    yield breslow.predict_survival(X()[:5], TIMES), theirs, 1e-5
    theirs = CoxPHSurvivalAnalysis(tol=1e-12).fit(X(), their_outcome())
    for f, g in zip(
        breslow.predict_survival_function(X()[:5]), theirs.predict_survival_function(X()[:5]),
        strict=True,
    ):  # fmt: skip
        yield f(TIMES), g(TIMES), 1e-6
    table_of_curves = breslow.curves.survival(X()[:1], TIMES)
    yield table_of_curves["survival"], breslow.predict_survival(X()[:1], TIMES)[0], 1e-12


@row("`predict_median`, `predict_percentile`")
def _() -> Pairs:
    theirs = fitted().predict_percentile(X()[:5], p=0.75)
    breslow = CoxRegression(ties="breslow").fit(X(), outcome())
    yield breslow.curves.quantile(X()[:5], 0.25), theirs, 1e-6


@row("`predict_expectation`")
def _() -> Pairs:
    breslow = CoxRegression(ties="breslow").fit(X(), outcome())
    theirs = fitted().predict_survival_function(X()[:3])
    last = theirs.index[-1]
    steps = np.diff(theirs.index, prepend=0.0)
    area = (np.vstack([np.ones(3), theirs.to_numpy()[:-1]]) * steps[:, None]).sum(axis=0)
    yield breslow.curves.restricted_mean(X()[:3], last), area, 1e-6
    # Theirs is the area to the last time by trapezoids, so that it begins after the first event.
    area = np.trapezoid(theirs.to_numpy(), theirs.index, axis=0)
    yield np.ravel(fitted().predict_expectation(X()[:3])), area, 1e-6


@row("`conditional_after=`")
def _() -> Pairs:
    # Theirs counts times from the time that was survived, ours from 0.
    first, *later = TIMES
    theirs = fitted().predict_survival_function(
        X()[:3], np.array(later) - first, conditional_after=[first] * 3
    )
    breslow = CoxRegression(ties="breslow").fit(X(), outcome())
    yield breslow.predict_survival(X()[:3], later, after=first), theirs.T, 1e-5


@row('`compute_residuals(kind="delta_beta")`')
def _() -> Pairs:
    theirs = fitted().compute_residuals(table()[[*NAMES, "T", "E"]], "delta_beta").sort_index()
    yield cox().checks.residuals("dfbeta")[NAMES], theirs[NAMES], 1e-5


@row("`plot_partial_effects_on_outcome`")
def _() -> Pairs:
    model = CoxRegression.from_formula("Surv(T, E) ~ x + z", table())
    effect = model.effects.partial("x", values=[-1.0, 1.0], scale="ratio")
    theirs = fitted().predict_partial_hazard(pd.DataFrame({"x": [-1.0, 1.0], "z": [0.0, 0.0]}))
    yield (
        effect["estimate"].iloc[1] / effect["estimate"].iloc[0],
        theirs.iloc[1] / theirs.iloc[0],
        1e-5,
    )


@row("`log_likelihood_ratio_test()`")
def _() -> Pairs:
    theirs = fitted().log_likelihood_ratio_test()
    ours = cox().inference.model_tests().loc["likelihood ratio"]
    yield ours[["chisq", "p"]], [theirs.test_statistic, theirs.p_value], 1e-5


@row("`check_assumptions`")
def _() -> Pairs:
    found = fitted().check_assumptions(table()[[*NAMES, "T", "E"]], show_plots=False)
    yield len(cox().checks.assumptions().doubtful), len(found), 0


@row("`proportional_hazard_test`")
def _() -> Pairs:
    frame = table()[[*NAMES, "T", "E"]]
    theirs = statistics.proportional_hazard_test(fitted(), frame, time_transform="rank")
    ours = cox().checks.proportionality(transform="rank")
    # Score tests here, an approximation there: they agree in magnitude.
    yield np.log(ours["p"].iloc[:2]), np.log(theirs.summary["p"]), 0.2


@row("`compute_residuals(kind=)`")
def _() -> Pairs:
    frame = table()[[*NAMES, "T", "E"]]
    for kind in ("martingale", "schoenfeld"):
        theirs = fitted().compute_residuals(frame, kind)
        ours = CoxRegression(ties="breslow").fit(X(), outcome()).checks.residuals(kind)
        if kind == "martingale":
            yield ours, theirs[kind].sort_index(), 1e-5
        else:  # one for each event, in the order of its time
            yield ours[NAMES], theirs.loc[table().query("E == 1").sort_values("T").index], 1e-5


@row("`KaplanMeierFitter`")
def _() -> Pairs:
    theirs = lifelines.KaplanMeierFitter().fit(table()["T"], table()["E"])
    yield steropes.kaplan_meier(outcome()).at(TIMES), theirs.predict(TIMES), 1e-9
    time, survival = kaplan_meier_estimator(table()["E"] == 1, table()["T"])
    yield steropes.kaplan_meier(outcome()).at(time), survival, 1e-9


@row("`AalenJohansenFitter`")
def _() -> Pairs:
    df = table()
    theirs = lifelines.AalenJohansenFitter(calculate_variance=False)
    theirs = theirs.fit(df["T"], df["cause"], event_of_interest=1)
    ours = steropes.aalen_johansen(Surv(df["T"], df["cause"]))
    at = theirs.cumulative_density_.iloc[:, 0]
    first = ours.table(TIMES).query("cause == 1")["incidence"]
    yield first, [at[at.index <= t].iloc[-1] for t in TIMES], 1e-9
    time, incidence = cumulative_incidence_competing_risks(df["cause"], df["T"])
    yield first, [incidence[1][time <= t][-1] for t in TIMES], 1e-9


@row("`pairwise_logrank_test`")
def _() -> Pairs:
    df = table()
    theirs = statistics.pairwise_logrank_test(df["T"], df["site"], df["E"])
    yield (
        steropes.pairwise_logrank_test(outcome(), df["site"])["chisq"],
        theirs.test_statistic,
        1e-9,
    )


@row("`event_table`, `survival_function_`")
def _() -> Pairs:
    theirs = lifelines.KaplanMeierFitter().fit(table()["T"], table()["E"])
    ours = steropes.kaplan_meier(outcome()).table()
    events = theirs.event_table.query("observed > 0")
    ours = ours[ours["events"] > 0]
    yield ours[["at_risk", "events"]], events[["at_risk", "observed"]], 0
    yield ours["survival"], theirs.survival_function_.loc[events.index].iloc[:, 0], 1e-9


@row("`logrank_test`")
def _() -> Pairs:
    df = table()
    theirs = statistics.multivariate_logrank_test(df["T"], df["site"], df["E"])
    ours = steropes.logrank_test(outcome(), df["site"])
    yield ours[["chisq", "p"]], [theirs.test_statistic, theirs.p_value], 1e-9
    yield ours[["chisq", "p"]], compare_survival(their_outcome(), df["site"]), 1e-9


@row("`concordance_index`")
def _() -> Pairs:
    df, risk = table(), cox().predict(X())
    ours = cox().validation.concordance(X(), outcome())
    yield ours, concordance_index(df["T"], -risk, df["E"]), 1e-9
    yield ours, sksurv.metrics.concordance_index_censored(df["E"] == 1, df["T"], risk)[0], 1e-9
    theirs = sksurv.metrics.concordance_index_ipcw(their_outcome(), their_outcome(), risk, 1.5)
    yield cox().validation.concordance(X(), outcome(), ipcw=True, tau=1.5), theirs[0], 1e-9


@row("`cumulative_dynamic_auc`")
def _() -> Pairs:
    y, risk = their_outcome(), cox().predict(X())
    theirs, _ = sksurv.metrics.cumulative_dynamic_auc(y, y, risk, TIMES)
    yield cox().validation.time_dependent_auc(X(), outcome(), TIMES)["auc"], theirs, 1e-9
    yield steropes.time_dependent_auc(risk, outcome(), TIMES)["auc"], theirs, 1e-9


@row("`brier_score`, `integrated_brier_score`")
def _() -> Pairs:
    y, survival = their_outcome(), cox().predict_survival(X(), TIMES)
    _, theirs = sksurv.metrics.brier_score(y, y, survival, TIMES)
    yield steropes.brier_score(1 - survival, outcome(), TIMES)["brier"], theirs, 1e-9
    theirs = sksurv.metrics.integrated_brier_score(y, y, survival, TIMES)
    yield steropes.integrated_brier_score(1 - survival, outcome(), TIMES), theirs, 1e-9


@row("`datasets.load_rossi`, `load_lung`")
def _() -> Pairs:
    yield steropes.datasets.load_rossi().shape, lifelines.datasets.load_rossi().shape, 0
    yield len(steropes.datasets.load_lung()), len(lifelines.datasets.load_lung()), 0
    covariates, _ = sksurv.datasets.load_veterans_lung_cancer()
    yield len(steropes.datasets.load_veteran()), len(covariates), 0
    covariates, _ = sksurv.datasets.load_bmt()
    yield len(steropes.datasets.load_bone_marrow_transplants()), len(covariates), 0


@row("`restricted_mean_survival_time`")
def _() -> Pairs:
    theirs = lifelines.KaplanMeierFitter().fit(table()["T"], table()["E"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its numerical integration of a step function
        mean = restricted_mean_survival_time(theirs, t=1.5)
    yield steropes.kaplan_meier(outcome()).restricted_mean(1.5).value, mean, 1e-3
