"""The command ``steropes``, which prints errors as one line.

The exit status is 0 after success, 2 if the input or a setting cannot be used, and 130 after an
interruption.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

from steropes.errors import DataError, SeparationError
from steropes.studies._optional_packages import MissingExtraError, need
from steropes.studies.cli.core_commands import needs_no_extra, run_without_extras
from steropes.studies.formatting.text_safety import plain_text, without_credentials

__all__ = ["main"]

REFUSED, INTERRUPTED = 2, 130
# A password in the URL of a server.
PASSWORD = re.compile(r"[A-Za-z][\w+.-]*://[^/@\s:]*:[^/\s]+@")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        if needs_no_extra(given):
            return run_without_extras(given)
        need("typer")
        need("duckdb")
        need("rich")
        need("pydantic")
        from steropes.studies.cli.commands import command_app

        if any(PASSWORD.match(argument) for argument in given):
            _fail(
                "warning: a password on the command line can be read by other users of this "
                "machine; put it into STEROPES_DATABASE_PASSWORD or a credentials file"
            )
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return _call(command_app(given), given)
    except (DataError, SeparationError, MissingExtraError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        kept = "what is done is kept, and the same command goes on from there"
        said = kept if _goes_on(given) else "nothing was written"
        return _fail(f"interrupted; {said}", INTERRUPTED)
    except BrokenPipeError:  # The reader of the output, such as `head`, has closed it.
        sys.stdout = None
        return 0
    except OSError as error:  # For example a full disk.
        return _fail(": ".join(str(x) for x in (error.filename, error.strerror or error) if x))


def _goes_on(arguments: Sequence[str]) -> bool:
    """Return whether an interrupted command can be resumed, as grids can."""
    demonstrates = arguments[:1] == ["demo"] and {"--grid", "--controls"} & {*arguments}
    return arguments[:1] in (["grid"], ["sccs-grid"], ["strategus"], ["cohorts"]) or bool(
        demonstrates
    )


def _call(app: Any, arguments: Sequence[str]) -> int:
    """Run a command and return the exit status."""
    import duckdb
    import typer

    # The base of errors of usage in click, of which newer versions of typer contain a copy.
    wrong_usage: Any = typer.BadParameter.__mro__[2]
    command = typer.main.get_command(app)
    try:
        status = command.main(
            args=list(arguments) or ["--help"], prog_name="steropes", standalone_mode=False
        )
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        said = " ".join(str(error).split())
        return _fail(f"the database could not answer a query: {said[:400]}")
    except wrong_usage as error:
        return _fail(f"{error.format_message().rstrip('.')} (see steropes --help)")
    except typer.Abort:
        raise KeyboardInterrupt from None
    if status == INTERRUPTED:  # Typer has caught the interruption.
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the place in the code."""
    _fail(f"warning: {message}")


def _fail(line: str, status: int = REFUSED) -> int:
    """Print a line to the standard error and return an exit status."""
    said = without_credentials(plain_text(" ".join(line.split())))
    print(f"steropes: {said}", file=sys.stderr)
    return status
