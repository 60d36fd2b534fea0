meta:
  id: checkpoint
  title: Apache RocketMQ checkpoint
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  How far a store is known to be on the disk: six integers at the start of 4096 bytes.
doc-ref: checkpoint.md
seq:
  - id: physic_msg_timestamp
    type: s8
    doc: Store time of the last message in the flushed CommitLog, ms.
  - id: logics_msg_timestamp
    type: s8
    doc: Store time of the last message in the flushed ConsumeQueues, ms.
  - id: index_msg_timestamp
    type: s8
    doc: end_timestamp of the last full IndexFile that was flushed, ms.
  - id: master_flushed_offset
    type: s8
    doc: How far the master's log was flushed, bytes.
  - id: confirm_phy_offset
    type: s8
    doc: How far the log is confirmed, bytes.
  - id: logics_physical_offset
    type: s8
    doc: How far the log is in the flushed ConsumeQueues, bytes; from 5.5.0 on.
