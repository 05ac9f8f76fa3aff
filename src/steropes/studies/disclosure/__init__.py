"""Disclosure control: the only way by which numbers of people leave a study.

Exact results go in, and what may be released comes out: ``study`` for one question, ``grid`` for
grids of comparisons, ``series`` for case series. The rules that apply are in ``rules``; what they
do to counts, shares, estimates and curves is in ``cells``, ``rounding`` and ``curves``; ``folder``
writes the folder ``release`` with its manifest.
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
