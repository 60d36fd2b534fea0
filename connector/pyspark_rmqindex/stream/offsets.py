"""Offsets of a stream of entries: what was returned, and what comes next. Pure functions.

For each index directory, an offset holds the file and the position of the next entry.
A broker creates its files one after another, so all earlier files are done.
Names alone do not tell which files are earlier, though: they are the broker's local time, which
steps back by an hour every autumn; and after a crash, a broker indexes messages again, in a file
with a new name (RocketMQ: ``IndexService.load``).
So a file is new if its name *or* its first message is later than those of all files begun so far;
every file is new until it is begun, and never again.
A copy may bring its files in another order, and a file may vanish before it is read; so an offset
also names the files that were begun and those that were seen and not begun yet.
A file that came too late, or that is gone unread, is a loss that is named.
A batch is determined by its two offsets alone, so that a restarted stream runs the same batch.
The offsets also verify this: they hold checksums of the entries returned from the current file, and
from the files that the last batch finished.
Neither a broker's append nor a faithful copy of the store changes these checksums.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark_rmqindex.stream.store_offset import (
    PositionMark,
    SeenFile,
    StoreOffset,
    as_java_compares,
)
from rmqindex.layout import FIRST_POSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Piece(NamedTuple):
    """Entries of one file: from ``start`` to before ``stop``."""

    file: SeenFile
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.stop - self.start


class State(NamedTuple):
    """The work to do in one index directory."""

    pieces: list[Piece]  # The entries not returned yet, in the order in which they were written
    loss: str = ""  # A text about entries known to be lost; empty if there are none
    note: str = ""  # A text about an event without loss; empty if there is none


def state_of(
    directory: str,
    offset: StoreOffset | None,
    files: Iterable[SeenFile],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> State:
    """Find the entries that were not returned yet, and those that are lost."""
    files = list(files)
    if offset is None:
        new = sorted(files, key=lambda file: file.begin)
        return State([Piece(file, FIRST_POSITION, file.stop) for file in new])
    state = _from_current(directory, offset, files, mark_at)
    loss = state.loss or _vanished(directory, offset, files) or _came_late(directory, offset, files)
    return state._replace(loss=loss)


def _from_current(
    directory: str,
    offset: StoreOffset,
    files: Sequence[SeenFile],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> State:
    new = [file for file in files if file.name != offset.file and not offset.has_begun(file)]
    furthest = (offset.furthest_phy_offset, as_java_compares(offset.furthest_name))
    again = [file for file in new if file.begin <= furthest]
    again.sort(key=lambda file: as_java_compares(file.name))
    further = sorted((file for file in new if file.begin > furthest), key=lambda file: file.begin)
    rest = [Piece(file, FIRST_POSITION, file.stop) for file in again + further]
    current = next((file for file in files if file.name == offset.file), None)
    path = f"{directory}/{offset.file}"
    if current is None:
        other = _other_finished(directory, offset, files, mark_at)
        other = other or _all_other(directory, offset, files, rest)
        return State(rest, other) if other else _without_current(path, offset, rest)
    if not _begins_like(current, offset):
        loss = f"{_replaced(path, current, offset, mark_at)}; it is read from its first entry"
        return State([Piece(current, FIRST_POSITION, current.stop), *rest], loss)
    loss = _replaced(path, current, offset, mark_at)
    if loss:
        loss = f"{loss}; it is read on from position {offset.position}"
    if current.stop <= offset.position:
        return State(rest, loss)
    return State([Piece(current, offset.position, current.stop), *rest], loss)


def _vanished(directory: str, offset: StoreOffset, files: Sequence[SeenFile]) -> str:
    """Return which files went before they were read; empty if none did.

    After a crash, a broker indexes the messages of a file that it deleted in another one.
    """
    names = {file.name for file in files}
    if offset.file not in names:
        return ""
    expected = {offset.file, *offset.pending}
    again = [
        file.begin_phy_offset
        for file in files
        if file.name not in expected and not offset.has_begun(file)
    ]
    gone = [
        name
        for name, begin in sorted(offset.pending.items())
        if name not in names and not any(other <= begin for other in again)
    ]
    if not gone:
        return ""
    return (
        f"{directory}: expected {', '.join(gone)}, seen when {offset.file} was read and not read "
        "yet, got no such file: its entries are lost"
    )


def _came_late(directory: str, offset: StoreOffset, files: Sequence[SeenFile]) -> str:
    """Return which files appeared after later ones had been begun; empty if none did."""
    begun = [file for file in files if file.name != offset.file and offset.has_begun(file)]
    if offset.begun is not None:
        late = sorted(file.name for file in begun if file.name not in offset.begun)
        if not late:
            return ""
        count = sum(file.stop - FIRST_POSITION for file in begun if file.name in late)
        return (
            f"{directory}: expected the files in the order in which a broker begins them, got "
            f"{', '.join(late)} after {offset.last_name} had been read: {count} entries were not "
            "returned; a stream with a new checkpoint returns all"
        )
    current = next((file for file in files if file.name == offset.file), None)
    read = 0 if current is None else min(current.stop, offset.position) - FIRST_POSITION
    count = read + sum(file.stop - FIRST_POSITION for file in begun)
    if count <= offset.entries:
        return ""
    return (
        f"{directory}: expected at most the {offset.entries} entries that were read in the files "
        f"up to {offset.last_name}, got {count}: a file appeared after later ones had been read; "
        "a stream with a new checkpoint returns all"
    )


def continues(
    offset: StoreOffset, files: Iterable[SeenFile], mark_at: Callable[[SeenFile, int], PositionMark]
) -> bool:
    """Return whether files of another directory are those that an offset was made from."""
    file = next((file for file in files if file.name == offset.file), None)
    return file is not None and not _replaced("", file, offset, mark_at)


def _begins_like(file: SeenFile, offset: StoreOffset) -> bool:
    return (file.begin_timestamp, file.begin_phy_offset) == (
        offset.begin_timestamp,
        offset.begin_phy_offset,
    )


def _replaced(
    path: str,
    file: SeenFile,
    offset: StoreOffset,
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> str:
    """Return why a file is not the current file of an offset; empty if it is.

    No broker rewrites an entry, or reuses the name of a file.
    """
    before = offset.position - 1
    if not _begins_like(file, offset):
        return (
            f"{path}: expected the file of which the entries before position {offset.position} "
            f"were read, with begin_phy_offset {offset.begin_phy_offset} and begin_timestamp "
            f"{offset.begin_timestamp}, got another one of that name, with "
            f"{file.begin_phy_offset} and {file.begin_timestamp}"
        )
    if file.stop < offset.position:
        return f"{path}: expected at least the {before} entries that were read, got {file.stop - 1}"
    mark = mark_at(file, offset.position)
    if offset.checksum is not None and mark.checksum != offset.checksum:
        return (
            f"{path}: expected the {before} entries that were read, with checksum "
            f"{offset.checksum}, got {mark.checksum}: the entries were written anew"
        )
    if mark.phy_offset not in (None, offset.phy_offset):
        return (
            f"{path}: expected the entry at position {before} that was read, with phy_offset "
            f"{offset.phy_offset}, got {mark.phy_offset}: the entries were written anew"
        )
    return ""


def _other_finished(
    directory: str,
    offset: StoreOffset,
    files: Sequence[SeenFile],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> str:
    """Return which file that was read to its end has other entries now; empty if none has.

    A broker that indexes the messages of a deleted file anew leaves the files before it alone.
    """
    for file in files:
        checksum = offset.finished.get(file.name)
        if checksum is not None and mark_at(file, file.stop).checksum != checksum:
            return (
                f"{directory}/{offset.file}: gone, and {file.name} before it has other entries "
                "than those that were read: the index was made anew; a stream with a new "
                "checkpoint returns all"
            )
    return ""


def _all_other(
    directory: str, offset: StoreOffset, files: Sequence[SeenFile], rest: Sequence[Piece]
) -> str:
    """Return that none of several files is left, and their entries stand in others; else nothing.

    A broker that starts after a crash keeps the files up to its checkpoint, and indexes none of
    their messages again.
    """
    known = {*(offset.begun or ()), *offset.pending}
    is_any_left = any(file.name in known for file in files)
    if len(known) < 2 or is_any_left or not rest:
        return ""
    following = rest[0].file
    if following.begin_phy_offset >= max([offset.begin_phy_offset, *offset.pending.values()]):
        return ""
    return (
        f"{directory}: expected some of the {len(known)} files that were there, got none, and "
        f"{following.name}, which begins before the last of them did: the index was made "
        "anew, as by `rmqindex relayout` or `rebuild --replace`; a stream with a new checkpoint "
        "returns all"
    )


def _without_current(path: str, offset: StoreOffset, rest: list[Piece]) -> State:
    if not rest:  # nothing is certain until the broker continues
        return State([], note=f"{path}: gone, and no newer file is there yet")
    following = rest[0].file
    if following.begin_phy_offset < offset.phy_offset:
        note = (
            f"{path}: gone; its messages were indexed anew, by a broker after a crash or by a "
            f"command, and {following.name} begins before the last one that was read"
        )
        return State(rest, note=note)
    loss = (
        f"{path}: the file is gone, with its entries from position {offset.position} on and all "
        f"between it and the next file, {following.name}; those are of messages from offset "
        f"{offset.phy_offset} to {following.begin_phy_offset}"
    )
    return State(rest, loss)


def share(available: Sequence[int], limit: int | None) -> list[int]:
    """Divide a limit evenly among directories, giving to others what one does not need."""
    if limit is None:
        return list(available)
    shares = [0] * len(available)
    left = limit
    for done, place in enumerate(sorted(range(len(available)), key=available.__getitem__)):
        shares[place] = min(available[place], -(-left // (len(available) - done)))
        left -= shares[place]
    return shares


def cut(pieces: Sequence[Piece], entries: int) -> list[Piece]:
    """Return the first entries of some pieces."""
    first = []
    for piece in pieces:
        taken = min(piece.size, entries)
        if taken:
            first.append(piece._replace(stop=piece.start + taken))
        entries -= taken
    return first


def offset_after(
    offset: StoreOffset | None,
    pieces: Sequence[Piece],
    files: Iterable[SeenFile],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> StoreOffset | None:
    """Return the offset after some pieces."""
    if not pieces:
        return offset
    files = list(files)
    begun = [piece.file for piece in pieces]
    names = [file.name for file in begun] + ([] if offset is None else [offset.last_name])
    furthest = max(begun, key=lambda file: file.begin)
    place, name = furthest.begin_phy_offset, furthest.name
    if offset is not None and offset.furthest_phy_offset >= place:
        former = (offset.furthest_phy_offset, as_java_compares(offset.furthest_name))
        if former > furthest.begin:
            place, name = offset.furthest_phy_offset, offset.furthest_name
    file, _, stop = pieces[-1]
    phy_offset, checksum = mark_at(file, stop)
    after = StoreOffset(
        file=file.name,
        position=stop,
        entries=(0 if offset is None else offset.entries) + sum(piece.size for piece in pieces),
        phy_offset=file.begin_phy_offset if phy_offset is None else phy_offset,
        begin_timestamp=file.begin_timestamp,
        begin_phy_offset=file.begin_phy_offset,
        last_name=max(names, key=as_java_compares),
        furthest_phy_offset=place,
        furthest_name=name,
        checksum=checksum,
        finished={piece.file.name: _checksum(piece, mark_at) for piece in pieces[:-1]},
        begun=_begun_after(offset, begun, files),
    )
    pending = {
        unread.name: unread.begin_phy_offset for unread in files if not after.has_begun(unread)
    }
    return replace(after, pending=pending)


def _begun_after(
    offset: StoreOffset | None, begun: Iterable[SeenFile], files: Sequence[SeenFile]
) -> tuple[str, ...]:
    """Return the names of the files that were begun, without those that a broker has expired."""
    names = {file.name for file in begun}
    if offset is not None:
        former = offset.begun
        if former is None:
            former = (offset.file, *(file.name for file in files if offset.has_begun(file)))
        oldest = min((as_java_compares(file.name) for file in files), default=b"")
        names |= {name for name in former if as_java_compares(name) >= oldest}
    return tuple(sorted(names, key=as_java_compares))


def _checksum(piece: Piece, mark_at: Callable[[SeenFile, int], PositionMark]) -> int:
    """Return the checksum of all entries of a file before the end of a piece."""
    checksum = piece.file.checksum
    return mark_at(piece.file, piece.stop).checksum if checksum is None else checksum


def slices_between(
    directory: str,
    start: StoreOffset | None,
    end: StoreOffset,
    files: Iterable[SeenFile],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> State:
    """Return the entries between two offsets of one directory.

    A file belongs to the batch if it is new or current at the start and done or current at the end.
    A file that appeared after the end was fixed is still new at the end, so it does not belong.
    """
    files = list(files)
    pieces = _until(end, state_of(directory, start, files, mark_at).pieces)
    expected = end.entries - (0 if start is None else start.entries)
    count = sum(piece.size for piece in pieces)
    loss = _replaced_at(directory, (start, end), files, mark_at)
    if loss:
        return State(pieces, loss)
    changed = [
        f"{directory}/{piece.file.name}"
        for piece in pieces
        if end.finished.get(piece.file.name) not in (None, _checksum(piece, mark_at))
    ]
    if count == expected and not changed:
        return State(pieces)
    begin = "the beginning" if start is None else f"{start.file} position {start.position}"
    text = (
        f"{directory}: expected {expected} entries from {begin} to {end.file} position "
        f"{end.position}, got {count}"
    )
    if changed:
        return State(pieces, f"{text}: {', '.join(changed)} grew or was written anew")
    if count > expected:
        return State(pieces, f"{text}: a file grew although a later one had begun")
    newer, made_anew, _ = state_of(directory, end, files, mark_at)
    if not newer or not _indexed_anew(newer[0].file, start, end, pieces, mark_at):
        return State(pieces, f"{text}: files are gone")
    note = "" if made_anew else f"{text}: the broker indexed the others anew"
    return State(pieces, made_anew, note)


def _indexed_anew(
    following: SeenFile,
    start: StoreOffset | None,
    end: StoreOffset,
    pieces: Sequence[Piece],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> bool:
    """Return whether a file has what is gone of a batch: it is new and begins in what is left.

    After a crash, a broker begins it with the last message of the files that it keeps.
    """
    if following.name in end.pending:
        return False
    if pieces:
        last = mark_at(pieces[-1].file, pieces[-1].stop).phy_offset
        return last is not None and following.begin_phy_offset <= last
    return start is not None and following.begin_phy_offset < start.phy_offset


def _until(end: StoreOffset, pieces: Iterable[Piece]) -> list[Piece]:
    before = []
    for piece in pieces:
        if piece.file.name == end.file:
            stop = min(piece.stop, end.position)
        elif end.has_begun(piece.file):
            stop = piece.stop
        else:
            continue
        if stop > piece.start:
            before.append(piece._replace(stop=stop))
    return before


def _replaced_at(
    directory: str,
    offsets: Iterable[StoreOffset | None],
    files: Sequence[SeenFile],
    mark_at: Callable[[SeenFile, int], PositionMark],
) -> str:
    """Return which current file of the offsets was replaced, and why; empty if none was."""
    by_name = {file.name: file for file in files}
    for offset in offsets:
        if offset is not None and offset.file in by_name:
            path = f"{directory}/{offset.file}"
            loss = _replaced(path, by_name[offset.file], offset, mark_at)
            if loss:
                return loss
    return ""


def only_until(files: Iterable[SeenFile], target: Mapping[str, int]) -> list[SeenFile]:
    """Return files as they were at an earlier time."""
    return [
        file
        if file.stop <= target[file.name]
        else replace(file, stop=target[file.name], checksum=None)
        for file in files
        if file.name in target
    ]
