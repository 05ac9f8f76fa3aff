"""Analyses of sites that share no rows: in one process, or by a folder that all can write to.

Names are in `steropes.studies`; importing this room imports nothing, so that commands start fast.
"""
