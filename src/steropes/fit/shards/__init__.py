"""Rows in blocks: on disk, in other processes; and models of them."""

from .design import ShardedDesign
from .problem import sharded_problem

__all__ = ["ShardedDesign", "sharded_problem"]
