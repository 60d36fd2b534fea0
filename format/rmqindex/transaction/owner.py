"""The process that owns a job, and whether it still runs.

Process ids are reused; with the start time, the boot and the process namespace, one is unique.
"""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.layout import INT32_MAX, INT64_MAX
from rmqindex.ownfiles.records import RecordKind

if TYPE_CHECKING:
    from rmqindex.ownfiles.records import Fields

__all__ = ["OWNER_RECORD", "Owner"]

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_NAMESPACE = _PROC / "self/ns/pid"
# Field numbers of /proc/<pid>/stat behind the command name, from 0.
_STATE, _PARENT, _START_TIME = 0, 1, 19
_GONE_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Owner:
    """One process on one boot of one host.

    Attributes:
        host: The host's name.
        boot_id: The kernel's id of this boot.
        namespace: The process namespace in which ``pid`` counts, as the kernel writes it.
        pid: The process id.
        start_time: When the process started, in clock ticks since the boot.
    """

    host: str
    boot_id: str
    namespace: str
    pid: int
    start_time: int

    @classmethod
    def of_process(cls, pid: int) -> Owner:
        """Return the identity of a running process of this host.

        Raises:
            ProcessLookupError: No such process.
        """
        fields = _stat(pid)
        if fields is None:
            raise ProcessLookupError(f"pid: expected a running process, got {pid}")
        return cls(*_place(), pid=pid, start_time=int(fields[_START_TIME]))

    @classmethod
    def current(cls) -> Owner:
        """Return the identity of this process."""
        return cls.of_process(os.getpid())

    @classmethod
    def of_ancestor(cls, command: str) -> Owner:
        """Return the nearest ancestor that runs ``command``, such as ``java``, else this process.

        Spark's Python processes come and go; the JVM above them lives as long as the application.
        """
        pid = os.getpid()
        while pid > 1:
            fields = _stat(pid)
            if fields is None:
                break
            if _command(pid) == command:
                return cls.of_process(pid)
            pid = int(fields[_PARENT])
        return cls.current()

    @classmethod
    def of(cls, fields: Fields) -> Owner:
        """Rebuild an owner from :meth:`to_dict`.

        Raises:
            ValueError: A field is missing or invalid.
        """
        return cls(
            host=fields.text("host"),
            boot_id=fields.text("boot_id"),
            namespace=fields.text("namespace"),
            pid=fields.integer("pid", 1, INT32_MAX),
            start_time=fields.integer("start_time", 0, INT64_MAX),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as JSON can hold them."""
        return asdict(self)

    def is_gone(self) -> bool:
        """Return whether the process is known to be dead.

        A process of another host or namespace is invisible from here, so not known to be dead.
        """
        host, boot_id, namespace = _place()
        if self.host != host:
            return False
        if self.boot_id != boot_id:
            return True
        if self.namespace != namespace:
            return False
        fields = _stat(self.pid)
        return (
            fields is None
            or fields[_STATE] in _GONE_STATES
            or int(fields[_START_TIME]) != self.start_time
        )


#: The kind of record in ``owner.json``.
OWNER_RECORD = RecordKind(
    "the owner of a job",
    Owner.of,
    "once no write to the index runs, remove its directory, which holds what the job staged",
    limit=64 * 1024,
)


def _place() -> tuple[str, str, str]:
    return socket.gethostname(), _BOOT_ID.read_text().strip(), str(_NAMESPACE.readlink())


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat behind the command, which may hold anything."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _command(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""
