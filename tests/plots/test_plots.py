"""Pictures: that what is drawn is what the tables say, all of it inside of the figure."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection

import steropes
from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    InformationCriterion,
    Laplace,
    LogisticRegression,
    Surv,
    plots,
)
from tuning import tune_path

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    before = dict(mpl.rcParams)
    yield
    pyplot.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture(scope="module")
def survival():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"drug": (rng.random(200) < 0.5) * 1.0, "age": rng.normal(size=200)})
    time = np.ceil(rng.exponential(np.exp(-X["drug"] - 0.5 * X["age"])) * 50)
    code = np.where(rng.random(200) < 0.7, 1 + (rng.random(200) < 0.3), 0)
    return X, time, code


@pytest.fixture(scope="module")
def logistic():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(150, 10)), columns=[f"a drug called {j}" for j in range(10)])
    y = (rng.random(150) < 1 / (1 + np.exp(-X.to_numpy()[:, :3].sum(axis=1)))) * 1
    return X, y


def texts_inside(ax):
    """Every word of the figure is on the canvas."""
    figure = ax.get_figure(root=True)
    figure.draw_without_rendering()
    canvas = figure.bbox.padded(1)
    words = [t for a in figure.axes for t in a.texts]
    words += [t for a in figure.axes for t in (*a.get_xticklabels(), *a.get_yticklabels())]
    words += [x for a in figure.axes for x in (a.xaxis.label, a.yaxis.label, a.title)]
    shown = [t for t in words if t.get_text() and t.get_visible()]
    renderer = figure.canvas.get_renderer()
    assert shown
    for t in shown:
        low, high = t.get_window_extent(renderer).get_points()
        if t in ax.texts or t in (ax.xaxis.label, ax.yaxis.label, ax.title):
            assert canvas.contains(*low), t.get_text()
            assert canvas.contains(*high), t.get_text()


def crowded(ax):
    """Texts of the axes that lie on one another."""
    renderer = ax.get_figure(root=True).canvas.get_renderer()
    boxes = [t.get_window_extent(renderer).shrunk(0.9, 0.8) for t in ax.texts if t.get_text()]
    boxes.append(ax.xaxis.label.get_window_extent(renderer))
    return sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_survival_curves_and_numbers_at_risk(survival):
    X, time, code = survival
    groups = np.where(X["drug"] == 1, "new", "an older one")
    curves = steropes.kaplan_meier(Surv(time, code > 0), groups)
    ax = plots.survival_curves(curves, time_label="Days")
    for line, curve in zip(ax.lines, curves.values(), strict=True):
        x, y = line.get_data()
        np.testing.assert_array_equal(y[1 : 1 + len(curve.times)], curve.survival)
        assert (x[0], y[0]) == (0, 1)
    bands = [c for c in ax.collections if isinstance(c, PolyCollection)]
    assert len(bands) == 2
    words = [t.get_text() for t in ax.texts]
    assert words[0] == "At risk"
    ticks = ax.get_xticks()
    for label, curve in curves.items():
        at = words.index(label)
        numbers = [int(w) for w in words[at + 1 : at + 1 + len(ticks)]]
        assert numbers == [int(((time >= t) & (groups == label)).sum()) for t in ticks]
        assert curve.at_risk[0] == numbers[0]
    texts_inside(ax)
    assert not crowded(ax)
    alone = plots.survival_curves(curves["new"], until=100)
    assert alone.get_xlim() == (0, 100)
    texts_inside(alone)
    assert not crowded(alone)


def test_curves_of_a_model(survival):
    X, time, code = survival
    m = CoxRegression().fit(X, Surv(time, code > 0))
    table = m.curves.survival(X.iloc[:3])
    ax = plots.survival_curves(table)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["row 0", "row 1", "row 2"]
    first = table[table["row"] == 0]["survival"].to_numpy()
    np.testing.assert_array_equal(ax.lines[0].get_ydata()[1 : 1 + len(first)], first)
    found = m.curves.standardized_survival(X, [10, 20, 40], by="drug")
    ax = plots.survival_curves(found.survival)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["drug 0", "drug 1"]


def test_incidence_curves(survival):
    X, time, code = survival
    curves = steropes.aalen_johansen(Surv(time, code))
    ax = plots.incidence_curves(curves)
    for j, line in enumerate(ax.lines):
        y = line.get_ydata()[1 : 1 + len(curves.times)]
        np.testing.assert_array_equal(y, curves.incidence[:, j])
    texts_inside(ax)
    assert not crowded(ax)
    grouped = steropes.aalen_johansen(Surv(time, code), X["drug"].map({0: "old", 1: "new"}))
    ax = plots.incidence_curves(grouped, cause=2)
    assert ax.get_ylabel() == "Cumulative incidence of cause 2"
    with pytest.raises(DataError, match="no cause 3"):
        plots.incidence_curves(grouped, cause=3)
    with pytest.raises(DataError, match="aalen_johansen gives"):
        plots.incidence_curves({"a": 1})


def test_coefficient_paths(logistic):
    X, y = logistic
    model = LogisticRegression(prior=Laplace(0.3), cv=3)
    variances = np.geomspace(1e-3, 1, 6)
    path = steropes.coefficient_path(model, X, y, variances[::-1])
    assert model.cv == 3
    assert model.prior.variance == 0.3
    np.testing.assert_allclose(path.index, variances)
    alone = LogisticRegression(prior=Laplace(variances[2])).fit(X, y)
    np.testing.assert_allclose(path.iloc[2], alone.coef_, atol=1e-7)
    assert list(path.columns) == list(X.columns)
    ax = plots.coefficient_paths(path, chosen=0.1, label=3)
    named = [t.get_text() for t in ax.texts][1:]
    assert named == list(path.iloc[-1].abs().sort_values(ascending=False).index[:3])
    texts_inside(ax)
    assert not crowded(ax)
    with pytest.raises(DataError, match="no prior"):
        steropes.coefficient_path(LogisticRegression(), X, y, variances)
    with pytest.raises(DataError, match="must be positive"):
        steropes.coefficient_path(model, X, y, [0.0])


def test_cross_validation_curve(logistic):
    X, y = logistic
    m = LogisticRegression(prior=Laplace(1.0), cv=CrossValidation(3, random_state=2)).fit(X, y)
    ax = plots.cross_validation_curve(m)
    table = m.cv_results_.sort_values("variance")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), table["variance"])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["mean"])
    assert f"chosen: {m.variance_:.3g}" in ax.get_legend().get_texts()[0].get_text()
    texts_inside(ax)
    with pytest.raises(DataError, match="without cross-validation"):
        plots.cross_validation_curve(LogisticRegression().fit(X, y))
    m = LogisticRegression(prior=Laplace(), cv=InformationCriterion("bic")).fit(X, y)
    ax = plots.cross_validation_curve(m)
    table = m.cv_results_.sort_values("variance")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["criterion"])
    assert "the smallest BIC" in ax.get_legend().get_texts()[0].get_text()
    texts_inside(ax)


def test_cross_validation_curve_shows_slopes_that_the_search_found(logistic, monkeypatch):
    tune_path(monkeypatch, min_nonzero_for_slope=0)
    X, y = logistic
    m = LogisticRegression(prior=Laplace(1.0), cv=CrossValidation(3, random_state=2)).fit(X, y)
    last = m.cv_results_[m.cv_results_["slope"].notna()].iloc[-1]
    lines = [line.get_data() for line in plots.cross_validation_curve(m).lines]
    sloping = [data for data in lines if len(data[0]) == 2 and np.isfinite(data[1]).all()]
    x, at = [data for data in sloping if np.ptp(data[0]) > 0][-1]  # not the line of the choice
    np.testing.assert_allclose(np.diff(at) / np.diff(np.log(x)), last["slope"])
    np.testing.assert_allclose(at.mean(), last["mean"])


def test_cross_validation_curve_of_one_fold_is_all_in_the_picture(logistic):
    X, y = logistic
    rows = np.arange(len(y))
    cv = CrossValidation([(rows[::2], rows[1::2])])
    m = LogisticRegression(prior=Laplace(1.0), cv=cv).fit(X, y)
    low, high = plots.cross_validation_curve(m).get_ylim()
    assert m.cv_results_["mean"].between(low, high).all()


def test_profile_curve_has_the_interval_of_confint(survival):
    X, time, code = survival
    m = CoxRegression().fit(X, Surv(time, code > 0))
    ax = plots.profile_curve(m.inference.profile("drug"), name="drug")
    lower, upper = m.confint("drug", method="profile").iloc[0]
    shown = [float(t.get_text().replace("−", "-")) for t in ax.texts]
    assert shown == pytest.approx([lower, upper], rel=5e-3)
    assert ax.get_xlabel() == "drug"
    texts_inside(ax)
    open_ended = m.inference.profile("drug", points=np.linspace(0, m.coef_[0] + 0.1, 9))
    assert "to beyond " in plots.profile_curve(open_ended).get_title()
    rising = m.inference.profile("drug", points=np.linspace(0, m.coef_[0] - 0.1, 9))
    assert "not known, as the profile rises to its" in plots.profile_curve(rising).get_title()
    with pytest.raises(DataError, match="lacks"):
        plots.profile_curve(open_ended.drop(columns="gradient"))


def test_forest_shades_by_the_share_of_draws(logistic):
    X, y = logistic
    m = LogisticRegression(prior=Laplace(0.02)).fit(X, y)
    drawn = m.inference.bootstrap(20, random_state=1)
    table = drawn.confint(0.9)
    table.insert(0, "coef", [m.intercept_, *m.coef_])
    ax = plots.forest(table, shade=drawn.nonzero)
    assert [t.get_text() for t in ax.get_yticklabels()] == list(table.index)
    lines = [line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_lw() > 2]
    np.testing.assert_allclose([line.get_xdata() for line in lines], table[["lower", "upper"]])
    shade = np.array([mpl.colors.to_rgb(line.get_color())[0] for line in lines])
    share = np.asarray(drawn.nonzero)
    assert (np.diff(shade[np.argsort(share)]) <= 0).all()  # the surer, the darker
    texts_inside(ax)
    with pytest.raises(DataError, match="between 0 and 1"):
        plots.forest(table, shade=share + 1)


def test_forest_of_ratios_with_a_limit_at_infinity(survival):
    X, time, code = survival
    s = CoxRegression().fit(X, Surv(time, code > 0)).summary()
    s.loc["age", "upper"] = np.inf
    ax = plots.forest(s, exponentiate=True)
    assert ax.get_xscale() == "log"
    line = ax.lines[0].get_xdata()
    np.testing.assert_allclose(line, np.exp(s.loc["drug", ["lower", "upper"]].astype(float)))
    assert any(line.get_marker() == ">" for line in ax.lines)
    texts_inside(ax)


@pytest.mark.parametrize("log_time", [False, True])
def test_schoenfeld_residuals_with_a_smooth(survival, log_time):
    X, time, code = survival
    m = CoxRegression().fit(X, Surv(time, code > 0))
    ax = plots.schoenfeld_residuals(m, "age", log_time=log_time)
    s = m.checks.residuals("scaled_schoenfeld", "age")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), s["age"])
    x, smooth = ax.lines[1].get_data()
    # the same by formulaic's natural splines, with knots at the same quantiles
    from formulaic import model_matrix

    t = np.log(s.index) if log_time else s.index.to_numpy()
    knots = np.quantile(np.unique(t), [0.25, 0.5, 0.75])
    names = {"t": t, "knots": list(knots)}
    B = model_matrix("cr(t, knots=knots)", pd.DataFrame({"t": t}), context=names)
    fitted = B @ np.linalg.lstsq(B.to_numpy(), s["age"].to_numpy(), rcond=None)[0]
    drawn = np.interp(t, np.log(x) if log_time else x, smooth)
    np.testing.assert_allclose(drawn, fitted, atol=2e-2 * np.ptp(smooth))
    texts_inside(ax)
    with pytest.raises(DataError, match="df must be"):
        plots.schoenfeld_residuals(m, "age", df=1)


def test_calibration_picture(logistic):
    X, y = logistic
    risk = LogisticRegression().fit(X, y).predict_proba(X)[:, 1]
    table = steropes.calibration_table(risk, y, bins=5)
    ax = plots.calibration(table)
    dots = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(dots, table[["predicted", "observed"]])
    texts_inside(ax)


def test_the_table_of_a_calibration_curve_is_drawn(logistic):
    X, y = logistic
    model = LogisticRegression().fit(X, y)
    table = model.validation.calibration_curve(n=3, points=8, random_state=1)
    ax = plots.calibration(table)
    lines = {line.get_label(): line for line in ax.get_lines()}
    for name, column in (("apparent", "apparent"), ("corrected for optimism", "corrected")):
        np.testing.assert_array_equal(lines[name].get_xdata(), table["predicted"])
        np.testing.assert_array_equal(lines[name].get_ydata(), table[column])
    texts_inside(ax)


def test_long_names_leave_room_for_the_picture(logistic):
    name = "condition_era group during day -365 through 0 days relative to index: gout"
    table = pd.DataFrame({"coef": [0.1] * 30, "lower": -0.2, "upper": 0.4})
    table.index = [name, *map(str, range(29))]
    ax = plots.forest(table, shade=np.linspace(0, 1, 30))
    texts_inside(ax)
    label = ax.get_yticklabels()[0].get_text()
    assert label.startswith("condition_era")
    assert label.endswith("relative to index: gout")
    figure = ax.get_figure(root=True)
    width = figure.get_size_inches()[0] * figure.dpi
    assert ax.get_window_extent().width > 0.4 * width
    bar = next(a for a in figure.axes if a is not ax)
    assert bar.xaxis.label.get_text() == "Share of draws that are not zero"
    assert figure.bbox.contains(*bar.xaxis.label.get_window_extent().min)
    assert 5 < bar.get_window_extent().height < 20
    path = pd.DataFrame({name: [0.0, 0.2], "b": [0.0, 0.1]}, index=[0.01, 1.0])
    ax = plots.coefficient_paths(path)
    texts_inside(ax)
    assert ax.get_window_extent().width > 0.5 * 7 * figure.dpi


def test_estimates_without_end_have_their_intervals():
    table = pd.DataFrame(
        {"coef": [-np.inf, 0.5, np.nan], "lower": [-np.inf, 0.1, np.nan], "upper": [-0.3, 0.9, 1]}
    )
    ax = plots.forest(table)
    ends = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2]
    assert [max(x) for x in ends[:2]] == [-0.3, 0.9]
    assert sum(line.get_marker() == "<" for line in ax.lines) == 1
    assert sum(line.get_marker() == "o" for line in ax.lines) == 1
    plots.forest(pd.DataFrame({"coef": [np.inf], "lower": [-np.inf], "upper": [np.inf]}))


def test_a_side_without_end_does_not_fill_the_axis():
    x = np.r_[np.linspace(-40, -5, 30), np.linspace(-4.9, 0, 60)]
    y = -5 * np.exp(x)
    profile = pd.DataFrame({"point": x, "log_likelihood": y, "gradient": y})
    ax = plots.profile_curve(profile)
    assert "−∞" in ax.get_title()
    low, high = ax.get_xlim()
    assert -12 < low < -6
    assert high > 0


def test_small_units_do_not_crowd_the_axis(survival):
    x = np.linspace(-0.00112, 0.0009, 21)
    y = -((x / 0.00025) ** 2) / 2
    profile = pd.DataFrame({"point": x, "log_likelihood": y, "gradient": -x / 0.00025**2})
    ax = plots.profile_curve(profile)
    texts_inside(ax)
    boxes = [t.get_window_extent() for t in ax.get_xticklabels() if t.get_text()]
    low, high = ax.get_window_extent().intervalx
    boxes = [b.padded(2) for b in boxes if low <= (b.x0 + b.x1) / 2 <= high]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_curves_of_a_fine_gray_model(survival):
    X, time, code = survival
    m = steropes.FineGrayRegression().fit(X, Surv(time, code))
    table = m.curves.incidence(X.iloc[:2])
    ax = plots.incidence_curves(table)
    first = table[table["row"] == 0]["incidence"].to_numpy()
    np.testing.assert_array_equal(ax.lines[0].get_ydata()[1 : 1 + len(first)], first)
    with pytest.raises(DataError, match="leave cause out"):
        plots.incidence_curves(table, cause=1)
    with pytest.raises(DataError, match="lacks"):
        plots.incidence_curves(table.drop(columns="incidence"))


def test_residuals_on_log_time_have_plain_numbers(survival):
    X, time, code = survival
    m = CoxRegression().fit(X, Surv(time, code > 0))
    ax = plots.schoenfeld_residuals(m, "age", log_time=True)
    assert ax.xaxis.get_major_formatter()(100.0, 0) == "100"
    values = m.checks.residuals("scaled_schoenfeld")["age"]
    low, high = ax.get_ylim()
    assert ((values > low) & (values < high)).mean() > 0.99


def test_pictures_go_onto_the_axes_given(survival):
    X, time, code = survival
    _, (left, right) = pyplot.subplots(1, 2)
    curve = steropes.kaplan_meier(Surv(time, code > 0))
    assert plots.survival_curves(curve, ax=left) is left
    m = CoxRegression().fit(X, Surv(time, code > 0))
    assert plots.forest(m.summary(), ax=right) is right
    assert len(pyplot.get_fignums()) == 1


def test_matplotlib_is_imported_by_a_picture_alone():
    code = "import sys, steropes.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_posterior_draws_show_the_interval_and_each_chain(survival):
    X, time, code = survival
    m = CoxRegression(prior=Laplace(0.1)).fit(X, Surv(time, code == 1))
    posterior = m.inference.posterior(["drug", "age"], n=300, warmup=200, random_state=1)
    axes = plots.posterior_draws(posterior, level=0.8)
    assert axes.shape == (2, 2)
    for (density, trace), name in zip(axes, ["drug", "age"], strict=True):
        limits = posterior.confint(0.8).loc[name]
        ends = density.lines[-2].get_xdata()
        np.testing.assert_allclose(ends, [limits["lower"], limits["upper"]])
        assert density.lines[-1].get_xdata()[0] == posterior.summary().loc[name, "median"]
        for chain in range(4):
            x, height = density.lines[chain].get_data()
            assert np.trapezoid(height, x) == pytest.approx(1.0, abs=0.05)
            values = posterior.draws[chain, :, posterior.names.index(name)]
            np.testing.assert_array_equal(trace.lines[chain].get_ydata(), values)
        assert (density.get_xlabel(), trace.get_ylabel()) == (name, name)
    given = pyplot.subplots(1, 2)[1]
    again = plots.posterior_draws(posterior, "age", axes=given)
    assert again[0, 0] is given[0]
    with pytest.raises(DataError, match="no draws of 'sex'"):
        plots.posterior_draws(posterior, ["sex"])
    with pytest.raises(DataError, match="axes has 1 rows"):
        plots.posterior_draws(posterior, axes=given)
    with pytest.raises(DataError, match="needs the result"):
        plots.posterior_draws(posterior.summary())
