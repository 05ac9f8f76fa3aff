"""Tables for papers: an estimate and its limits in one cell, as LaTeX, Excel and Word."""

import sys

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import DataError
from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import present


@pytest.fixture(scope="module")
def table():
    rows = {
        "coef": [-0.198, 2.5, 0.0],
        "lower": [-0.357, -np.inf, np.nan],
        "upper": [-0.041, np.inf, np.nan],
        "se": [0.08, np.inf, np.nan],
        "p": [0.0132, 0.0004, np.nan],
        "people": [12345.0, 10.0, 0.0],
        "_note_": ["", "100 % & more", None],
    }
    frame = pd.DataFrame(rows, ["drug_a", "=1+1", "age"])
    shown = Interval("Log ratio", "coef", level=0.95)
    return present(frame, "forest", intervals=[shown], captions={"_note_": "Remark"})


def test_a_cell_has_the_estimate_with_its_limits_and_p_values_are_formatted(table):
    paper = table.paper_table()
    assert paper.columns.tolist() == ["Log ratio (95% CI)", "P value", "People", "Remark"]
    assert paper["Log ratio (95% CI)"].tolist() == [
        "−0.20 (−0.36 to −0.04)", "2.50 (−∞ to ∞)", "0.00",
    ]  # fmt: skip
    assert paper["P value"].tolist() == ["0.013", "< 0.001", "–"]
    assert paper["People"].tolist() == ["12,345", "10", "0"]
    assert paper["Remark"].tolist() == ["", "100 % & more", ""]
    assert table.paper_table(digits=3).iloc[0, 0] == "−0.198 (−0.357 to −0.041)"
    with pytest.raises(DataError, match="digits"):
        table.paper_table(digits=-1)


def test_numbers_that_would_round_to_zero_have_more_decimals(table):
    small = table.assign(coef=0.002, lower=0.00004, upper=1.2e9)
    assert small.paper_table().iloc[0, 0] == "0.0020 (0.0000 to 1.2e+09)"


def test_latex_shows_every_character_as_text(table):
    text = table.paper_table().to_latex()
    assert r"drug\_a & $-$0.20 ($-$0.36 to $-$0.04)" in text
    assert r"100 \% \& more" in text
    assert r"\textless{} 0.001" in text
    assert r"($-$$\infty$ to $\infty$)" in text
    assert r"Log ratio (95\% CI)" in text


def test_latex_is_written_to_a_file(table, tmp_path):
    assert table.paper_table().to_latex(tmp_path / "a.tex") is None
    assert (tmp_path / "a.tex").read_text(encoding="utf-8") == table.paper_table().to_latex()


def test_word_has_the_labels_and_cells(table, tmp_path):
    docx = pytest.importorskip("docx")
    table.paper_table().to_word(tmp_path / "table.docx", caption="Table 1. Effects.")
    document = docx.Document(str(tmp_path / "table.docx"))
    assert document.paragraphs[0].text == "Table 1. Effects."
    rows = [[cell.text for cell in row.cells] for row in document.tables[0].rows]
    assert rows[0] == ["", "Log ratio (95% CI)", "P value", "People", "Remark"]
    assert rows[1] == ["drug_a", "−0.20 (−0.36 to −0.04)", "0.013", "12,345", ""]
    assert len(rows) == 4
    before = (tmp_path / "table.docx").read_bytes()
    table.paper_table().to_word(tmp_path / "table.docx", caption="Table 1. Effects.")
    assert (tmp_path / "table.docx").read_bytes() == before
    table.paper_table().to_word(tmp_path / "rows.docx", index=False)
    assert docx.Document(str(tmp_path / "rows.docx")).tables[0].cell(0, 0).text == rows[0][1]


def test_excel_takes_no_label_for_a_formula(table, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    table.paper_table().to_excel(tmp_path / "table.xlsx", sheet_name="effects")
    sheet = openpyxl.load_workbook(tmp_path / "table.xlsx")["effects"]
    cell = sheet["A3"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")
    assert sheet["B2"].value == "−0.20 (−0.36 to −0.04)"
    with pd.ExcelWriter(tmp_path / "two.xlsx", engine="openpyxl") as writer:
        for name in ("first", "second"):
            table.paper_table().to_excel(writer, sheet_name=name)
    assert openpyxl.load_workbook(tmp_path / "two.xlsx").sheetnames == ["first", "second"]


@pytest.mark.parametrize(
    ("module", "write"), [("jinja2", "to_latex"), ("openpyxl", "to_excel"), ("docx", "to_word")]
)
def test_a_missing_package_is_named_with_the_extra(table, monkeypatch, tmp_path, module, write):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"steropes\[tables\]"):
        getattr(table.paper_table(), write)(tmp_path / "table")


def test_results_have_readable_captions():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"drug": rng.integers(0, 2, 80), "age": rng.normal(size=80)})
    y = steropes.Surv(rng.exponential(size=80), np.ones(80, int))
    model = steropes.CoxRegression().fit(X, y)
    assert model.summary(0.9).paper_table().columns.tolist() == ["Hazard ratio (90% CI)", "P value"]
    assert steropes.restricted_mean_test(y, X["drug"]).paper_table().index.names == [
        "Group", "Reference",
    ]  # fmt: skip
    many = steropes.fit_many(steropes.CoxRegression(), X, {"death": y}).paper_table()
    assert many.index.tolist() == [("death", "drug"), ("death", "age")]
    curves = model.curves.standardized_survival(X, times=[0.5], by="drug")
    assert curves.differences.paper_table().columns.tolist()[-1] == "Difference (95% CI)"
    tests = model.inference.model_tests().paper_table()
    assert tests.columns.tolist() == ["χ²", "Degrees of freedom", "P value"]
    linear = steropes.LinearRegression().fit(X, X["age"] + rng.normal(size=80))
    assert linear.summary().paper_table().columns.tolist() == ["Coefficient (95% CI)", "P value"]
