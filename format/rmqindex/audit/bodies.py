"""The audit of the messages themselves: whether their bytes agree with their CRCs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.audit.extent import log_start
from rmqindex.audit.rules import Findings
from rmqindex.logfile.walk import record_crc_fault

if TYPE_CHECKING:
    import pyarrow as pa

    from rmqindex.commitlog.log import CommitLog

__all__ = ["audit_bodies"]


def audit_bodies(log: CommitLog, max_findings: int, since: int | None = None) -> pa.RecordBatch:
    """Compare every message of a log with its CRCs; one that a broker is writing is left out.

    Args:
        log: The CommitLog.
        max_findings: The most findings of one rule in one file.
        since: Files of older messages are left out, epoch milliseconds.

    Returns:
        Findings as :func:`run_audit` returns them.

    Raises:
        RmqIndexError: The log cannot be read.
    """
    findings = Findings(max_findings)
    for records in log.records(log_start(log, since), log.agreed_stop(), mode="DROPMALFORMED"):
        first = int(records.phy_offset[0])
        file = next(each for each in log.files if each.start <= first < each.stop)
        for place, offset in enumerate(records.phy_offset.tolist()):
            fault = record_crc_fault(records, place)
            if fault is not None:
                byte = offset - file.start + fault.byte
                expected = f"{fault.expected} (message at {offset})"
                findings.add(str(file.path), fault.field, byte, expected, fault.got)
    return findings.batch()
