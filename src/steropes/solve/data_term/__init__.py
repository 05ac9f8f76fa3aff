"""The negative log-likelihood as the solver sees it: interfaces to models with their data.

`DataTerm` is the interface. `LocalTerm` and its variants hold their rows on this machine;
`sharded/` holds the terms with rows elsewhere.
"""

from .compact_row_weights import RowMultiples, weights_of_rows
from .data_term_interfaces import Accuracy, CurvatureAt, DataTerm, Trial
from .local_term import LocalTerm
from .profiled_term import ProfiledTerm
from .sharded.in_process_shards import LocalShards
from .sharded.local_shard import LocalShard
from .sharded.risk_set_shard import RiskShard
from .sharded.risk_set_term import RiskTerm
from .sharded.sharded_term import ShardedFamily, ShardedTerm
from .sharded.threshold_shard import LevelShard
from .sharded.threshold_term import LevelTerm
from .smooth_penalty_term import SmoothPenaltyTerm
from .working_set import WorkingColumns, WorkingSet

__all__ = [
    "Accuracy",
    "CurvatureAt",
    "DataTerm",
    "LevelShard",
    "LevelTerm",
    "LocalShard",
    "LocalShards",
    "LocalTerm",
    "ProfiledTerm",
    "RiskShard",
    "RiskTerm",
    "RowMultiples",
    "ShardedFamily",
    "ShardedTerm",
    "SmoothPenaltyTerm",
    "Trial",
    "WorkingColumns",
    "WorkingSet",
    "weights_of_rows",
]
