"""Fits over sites that share no rows, with masked sums, verified requests and owners' rules.

The rows of a site never leave it. A lead sends coefficients to all sites and receives sums over
rows, and runs the solver on the totals. Users access this package through `steropes.studies`.
"""

from .exchange import Round, RoundRecord, WaitingError
from .keys import PublicKeys, SiteKeys
from .owner import Owner
from .plan import FederatedPlan
from .protocol import SCHEMA, Message, message_schema
from .result import FederatedResult
from .rules import OwnerRules
from .site import FederatedSite

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
