"""The record of a commit to S3: the object whose storing is the commit point.

A request that is sent again, since it was not answered, may be done twice, once of it late.
So a claim and a record are two objects: a claim that comes late takes no record back.
And a record counts only while all files that it names are staged: one that comes late, after its
commit was finished, names files that are gone.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.storage.disk import INDEX_NAME, is_plain_name
from rmqindex.storage.records import RecordKind, shorten
from rmqindex.transaction.owner import Owner

if TYPE_CHECKING:
    from rmqindex.storage.location import Location
    from rmqindex.storage.records import Fields

#: The prefix of every name in the directory that is not part of the index.
STAGING_PREFIX = ".rmqindex-"
_CLAIM_SUFFIX = ".claim"
_COMMIT_SUFFIX = ".commit"


def is_record(info: pafs.FileInfo) -> bool:
    """Return whether an object is, by its name, the record of a commit."""
    return job_of(info) is not None and info.base_name.endswith(_COMMIT_SUFFIX)


def job_of(info: pafs.FileInfo) -> str | None:
    """Return the job whose claim or record an object is, by its name; None where it is neither."""
    name = info.base_name
    if info.type == pafs.FileType.File and name.startswith(STAGING_PREFIX):
        for suffix in (_CLAIM_SUFFIX, _COMMIT_SUFFIX):
            if name.endswith(suffix):
                return str(name.removeprefix(STAGING_PREFIX).removesuffix(suffix))
    return None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The changes of a commit, or a claim, which has none.

    Attributes:
        job: The job that commits.
        owner: The process whose death makes it abandoned.
        new: The staged name, the final name and the size in bytes of each new file.
        removed: The names of the files to remove.
        committed: Whether it is a record, not a claim.
    """

    job: str
    owner: Owner
    new: tuple[tuple[str, str, int], ...] = ()
    removed: tuple[str, ...] = ()
    committed: bool = False

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{STAGING_PREFIX}{self.job}{_COMMIT_SUFFIX if self.committed else _CLAIM_SUFFIX}"

    @property
    def staged(self) -> tuple[str, ...]:
        """The paths of the staged files below the directory."""
        return tuple(f"{STAGING_PREFIX}{self.job}/{name}" for name, _, _ in self.new)

    @classmethod
    def read(
        cls, filesystem: pafs.FileSystem, inner_directory: str, name: str, directory: Location
    ) -> CommitRecord:
        """Read a record."""
        uri = directory.child(name)
        record = _COMMIT_RECORD.read_object(filesystem, f"{inner_directory}/{name}", uri)
        if name != record.name:
            raise RmqIndexError(
                f"{uri}: expected {_COMMIT_RECORD.what} of the job in its name, got the one of "
                f"{record.name!r}; {_COMMIT_RECORD.remedy}"
            )
        return record

    @classmethod
    def of(cls, fields: Fields) -> CommitRecord:
        """Rebuild a record from its fields."""
        job, owner = fields.text("job"), fields.inner("owner")
        if not is_plain_name(job):
            raise ValueError(f"job: expected a name, got {job!r}")
        if owner is None:
            raise ValueError("owner: expected this field, got none")
        return cls(
            job,
            Owner.of(owner),
            tuple(_new_file(item) for item in fields.items("new")),
            fields.names("removed", INDEX_NAME, "names of IndexFiles"),
            fields.flag("committed"),
        )

    def encode(self, directory: Location) -> bytes:
        """Return the bytes of the record, to store in a directory."""
        fields = {
            "job": self.job,
            "owner": self.owner.to_dict(),
            "new": self.new,
            "removed": self.removed,
            "committed": self.committed,
        }
        return _COMMIT_RECORD.encode(directory.child(self.name), fields)

    def first_missing(self, filesystem: pafs.FileSystem, inner_directory: str) -> str | None:
        """Return the first path of a staged file that is not there; None where all are."""
        infos = filesystem.get_file_info([f"{inner_directory}/{path}" for path in self.staged])
        return next((info.path for info in infos if info.type != pafs.FileType.File), None)

    def finish(self, filesystem: pafs.FileSystem, inner_directory: str) -> None:
        """Carry out the commit, or the rest of it, and remove its staged files."""
        if self.committed and self.first_missing(filesystem, inner_directory) is None:
            names = {name for _, name, _ in self.new}
            # The continued file comes first: new names must not appear before it.
            copies = zip(self.staged, (name for _, name, _ in self.new), strict=True)
            for staged, name in sorted(copies, key=lambda each: each[1] not in self.removed):
                filesystem.copy_file(f"{inner_directory}/{staged}", f"{inner_directory}/{name}")
            for name in self.removed:
                if name not in names:
                    remove_object(filesystem, f"{inner_directory}/{name}")
        # A record without a staged file no longer counts, so that it may come back.
        with contextlib.suppress(FileNotFoundError):
            filesystem.delete_dir(f"{inner_directory}/{STAGING_PREFIX}{self.job}")
        for each in (self, CommitRecord(self.job, self.owner)):
            remove_object(filesystem, f"{inner_directory}/{each.name}")

    def show_in(self, listing: dict[str, tuple[pafs.FileInfo, str]]) -> None:
        """Apply the commit to a listing of the directory."""
        for name in self.removed:
            listing.pop(name, None)
        for staged, (_, name, size) in zip(self.staged, self.new, strict=True):
            listing[name] = (pafs.FileInfo(name, pafs.FileType.File, size=size), staged)


def remove_object(filesystem: pafs.FileSystem, path: str) -> None:
    """Remove an object if it is there."""
    if filesystem.get_file_info(path).type == pafs.FileType.File:
        filesystem.delete_file(path)


def _new_file(item: object) -> tuple[str, str, int]:
    """Check one new file of a record: its staged name, final name and size in bytes."""
    match item:
        case [str(staged), str(name), int(size)] if (
            is_plain_name(staged)
            and INDEX_NAME.fullmatch(name)
            and not isinstance(size, bool)
            and 0 <= size <= INT64_MAX
        ):
            return staged, name, size
    raise ValueError(
        f"new: expected a staged name, the name of an IndexFile and a size, got {shorten(item)}"
    )


_COMMIT_RECORD = RecordKind(
    "the record of a commit",
    CommitRecord.of,
    "restore the object from a backup, or, once no write to the index runs, remove it: what its "
    "commit had not finished is then missing, so write those rows again",
)
