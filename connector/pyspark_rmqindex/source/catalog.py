"""The options of a catalog table, which are stored in its columns.

Spark 4.1 to 4.3 pass the OPTIONS of CREATE TABLE when they ask for the columns, and then drop them;
but they keep the metadata of the columns, so the options are stored there.
Options given where a table is referenced (``WITH``, or ``spark.read.options(..).table(..)``) are
errors: a statement resolves each table once, so that the first WITH would apply to all references,
and the data source would never see the others.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField

from pyspark_rmqindex.options import OPTIONS
from pyspark_rmqindex.schema import Columns
from rmqindex.storage import Location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

_METADATA = "rmqindex.options"
# The prefix that Spark gives to the names of CREATE TABLE's OPTIONS.
_PREFIX = "option."
_SECRETS = frozenset(option.name.lower() for option in OPTIONS if option.secret)
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


def created_options(raw: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a CREATE TABLE; None if a load asks for the columns."""
    given = {name.lower(): value for name, value in raw.items()}
    if "provider" not in given:
        return None
    options = {
        name.removeprefix(_PREFIX): value
        for name, value in given.items()
        if name.startswith(_PREFIX)
    }
    for name in options:
        if name in _SECRETS:
            raise ValueError(
                f"option {name!r}: not in CREATE TABLE, since the catalog would show it; give the "
                "cluster's environment or role the key, or name it in WITH where the table is used"
            )
    path = given.get("path")
    if path is not None:
        options["path"] = _created_path(path)
    return options


def _created_path(path: str) -> str:
    """Return the path of a CREATE TABLE; raise if Spark may have changed it."""
    if "%" in path or "?" in path:
        raise ValueError(
            "option 'path': expected no % and no ? in CREATE TABLE, where Spark rewrites paths, "
            f"got {path}; give the option paths as a JSON list instead, which Spark leaves alone: "
            "OPTIONS (paths '[\"..\"]')"
        )
    return str(Location.of(path))


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns with the options, except S3 keys, in the metadata of each."""
    shown = {name: value for name, value in options.items() if name.lower() not in _SECRETS}
    text = json.dumps(dict(sorted(shown.items())))
    return Columns(
        [
            StructField(field.name, field.dataType, field.nullable, {_METADATA: text})
            for field in schema.fields
        ]
    )


def stored_options(schema: StructType) -> dict[str, str] | None:
    """Return the options stored in columns; None if there are none."""
    texts = {field.metadata[_METADATA] for field in schema.fields if _METADATA in field.metadata}
    if not texts:
        return None
    if len(texts) > 1:
        raise ValueError("schema: expected the columns of one catalog table, got those of several")
    options: dict[str, str] = json.loads(texts.pop())  # noqa: TID251  (what with_options put there)
    return options


def relation_options(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options for reading a relation."""
    options = {name.lower(): value for name, value in given.items()}
    stored = stored_options(schema)
    if stored is None:
        return options
    added = {name: value for name, value in options.items() if name not in _SECRETS}
    if added and added != stored:
        raise ValueError(
            f"{', '.join(f'option {name!r}' for name in sorted(added))}: not for a catalog table, "
            "which is read with the options of its CREATE TABLE. In one statement, Spark 4.1 to "
            "4.3 let the first WITH on a table stand for all others, so that rows could be those "
            "of another store. Create another table: CREATE TABLE .. USING .. OPTIONS (path '..')"
        )
    return stored | options


def check_paths(paths: Sequence[str], *, created: bool = False) -> None:
    """Raise for a relation without a path, or a catalog table with a relative one."""
    if not paths:
        raise ValueError(
            "option 'path': expected a path, in load() or as an option, got none. Of load(['a', "
            "'b']) Sail passes none: give the option paths instead, '[\"a\", \"b\"]'. A catalog "
            "table keeps its options only where it was created without a list of columns: CREATE "
            "TABLE .. USING .. OPTIONS (path '/data/store')"
        )
    for path in paths if created else ():
        if not _ABSOLUTE.match(path):
            raise ValueError(
                f"option 'path': expected an absolute path in CREATE TABLE, got {path}"
            )


def check_pushdown(schema: StructType, options: Mapping[str, str]) -> None:
    """Raise if pushdown may run with the options of another reference to the same table.

    It cannot if ``table()`` made the relation, which it names, or if the options are stored in the
    columns, as by CREATE TABLE and CREATE TEMPORARY VIEW without a list of columns.
    """
    if "relation" not in options and stored_options(schema) is None:
        raise ValueError(
            "option 'pushdown': expected a relation that keeps its own options, got WITH, or a "
            "list of columns. In one statement, Spark 4.1 to 4.3 let the first WITH on a catalog "
            "table stand for all others, so that rows could be those of another store. Create one "
            "table for each store, without columns: CREATE TABLE .. USING rmqindex OPTIONS (path "
            "'/data/store', commitLog 'auto'); to look keys up, use pyspark_rmqindex.table()"
        )
