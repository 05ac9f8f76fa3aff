"""Writing of a report's files, all of them or none."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from steropes.errors import DataError

__all__ = ["output_folder", "output_folder_of_run", "write_files"]

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def output_folder(folder: str | Path) -> Path:
    """Create the folder if necessary and check that it is writable.

    Raises
    ------
    DataError
        The folder cannot be created or written to.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"cannot write to the folder {folder}: {error.strerror}") from error
    return folder


@contextlib.contextmanager
def output_folder_of_run(folder: str | Path) -> Iterator[Path]:
    """Create the folder of a run; remove it after an error if it is new and still empty."""
    folder = Path(folder)
    new = not folder.exists()
    made = output_folder(folder)
    try:
        yield made
    except BaseException:
        if new and not any(made.iterdir()):
            made.rmdir()
        raise


def write_files(
    folder: str | Path, texts: Mapping[str, str | bytes], gone: Iterable[Path] = ()
) -> list[Path]:
    """Write texts to a folder, all of them or none, and return their paths.

    A failure leaves no new folders either.

    Parameters
    ----------
    texts : mapping of str to str or bytes
        By name, which may include a subfolder.
    gone : iterable of Path
        Files of an earlier report to remove, because this report does not have them.

    Raises
    ------
    DataError
        The folder cannot be written to.
    """
    folder = Path(folder)
    parents = {parent for name in texts for parent in (folder / name).parents}
    new = sorted((p for p in parents if not p.exists()), key=lambda p: -len(p.parts))
    waiting: list[Path] = []  # Complete files under temporary names.
    try:
        output_folder(folder)
        for name in texts:
            if (folder / name).is_dir():
                raise DataError(f"cannot write to the folder {folder}: {name} is a folder there")
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_old_drafts(path)
            hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            handle = os.open(hidden, NEW, 0o666)  # readable as the umask says
            waiting.append(hidden)
            with os.fdopen(handle, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode("utf-8"))
        written = [draft.replace(folder / name) for draft, name in zip(waiting, texts, strict=True)]
        for path in gone:
            path.unlink(missing_ok=True)
        return written
    except OSError as error:
        raise DataError(f"cannot write to the folder {folder}: {error.strerror}") from error
    finally:
        for draft in waiting:
            draft.unlink(missing_ok=True)
        for made in new:  # The inner ones first.
            with contextlib.suppress(OSError):  # It has files, or was not made.
                made.rmdir()


def _remove_old_drafts(path: Path) -> None:
    """Remove temporary files of processes that were killed while writing."""
    for draft in path.parent.glob(f".{path.name}.*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > 3600.0:  # Writing takes less than an hour.
                draft.unlink()
