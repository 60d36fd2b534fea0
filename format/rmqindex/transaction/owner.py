"""The process that owns a job, and whether it still runs.

Process ids are reused; with the start time, the boot and the process namespace, one is unique.
Host names are not: machines share them, by accident or by a template.
"""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.layout.index_file import INT32_MAX, INT64_MAX
from rmqindex.storage.records import RecordKind

if TYPE_CHECKING:
    from rmqindex.storage.records import Fields

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_NAMESPACE = _PROC / "self/ns/pid"
_MACHINE_ID = Path("/etc/machine-id")
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
        machine: The id of the machine's installation; empty where it has none.
    """

    host: str
    boot_id: str
    namespace: str
    pid: int
    start_time: int
    machine: str = ""

    @classmethod
    def of_process(cls, pid: int) -> Owner:
        """Return the identity of a running process of this host.

        Raises:
            ProcessLookupError: No such process.
        """
        fields = _stat(pid)
        if fields is None:
            raise ProcessLookupError(f"pid: expected a running process, got {pid}")
        start_time = int(fields[_START_TIME])
        return cls(socket.gethostname(), _boot_id(), _namespace(), pid, start_time, _machine())

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
            machine=fields.text("machine") if "machine" in fields.values else "",
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as JSON can hold them."""
        return asdict(self)

    @property
    def has_ended(self) -> bool:
        """Whether the process has certainly ended: this kernel, under which it ran, says so.

        A process of another boot or namespace is invisible from here.
        """
        if self.boot_id != _boot_id() or self.namespace != _namespace():
            return False
        fields = _stat(self.pid)
        return (
            fields is None
            or fields[_STATE] in _GONE_STATES
            or int(fields[_START_TIME]) != self.start_time
        )

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or ran before this machine's last boot as far as ids tell.

        Copies of an installation may share its id, so what relies on this must do no harm to a
        process that runs.
        """
        if self.boot_id == _boot_id():
            return self.has_ended
        here = (socket.gethostname(), _machine())
        return bool(self.machine) and (self.host, self.machine) == here


#: The kind of record in ``owner.json``.
OWNER_RECORD = RecordKind(
    "the owner of a job",
    Owner.of,
    "once no write to the index runs, remove its directory, which holds what the job staged",
    limit=64 * 1024,
)


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()


def _namespace() -> str:
    return str(_NAMESPACE.readlink())


def _machine() -> str:
    try:
        text = _MACHINE_ID.read_text().strip()
    except OSError:
        return ""
    return text if text.isprintable() else ""


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
