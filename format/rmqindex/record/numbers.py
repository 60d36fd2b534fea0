"""Numbers in properties, which are text (Java: ``Long.parseLong``)."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["java_integer"]

_ASCII = re.compile(r"[+-]?[0-9]{1,18}")
# The largest 64-bit number has so many digits.
_MOST_DIGITS = 19
# Java looks at UTF-16 code units, each by itself.
_LAST_CODE_UNIT = 0xFFFF


def java_integer(text: str, bits: int) -> int | None:
    """Return the number that Java reads in a text; None where it raises NumberFormatException.

    A text is a sign, if any, and at least one decimal digit of any script, and nothing else.
    """
    if _ASCII.fullmatch(text):
        number = int(text)
    else:
        negative = text.startswith("-")
        digits = [_digit(each) for each in text[text.startswith(("+", "-")) :]]
        if not digits or min(digits) < 0:
            return None
        significant = "".join(map(str, digits)).lstrip("0")
        if len(significant) > _MOST_DIGITS:
            return None
        number = int(significant or "0") * (-1 if negative else 1)
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None


def _digit(character: str) -> int:
    return unicodedata.decimal(character, -1) if ord(character) <= _LAST_CODE_UNIT else -1
