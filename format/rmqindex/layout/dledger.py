"""Offsets, sizes and marks of DLedger's entries, which hold the records of a DLedger CommitLog.

DLedger: ``DLedgerEntry``, ``DLedgerEntryCoder``, ``DLedgerEntryType``, ``DLedgerIndexEntry``,
``MmapFileList``, ``DLedgerMmapFileStore``.
No other module holds a number of these formats.
All integers are big-endian and signed.
"""

from __future__ import annotations

import struct

# DLedgerEntry.BODY_OFFSET, 48 bytes: magic, size with this head, index, term, pos, channel, chain
# CRC, body CRC, body size. No release computes either CRC: they are 0.
ENTRY_HEAD = struct.Struct(">iiqqqiiii")
SIZE_OFFSET = 4
INDEX_OFFSET = 8
TERM_OFFSET = 16
POS_OFFSET = 24
BODY_SIZE_OFFSET = 44

# DLedgerEntryType: NORMAL holds a record; NOOP and CONFIG_CHANGE hold none.
MAGIC_NORMAL = 1
CONTROL_MAGICS = (2, 3)
MAGICS = (MAGIC_NORMAL, *CONTROL_MAGICS)
# MmapFileList.BLANK_MAGIC_CODE: magic, and size with these eight bytes.
BLANK_MAGIC = -1
BLANK_HEAD = struct.Struct(">ii")

# DLedgerIndexEntry: magic, pos, size, index, term.
INDEX_UNIT = struct.Struct(">iqiqq")

# DLedgerConfig.getDataStorePath.
DATA_FOLDER = "data"
# MemberState.TERM_PERSIST_FILE, beside it.
TERM_NAME = "currterm"
# DLedgerMmapFileStore.persistCheckPoint: a text of properties beside the folder of the data.
CHECKPOINT_NAME = "checkpoint"
COMMITTED_INDEX_KEY = "committedIndex"
