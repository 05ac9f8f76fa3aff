"""Designs with rows in blocks, on disk or in other processes, and models with such designs."""

from .sharded_design import ShardedDesign
from .sharded_problem import sharded_problem

__all__ = ["ShardedDesign", "sharded_problem"]
