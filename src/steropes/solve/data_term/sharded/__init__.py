"""Data terms whose rows are in shards: the messages, the shards that answer and the terms that sum.

Rows that add up independently are a `ShardedTerm`; where risk sets or thresholds are shared between
shards, a `RiskTerm` or a `LevelTerm`.
"""
