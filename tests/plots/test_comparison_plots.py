"""Plots of studies: they draw the numbers of the tables, and refuse tables without them."""

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from tests.plots.test_plots import texts_inside

import steropes
from steropes import DataError, designs, plots
from steropes.studies import DEMO, synthetic_database

mpl.use("Agg")

SCORES = np.linspace(0, 1, 21)
DENSITIES = pd.DataFrame(
    {
        "preference_score": SCORES,
        "target_density": 6 * SCORES * (1 - SCORES),
        "comparator_density": 12 * SCORES * (1 - SCORES) ** 2,
    }
)
BALANCE = pd.DataFrame(
    {
        "covariate_name": ["age", "sex", "a drug", "rare"],
        "std_diff_before": [0.30, -0.20, 0.05, np.nan],
        "std_diff_after": [-0.02, -0.12, 0.01, 0.5],
    },
    index=[7, 3, 5, 1],
)
RULES = pd.DataFrame(
    {"rule": ["all", "new users", "matched"], "target": [900, 880, -5], "comparator": [400, 400, 7]}
)
CONTROLS = pd.DataFrame({"log_rr": [0.1, 2.0, np.nan], "se_log_rr": [0.2, 0.3, 0.1]})
RATIOS = pd.DataFrame(
    {"rr": [1.35, np.nan, 2.0], "ci_95_lb": [1.11, np.nan, 0.0], "ci_95_ub": [1.67, np.nan, 9.0]},
    index=["crude", "matched", "one event"],
)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_score_overlap_draws_both_densities():
    ax = plots.score_overlap(DENSITIES, names=("Celecoxib", "Diclofenac"))
    for line, arm in zip(ax.lines, ("target", "comparator"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), DENSITIES[f"{arm}_density"])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["Celecoxib", "Diclofenac"]
    texts_inside(ax)


def test_covariate_balance_draws_absolute_differences_that_are_known():
    dots = plots.covariate_balance(BALANCE, threshold=0.1).lines[-1]
    np.testing.assert_allclose(dots.get_xdata(), [0.30, 0.20, 0.05])
    np.testing.assert_allclose(dots.get_ydata(), [0.02, 0.12, 0.01])


def test_a_love_plot_shows_the_most_unequal_covariates_after_and_before_adjustment():
    ax = plots.love_plot(BALANCE, most=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "sex"]
    before, after = ax.lines[:2]
    np.testing.assert_allclose(before.get_xdata(), [0.30, -0.20])
    np.testing.assert_allclose(after.get_xdata(), [-0.02, -0.12])
    texts_inside(ax)


def test_a_love_plot_of_several_methods_has_a_colour_for_each():
    other = BALANCE.assign(std_diff_after=-BALANCE["std_diff_after"])
    both = pd.concat([BALANCE.assign(method="matching"), other.assign(method="weights")])
    ax = plots.love_plot(both)
    first, second = (dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
                     for line in ax.lines[1:3])  # fmt: skip
    assert {-x: y for x, y in second.items()} == first
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["before", "matching", "weights"]
    texts_inside(ax)
    with pytest.raises(DataError, match="same covariates"):
        plots.love_plot(both.iloc[1:])


def test_attrition_shows_bounds_and_no_difference_from_which_a_count_follows():
    ax = plots.attrition(RULES, names=("New", "Old"))
    texts = [text.get_text() for text in ax.texts]
    for shown in ("900", "880", "<5", "400", "7", "−20", "−393", "New", "Old", "matched"):
        assert shown in texts
    assert len([t for t in texts if t.startswith("−")]) == 2
    texts_inside(ax)


def test_control_estimates_are_calibrated_only_with_a_systematic_error():
    ax = plots.control_estimates(CONTROLS)
    assert len(ax.lines) == 4  # truth, two limits, dots
    np.testing.assert_allclose(ax.lines[-1].get_xdata(), np.exp([0.1, 2.0]))
    calibrated = plots.control_estimates(CONTROLS, mean=0.1, sd=0.2)
    assert len(calibrated.lines) == 6
    lower = calibrated.lines[2]
    se = lower.get_ydata()[-1]
    assert math.log(lower.get_xdata()[-1]) == pytest.approx(0.1 - 1.959964 * math.hypot(se, 0.2))


def test_a_forest_of_ratios_is_that_of_their_logarithms():
    ax = plots.ratio_forest(RATIOS, ratio="Rate ratio")
    assert ax.get_xlabel() == "Rate ratio (log scale)"
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots, [1.35, 2.0])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [1.11, 1.67])
    arrows = [line for line in ax.lines if line.get_marker() == "<"]
    assert len(arrows) == 1  # the limit at zero
    texts_inside(ax)


@pytest.mark.parametrize(
    ("draw", "table", "message"),
    [
        (plots.score_overlap, DENSITIES.assign(target_density=np.nan), "an arm has too few people"),
        (plots.covariate_balance, BALANCE.iloc[3:], "No covariate has a difference"),
        (plots.love_plot, BALANCE.drop(columns="covariate_name"), "lacks"),
        (plots.attrition, RULES.iloc[:0], "no rules"),
        (plots.control_estimates, CONTROLS.iloc[2:], "No control has an estimate"),
        (plots.ratio_forest, RATIOS.assign(rr=-1.0), "cannot be negative"),
    ],
)
def test_tables_without_numbers_are_refused(draw, table, message):
    with pytest.raises(DataError, match=message):
        draw(table)


def test_balance_tables_of_the_library_draw_their_covariates():
    rng = np.random.default_rng(2)
    people = pd.DataFrame({"age": rng.normal(size=60), "male": rng.integers(0, 2, 60)})
    treated = rng.integers(0, 2, 60)
    weights = rng.uniform(0.5, 2.0, 60)
    adjusted = designs.balance_table(people, treated, weights)
    for result in (
        adjusted,
        designs.balance_table(people, treated),
        designs.covariate_balance(people, treated, after=weights),
        adjusted.iloc[[1, 0, 1]],  # an index with duplicates
    ):
        ax = result.plot()
        assert {label.get_text() for label in ax.get_yticklabels()} == {"age", "male"}
    assert plots.covariate_balance(adjusted).has_data()
    with pytest.raises(DataError, match="after adjustment"):
        plots.covariate_balance(designs.balance_table(people, treated))
    assert adjusted.paper_table().columns[2] == "Target mean before"


def test_estimates_of_designs_draw_themselves():
    estimate = designs.effects.Estimate(
        log_rr=0.693, se=0.2, lower=0.301, upper=1.085, kind="poisson"
    )
    assert estimate.plot().get_xlabel() == "Rate ratio (log scale)"
    people = pd.DataFrame({"treated": [1, 1, 1, 0, 0, 0], "time": [5, 8, 9, 3, 6, 9]})
    effect = designs.effects.absolute_effect(people.assign(event=[1, 0, 1, 1, 1, 0]), horizon=6)
    assert effect.plot().get_xlabel() == "Risk difference"


def test_syntheses_and_controls_draw_themselves():
    y, se = np.array([0.1, -0.2, 0.4, 0.3]), np.full(4, 0.1)
    grid = np.linspace(-2.0, 2.0, 81)
    profiles = [designs.evidence.Profile(grid, -(((grid - x) / 0.2) ** 2) / 2) for x in y]
    error = designs.controls.fit_systematic_error(y, se)
    shown = (np.zeros(4), np.ones(4), np.arange(4))
    for result, label in (
        (designs.evidence.combine_normal(y, se), "Ratio (log scale)"),
        (designs.evidence.random_effects(profiles), "Ratio (log scale)"),
        (designs.controls.calibrate(0.4, 0.1, error), "Ratio (log scale)"),
        (designs.controls.leave_one_out(y, se), "Ratio (log scale)"),
        (
            designs.controls.ControlEstimates(y, se, y - 0.2, y + 0.2, *shown),
            "Estimated ratio (log scale)",
        ),
    ):
        assert result.plot().get_xlabel() == label


def test_tables_of_a_study_draw_themselves():
    settings = steropes.StudySettings(**DEMO, folds=5, tie_orders=0)
    study = steropes.comparative_study(synthetic_database(600), settings)
    for result in (
        study.attrition,
        study.balance,
        study.rates,
        study.hazard_ratios,
        study.curves(),
    ):
        result.plot(ax=pyplot.figure().add_subplot())
    assert study.curves().plot().get_ylabel() == "Survival"
    drawn = study.hazard_ratios.plot()
    assert drawn.get_xlabel() == "Hazard ratio (log scale)"
    paper = study.hazard_ratios.paper_table()
    assert paper.columns.tolist()[:3] == ["People", "Events", "Hazard ratio (95% CI)"]
    assert paper.index.tolist() == ["crude", "matched", "matched, stratified"]
