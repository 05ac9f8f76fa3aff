"""The owner of a site's data, with rules, keys, public keys of other sites, ledger and audit log.

An owner's folder contains `rules.toml` (the conditions for answers; written once with the defaults
and then edited by the owner), `keys.json` (the site's private keys), `peers/NAME.json` (public keys
of the other sites, exchanged in advance), `ledger.json` (a record of all answers) and `audit.log`
(the same in readable form, with refusals).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from ..data.html_representations import TextInHtml
from ..errors import DataError
from ..private_files import open_private, private_folder
from .disclosure_ledger import Ledger
from .message_files import read_json, write_new
from .owner_rules import OwnerRules
from .site_keys import PublicKeys, SiteKeys

__all__ = ["Owner"]

HEAD = """# The conditions under which this site answers. A plan can only be stricter.
# docs/federated.md explains each rule. A changed rule applies from the next answer on.

"""


class Owner(TextInHtml):
    """The owner of a site's data.

    Parameters
    ----------
    rules : OwnerRules, optional
        Conditions under which the site answers; by default `OwnerRules()`.
    keys : SiteKeys, optional
        Private keys of the site; new ones by default.
    peers : dict of str to PublicKeys, optional
        Public keys of the other sites, without which the site answers no request for sums.
    ledger : Ledger, optional
        Record of the site's answers; by default in memory.
    log : Path, optional
        The audit log.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.federated import Owner
    >>> owner = Owner.create(tempfile.mkdtemp() + "/north")
    >>> owner
    Owner(peers=[])
    >>> owner.rules.least
    5
    """

    def __init__(
        self,
        rules: OwnerRules | None = None,
        keys: SiteKeys | None = None,
        peers: Mapping[str, PublicKeys] | None = None,
        ledger: Ledger | None = None,
        log: Path | None = None,
    ) -> None:
        self.rules = OwnerRules() if rules is None else rules
        self.keys = SiteKeys.generate() if keys is None else keys
        self.peers = dict(peers or {})
        self.ledger = Ledger() if ledger is None else ledger
        self.log = log

    def __repr__(self) -> str:
        """Name the sites with known public keys."""
        return f"Owner(peers={sorted(self.peers)})"

    @classmethod
    def create(cls, folder: str | Path) -> Owner:
        """Create an owner's folder with new keys and the default rules.

        Parameters
        ----------
        folder : path
            The new folder.

        Returns
        -------
        Owner
            The owner, as read from the folder.

        Raises
        ------
        DataError
            The folder contains keys already.
        """
        path = Path(folder)
        private_folder(path)
        private_folder(path / "peers")
        keys = SiteKeys.generate()
        write_new(path / "keys.json", json.dumps(keys.to_dict()).encode(), private=True)
        if not (path / "rules.toml").exists():
            write_new(path / "rules.toml", (HEAD + _toml(OwnerRules())).encode(), private=True)
        return cls.open(path)

    @classmethod
    def open(cls, folder: str | Path) -> Owner:
        """Read an owner's folder.

        Parameters
        ----------
        folder : path
            A folder that `create` has made.

        Returns
        -------
        Owner
            The owner.

        Raises
        ------
        DataError
            The folder does not exist, a file cannot be read, or others can read the private keys.
        """
        path = Path(folder)
        at = path / "keys.json"
        if not at.exists():
            raise DataError(f"{path} has no keys.json; begin with `steropes federate keys {path}`")
        found = at.stat()
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise DataError(
                f"{at} can be read by others: create new keys, and keep them private (chmod 600)"
            )
        keys = SiteKeys.from_dict(read_json(at), str(at))
        peers = {p.stem: PublicKeys.from_dict(read_json(p), str(p))
                 for p in sorted((path / "peers").glob("*.json"))}  # fmt: skip
        rules = OwnerRules.read(path / "rules.toml")
        return cls(rules, keys, peers, Ledger(path / "ledger.json"), path / "audit.log")

    def trust(self, site: str, public: str | Path) -> PublicKeys:
        """Store the public keys of another site, read from a file.

        Parameters
        ----------
        site : str
            Name of the site.
        public : path
            File with its public keys.

        Returns
        -------
        PublicKeys
            The keys.

        Raises
        ------
        DataError
            This owner has no folder, or has keys of that site already.
        """
        if self.log is None:
            raise DataError("this owner has no folder in which to store public keys")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", site):
            raise DataError(f"{site!r} is not the name of a site")
        keys = PublicKeys.from_dict(read_json(Path(public)), str(public))
        write_new(self.log.parent / "peers" / f"{site}.json", json.dumps(keys.to_dict()).encode())
        self.peers[site] = keys
        return keys

    def public_keys_of(self, site: str) -> PublicKeys:
        """Return the public keys of another site.

        Parameters
        ----------
        site : str
            Name of the site.

        Returns
        -------
        PublicKeys
            Its keys.

        Raises
        ------
        DataError
            They have not been exchanged.
        """
        if site not in self.peers:
            raise DataError(
                f"the public keys of site {site!r} are not known here: get them from its owner, "
                "compare the fingerprint by telephone, and put them among the peers"
            )
        return self.peers[site]

    def note(self, sentence: str) -> None:
        """Append a line to the audit log.

        Parameters
        ----------
        sentence : str
            Text of the line.
        """
        if self.log is None:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        line = " ".join(sentence.split())
        handle = open_private(self.log, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"{now}  {line}\n")


def _toml(rules: OwnerRules) -> str:
    """Format rules as TOML."""
    lines = []
    for f in fields(rules):
        value = getattr(rules, f.name)
        lines.append(f"{f.name} = {json.dumps(list(value) if isinstance(value, tuple) else value)}")
    return "\n".join(lines) + "\n"
