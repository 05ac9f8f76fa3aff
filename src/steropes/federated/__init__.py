"""Fits over sites that share no rows: masked sums, an honest lead's requests, and owners' rules.

The rows of a site stay there. A lead asks all sites the same question, coefficients in and sums
over rows out, and runs on the totals the solver that runs on rows. Users come in through
`steropes.studies`.
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
