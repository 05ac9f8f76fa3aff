"""The names of estimands: the people among whom an effect is estimated.

Every page, table and terminal uses these names.
"""

from __future__ import annotations

__all__ = ["ESTIMANDS", "estimand_name"]

ESTIMANDS = {
    "att": "people like the target's (ATT)",
    "atu": "people like the comparator's (ATU)",
    "ate": "everybody in either arm (ATE)",
    "ato": "people who might have had either (ATO)",
    "atm": "the matched people (ATM)",
}


def estimand_name(code: str, adjusted: bool = True) -> str:
    """Return the name of an estimand.

    Parameters
    ----------
    code : str
        A key of ``ESTIMANDS``; any other text is returned as it is.
    adjusted : bool, default True
        Whether the estimate is adjusted; if not, "not adjusted" is appended.
    """
    return ESTIMANDS.get(code, code) + ("" if adjusted else ", not adjusted")
