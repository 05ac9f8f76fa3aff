"""Disclosure control of all numbers that leave a study.

The tables for release are made from the exact ones by ``study`` for one question, ``grid`` for
comparative grids and ``series`` for case series. ``rules`` has the rule sets; ``cells``,
``rounding``, ``effect_secrecy`` and ``curves`` apply them to counts, shares, effects and curves.
``release_folder`` writes the folder ``release`` with its manifest.
"""

from steropes.studies.disclosure.cells import (
    LEAST,
    Bound,
    apart,
    chain,
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
    "chain",
    "falling",
    "fraction",
    "part",
    "share_unit",
    "shown",
    "site_rules",
    "small",
    "total",
]
