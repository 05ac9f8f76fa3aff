"""The command line: thin commands over the functions of the other packages."""

from steropes.studies.cli.command_line import main

__all__ = ["main"]
