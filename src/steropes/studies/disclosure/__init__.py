"""Disclosure control of all numbers that leave a study.

The tables for release are made from the exact ones by ``grid`` for comparative studies, of one
question or of many, and by ``series`` for case series. ``rules`` has the rule sets; ``cells``,
``rounding``, ``effect_secrecy`` and ``curves`` apply them to counts, shares, effects and curves.
``release_folder`` writes the folder ``release`` with its manifest.
"""

from steropes.studies.disclosure.cells import (
    LEAST,
    Bound,
    apart,
    falling,
    fraction,
    part,
    share_unit,
    shown,
    small,
    total,
)
from steropes.studies.disclosure.rules import DisclosureRules, site_rules

__all__ = [
    "LEAST",
    "Bound",
    "DisclosureRules",
    "apart",
    "falling",
    "fraction",
    "part",
    "share_unit",
    "shown",
    "site_rules",
    "small",
    "total",
]
