"""The journal of a sweep: one JSON line per finished run, on the disk when the run has ended. tablefile.py tells its form.

Running the same sweep again goes on where the journal ends. Runs that ended in an error are run again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from .export import Cell, checked_path, json_safe
from .tablefile import JOURNAL_VERSION, read_journal

_BEGIN = b'{"fanwidth_journal": 1'
_SYNC_S = 1.0
MACHINE = ("host", "machine", "system", "cpus", "implementation", "python", "libuv", "fanwidth")
"""Parts of the header: where one differs, times cannot be compared."""


class JournalMismatch(ValueError):
    """The journal is of another machine or another sweep."""


class JournalWriter:
    """An open journal. `rows` is what was there; no one else can write to it until it is closed.

    header: what holds for all rows; under "sweep" what makes the sweep this one, under "seed" its seed.
    own_seed: the header's seed is of no account where the journal has one. `seed` is the one in force.

    JournalMismatch where the file is of another machine or sweep; ValueError for a file that is no journal, OSError where it
    cannot be written or another sweep is writing to it.
    """

    def __init__(self, path: str | os.PathLike[str], header: Mapping[str, Any], *, own_seed: bool = False) -> None:
        self.path = checked_path(path)
        self.rows: list[dict[str, Any]] = []
        self.seed: int = header["seed"]
        self.complete = False
        self.retried = 0
        """Runs left out of `rows`, since they had ended in an error."""
        self._synced = 0.0
        self._file = _locked(self.path)
        try:
            self._open({"fanwidth_journal": JOURNAL_VERSION, **header}, own_seed)
        except BaseException:
            self._file.close()
            raise

    def _open(self, header: dict[str, Any], own_seed: bool) -> None:
        if not self._begun():
            self._write(header)
            return
        found = read_journal(self.path)
        header = json.loads(_line(header))  # as it reads back
        _compare(self.path, found.header, header, own_seed)
        self.seed = found.header["seed"]
        self.rows = [row for row in found.rows if not row.get("error")]
        self.retried = len(found.rows) - len(self.rows)
        self.complete = found.complete and not self.retried
        if self.retried:
            self._replace(found.good_bytes)
            return
        self._file.truncate(found.good_bytes)
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(size - 1)
        if self._file.read(1) != b"\n":  # all of the last line is there but its end
            self._file.write(b"\n")

    def _begun(self) -> bool:
        """Whether the file has a header. One that was cut off within its header holds nothing, and begins anew."""
        self._file.seek(0)
        begin = self._file.read(1 << 20)
        if b"\n" in begin or len(begin) == 1 << 20 or not (begin.startswith(_BEGIN) or _BEGIN.startswith(begin)):
            return True
        if begin:
            warnings.warn(f"{self.path}: its only line is cut off; it begins anew", RuntimeWarning, stacklevel=5)
            self._file.truncate(0)
        return False

    def _replace(self, size: int) -> None:
        """Leaves the errors out: the file anew, under its name at once or not at all; the lock goes with it."""
        target = os.path.realpath(self.path)
        part = f"{target}.part"
        old, self._file = self._file, _locked(part)
        try:
            self._file.truncate(0)
            old.seek(0)
            for line in old.read(size).splitlines(keepends=True):
                row = json.loads(line).get("row", {}) if line.strip() else {}
                if not row.get("error"):
                    self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
            os.fchmod(self._file.fileno(), os.fstat(old.fileno()).st_mode & 0o7777)
            os.replace(part, target)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        finally:
            old.close()

    def add(self, row: Mapping[str, Cell], host: str = "") -> None:
        """Writes the row of a run that has ended, and the host that it ran on."""
        self._write({"row": row, "host": host} if host else {"row": row})

    def finish(self) -> None:
        """Says that all runs of the sweep are there."""
        self._write({"complete": True})

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._file.write(_line(entry))
        self._file.flush()
        if time.monotonic() - self._synced >= _SYNC_S:  # what was flushed survives us; the sync is for the power's failing
            self._sync()

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno not in (None, 22):  # EINVAL: a pipe or a device, which has nothing to sync
                raise
        self._synced = time.monotonic()

    def close(self) -> None:
        """Closes the file, and with it the lock."""
        if not self._file.closed:
            self._file.flush()
            self._sync()
            self._file.close()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _locked(path: str) -> BinaryIO:
    """The file, made where there is none, open for reading and appending by us alone."""
    file = open(path, "a+b")  # noqa: SIM115  # the caller closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BlockingIOError(f"{path} is being written by another sweep (wait for it, or use another path)") from None
    except OSError:
        pass  # a file system without locks
    return file


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(json_safe(entry), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _compare(path: str, found: Mapping[str, Any], ours: Mapping[str, Any], own_seed: bool) -> None:
    """JournalMismatch where the journal's runs and ours do not belong into one table."""
    for what, there, here in (
        ("machine or installation", found, {name: ours[name] for name in MACHINE if name in ours}),
        ("sweep", _flat(found.get("sweep")), _flat(ours["sweep"])),
    ):
        differ = [
            f"{name} is {_brief(there.get(name))} there, {_brief(here.get(name))} here"
            for name in {**here, **there}
            if there.get(name) != here.get(name) and (name in here or what == "sweep")
        ]
        if differ:
            # A hash tells only that there is a difference; it is named where nothing else is.
            told = "; ".join([text for text in differ if "sha256" not in text][:3] or differ[:1])
            raise JournalMismatch(f"journal {path!r} is of another {what}: {told} (use another path, or remove it to begin anew)")
    if not isinstance(found.get("seed"), int):
        raise JournalMismatch(f"journal {path!r} has no seed, so this sweep cannot go on with it (use another path)")
    if not own_seed and found["seed"] != ours["seed"]:
        told = f"seed is {found['seed']} there, {ours['seed']} here"
        raise JournalMismatch(f"journal {path!r} is of another sweep: {told} (leave seed out to go on with it)")


def _flat(sweep: Any) -> dict[str, Any]:
    """What makes a sweep, its axes by name first."""
    if not isinstance(sweep, Mapping):
        return {}
    axes = sweep.get("axes")
    rest = {name: value for name, value in sweep.items() if name != "axes"}
    return {**rest, **(axes if isinstance(axes, Mapping) else {})}


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
