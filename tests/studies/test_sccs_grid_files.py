"""Files that specify a grid of case series: what is read, and what is refused."""

import json

import pytest

from steropes import DataError
from steropes.designs.case_series import Spline
from steropes.studies import case_series_grid_schema
from steropes.studies.grids.sccs_grid import (
    read_case_series_grid,
)
from steropes.studies.sccs.specification.case_series_grid_settings import SeriesPositives

SPEC = """
database_id = "tiny"
controls = [61, 62]

[[question]]
exposure = 1
outcome = 3

[[analysis]]
id = 1
description = "the era"
pre_exposure_days = 0
end_of_observation_days = 0

[thresholds]
ease = 0.5
"""


def test_a_specification_is_read_from_a_file(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    grid = read_case_series_grid(path)
    assert [(q.outcome, q.true_ratio) for q in grid.questions] == [(3, None), (61, 1.0), (62, 1.0)]
    assert grid.thresholds.ease == 0.5
    assert grid.analyses[0].settings == {"pre_exposure_days": 0, "end_of_observation_days": 0}


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("outcome = 3", "outcomes = 3", "no setting 'outcomes'"),
        ("ease = 0.5", "eases = 0.5", "no setting 'eases'"),
        ("controls", "control", "no setting 'control'"),
        ("id = 1\n", "id = -1\n", r"id.: must be a whole number of 0 or more"),
        ("[[analysis]]", "[[analysis", "spec.toml"),
        ("pre_exposure_days = 0", "outcome = 5", "belongs to the questions"),
    ],
)
def test_a_wrong_specification_is_refused(tmp_path, old, new, match):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC.replace(old, new))
    with pytest.raises(DataError, match=match):
        read_case_series_grid(path)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"ratios": (1.0,)}, "the negative control itself"),
        ({"risk_end_at": "middle"}, "must be one of 'start', 'end'"),
        ({"min_outcomes": 0}, "min_outcomes"),
    ],
)
def test_wrong_settings_of_positive_controls_are_refused(settings, match):
    with pytest.raises(DataError, match=match):
        SeriesPositives(**settings)


def test_positive_controls_are_read_from_a_file(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("positive = [1.5, 2]\n" + SPEC)
    assert read_case_series_grid(path).positive == SeriesPositives(ratios=(1.5, 2.0))
    path.write_text(SPEC + "[positive]\nratios = [3]\nrisk_end = 7\n")
    assert read_case_series_grid(path).positive == SeriesPositives(ratios=(3.0,), risk_end=7)
    path.write_text("positive = [1]\n" + SPEC)
    with pytest.raises(DataError, match=r"spec.toml, line 1 .positive.: .*the negative control"):
        read_case_series_grid(path)


def test_the_schema_knows_every_setting_and_a_file_may_have_any():
    schema = case_series_grid_schema()
    analysis = schema["$defs"]["SeriesAnalysis"]["properties"]
    assert {"risk_start_at", "by_concept", "naive_days", "season", "bootstrap"} <= {*analysis}
    assert not {"outcome", "exposure", "windows", "min_cell"} & {*analysis}
    spline, knots = analysis["season"]["anyOf"][0]["anyOf"]
    assert spline == {"$ref": "#/$defs/Spline"}
    assert {"type": "integer"} in knots["anyOf"]
    assert schema["required"] == ["question", "analysis"]
    json.dumps(schema)


def test_settings_of_an_analysis_have_types_and_errors_their_lines(tmp_path):
    path = tmp_path / "spec.toml"
    more = (
        'risk_start_at = "end"\nrisk_start = 1\nrisk_end = 30\nby_concept = true\nseason = 4\n'
        'study_periods = [["2010-01-01", ""]]\ncontrol = [-90, -1]\n'
    )
    path.write_text(SPEC.replace("[thresholds]", more + "[thresholds]"))
    grid = read_case_series_grid(path)
    given = grid.analyses[0].settings
    assert given["season"] == Spline(4)
    assert given["control"] == (-90, -1)
    for wrong, match in (
        ('by_concept = "yes"', r"spec.toml, line 14 .*by_concept.*true or false"),
        ('risk_start_at = "middle"', r"line 14 .*must be one of 'start', 'end'"),
        ("min_cell = 3", r"line 14 .*no setting 'min_cell'"),
        ("colour = 3", r"line 14 .*no setting 'colour'"),
    ):
        path.write_text(SPEC.replace("\n[thresholds]", wrong + "\n[thresholds]"))
        with pytest.raises(DataError, match=match):
            read_case_series_grid(path)
