"""Fits over sites that share no rows, with masked sums, verified requests and owners' rules.

The rows of a site never leave it. A lead sends coefficients to all sites and receives sums over
rows, and runs the solver on the totals. Users access this package through `steropes.studies`.
"""

from .data_owner import Owner
from .federated_plan import FederatedPlan
from .federated_result import FederatedResult
from .federated_site import FederatedSite
from .message_exchange import Round, RoundRecord, WaitingError
from .messages import SCHEMA, Message, message_schema
from .owner_rules import OwnerRules
from .site_keys import PublicKeys, SiteKeys

__all__ = [
    "SCHEMA",
    "FederatedPlan",
    "FederatedResult",
    "FederatedSite",
    "Message",
    "Owner",
    "OwnerRules",
    "PublicKeys",
    "Round",
    "RoundRecord",
    "SiteKeys",
    "WaitingError",
    "message_schema",
]


def __dir__() -> list[str]:
    return __all__
