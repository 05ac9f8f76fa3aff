"""What the solver asks of model and data, and the implementation for rows on this machine."""

from .active import ActiveColumns, ColumnSet
from .face import Accuracy, CurvatureAt, DataTerm, Trial
from .level_shard import LevelShard
from .level_term import LevelTerm
from .local import LocalTerm
from .profiled import ProfiledTerm
from .risk_shard import RiskShard
from .risk_term import RiskTerm
from .shard import LocalShard
from .sharded import ShardedFamily, ShardedTerm
from .together import Together
from .with_smooth import TermWithSmooth

__all__ = [
    "Accuracy",
    "ActiveColumns",
    "ColumnSet",
    "CurvatureAt",
    "DataTerm",
    "LevelShard",
    "LevelTerm",
    "LocalShard",
    "LocalTerm",
    "ProfiledTerm",
    "RiskShard",
    "RiskTerm",
    "ShardedFamily",
    "ShardedTerm",
    "TermWithSmooth",
    "Together",
    "Trial",
]
