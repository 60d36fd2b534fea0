meta:
  id: consumequeue
  title: Apache RocketMQ ConsumeQueue file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  One file of a ConsumeQueue or of a batch queue, with all its places, written or not.
doc-ref: consumequeue.md
params:
  - id: is_batch
    type: bool
    doc: Whether the file is one of a batch queue.
seq:
  - id: units
    type: unit
    repeat: expr
    repeat-expr: '_io.size / (is_batch ? 46 : 20)'
types:
  unit:
    seq:
      - id: phy_offset
        type: s8
        doc: Where the message starts in the CommitLog, bytes.
      - id: size
        type: s4
        doc: The size of its record, bytes; 2147483647 in a blank unit.
      - id: tags_code
        type: s8
        doc: Hash code of the tags; of a delayed message, when it is due, ms.
      - id: batch
        type: batch
        if: _root.is_batch
    instances:
      is_written:
        value: phy_offset >= 0 and size > 0
        doc: Whether the place holds a unit; in a batch queue, batch.is_written counts too.
      is_blank:
        value: not _root.is_batch and phy_offset == 0 and size == 2147483647
  batch:
    seq:
      - id: store_timestamp
        type: s8
        doc: The record's, ms.
      - id: msg_base_offset
        type: s8
        doc: The queue offset of the first message.
      - id: batch_size
        type: s2
        doc: How many messages.
      - id: compacted_offset
        type: s4
      - id: reserved
        type: s4
    instances:
      is_written:
        value: msg_base_offset >= 0 and batch_size > 0
