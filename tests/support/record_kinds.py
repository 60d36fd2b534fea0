"""Every kind of record that the packages keep for themselves."""

from __future__ import annotations

from rmqindex.consumequeue.staging import _NOTE
from rmqindex.transaction.commit_record import _COMMIT_RECORD
from rmqindex.transaction.journal import _JOURNAL_RECORD, _LEDGER_RECORD
from rmqindex.transaction.owner import OWNER_RECORD

__all__ = ["RECORD_KINDS"]

RECORD_KINDS = {
    "owner": OWNER_RECORD,
    "journal": _JOURNAL_RECORD,
    "ledger": _LEDGER_RECORD,
    "note": _NOTE,
    "commit": _COMMIT_RECORD,
}
