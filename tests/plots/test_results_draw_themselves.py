"""Every result of the library has a plot, which draws that very result."""

import inspect
import pickle
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

import steropes
from steropes import DataError, Laplace, Normal, Surv
from steropes.data.plottable_result_tables import ResultTable
from steropes.designs import compare_means, surveillance
from steropes.designs.evidence.profile_interpolation import NormalProfile

mpl.use("Agg")

GROUPS = ("inference", "curves", "effects", "checks", "validation")
# Functions that return numbers or arrays of one number for each row, or draw by themselves.
NUMBERS = {
    "curves.expected_events", "curves.restricted_mean", "validation.concordance",
    "checks.plot_alpha", "integrated_brier_score", "glmnet_lambda", "variance_from_glmnet",
    "as_design", "Surv", "Censored",
}  # fmt: skip


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def fits():
    """Small models of each kind."""
    rng = np.random.default_rng(5)
    n = 90
    X = pd.DataFrame({"drug": (rng.random(n) < 0.5) * 1.0, "age": rng.normal(size=n)})
    eta = X["drug"] - 0.5 * X["age"]
    time, code = rng.exponential(np.exp(-eta)), 1 + (rng.random(n) < 0.3)
    y = Surv(np.round(time, 2) + 0.01, (rng.random(n) < 0.8) * 1)
    causes = Surv(y["time"], y["event"] * code)
    binary = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1
    number = np.round(eta + rng.normal(size=n), 1)
    return SimpleNamespace(
        X=X, y=y, causes=causes, binary=binary, number=number,
        groups=np.where(np.arange(n) % 2, "north", "south"),
        cox=steropes.CoxRegression().fit(X, y),
        fine_gray=steropes.FineGrayRegression().fit(X, causes),
        logistic=steropes.LogisticRegression().fit(X, binary),
        ridge=steropes.LogisticRegression(prior=Normal(0.5)).fit(X, binary),
        lasso=steropes.LogisticRegression(prior=Laplace(0.1)).fit(X, binary),
        searched=steropes.LogisticRegression(prior=Laplace(), cv=3).fit(X, binary),
        criterion=steropes.LogisticRegression(
            prior=Laplace(), cv=steropes.InformationCriterion("bic")
        ).fit(X, binary),
        classes=steropes.MultinomialLogisticRegression().fit(
            X, np.array(["a", "b", "c"])[binary + (rng.random(n) < 0.4)]
        ),
        cumulative=steropes.CumulativeProbabilityModel().fit(X, number),
        linear=steropes.LinearRegression().fit(X, number),
    )  # fmt: skip


# A result of each public function; several where families differ.
def compared(m):
    """Compare people with the drug with others."""
    table = m.X.assign(died=m.binary)
    return steropes.compare_groups(table, treatment="drug", outcome="died", covariates=["age"])


def series(m):
    """A case series from tables."""
    people = pd.DataFrame({"id": range(12), "start": 1, "end": 100})
    doses = pd.DataFrame({"id": range(12), "start": 30})
    events = pd.DataFrame({"id": range(12), "day": [32, 35, 38, *range(5, 95, 10)]})
    return steropes.self_controlled_case_series(events, doses, people, risk_periods=(0, 9))


RESULTS = {
    "inference.bootstrap": [lambda m: m.cox.inference.bootstrap(8, random_state=0)],
    "inference.debiased_lasso": [lambda m: m.lasso.inference.debiased_lasso("drug")],
    "inference.linear_combination": [lambda m: m.cox.inference.linear_combination("drug - age")],
    "inference.linear_hypothesis": [lambda m: m.cox.inference.linear_hypothesis("drug = age")],
    "inference.model_tests": [lambda m: m.cox.inference.model_tests()],
    "inference.posterior": [
        lambda m: m.ridge.inference.posterior(["drug"], n=300, warmup=300, random_state=0)
    ],
    "inference.profile": [
        lambda m: m.cox.inference.profile("drug"),
        lambda m: m.cox.inference.profile("drug - age", [0.0, 1.0, 2.0]),
        lambda m: m.cox.inference.profile(["drug"], [0.0, 1.0]),
    ],
    "inference.term_tests": [
        lambda m: m.cox.inference.term_tests(), lambda m: m.classes.inference.term_tests(),
    ],
    "curves.baseline_hazard": [
        lambda m: m.cox.curves.baseline_hazard(), lambda m: m.fine_gray.curves.baseline_hazard(),
    ],
    "curves.incidence": [lambda m: m.fine_gray.curves.incidence(m.X[:2])],
    "curves.quantile": [
        lambda m: m.cox.curves.quantile(m.X[:3], level=0.9),
        lambda m: m.cox.curves.quantile(m.X[:3], [0.25, 0.5], level=0.9),
    ],
    "curves.standardized_incidence": [
        lambda m: m.fine_gray.curves.standardized_incidence(m.X, by="drug")
    ],
    "curves.standardized_survival": [
        lambda m: m.cox.curves.standardized_survival(m.X, by="drug"),
        lambda m: m.cox.curves.standardized_survival(m.X, by="drug").ratios,
        lambda m: m.cox.curves.standardized_survival(m.X).restricted_means,
    ],
    "curves.survival": [lambda m: m.cox.curves.survival(m.X[:2])],
    "effects.average": [
        lambda m: m.logistic.effects.average(m.X), lambda m: m.classes.effects.average(m.X),
    ],
    "effects.partial": [
        lambda m: m.cox.effects.partial("age", scale="ratio"),
        lambda m: m.classes.effects.partial("age"),
        lambda m: m.logistic.effects.partial("drug", scale="response"),
    ],
    "effects.predictions": [
        lambda m: m.cox.effects.predictions(m.X[:3], "ratio"),
        lambda m: m.classes.effects.predictions(m.X[:2], "response"),
        lambda m: m.linear.effects.predictions(m.X[:2], "observation"),
    ],
    "effects.terms": [lambda m: m.cox.effects.terms(m.X)],
    "checks.assumptions": [lambda m: m.cox.checks.assumptions()],
    "checks.parallelism": [
        lambda m: m.cumulative.checks.parallelism(m.X, m.number),
        lambda m: m.cumulative.checks.parallelism(m.X, m.number).test,
    ],
    "checks.proportionality": [lambda m: m.cox.checks.proportionality()],
    "checks.residuals": [
        lambda m: m.cox.checks.residuals("scaled_schoenfeld"),
        lambda m: m.logistic.checks.residuals("dfbeta"),
        lambda m: m.classes.checks.residuals("response"),
    ],
    "validation.calibration_curve": [
        lambda m: m.logistic.validation.calibration_curve(n=3, random_state=0)
    ],
    "validation.time_dependent_auc": [
        lambda m: m.cox.validation.time_dependent_auc(m.X, m.y, [0.3, 0.6])
    ],
    "validation.validate": [lambda m: m.logistic.validation.validate(3, random_state=0)],
    "aalen_johansen": [
        lambda m: steropes.aalen_johansen(m.causes),
        lambda m: steropes.aalen_johansen(m.causes, groups=m.groups),
        lambda m: steropes.aalen_johansen(m.causes).table(),
    ],
    "brier_score": [
        lambda m: steropes.brier_score(
            1 - m.cox.predict_survival(m.X, [0.3, 0.6]), m.y, [0.3, 0.6]
        )
    ],
    "calibration_table": [
        lambda m: steropes.calibration_table(
            m.logistic.predict_proba(m.X)[:, 1], m.binary, bins=3
        )
    ],
    "coefficient_path": [
        lambda m: steropes.coefficient_path(
            steropes.LogisticRegression(prior=Laplace()), m.X, m.binary, n_variances=3
        ),
        lambda m: steropes.coefficient_path(
            steropes.LogisticRegression(prior=Laplace()), m.X, m.binary, [0.1]
        ),
    ],
    "compare_groups": [compared, lambda m: compared(m).effects, lambda m: compared(m).balance],
    "compare_links": [
        lambda m: steropes.compare_links(
            steropes.CumulativeProbabilityModel(), m.X, m.number, ["logit", "probit"]
        )
    ],
    "compare_nested_fits": [
        lambda m: steropes.compare_nested_fits(
            steropes.LogisticRegression().fit(m.X[["age"]], m.binary), m.logistic
        )
    ],
    "decision_curve": [
        lambda m: steropes.decision_curve(m.logistic.predict_proba(m.X)[:, 1], m.binary)
    ],
    "fit_many": [
        lambda m: steropes.fit_many(
            steropes.LogisticRegression(), m.X, {"event": m.binary, "none": 1 - m.binary}
        )
    ],
    "kaplan_meier": [
        lambda m: steropes.kaplan_meier(m.y),
        lambda m: steropes.kaplan_meier(m.y, groups=m.groups),
        lambda m: steropes.kaplan_meier(m.y).table(),
    ],
    "logrank_test": [lambda m: steropes.logrank_test(m.y, m.groups)],
    "pairwise_logrank_test": [lambda m: steropes.pairwise_logrank_test(m.y, m.groups)],
    "restricted_mean_test": [lambda m: steropes.restricted_mean_test(m.y, m.groups, 0.5)],
    "self_controlled_case_series": [
        series, lambda m: series(m).estimates, lambda m: series(m).summary(),
    ],
    "time_dependent_auc": [
        lambda m: steropes.time_dependent_auc(m.cox.predict(m.X), m.y, times=[0.3, 0.6])
    ],
    "validate_by_group": [
        lambda m: steropes.validate_by_group(
            steropes.LogisticRegression(), m.X, m.binary, m.groups
        )
    ],
    "summary": [
        lambda m: m.cox.summary(), lambda m: m.linear.summary(), lambda m: m.classes.summary(),
        lambda m: m.cumulative.summary(), lambda m: m.lasso.summary(kind="bootstrap"),
    ],
    "confint": [lambda m: m.cox.confint(), lambda m: m.linear.confint(method="profile")],
    "alpha_summary": [lambda m: m.cumulative.alpha_summary()],
    "predict_quantile": [lambda m: m.cumulative.predict_quantile(m.X[:3], level=0.9)],
    "designs.compare_means": [lambda m: compare_means(m.binary, m.X["drug"])],
    "designs.disproportionality": [
        lambda m: surveillance.disproportionality(
            pd.DataFrame({"observed": [6], "drug_total": [60], "event_total": [30], "total": 900})
        )
    ],
    "designs.correct_bias": [lambda m: surveillance.correct_bias(NormalProfile(0.8, 0.3), None)],
    "designs.monitor_posteriors": [
        lambda m: surveillance.monitor_posteriors(
            pd.DataFrame({"look": [1, 2], "log_rr": [0.6, 0.7], "se": [0.5, 0.3]})
        )
    ],
    "cv_results_": [lambda m: m.searched.cv_results_, lambda m: m.criterion.cv_results_],
}  # fmt: skip


def public_functions():
    """Names of functions of the package, and of those in the groups of models."""
    for name in steropes.__all__:
        if inspect.isfunction(getattr(steropes, name)):
            yield name
    classes = [getattr(steropes, name) for name in steropes.__all__]
    models = [c for c in classes if isinstance(c, type) and issubclass(c, steropes.PenalizedModel)]
    for group in GROUPS:
        for owner in {getattr(model, group, None) for model in models} - {None}:
            for name in vars(owner) | (vars(owner.__mro__[1]) if len(owner.__mro__) > 2 else {}):
                if not name.startswith("_"):
                    yield f"{group}.{name}"


def test_every_function_with_a_result_is_drawn_here():
    assert set(public_functions()) - NUMBERS <= set(RESULTS)


@pytest.mark.sampled
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_draws_itself(fits, name):
    for result in RESULTS[name]:
        axes = result(fits).plot()
        for ax in np.ravel(np.asarray(axes, object)):
            assert isinstance(ax, Axes)
            assert ax.has_data()
        pyplot.gcf().canvas.draw()


def test_a_summary_is_drawn_as_the_ratio_of_its_family(fits):
    for model, label in (
        (fits.cox, "Hazard ratio (log scale)"),
        (fits.fine_gray, "Subdistribution hazard ratio (log scale)"),
        (fits.logistic, "Odds ratio (log scale)"),
        (fits.linear, "Coefficient"),
    ):
        ax = model.summary().plot()
        assert ax.get_xlabel() == label
        assert [text.get_text() for text in ax.get_yticklabels()] == ["drug", "age"]


def test_selected_rows_and_pickles_keep_the_plot_and_pandas_has_its_own(fits):
    table = fits.cox.summary()
    for some in (
        table.loc[["age"]],
        table.drop("drug"),
        pickle.loads(pickle.dumps(table)).iloc[1:],
    ):
        assert [text.get_text() for text in some.plot().get_yticklabels()] == ["age"]
    assert len(table.plot.bar(y="coef").patches) == 2
    assert len(table.plot(kind="line", y="coef").lines) == 1
    with pytest.raises(DataError, match="lacks"):
        table[["coef", "se"]].plot()


def test_tables_without_a_column_that_names_rows_use_the_others(fits):
    table = steropes.restricted_mean_test(fits.y, fits.groups)
    some = table.drop(columns="group")
    names = [text.get_text() for text in some.plot().get_yticklabels()]
    assert names == [str(name) for name in table["reference"]]
    assert list(some.paper_table().index) == list(table["reference"])
    none = table.drop(columns=["group", "reference"]).paper_table()
    assert list(none.index) == list(table.index)


def test_results_equal_plain_tables_in_tests_of_users(fits):
    result = fits.cox.summary()
    plain = pd.DataFrame(result)
    assert type(plain) is pd.DataFrame
    assert type(result) is ResultTable
    pd.testing.assert_frame_equal(result, plain)
    pd.testing.assert_frame_equal(plain, result)
    test = fits.cox.inference.linear_hypothesis("drug = age")
    pd.testing.assert_series_equal(pd.Series(test), test)
    pd.testing.assert_series_equal(test, pd.Series(test))


def test_a_figure_of_too_many_lines_is_refused(fits):
    with pytest.raises(DataError, match=r"has 300 rows.*head"):
        fits.cox.effects.predictions(np.zeros((300, 2))).plot()


def test_a_result_without_matplotlib_names_the_extra(fits, monkeypatch):
    table = fits.cox.summary()
    pyplot.close("all")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"steropes\[plots\]"):
        table.plot()
