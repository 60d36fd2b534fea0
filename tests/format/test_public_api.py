"""What the package shows to its users."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rmqindex
import rmqindex.keys

PACKAGE = Path(rmqindex.__file__).parent


def test_the_public_names_are_these():
    """They are sorted, and each of them is there."""
    assert rmqindex.__all__ == [
        "AUDIT_RULES",
        "AuditRule",
        "COMMITLOG_SCHEMA",
        "CONSUMER_GROUP_SCHEMA",
        "CONSUME_QUEUE_SCHEMA",
        "CommitLog",
        "ConsumeQueue",
        "CorruptCommitLogError",
        "CorruptIndexError",
        "ENTRY_SCHEMA",
        "EXPLAIN_REASONS",
        "FINDING_SCHEMA",
        "FileExplanation",
        "GrpcMessageId",
        "HashSet",
        "HitExplanation",
        "IncompleteIndexWarning",
        "IncompleteLogWarning",
        "IndexDirectory",
        "IndexFile",
        "IndexFileWriter",
        "IndexHeader",
        "IndexReach",
        "InnerMessage",
        "Layout",
        "LogFile",
        "LogReach",
        "LookupExplanation",
        "MATCH_STATES",
        "MessageStore",
        "OffsetMessageId",
        "OtherTopic",
        "QueryOffsetResult",
        "QueueFile",
        "QueueRebuildResult",
        "Reason",
        "RebuildResult",
        "RelayoutResult",
        "RemotingMessageId",
        "RmqIndexError",
        "StoreCheckpoint",
        "cover_index",
        "decode_message_id",
        "decode_offset_msg_id",
        "decode_uniq_key",
        "decompress_bodies",
        "decompress_body",
        "expand_messages",
        "explain_lookup",
        "index_key",
        "index_key_hashes",
        "inner_messages",
        "key_hash",
        "key_hashes",
        "message_keys",
        "parse_properties",
        "property_pairs",
        "rebuild_consume_queues",
        "rebuild_index",
        "relayout_index",
        "salvage",
        "sample_store",
        "verify",
    ]
    assert all(hasattr(rmqindex, name) for name in rmqindex.__all__)


def test_nothing_else_is_public():
    """Modules are private, so that names have one home."""
    # A fresh interpreter: a module is a name of the package once anything has imported it.
    code = "import rmqindex; print(*dir(rmqindex))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(shown.stdout.split()) - set(rmqindex.__all__) == set()


def test_everything_public_is_documented():
    """Classes, their public methods, and functions."""
    for name in rmqindex.__all__:
        item = getattr(rmqindex, name)
        if not (inspect.isclass(item) or inspect.isfunction(item)):
            continue
        assert item.__doc__, name
        if inspect.isclass(item):
            for member_name, member in vars(item).items():
                if not member_name.startswith("_") and inspect.isfunction(member):
                    assert member.__doc__, f"{name}.{member_name}"


def test_the_format_never_imports_spark():
    """One direction: the connector builds on the format."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if "pyspark" not in text and "py4j" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not any(name.startswith(("pyspark", "py4j")) for name in names), path


def test_only_the_command_line_imports_click():
    """The codec and the connector can be used without it."""
    packages = [PACKAGE, *(PACKAGE.parents[1] / "connector").iterdir()]
    importers = {
        path
        for package in packages
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) click\b", path.read_text(), re.MULTILINE)
    }
    assert {path.parent for path in importers} == {PACKAGE / "cli", PACKAGE / "cli" / "commands"}


def test_importing_the_package_is_light():
    """No command line, no pandas, no Spark."""
    heavy = ("click", "pandas", "pyspark", "rich")
    code = f"import sys, rmqindex; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_the_exports_of_a_room_are_read_from_an_archive(tmp_path):
    """Spark's ``--py-files`` hands executors a zip archive."""
    archive = shutil.make_archive(str(tmp_path / "packages"), "zip", PACKAGE.parent, PACKAGE.name)
    code = (
        "import rmqindex.keys; from rmqindex.keys import key_hash; "
        "print(rmqindex.__file__, key_hash('T#k'), *rmqindex.keys.__all__)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": archive},
        capture_output=True,
        text=True,
        check=True,
    )
    file, _, *names = shown.stdout.split()
    assert file.startswith(archive)
    assert names == rmqindex.keys.__all__


def test_a_room_has_only_the_names_that_it_lists():
    """Another name is an error, as of any module."""
    with pytest.raises(AttributeError, match=r"module 'rmqindex\.keys' has no attribute 'other'"):
        _ = rmqindex.keys.other
    assert dir(rmqindex.keys) == rmqindex.keys.__all__
