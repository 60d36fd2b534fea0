"""Numbers of bytes as people write them."""

from __future__ import annotations

__all__ = ["size_text"]

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(size: int) -> str:
    """Return a number of bytes in the largest unit of which there is at least one."""
    amount = float(size)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
