"""Rows in blocks: on disk, in other processes; and models of them."""

from .sharded_design import ShardedDesign
from .sharded_problem import sharded_problem

__all__ = ["ShardedDesign", "sharded_problem"]
