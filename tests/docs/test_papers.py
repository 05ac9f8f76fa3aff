"""The experiments of the papers (`benchmarks.papers`) at a tiny size, and their tables."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.papers.cohorts import cohort
from benchmarks.papers.comparison import PAPERS, Row, Settings, digits, experiments
from benchmarks.papers.li2022 import TABLE_2, distinct_values, round_as_r4
from benchmarks.papers.yang2023 import fused, separate

TINY = Settings("tiny")
FOUND = (
    "largest error of α(y)", "largest distance of β from exact", "standard error / exact",
    "standard error of α(y) / exact", "error of the conditional median",
)  # fmt: skip
MEAN, INFINITE = "error of the conditional mean", "conditional mean / mean of 10,000 draws − 1"
EXPECTED = {  # the quantities of each experiment up to the size, in their order
    "suchard2013": {
        "point estimates": ["one fit, s"],
        "sparsity": ["time with dense X / time with sparse X"],
        "chosen variances": [
            f"variance chosen by ten folds, {x} prior" for x in ("Laplace", "normal")
        ],
        "bootstrap": [
            "share of drugs in more than half of 10 draws",
            "of the 20 largest estimates, intervals that cover 0",
            "time of 10 draws / time of one fit",
        ],
    },
    "tian2018": {
        "fixed penalty": ["fixed penalty, s"],
        "cross-validation": ["cross-validation, s"],
        "propensity model": ["propensity model, s"],
        "exact conditional": [
            "mean absolute error, exact", "mean absolute error, dummies", "exact, s", "dummies, s",
        ],
    },
    "li2022": {
        "accuracy": [
            quantity
            for error in ("logistic", "Gumbel")
            for quantity in (
                *(f"{x}: {error}, identity" for x in (*FOUND, MEAN)),
                *(f"{x}: {error}, exp" for x in (*FOUND, INFINITE)),
                *(f"{x}: {error}, log" for x in (*FOUND, MEAN)),
                f"mean of 10,000 draws of exp(ε), largest of 20 / smallest: {error}",
            )
        ],
        "growth": [
            *(f"time: exponent of {x}" for x in "nMp"), "memory: exponent of M − 1 + p",
            *(f"memory: exponent of {x}" for x in "nMp"), "time, s: n = 1,200, M = 300, p = 6",
            "memory, GB: n = 1,200, M = 300, p = 6",
        ],
        "distinct values": [
            f"{way}, {row}"
            for row in TABLE_2
            for way in ("observations", "values", "integers", "one decimal", "3 digits", "4 digits",
                        "3 digits, t = 5.2")
        ],
        "SGEMM": [
            "skewness", "0.01 percentile", "99.99 percentile",
            *(f"exact: {x}" for x in ("time, s", "distinct outcomes", "range")),
            *(
                f"{way}: {x}"
                for way in ("bins", "digits", "decimals", "divide")
                for x in ("time, s", "distinct outcomes", "range",
                          "largest distance of α(y) from exact",
                          "largest distance of β from exact",
                          "standard error of α(y) / exact")
            ),
        ],
    },
    "yang2023": {
        "kernel fusion": ["separate passes, ms", "fused, ms", "separate / fused"],
        "fixed penalty": [
            "Cox, λ = √2 (text), s", "Cox, variance 1.414 (script), s",
            "Cox, published algorithm on one core / ours", "Cox, agreement of coefficients",
            "Fine-Gray, λ = √2, s",
        ],
        "cross-validation": ["Cox, 10 × 1, s", "Fine-Gray, 10 × 1, s"],
        "hypertension study": [
            f"{name}, {x}" for name in ("Cox", "Fine-Gray")
            for x in ("10 × 1 and last fit, s", "hazard ratio", "covariates chosen")
        ],
    },
    "yang2023thesis": {
        "segmented scan": ["segmented scan of (3 1) (7 0 4) (1 6 3)"],
        "stratified Cox": [
            f"fit with {k}, s" for k in ("1 stratum", "50 strata", "1,000 strata")
        ],
        "propensity score strata": [
            "hazard ratio without adjustment",
            *(f"hazard ratio, {k} strata" for k in (5, 10, 20)),
        ],
        "changing effect": [
            "hazard ratio until day 10", "hazard ratio after day 10",
            "difference of the coefficients", "rows that the published design has",
            "one fit and 10 draws, s",
        ],
        "pooled logistic": [
            "median follow-up, days",
            *(
                f"{quantity}, {k} days"
                for k in (5, 10, 20)
                for quantity in ("rows / people", "memory of explicit rows / memory here",
                                 "odds ratio")
            ),
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("paper", "experiment"), [(paper, e) for paper, names in EXPECTED.items() for e in names]
)
def test_an_experiment_yields_the_rows_of_its_table(paper, experiment):
    rows = list(experiments(paper)[experiment](TINY))
    expected = EXPECTED[paper][experiment]
    assert [
        q for q, row in zip(expected, rows, strict=True) if not row.quantity.startswith(q)
    ] == []
    numbers = [row.ours for row in rows if not isinstance(row.ours, str)]
    assert np.isfinite(numbers).all()
    assert all(row.ours for row in rows if isinstance(row.ours, str))


def test_every_paper_and_experiment_is_expected():
    assert {paper: set(experiments(paper)) for paper in PAPERS} == {
        paper: set(names) for paper, names in EXPECTED.items()
    }


def test_the_segmented_scan_of_the_example_is_the_published_one():
    (row,) = experiments("yang2023thesis")["segmented scan"](TINY)
    assert row.ours == row.paper


def test_fused_and_separate_passes_agree():
    e, x, event = np.random.default_rng(0).uniform(1, 2, (3, 200))
    np.testing.assert_allclose(fused(e, x, event), separate(e, x, event), rtol=1e-12)


def test_cohorts_have_the_hazard_ratios_and_the_share_of_events_that_are_asked_for():
    made = cohort(40_000, 10, (2.0, 0.5), 0.3, 1)
    time, event = made.y["time"], made.y["event"] == 1
    assert abs(event.mean() - 0.3) < 0.01
    for days, ratio in (((0, 10), 2.0), ((10, np.inf), 0.5)):
        at_risk = np.clip(time, *days) - days[0]
        rate = [
            (event & (time > days[0]) & (time <= days[1]) & group).sum() / at_risk[group].sum()
            for group in (made.treated, ~made.treated)
        ]
        assert abs(np.log(rate[0] / rate[1] / ratio)) < 0.15


def test_a_row_divides_ours_by_each_published_number():
    row = Row("time, s", {"CPU": 20, "GPU": 4.0}, 2.0, "on one core")
    assert row.ratios() == {"CPU": 0.1, "GPU": 0.5}
    assert row.markdown() == "| time, s | CPU 20, GPU 4 | 2 | 0.1, 0.5 | on one core |"
    assert replace(row, paper=None).markdown() == "| time, s | – | 2 | – | on one core |"
    assert replace(row, ours="0.8 (0.7, 0.9)").ratios() == {}
    assert "| 0.9998 |" in Row("rows", 10_000, 9_998).markdown()
    assert [digits(x) for x in (12345.6, 0.01234, 3)] == ["12,346", "0.0123", "3"]


def test_the_command_prints_tables_and_records_versions(tmp_path, capsys):
    output = tmp_path / "rows.json"
    only = "segmented scan"
    given = ["paper", "yang2023thesis", "--size", "tiny", "--only", only, "--output", str(output)]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert "**segmented scan**" in printed
    assert "| segmented scan of (3 1) (7 0 4) (1 6 3) | 3 4 7 7 11 1 7 10 | 3 4" in printed
    made = json.loads(output.read_text("utf-8"))
    assert made["paper"] == "yang2023thesis"
    assert {"python", "numpy", "steropes"} <= set(made["versions"])
    assert made["machine"]["cores"] >= 1
    assert made["date"].startswith("20")
    assert [row["experiment"] for row in made["rows"]] == [only]


def test_an_unknown_experiment_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        main(["paper", "tian2018", "--only", "nothing"])
    assert "exact conditional" in capsys.readouterr().err


def test_the_sgemm_data_are_read_from_a_path_and_their_absence_is_explained(tmp_path):
    path = tmp_path / "sgemm_product.csv.gz"
    names = ",".join([*"abcdefghijklmn", *(f"Run{k} (ms)" for k in (1, 2, 3, 4))])
    with gzip.open(path, "wt") as file:
        file.write(names + "\n" + ",".join(["1"] * 14 + ["13.3", "13.35", "100", "1000.5"]))
    rows = {row.quantity: row for row in distinct_values(Settings("reduced", data=path))}
    assert rows["one decimal, [10, 100)"].ours == 1  # 13.35 is less than a half above 13.3
    assert rows["one decimal, [10, 100)"].note.startswith("2 ")
    assert rows["one decimal, [10, 100)"].paper == 862
    assert rows["observations, 1000 and more"].ours == 1
    with pytest.raises(SystemExit, match="--data"):
        list(distinct_values(Settings("reduced", data=tmp_path / "missing.csv")))


def test_rounding_of_r_4_prefers_the_even_digit_at_equal_distances_of_doubles():
    """Halves in decimal notation are no halves in binary, but rounded distances may be equal."""
    halves = np.array([0.15, 0.25, 0.35, 0.45, 0.55, 0.65])
    np.testing.assert_array_equal(round_as_r4(halves, 1), [0.1, 0.2, 0.3, 0.4, 0.6, 0.7])
    assert 0.5 - 0.45 == 0.45 - 0.4
    assert round(0.45, 1) == 0.5
    np.testing.assert_array_equal(round_as_r4(np.array([16.05, 16.95]), 1), [16.0, 17.0])
