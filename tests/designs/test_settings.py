"""Settings check their arguments, in Python and from files, and name the value that is wrong."""

import datetime as dt
from dataclasses import field, replace
from typing import Literal

import numpy as np
import pytest

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    ById,
    Count,
    Day,
    Listed,
    Positive,
    Share,
    YesNo,
)  # fmt: skip
from steropes.designs.settings.value_checks import check_of
from steropes.errors import DataError


class Inner(Settings):
    """A table within the settings."""

    width: Positive
    exact: Listed[Count] = ()


class Outer(Settings):
    """Settings with fields of every type."""

    count: Count
    kind: Literal["one", "two"] = "one"
    size: Literal[1, 3] = 1
    limits: tuple[Share, Share] | None = None
    since: Day | None = None
    inner: Inner | None = None
    several: Listed[Inner] = ()
    names: ById[Count, str] = field(default_factory=dict)
    chosen: YesNo = False

    def __post_init__(self) -> None:
        """Refuse a combination."""
        if self.chosen and self.kind == "two":
            raise DataError("two are never chosen")


class File:
    """Stands for a file that names places only."""

    def where(self, place):
        return ".".join(map(str, place))


def test_numbers_of_numpy_become_those_of_python_and_lists_tuples():
    made = Outer(np.int64(3), size=np.int64(3), several=[Inner(np.float32(0.5), [1, 2])])
    assert type(made.count) is int
    assert type(made.size) is int
    assert made.several == (Inner(0.5, (1, 2)),)
    assert hash(replace(made, names={}).several) == hash(made.several)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "count is missing"),
        ({"count": True}, "count must be a whole number, not True"),
        ({"count": 1, "kind": "three"}, "kind must be one of 'one', 'two', not 'three'"),
        ({"count": 1, "size": True}, "size must be one of 1, 3, not True"),
        ({"count": 1, "limits": [0.1]}, "limits must be a list of 2 values, not 1"),
        ({"count": 1, "limits": (0, 2)}, "limits.[2] must be a finite number from 0 to 1, not 2"),
        ({"count": 1, "since": "2020-01-01"}, "since must be a date"),
        ({"count": 1, "inner": {"width": 1}}, "inner must be an instance of Inner"),
        ({"count": 1, "several": {1: 2}}, "several must be a list, not {1: 2}"),
        ({"count": 1, "several": [1]}, "several.[1] must be an instance of Inner, not 1"),
        ({"count": 1, "names": {-1: "a"}}, "names.-1.[key] must be a whole number of 0 or more"),
        ({"count": 1, "names": {1: 2}}, "names.1 must be text, not 2"),
        ({"count": 1, "chosen": 1}, "chosen must be True or False, not 1"),
        ({"count": 1, "chosen": True, "kind": "two"}, "two are never chosen"),
        ({"count": 1, "kinds": "one"}, "did you mean 'kind'?"),
    ],
)
def test_arguments_are_refused_by_name(given, message):
    with pytest.raises(DataError) as error:
        Outer(**given)
    assert message in str(error.value)


def test_too_many_arguments_and_one_given_twice_are_refused():
    with pytest.raises(DataError, match="Inner has 2 settings, not 3"):
        Inner(1, (), 2)
    with pytest.raises(DataError, match="width is given twice"):
        Inner(1, width=2)


def test_in_files_the_first_value_stands_for_a_table_and_false_for_none():
    values = {"count": 1, "inner": 0.2, "since": "2020-01-01", "limits": False, "several": 3,
              "names": {"7": "seven"}}  # fmt: skip
    assert Outer.read(values, File()) == Outer(
        1, since=dt.date(2020, 1, 1), inner=Inner(0.2), several=(Inner(3),), names={7: "seven"}
    )


def test_all_faults_of_a_file_have_their_places():
    values = {"count": -1, "inner": {"exact": [1, -2]}, "several": [{"width": 1}, {"width": "a"}],
              "names": {"1": 1, "01": 2}, "chosen": 1}  # fmt: skip
    with pytest.raises(DataError) as error:
        Outer.read(values, File(), ("study",))
    assert str(error.value).splitlines() == [
        "study.count: must be a whole number of 0 or more, not -1",
        "study.inner: width is missing",
        "study.inner.exact.1: must be a whole number of 0 or more, not -2",
        "study.several.1.width: must be a finite number, not 'a'",
        "study.names.01: 1 is defined twice",
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 1, "inner": "a"}, "inner may be a table of settings, width alone, or (where"),
        ({"count": 1, "inner": [{"width": 1}]}, "must be one table: write [inner], with one pair"),
        ({"count": 1, "several": {"width": 1}}, "must be a list of tables: write [[several]]"),
        ({"count": 1, "limits": {"a": 1}}, "must be a list, not a table: write limits = [1, 2]"),
    ],
)
def test_forms_of_files_are_explained(values, message):
    with pytest.raises(DataError) as error:
        Outer.read(values, File())
    assert message in str(error.value)


def test_types_that_are_not_settings_are_not_asked_to_check_themselves():
    class Stranger:
        def _checked(self, value, reading):
            raise AssertionError

    stranger = Stranger()
    assert check_of(Stranger)(stranger, False) is stranger
