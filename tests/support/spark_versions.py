"""What the installed PySpark lacks: tests that need it are skipped, each with the reason."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest.reports import CollectReport, TestReport

__all__ = ["HAS_SPARK_STREAMS", "LACKING_MARKS", "lacking", "skip_what_spark_lacks"]

# Looked up in the files, as conftest.py is no place to import PySpark.
_SQL = Path(str(find_spec("pyspark").origin)).parent / "sql"  # type: ignore[union-attr]
#: Whether streams can be read: from 4.2 on.
HAS_SPARK_STREAMS = (_SQL / "streaming" / "datasource.py").exists()
_HAS_PUSHDOWN = "class EqualTo(" in (_SQL / "datasource.py").read_text()
_HAS_ARROW_FUNCTIONS = "def arrow_udf(" in (_SQL / "pandas" / "functions.py").read_text()
_HAS_EVERYTHING = HAS_SPARK_STREAMS and _HAS_PUSHDOWN
#: The marks of tests to skip, with the reasons.
LACKING_MARKS: dict[str, str] = {}
if not HAS_SPARK_STREAMS:
    LACKING_MARKS["spark_streams"] = "streams need PySpark 4.2 or later"
if not _HAS_PUSHDOWN:
    LACKING_MARKS["spark_pushdown"] = "pushdown needs PySpark 4.1 or later"
    LACKING_MARKS["planned_once"] = "PySpark 4.0 plans a load for each action"
if not _HAS_ARROW_FUNCTIONS:
    LACKING_MARKS["spark_arrow_functions"] = "functions of Arrow columns need PySpark 4.1 or later"
# Our refusals, and what a test module of a later PySpark cannot import.
_LACKING = re.compile(
    r"(?:table\(\)|option 'pushdown'|readStream|writeStream): expected PySpark [\d.]+ or later"
    r"|cannot import name '\w+' from 'pyspark\.[\w.]+'"
    r"|No module named 'pyspark\.[\w.]+'"
)


def lacking(text: str) -> str | None:
    """Return what a failure says that this PySpark lacks; None if it says nothing of the kind."""
    found = _LACKING.search(text)
    return found[0] if found else None


def skip_what_spark_lacks(report: TestReport | CollectReport) -> None:
    """Turn a failure into a skip if it is for something that this PySpark lacks."""
    reason = None if _HAS_EVERYTHING or not report.failed else lacking(report.longreprtext)
    if reason is not None:
        report.outcome = "skipped"
        report.longrepr = (report.nodeid, 0, f"Skipped: {reason}")
