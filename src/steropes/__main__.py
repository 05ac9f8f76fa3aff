"""The command line, as ``python -m steropes``."""

from __future__ import annotations

from steropes.studies.cli.command_line import main

if __name__ == "__main__":
    main()
