"""Options that users know from Spark's other sources lead to what to write here."""

from __future__ import annotations

from itertools import chain

import pytest
from pyspark.sql import DataFrame

from pyspark_rmqindex import lookup
from pyspark_rmqindex.options import (
    OPTIONS,
    SinkOptions,
    message_options,
    message_schema_options,
    message_stream_options,
    parse_options,
    queue_options,
    read_options,
    schema_options,
    scopes_of,
    stream_options,
)
from pyspark_rmqindex.options.foreign import FAMILIES, FOREIGN, options_named


def write_options(raw):
    """Parse the options of a write."""
    return parse_options(SinkOptions, raw, "write")


def message_of(parse, **options):
    """Return what is said of options that are wrong."""
    with pytest.raises(ValueError, match="option") as refused:
        parse({"path": "/d", **options})
    return str(refused.value)


@pytest.mark.parametrize(
    ("parse", "name", "message"),
    [
        (
            schema_options,
            "startingoffsets",
            (
                "option 'startingOffsets': unknown here; write startingPosition for a stream, "
                "beginTimestamp for a load"
            ),
        ),
        (
            message_schema_options,
            "startingOffsets",
            (
                "option 'startingOffsets': unknown here; write startingPosition for a stream, "
                "beginOffset or beginTimestamp for a load"
            ),
        ),
        (
            message_options,
            "endingOffsets",
            "option 'endingOffsets': unknown here; write endOffset or endTimestamp for a load",
        ),
        (
            stream_options,
            "maxOffsetsPerTrigger",
            (
                "option 'maxOffsetsPerTrigger': unknown here; write maxEntriesPerTrigger or "
                "maxFilesPerTrigger for a stream"
            ),
        ),
        (
            message_stream_options,
            "maxFilesPerTrigger",
            (
                "option 'maxFilesPerTrigger': not for spark.readStream of the format rmqcommitlog; "
                "write maxMessagesPerTrigger or maxBytesPerTrigger for a stream"
            ),
        ),
        (
            stream_options,
            "maxBytesPerTrigger",
            (
                "option 'maxBytesPerTrigger': not for spark.readStream of the format rmqindex; "
                "write maxEntriesPerTrigger or maxFilesPerTrigger for a stream"
            ),
        ),
        (
            message_options,
            "pathGlobFilter",
            (
                "option 'pathGlobFilter': not for the format rmqcommitlog; put a pattern into "
                "the path, such as load('/store/commitlog/0000*')"
            ),
        ),
        (
            read_options,
            "subscribe",
            "option 'subscribe': unknown here; write topic, with key or keys",
        ),
        (
            message_options,
            "kafka.bootstrap.servers",
            (
                "option 'kafka.bootstrap.servers': unknown here; give the path of a store to "
                "load(), since files are read and no broker is asked"
            ),
        ),
        (
            read_options,
            "modifiedAfter",
            "option 'modifiedAfter': unknown here; write beginTimestamp",
        ),
        (
            write_options,
            "compression",
            "option 'compression': unknown here; leave it out, since the files have no compression",
        ),
        (
            queue_options,
            "header",
            (
                "option 'header': unknown here; leave it out, since the files are binary and their "
                "columns are fixed"
            ),
        ),
        (
            write_options,
            "maxRecordsPerFile",
            "option 'maxRecordsPerFile': unknown here; write maxIndexNum",
        ),
    ],
)
def test_a_name_of_another_source_says_what_to_write(parse, name, message):
    """In one sentence, and not with a list of all options."""
    assert message_of(parse, **{name: "1"}) == message


def test_each_advice_names_options_of_its_format():
    """Whoever renames an option is reminded of the advice."""
    families = {
        option.name: {FAMILIES[scope] for scope in scopes_of(option)}
        for option in OPTIONS
        if not option.internal
    }
    advised = [
        (family, name)
        for _, advice in FOREIGN.values()
        for family, text in advice.items()
        for name in options_named(text)
    ]
    assert advised
    assert [pair for pair in advised if pair[0] not in families[pair[1]]] == []


def test_no_advice_hides_an_option_that_is_known():
    """An option of each way to use a format is taken, whatever other sources call so."""
    for option in OPTIONS:
        _, advice = FOREIGN.get(option.name.lower(), ("", {}))
        assert {FAMILIES[scope] for scope in scopes_of(option)}.isdisjoint(advice), option.name


@pytest.mark.parametrize("parse", [schema_options, message_schema_options])
def test_an_unknown_option_of_a_load_or_a_stream_lists_those_of_both(parse):
    """Spark asks for the columns before it says which of the two it wants."""
    said = message_of(parse, maxEntrysPerTriger="1")
    known, _, rest = said.partition(". Known here: ")[2].partition("; only for spark.read: ")
    loads, _, streams = rest.partition("; only for spark.readStream: ")
    assert "startingPosition" in streams.split(", ")
    assert "failOnDataLoss" in streams.split(", ")
    lists = [part.split(", ") for part in (known, loads, streams)]
    assert "startingPosition" not in lists[0] + lists[1]
    assert len(set(chain(*lists))) == len(list(chain(*lists)))
    assert all(each == sorted(each) for each in lists)


def test_a_misspelt_option_of_a_stream_is_recognised():
    """Before Spark has said that it is one."""
    said = message_of(schema_options, maxEntrysPerTriger="1")
    assert said.startswith("option 'maxEntrysPerTriger': unknown; did you mean 'maxEntriesPerTrig")
    said = message_of(message_schema_options, startingPositon="latest")
    assert said.startswith("option 'startingPositon': unknown; did you mean 'startingPosition'. ")


def test_what_is_surely_a_stream_lists_no_option_of_loads_alone():
    """One option of streams is enough to know."""
    said = message_of(schema_options, startingPosition="latest", nonesuch="1")
    assert "failOnDataLoss" in said
    assert not {"audit", "pushdown"} & set(said.partition("Known here: ")[2].split(", "))


@pytest.mark.parametrize("name", [option.name for option in OPTIONS if option.internal])
def test_internals_are_unknown_wherever_they_are_not_taken(name):
    """No error says where an option that users never set would belong."""
    assert message_of(write_options, **{name: "1"}).startswith(f"option '{name}': unknown")


def test_a_table_does_not_list_what_it_sets_itself():
    """Its path and pushdown; a table of the catalog, which has no function, lists both."""
    told = message_of(read_options, pushdown="true", relation="a", keyColumns="true", nonesuch="1")
    listed = told.partition("Known here: ")[2].split(", ")
    assert not {"path", "pushdown"} & set(listed)
    told = message_of(read_options, pushdown="true", nonesuch="1")
    assert {"path", "pushdown"} <= set(told.partition("Known here: ")[2].split(", "))


def test_a_lookup_lists_its_arguments_and_no_option_of_keys():
    """A misspelt argument arrives among the options."""
    keys = object.__new__(DataFrame)
    with pytest.raises(ValueError, match="'strateg': unknown; did you mean 'strategy'") as caught:
        lookup(keys, "/data/store", strateg="scan")
    listed = str(caught.value).partition("Known here: ")[2].split(", ")
    assert {"how", "key", "strategy", "topic", "columns"} <= set(listed)
    assert not {"audit", "keyHash", "keys", "pushdown", "path"} & set(listed)
