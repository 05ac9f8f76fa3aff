"""Disclosure control: rule sets, suppression of small counts, and rounding of estimates.

`disclosure_rules` has the rule sets. `small_cell_suppression`, `disclosive_digit_rounding`,
`effect_suppression` and `released_curves` apply them to counts, shares, effects and curves. The
tables for release are made from the exact ones in `steropes.studies.release`, and `release_folder`
writes the folder ``release`` with its manifest.
"""

from steropes.studies.disclosure.disclosure_rules import (
    DisclosureRules,
    applied_rules,
    rules_in_force,
    shown_count,
    site_rules,
)
from steropes.studies.disclosure.small_cell_suppression import (
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
