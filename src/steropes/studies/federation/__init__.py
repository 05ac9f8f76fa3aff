"""Commands and functions for federated analyses, in one process or in a shared folder.

Names are imported when they are first used, so that commands start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .federated_runs import (
        FederatedPlan,
        FederatedResult,
        FederatedSite,
        Owner,
        OwnerRules,
        federate,
        federate_answer,
        federate_finish,
        federate_init,
        federate_step,
        federate_withdraw,
        read_public_keys,
    )
    from .site_profiles import FederatedProfiles

__all__ = [
    "FederatedPlan",
    "FederatedProfiles",
    "FederatedResult",
    "FederatedSite",
    "Owner",
    "OwnerRules",
    "federate",
    "federate_answer",
    "federate_finish",
    "federate_init",
    "federate_step",
    "federate_withdraw",
    "read_public_keys",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "federated_runs": [
                "FederatedPlan",
                "FederatedResult",
                "FederatedSite",
                "Owner",
                "OwnerRules",
                "federate",
                "federate_answer",
                "federate_finish",
                "federate_init",
                "federate_step",
                "federate_withdraw",
                "read_public_keys",
            ],
            "site_profiles": ["FederatedProfiles"],
        },
    )
