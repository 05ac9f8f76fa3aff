"""Disclosure control of all numbers that leave a study.

The tables for release are made from the exact ones by ``grid`` for comparative studies, of one
question or of many, and by ``series`` for case series. ``rules`` has the rule sets; ``cells``,
``rounding``, ``effect_secrecy`` and ``curves`` apply them to counts, shares, effects and curves.
``release_folder`` writes the folder ``release`` with its manifest.
"""

from steropes.studies.disclosure.cells import (
    Bound,
    apart,
    falling,
    fraction,
    part,
    share_unit,
    small,
    small_cells,
    total,
)
from steropes.studies.disclosure.rules import (
    DisclosureRules,
    applied_rules,
    rules_in_force,
    shown_count,
    site_rules,
)

__all__ = [
    "Bound",
    "DisclosureRules",
    "apart",
    "applied_rules",
    "falling",
    "fraction",
    "part",
    "rules_in_force",
    "share_unit",
    "shown_count",
    "site_rules",
    "small",
    "small_cells",
    "total",
]
