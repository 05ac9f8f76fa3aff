"""Values stand beside their limits with the digits that decide."""

import math

import pytest

from steropes.data.number_formatting import deciding, deciding_p, limit_text


@pytest.mark.parametrize(
    ("x", "limit", "wanted"),
    [
        (0.248, 0.25, "0.248"),
        (0.2499999, 0.25, "0.2499999"),
        (0.25, 0.25, "0.25"),
        (0.2500001, 0.25, "0.2500001"),
        (0.1, 0.25, "0.10"),
        (-0.0996, -0.1, "−0.0996"),
        (9.999, 10, "9.999"),
        (math.inf, 10, "∞"),
        (math.nan, 10, "–"),
        (None, 10, "–"),
        (0.123, None, "0.12"),
    ],
)
def test_a_number_is_on_the_side_of_its_limit_as_text_too(x, limit, wanted):
    assert deciding(x, limit) == wanted


def test_every_limit_counts():
    assert deciding(0.7996, 0.8, 1.25) == "0.7996"
    assert deciding(1.2504, 0.8, 1.25) == "1.2504"


def test_p_values_keep_the_digits_that_decide():
    assert deciding_p(0.04996, 0.05) == "0.04996"
    assert deciding_p(0.5, 0.05) == "0.50"
    assert deciding_p(0.0004, 0.05) == "< 0.001"
    assert deciding_p(0.00041, 0.0004) == "0.00041"


def test_a_limit_has_the_digits_that_it_was_given_with():
    assert [limit_text(x) for x in (0.25, 10.0, 0.1000001, 999)] == [
        "0.25",
        "10",
        "0.1000001",
        "999",
    ]
