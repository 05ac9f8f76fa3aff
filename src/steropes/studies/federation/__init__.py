"""Commands and functions for federated analyses, in one process or in a shared folder.

The public names are in `steropes.studies`; this package imports nothing so that commands start
quickly.
"""
