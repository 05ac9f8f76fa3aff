"""Sites that exchange only sums: requests and answers, what a site lets out, and how a fit asks.

The rows of a site stay there. A lead asks all sites the same question, coefficients in, sums over
rows out, and runs on the answers the solver that runs on rows. Users come in through
`steropes.studies`.
"""

from .cells import CellRules
from .exchange import Exchange, InMemory, RoundRecord, WaitingError
from .plan import FederatedPlan
from .protocol import SCHEMA, Message, message_schema
from .result import FederatedResult
from .rounds import fit_in_rounds
from .site import FederatedSite

__all__ = [
    "SCHEMA",
    "CellRules",
    "Exchange",
    "FederatedPlan",
    "FederatedResult",
    "FederatedSite",
    "InMemory",
    "Message",
    "RoundRecord",
    "WaitingError",
    "fit_in_rounds",
    "message_schema",
]
