meta:
  id: indexfile
  title: Apache RocketMQ IndexFile
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  One file of a RocketMQ index directory: a header, a table of hash slots, a table of entries.
  The file does not say how many slots and entries it has; they are parameters, which come from
  the broker's configuration (maxHashSlotNum, maxIndexNum).
doc-ref: index.md
params:
  - id: hash_slot_num
    type: u4
    doc: How many slots the file has.
  - id: index_num
    type: u4
    doc: How many entry places the file has; the first is never used.
seq:
  - id: header
    type: header
  - id: slots
    type: s4
    repeat: expr
    repeat-expr: hash_slot_num
    doc: The position of the newest entry of each slot, 0 for none; slots count from 0.
  - id: unused_entry
    size: 20
    doc: The place of entry 0, which is never used.
  - id: entries
    type: entry(_index + 1)
    repeat: expr
    repeat-expr: entry_count
    doc: The committed entries; entries[0] is the entry at position 1.
instances:
  committed:
    value: 'header.index_count < 1 ? 0 : header.index_count - 1'
    doc: How many entries the header counts.
  entry_count:
    value: 'committed < index_num ? committed : index_num - 1'
    doc: How many entries are read, which is never more than there are places.
types:
  header:
    seq:
      - id: begin_timestamp
        type: s8
        doc: Store time of the first put, ms; in a rolled file without entries, the seed.
      - id: end_timestamp
        type: s8
        doc: Store time of the last put, ms; not the maximum.
      - id: begin_phy_offset
        type: s8
        doc: Offset of the first put, bytes.
      - id: end_phy_offset
        type: s8
        doc: Offset of the last put, bytes; where that message starts.
      - id: hash_slot_count
        type: s4
        doc: How many slots are in use; before RocketMQ 4.7.1, how many entries there are.
      - id: index_count
        type: s4
        doc: The position the next put takes; 0 or less means 1.
  entry:
    params:
      - id: position
        type: s4
    seq:
      - id: key_hash
        type: s4
        doc: Hash of topic, '#', key.
      - id: phy_offset
        type: s8
        doc: Where the message starts in the CommitLog, bytes.
      - id: time_diff
        type: s4
        doc: Seconds after begin_timestamp, truncated and clipped.
      - id: prev_position
        type: s4
        doc: The next older entry of the same slot, 0 for none.
    instances:
      slot:
        value: key_hash % _root.hash_slot_num
        doc: The slot the entry belongs to, if its hash is not negative.
      store_timestamp:
        value: '_root.header.begin_timestamp + (position == 1 ? 0 : time_diff * 1000)'
        doc: The entry's time, ms; that of the first entry is exact.
