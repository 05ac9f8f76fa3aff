"""The record of looks at accruing data, which cannot be rewritten without notice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steropes.data.html_representations import FieldsInHtml
from steropes.errors import DataError
from steropes.studies.result_files.atomic_files import write_files
from steropes.studies.settings.frozen_protocol import now_utc, user_name, values_hash

__all__ = ["MonitoringRecord", "read_record"]

FORMAT = 1


@dataclass(frozen=True)
class MonitoringRecord(FieldsInHtml):
    """The plan of a surveillance and the looks so far.

    Attributes
    ----------
    plan : dict
        Planned looks, error and spending, as at the first look or as frozen before it.
    looks : tuple of dict
        ``at`` (UTC), ``by`` and ``estimates`` (a hash) of each look, with the hash of itself and
        all before it.
    """

    plan: dict[str, Any]
    looks: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, path: str | Path, plan: Mapping[str, Any]) -> MonitoringRecord:
        """Read a record, or begin one if there is no file.

        Raises
        ------
        DataError
            The file is no record, was changed, or has another plan.
        """
        if not Path(path).exists():
            return cls(dict(plan))
        record = read_record(Path(path))
        differ = [name for name in plan if plan[name] != record.plan.get(name)]
        if differ:
            name = differ[0]
            raise DataError(
                f"{name} is {plan[name]!r}, but the record {path} began with "
                f"{record.plan.get(name)!r}. A plan that changes after a look does not keep its "
                "error; begin a new record for a new surveillance."
            )
        return record

    @classmethod
    def freeze(cls, path: str | Path, plan: Mapping[str, Any], by: str | None) -> MonitoringRecord:
        """Begin a record before the first look, with who froze its plan and when.

        Raises
        ------
        DataError
            The file exists.
        """
        if Path(path).exists():
            raise DataError(f"{path} exists already; a new surveillance needs another folder")
        record = cls({**plan, "frozen_at": now_utc(), "frozen_by": by or user_name()})
        record.write(path)
        return record

    def with_looks(self, digests: Sequence[str], by: str | None = None) -> MonitoringRecord:
        """Return the record with the looks that it lacks.

        Parameters
        ----------
        digests : sequence of str
            Hash of the estimates of every look so far.
        by : str, optional
            Who looked. Default: the name of the user.

        Raises
        ------
        DataError
            A recorded look is missing or has other estimates.
        """
        if len(digests) < len(self.looks):
            raise DataError(
                f"{len(digests)} looks are given, but {len(self.looks)} are recorded; give all."
            )
        for number, (look, digest) in enumerate(zip(self.looks, digests, strict=False), 1):
            if look["estimates"] != digest:
                raise DataError(
                    f"Look {number} has other estimates than those recorded at {look['at']} by "
                    f"{look['by']}; give the release of that look."
                )
        found = self
        for digest in digests[len(self.looks) :]:
            entry = {"at": now_utc(), "by": by or user_name(), "estimates": digest}
            own = {**entry, "hash": values_hash([found.last_hash, entry])}
            found = replace(found, looks=(*found.looks, own))
        return found

    @property
    def last_hash(self) -> str:
        """Hash of everything so far."""
        return str(self.looks[-1]["hash"]) if self.looks else values_hash(self.plan)

    def write(self, path: str | Path) -> None:
        """Write the record to a JSON file."""
        own = {"plan": self.plan, "plan_hash": values_hash(self.plan), "looks": self.looks}
        values = {"format": FORMAT, **own}
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        write_files(Path(path).absolute().parent, {Path(path).name: text})


def read_record(path: Path) -> MonitoringRecord:
    """Read a record and check its hashes."""
    try:
        values = json.loads(path.read_text("utf-8"))
        record = MonitoringRecord(values["plan"])
        intact = values["format"] == FORMAT
        # Earlier versions wrote no hash of the plan, which that of the first look includes.
        intact &= values.get("plan_hash", record.last_hash) == record.last_hash
        for look in values["looks"]:
            entry = {k: v for k, v in look.items() if k != "hash"}
            intact &= look["hash"] == values_hash([record.last_hash, entry])
            record = replace(record, looks=(*record.looks, look))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} is not a record of monitoring") from None
    if not intact:
        raise DataError(f"{path} was changed after it was written: its content has another hash")
    return record
