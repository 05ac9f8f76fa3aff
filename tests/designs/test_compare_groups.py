"""Comparisons from any table in one call: published numbers, tables of any library, invariance."""

import re

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression as LogisticModel
from tests.designs.comparison_arguments import COVARIATES, NAMES, only

from steropes import DataError, LogisticRegression, compare_groups
from steropes.designs import Matching, PropensityWeights
from steropes.designs.values.html_page import figures
from steropes.priors import Laplace


@pytest.fixture(scope="module")
def everybody(lalonde):
    return compare_groups(lalonde, **NAMES, adjust=["weights", "entropy", "standardization"])


@pytest.fixture(scope="module")
def treated(lalonde):
    ways = ["matching", "strata", "weights", "entropy", "standardization"]
    return compare_groups(lalonde, **NAMES, estimand="ATT", adjust=ways)


@pytest.fixture(scope="module")
def quitters(nhefs, nhefs_covariates):
    """NHEFS with all covariates of What If as columns, and the names of these."""
    table = nhefs_covariates.assign(
        qsmk=nhefs.qsmk, death=nhefs.death, gain=nhefs.wt82_71, months=months(nhefs)
    )
    return table, list(nhefs_covariates)


def months(nhefs):
    """Months from 1983 to death or the end of 1992, as in What If, program 17.1."""
    died = nhefs.death == 1
    return np.where(died, (nhefs.yrdth - 83) * 12 + nhefs.modth, 120.0)


@pytest.fixture(scope="module")
def survivors():
    """People with a harmful drug, which sicker people get, and a competing event."""
    rng = np.random.default_rng(4)
    n = 1500
    sick = rng.normal(size=n)
    drug = (rng.random(n) < 1 / (1 + np.exp(-sick))) * 1
    time = rng.exponential(np.exp(-0.5 * drug - 0.7 * sick))
    event = np.where(time < 2, 1 + (rng.random(n) < 0.3), 0)
    people = {"sick": sick, "drug": drug, "time": np.minimum(time, 2), "event": event}
    return pd.DataFrame(people).assign(entry=0.0)


def test_standardised_survival_agrees_with_weights(survivors):
    """Both estimate the same marginal risks; the conditional hazard ratio is that of the data."""
    table = survivors.assign(event=(survivors.event > 0) * 1)
    found = compare_groups(
        table, treatment="drug", time="time", event="event", covariates=["sick"],
        adjust=["weights", "standardization"], horizon=1,
    )  # fmt: skip
    for measure in ("risk difference", "restricted mean difference"):
        value, error = only(found, "weights", measure)
        other = only(found, "standardization", measure)
        assert other[0] == pytest.approx(value, abs=error)
        assert other[1] < error * 1.2
    assert only(found, "standardization", "odds ratio")[1] < only(found, "weights", "odds ratio")[1]
    row = found.effects.query("method == 'standardization' and measure == 'risk ratio'")
    assert row["estimate"].item() == pytest.approx((row["target"] / row["comparator"]).item())
    ratio, error = only(found, "standardization", "hazard ratio", "conditional")
    assert np.log(ratio) == pytest.approx(0.5, abs=2 * error)
    assert only(found, "weights", "hazard ratio")[0] < ratio  # not collapsible


def test_all_methods_have_the_same_measures():
    """Means that are not negative have a ratio, by whatever method."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"x": rng.normal(size=200), "drug": [0, 1] * 100})
    people["count"] = rng.poisson(2, 200)
    ways = ["weights", "entropy", "standardization", "aipw"]
    call = {"treatment": "drug", "covariates": ["x"], "adjust": ways}
    measures = compare_groups(people, outcome="count", **call).effects.groupby("method")["measure"]
    assert set(measures.agg(tuple)) == {("mean difference", "mean ratio")}
    people["count"] -= 3
    assert set(compare_groups(people, outcome="count", **call).effects["measure"]) == {
        "mean difference"
    }


def test_competing_events_and_late_entry(survivors):
    names = {"treatment": "drug", "time": "time", "event": "event", "covariates": ["sick"]}
    found = compare_groups(survivors, **names, horizon=1)
    censored = survivors.assign(event=(survivors.event == 1) * 1)
    alone = compare_groups(censored, **names, horizon=1)
    assert only(found, "weights", "hazard ratio") == only(alone, "weights", "hazard ratio")
    risks = [c.effects.query("measure == 'risk difference'")["target"] for c in (found, alone)]
    assert (risks[0] < risks[1]).all()  # a competing event prevents the other
    with pytest.raises(DataError, match="no competing events"):
        compare_groups(survivors, **names, adjust="standardization")
    late = compare_groups(survivors, **names, entry="entry")
    assert set(late.effects["measure"]) == {"rate difference", "rate ratio", "hazard ratio"}
    expected = only(found, "weights", "hazard ratio")
    assert only(late, "weights", "hazard ratio") == pytest.approx(expected, rel=1e-6)
    wrong = survivors.assign(entry=np.where(survivors.index == 3, 9.0, 0.0))
    with pytest.raises(DataError, match="'entry' is not before time 'time' in row 3"):
        compare_groups(wrong, **names, entry="entry")
    with pytest.raises(DataError, match="horizon=7 must be above 0 and at most 2"):
        compare_groups(survivors, **names, horizon=7)


def test_ratios_need_events_in_both_groups(survivors):
    few = survivors.assign(event=lambda d: ((d.drug == 1) & (d.index % 9 == 0)) * 1)
    names = {"treatment": "drug", "time": "time", "event": "event", "covariates": ["sick"]}
    measures = set(compare_groups(few, **names).effects["measure"])
    assert measures == {"rate difference", "risk difference", "restricted mean difference"}


def converted(table, tmp_path):
    """Yield the table as each library has it."""
    yield "polars", pl.from_pandas(table)
    yield "lazy", pl.from_pandas(table).lazy()
    yield "arrow", pa.Table.from_pandas(table)
    yield "duckdb", duckdb.from_df(table)
    path = tmp_path / "people.parquet"
    table.to_parquet(path)
    yield "parquet", path
    table.to_csv(tmp_path / "people.csv", index=False)
    yield "csv", str(tmp_path / "people.csv")


def test_tables_of_all_libraries_give_equal_results(lalonde, treated, tmp_path):
    expected = only(treated, "weights", "mean difference")
    for name, data in converted(lalonde, tmp_path):
        found = compare_groups(data, **NAMES, estimand="ATT", adjust="weights")
        assert only(found, "weights", "mean difference") == expected, name


def test_rows_units_and_names_of_labels_do_not_matter(lalonde, everybody, treated):
    other = lalonde.assign(
        person=np.arange(len(lalonde)), re74=lalonde.re74 / 1000, age=lalonde.age * 365.25,
        race=lalonde.race.map({"black": "z", "hispan": "Ä", "white": "b"}),
        arm=np.where(lalonde.treat == 1, "drug", "none"),
    ).sample(frac=1, random_state=1)  # fmt: skip
    names = {**NAMES, "treatment": "arm", "target": "drug", "id": "person"}
    ways = ["weights", "entropy", "standardization"]
    found = compare_groups(other, **names, adjust=ways)
    for way in ways:
        expected = only(everybody, way, "mean difference")
        assert only(found, way, "mean difference") == pytest.approx(expected, rel=1e-6)
    assert found.names == ("drug", "none")
    ordered = compare_groups(
        lalonde.assign(person=np.arange(len(lalonde))), **NAMES, id="person", estimand="ATT",
        adjust="matching",
    )  # fmt: skip
    found = compare_groups(other, **names, estimand="ATT", adjust="matching")
    effect = only(ordered, "matching", "mean difference")
    assert only(found, "matching", "mean difference") == pytest.approx(effect, rel=1e-6)


def test_a_long_table_equals_the_wide_one(lalonde):
    numbers = ["age", "educ", "married", "nodegree", "re74", "re75"]
    table = lalonde.assign(person=np.arange(len(lalonde)) + 100)
    long = table.melt("person", numbers, "covariate", "value")
    long = long[long["value"] != 0].sample(frac=1, random_state=0)
    common = {"treatment": "treat", "outcome": "re78", "id": "person"}
    ways = [PropensityWeights(model=LogisticRegression()), "entropy"]
    wide = compare_groups(table, **common, covariates=numbers, adjust=ways)
    for data in (long, pl.from_pandas(long)):
        found = compare_groups(table, **common, covariates=data, adjust=ways)
        for way in ("weights", "entropy"):
            expected = only(wide, way, "mean difference")
            assert only(found, way, "mean difference") == pytest.approx(expected, rel=1e-6)
    assert set(found.balance["name"]) == set(numbers)
    drawn = [
        compare_groups(table, **common, covariates=data, adjust=ways[0], bootstrap=3)
        for data in (numbers, long)
    ]
    first, second = (only(found, "weights", "mean difference") for found in drawn)
    assert first == pytest.approx(second, rel=1e-4)


def test_errors_after_a_score_with_a_prior_are_labelled(lalonde):
    model = LogisticRegression(prior=Laplace(variance=1.0))
    found = compare_groups(lalonde, **NAMES, model=model)
    assert found.effects["errors"].iloc[-1] == (
        "robust (HC0) with the weights as known, since the model has a prior"
    )


def test_missing_values_become_indicators_or_an_error(lalonde):
    table = lalonde.astype({"age": float, "educ": float})
    table.loc[::60, ["age", "educ"]] = np.nan
    table.loc[1::60, "race"] = None
    with pytest.raises(DataError, match="'age' is missing in 11 rows, first in row 0"):
        compare_groups(table, **NAMES)
    found = compare_groups(table, **NAMES, missing="indicator")
    names = found.balance["name"].tolist()
    assert "age missing" in names
    assert "educ missing" not in names  # it is equal to that of age
    assert "race[(missing)]" in names


def test_diagnostics_and_representation(treated, everybody):
    checks = treated.diagnostics.set_index(["method", "diagnostic"])
    ties = checks.loc[("matching", "range over 5 orders of tied scores")]
    assert ties["value"] > 0
    assert "ranges from" in ties["note"]
    size = checks.loc[("weights", "effective sample size of the comparator"), "value"]
    assert size == pytest.approx(99.8154, abs=1e-4)
    assert not checks.loc[("weights", "largest standardised difference"), "passed"]
    assert "everybody in either arm (ATE)" in repr(everybody)
    assert "Failed: weights" in repr(everybody)
    assert everybody.weights.shape == (614, 3)
    paper = everybody.effects.paper_table()
    assert len(paper) == 8
    assert paper.columns[1:3].tolist() == list(everybody.names)
    assert "Estimand" not in paper


class Certain(LogisticModel):
    """A user's model whose attributes have the names of steropes' certificate."""

    optimality_ = "not a number"


def test_only_models_of_steropes_are_asked_for_their_certificate(lalonde):
    names = NAMES | {"covariates": ["age", "educ", "married"]}
    found = compare_groups(lalonde, **names, adjust=["entropy", PropensityWeights(model=Certain())])
    rows = found.diagnostics[found.diagnostics["diagnostic"].str.startswith("violation")]
    assert rows["method"].tolist() == ["entropy"]
    assert rows["passed"].all()


def test_plots(treated):
    assert treated.plot().get_xlabel() == "Mean difference"
    assert treated.plot("balance", method="weights").get_xlabel() == "Standardised difference"
    assert treated.plot("overlap").get_xlabel() == "Preference score"
    with pytest.raises(DataError, match="method must be one of"):
        treated.plot("balance", method="nothing")


def test_a_report_has_two_pages_and_the_call_that_repeats_it(quitters, tmp_path):
    table, covariates = quitters
    found = compare_groups(
        table, treatment="qsmk", outcome="death", covariates=covariates, estimand="ATT",
        adjust=[Matching(ratio=2), "weights"],
    )  # fmt: skip
    found.write_report(tmp_path / "page.html")
    found.write_report(tmp_path / "again.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "again.html").read_text(encoding="utf-8")
    for text in (
        "people like the target&#x27;s (ATT)", "people remain", "stacked equations",
        "clustered by matched set", "E-value", "violation of the optimality conditions",
        "Overlap of scores", "treatment=&#x27;qsmk&#x27;,", "Matching(", "At least 15 %",
    ):  # fmt: skip
        assert text in page, text
    words, methods = page.split('<section id="methods"')
    row = found.effects[found.effects["method"] == "matching"].iloc[0]
    per = [f"{1000 * row[name]:.0f}" for name in ("target", "comparator")]
    per += [f"{abs(1000 * row[name]):.2g}" for name in ("estimate", "lower", "upper")]
    for text in (
        f"Of 1,000 such people {per[0]} would have death with qsmk = 1 and {per[1]} with qsmk = 0",
        f"{per[2]} fewer (95 % interval: {per[3]} fewer to {per[4]} more)",
        "No difference at all is compatible with these data", "people like those in the group",
        f"The answer rests on {(found.weights['matching'] > 0).sum():,} of",
        "Before the groups were made comparable it was",
    ):  # fmt: skip
        assert text in words, text
    assert "without scores outside 0.05 to 0.95" in methods
    assert "level=" not in page  # defaults are left out
    assert not any(loaded in page for loaded in ("<script", "<link", "src=", "url(http"))


def test_large_codes_keep_their_digits(lalonde):
    """Concept ids that agree in six digits are groups and labels of their own."""
    codes = np.where(lalonde.treat == 1, 1503297, 1503298)
    people = lalonde.assign(treat=codes, race=pd.Categorical(1503297 + 0.5 * lalonde.married))
    found = compare_groups(people, **NAMES | {"covariates": ["race"]}, target=1503297)
    assert found.names == ("1503297", "1503298")
    assert found.balance["name"].tolist() == ["race", "race[1503297]", "race[1503297.5]"]


@pytest.mark.parametrize("values", [(True, False), (1.0, 0.0), (1, 0)])
def test_a_target_is_found_among_categories_of_any_kind(lalonde, everybody, values):
    arm = pd.Categorical(np.where(lalonde.treat == 1, *values).astype(object))
    found = compare_groups(lalonde.assign(treat=arm), **NAMES, target=values[0])
    assert only(found, "weights", "mean difference") == only(
        everybody, "weights", "mean difference"
    )


def test_covariates_are_an_index_or_an_array_of_names(lalonde, everybody, tmp_path):
    expected = only(everybody, "weights", "mean difference")
    for names in (pd.Index(COVARIATES), np.array(COVARIATES)):
        found = compare_groups(lalonde, **NAMES | {"covariates": names})
        assert only(found, "weights", "mean difference") == expected
    found.write_report(tmp_path / "page.html")
    assert "covariates=[&#x27;age&#x27;, " in (tmp_path / "page.html").read_text("utf-8")


def test_names_of_covariates_are_free(lalonde, everybody, tmp_path):
    """The treatment's name, formulas and tags are names like others, also on the page."""
    new = {"age": "treatment", "educ": "cost $_{ (US$)", "married": "<b>wed</b>"}
    covariates = [new.get(name, name) for name in COVARIATES]
    found = compare_groups(
        lalonde.rename(columns=new), **NAMES | {"covariates": covariates},
        adjust=["weights", "standardization"],
    )  # fmt: skip
    for way in ("weights", "standardization"):
        assert only(found, way, "mean difference") == only(everybody, way, "mean difference")
    found.write_report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<b>wed</b>" not in page
    assert "&lt;b&gt;wed&lt;/b&gt;" in page


def test_table_one_counts_missing_values(lalonde):
    table = lalonde.assign(age=lalonde.age.astype(float).mask(lalonde.index % 200 == 0))
    found = compare_groups(table, **NAMES, missing="indicator").table_one
    assert list(found) == [
        "characteristic", "level", "missing", "overall", "treat = 0", "treat = 1", "smd",
    ]  # fmt: skip
    assert found.set_index("characteristic").loc["age", "missing"] == 4
    race = found[(found.characteristic == "race") & (found.level == "black")]
    assert race["treat = 1"].item() == "156 (84.3%)"


def test_the_weight_of_three_people_fails_a_diagnostic():
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    drug = (x > 0) * 1
    drug[np.argsort(x)[-3:]] = 0
    people = pd.DataFrame({"x": x, "drug": drug, "y": rng.normal(size=400)})
    found = compare_groups(people, treatment="drug", outcome="y", covariates=["x"], estimand="ATT")
    checks = found.diagnostics.query("method == 'weights' and not passed")
    assert "weight of the 3 heaviest of the comparator" in checks["diagnostic"].tolist()
    assert "trim or truncate" in " ".join(checks["note"])


def test_labels_of_a_csv_file_may_be_named_like_missing_values(lalonde, tmp_path):
    names = NAMES | {"covariates": ["age", "race"]}
    labels = lalonde.assign(race=lalonde["race"].replace({"white": "None", "hispan": "null"}))
    path = tmp_path / "people.csv"
    labels.assign(age=lalonde["age"].astype(object).where(lalonde.index % 9 > 0, "None")).to_csv(
        path
    )
    found = compare_groups(path, **names, missing="indicator")
    assert {"race[None]", "race[null]", "age missing"} <= {*found.balance["name"]}


def test_a_csv_file_becomes_tables_of_a_paper(lalonde, tmp_path):
    """The same cells in LaTeX, Word and Excel."""
    lalonde.assign(arm=np.where(lalonde.treat == 1, "trained", "others")).to_csv(
        tmp_path / "men.csv", index=False
    )
    found = compare_groups(
        tmp_path / "men.csv", treatment="arm", target="trained", outcome="re78",
        covariates=["age", "race"],
    )  # fmt: skip
    tables = {
        "one": (found.table_one.paper_table(), "trained", "156 (84.3%)"),
        "balance": (found.balance.paper_table(), "Standardised difference before", "1.70"),
        "effects": (found.effects.paper_table(), "Effect (95% CI)", "−635.03"),
    }
    for name, (table, column, text) in tables.items():
        assert table[column].str.contains(text, regex=False).any(), name
        assert text.replace("%", "\\%").replace("−", "$-$") in table.to_latex()
    docx, openpyxl = pytest.importorskip("docx"), pytest.importorskip("openpyxl")
    for name, (table, column, text) in tables.items():
        table.to_word(tmp_path / f"{name}.docx", caption=name)
        table.to_excel(tmp_path / f"{name}.xlsx")
        written = docx.Document(str(tmp_path / f"{name}.docx")).tables[0].rows
        rows = [[cell.text for cell in row.cells] for row in written]
        sheet = openpyxl.load_workbook(tmp_path / f"{name}.xlsx").active
        for cells in (rows, [[cell.value for cell in row] for row in sheet.iter_rows()]):
            at = cells[0].index(column)
            assert any(text in str(row[at]) for row in cells[1:]), name


def test_a_model_that_extrapolates_fails_a_diagnostic(lalonde):
    apart = lalonde.assign(age=lalonde.age + 100 * lalonde.treat)
    found = compare_groups(apart, **NAMES, adjust="standardization").diagnostics
    row = found[found["method"] == "standardization"].iloc[0]
    assert (row["value"], row["passed"]) == (1.0, False)
    assert "'age'" in row["note"]
    close = compare_groups(lalonde, **NAMES, adjust="standardization").diagnostics
    assert close.loc[close["method"] == "standardization", "passed"].all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda d: d.re78 * 1j, "'re78' has complex numbers"),
        (lambda d: pd.period_range("2020", periods=len(d), freq="D"), "'re78' has dates"),
    ],
)
def test_columns_of_other_kinds_than_numbers_are_refused(lalonde, values, message):
    with pytest.raises(DataError, match=message):
        compare_groups(lalonde.assign(re78=values), **NAMES)


def test_figures_of_a_report_have_the_height_of_their_rows():
    pytest.importorskip("matplotlib")

    def height(rows):
        def plot(what, ax):
            ax.set_yticks(range(rows), [f"row {k}" for k in range(rows)])

        (part,) = figures(plot, {"forest": "Ratios"})
        return float(re.search(r'<svg [^>]*height="([\d.]+)pt"', part)[1]) / 72

    assert [height(rows) for rows in (0, 1, 10, 99)] == pytest.approx([5, 1.8, 4.5, 12])
