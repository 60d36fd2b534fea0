"""Which columns there are, and which a read may ask for."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_rmqindex.schema import check_columns, check_schema, full_schema, message_schema


def test_a_plain_load_has_the_columns_of_the_entries():
    """Names, types and order are those of the documentation."""
    assert [(field.name, field.dataType) for field in full_schema(keys=False).fields] == [
        ("key_hash", IntegerType()),
        ("phy_offset", LongType()),
        ("store_timestamp", TimestampType()),
        ("time_diff", IntegerType()),
        ("slot", IntegerType()),
        ("position", IntegerType()),
        ("prev_position", IntegerType()),
        ("file_path", StringType()),
    ]


def test_topic_and_key_come_first_where_they_are_known():
    """A lookup knows the texts it was asked for."""
    assert full_schema(keys=True).names[:3] == ["topic", "key", "key_hash"]
    assert full_schema(keys=True).names[2:] == full_schema(keys=False).names


def test_any_subset_in_any_order_is_accepted():
    """With NOT NULL and in any case of letters, too."""
    check_schema(
        StructType(
            [
                StructField("POSITION", IntegerType(), nullable=False),
                StructField("key_hash", IntegerType()),
            ]
        ),
        keys=False,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("posittion", IntegerType())], "column 'posittion': unknown; did you mean 'position'?"),
        ([("bodies", StringType())], "column 'bodies': unknown. Known"),
        ([("slots", StringType())], "column 'slots': unknown; did you mean 'slot'? Known"),
        ([("body", StringType())], "column 'body': only the message in the CommitLog has it;"),
        ([("key", StringType())], "column 'key': an IndexFile stores no texts; look keys up with"),
        ([("position", LongType())], "column 'position': expected INT, got BIGINT."),
        ([("slot", IntegerType()), ("Slot", IntegerType())], "column 'Slot': named twice."),
        ([], "schema: expected at least one column."),
    ],
)
def test_anything_else_is_refused_with_the_known_columns(fields, message):
    """The error lists what there is."""
    schema = StructType([StructField(name, type_) for name, type_ in fields])
    with pytest.raises(
        ValueError, match="Known columns: key_hash INT, phy_offset BIGINT"
    ) as caught:
        check_schema(schema, keys=False)
    assert message in str(caught.value)


def test_the_types_that_an_error_lists_can_be_written_as_they_are():
    """A struct's own names have a case, unlike the words of SQL."""
    full = message_schema(store=True, text=True)
    with pytest.raises(ValueError, match="Known columns: ") as caught:
        check_columns(StructType([StructField("nonesuch", StringType())]), full)
    assert "decoded_uniq_key STRUCT<kind:STRING,client:STRING,pid:INT," in str(caught.value)
