"""The key hash as a SQL expression that Spark evaluates while it plans.

A filter is pushed down only if its value is known during planning.
Spark evaluates all plain functions of constants then, but never Python functions, ``java_method``
or anything with a lambda (``aggregate``, ``transform``).
``String.hashCode`` is a number in base 31 whose digits are UTF-16 code units, modulo 2**32, and
``conv`` parses numbers in base 31.
It parses up to twelve digits at once, which is what fits into 64 bits, and each digit must be below
31; so the four hexadecimal digits of a code unit are parsed separately.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from pyspark_rmqindex.join.key_chunk import hash_columns

_BASE = 31
_MODULUS = 2**32
# String.hashCode has 32 bits; the broker takes its absolute value, or 0 for -2**31, which has none.
_SIGN_BITS = 32
_MAGNITUDES = 2**31
# 31**12 is below 2**63.
_DIGITS = 12
_CHUNKS = 12
_NIBBLES = 4

#: The most UTF-16 code units in ``topic#key`` for which the hash is known during planning.
MAX_FOLDED_UNITS = _DIGITS * _CHUNKS

#: The code units of ``topic#key`` as SQL, four hexadecimal digits each; NULL if one of the two is
#: not UTF-8, which ``encode`` would replace with U+FFFD.
UNITS = "hex(encode(concat(try_validate_utf8(topic), '#', try_validate_utf8(key)), 'UTF-16BE'))"


def hash_of_units() -> str:
    """Return SQL for the hash of ``units``, the value of ``UNITS``: INT, NULL for NULL.

    Beyond ``MAX_FOLDED_UNITS``, the polynomial is computed unit by unit when the query runs.
    """
    return (
        f"CASE WHEN length(units) > {_NIBBLES * MAX_FOLDED_UNITS} "
        f"THEN {_index_hash(_looped())} ELSE {_index_hash(_unrolled())} END"
    )


def _index_hash(code: str) -> str:
    """Return ``IndexFile.indexKeyHashMethod`` of a BIGINT whose low 32 bits are the hashCode."""
    signed = f"shiftright(shiftleft({code}, {_SIGN_BITS}), {_SIGN_BITS})"
    return f"CAST(abs({signed}) % {_MAGNITUDES} AS INT)"


def _unrolled() -> str:
    terms = []
    for nibble in range(_NIBBLES):
        digits = f"regexp_replace(units, '(.)(.)(.)(.)', '${nibble + 1}')"
        padded = f"lpad({digits}, {MAX_FOLDED_UNITS}, '0')"
        for chunk in range(_CHUNKS):
            power = pow(_BASE, _DIGITS * (_CHUNKS - 1 - chunk)) * 16 ** (_NIBBLES - 1 - nibble)
            # Signed, so that the product fits into 64 bits.
            weight = (power + _MODULUS // 2) % _MODULUS - _MODULUS // 2
            read = f"conv(substr({padded}, {chunk * _DIGITS + 1}, {_DIGITS}), {_BASE}, 10)"
            terms.append(f"CAST({read} AS BIGINT) % {_MODULUS} * {weight}L % {_MODULUS}")
    return " + ".join(terms)


def _looped() -> str:
    step = f"(h * {_BASE} + CAST(conv(unit, 16, 10) AS BIGINT)) % {_MODULUS}"
    return f"aggregate(regexp_extract_all(units, '....', 0), 0L, (h, unit) -> {step})"


def hash_series(topics: pd.Series, keys: pd.Series) -> pd.Series:
    """Hash a batch of columns; NULL gives NULL; pandas refuses text that is not UTF-8."""
    columns = (pa.Array.from_pandas(column, type=pa.string()) for column in (topics, keys))
    hashes: pd.Series = hash_columns(*columns).to_pandas(
        types_mapper={pa.int32(): pd.Int32Dtype()}.get
    )
    return hashes
