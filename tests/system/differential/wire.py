"""Sequences and answers as bytes, as ``Driver.java`` reads and writes them."""

from __future__ import annotations

import struct
from typing import Any

_NULL = -1


class Encoder:
    """Writes what Java's ``DataInputStream`` reads."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._parts: list[bytes] = []

    def numbers(self, form: str, *values: Any) -> None:
        """Append numbers in the formats of :mod:`struct`."""
        self._parts.append(struct.pack(f">{form}", *values))

    def text(self, value: str | None) -> None:
        """Append the UTF-16 code units of a text, lone surrogates too."""
        if value is None:
            self.numbers("i", _NULL)
            return
        units = value.encode("utf-16-be", "surrogatepass")
        self.numbers("i", len(units) // 2)
        self._parts.append(units)

    def finish(self) -> bytes:
        """Return everything appended."""
        return b"".join(self._parts)


class Decoder:
    """Reads what Java's ``DataOutputStream`` wrote."""

    def __init__(self, data: bytes) -> None:
        """Take the bytes."""
        self._data = data
        self._at = 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Read numbers in the formats of :mod:`struct`."""
        values = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return values

    def number(self, form: str) -> Any:
        """Read one number."""
        return self.numbers(form)[0]

    def longs(self) -> list[int]:
        """Read a list of 64-bit numbers."""
        return list(self.numbers(f"{self.number('i')}q"))

    def contents(self) -> str:
        """Read a file, as hexadecimal text, which prints well."""
        size = self.number("i")
        data = self._data[self._at : self._at + size]
        self._at += size
        return data.hex()

    @property
    def is_finished(self) -> bool:
        """Whether everything was read."""
        return self._at == len(self._data)
