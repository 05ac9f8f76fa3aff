"""The command ``steropes``, also as ``python -m steropes``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    try:  # An interruption may come while the packages are imported, which takes most of a second.
        from steropes.studies.cli import command_line
    except KeyboardInterrupt:
        print("steropes: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    command_line.main(arguments)


if __name__ == "__main__":
    main()
