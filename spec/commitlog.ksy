meta:
  id: commitlog
  title: Apache RocketMQ CommitLog file
  application: Apache RocketMQ
  license: Apache-2.0
  encoding: utf-8
  endian: be
doc: |
  One file of a CommitLog: records one behind the other, up to a blank record, to zeros, to the end
  of the file, or to anything else that is no record.
doc-ref: commitlog.md
seq:
  - id: records
    type: record
    repeat: until
    repeat-until: _io.size - _io.pos < 8 or not _.is_message
    doc: The last one may be no message but what stands where the records end.
enums:
  magic:
    3668123815: version_1
    3668123819: version_2
    3419681172: blank
types:
  record:
    seq:
      - id: total_size
        type: s4
        doc: The whole record, bytes; of a blank one, up to the end of the file.
      - id: magic_code
        type: u4
        enum: magic
      - id: message
        type: message(magic_code == magic::version_2)
        size: total_size - 8
        if: is_message
    instances:
      is_message:
        value: >-
          (magic_code == magic::version_1 or magic_code == magic::version_2) and total_size >= 91
  message:
    params:
      - id: is_version_2
        type: bool
    seq:
      - id: body_crc
        type: s4
        doc: CRC-32 of the body as stored, without its highest bit.
      - id: queue_id
        type: s4
      - id: flag
        type: s4
      - id: queue_offset
        type: s8
        doc: The place in the queue, in messages.
      - id: physical_offset
        type: s8
        doc: Where the record starts in the log, bytes.
      - id: sys_flag
        type: s4
      - id: born_timestamp
        type: s8
        doc: The client's clock, ms.
      - id: born_host
        type: host((sys_flag & 16) != 0)
      - id: store_timestamp
        type: s8
        doc: The broker's clock, ms.
      - id: store_host
        type: host((sys_flag & 32) != 0)
      - id: reconsume_times
        type: s4
      - id: prepared_transaction_offset
        type: s8
      - id: body_length
        type: s4
      - id: body
        size: 'body_length < 0 ? 0 : body_length'
      - id: topic_length_1
        type: s1
        if: not is_version_2
      - id: topic_length_2
        type: s2
        if: is_version_2
      - id: topic
        type: str
        size: topic_length
      - id: properties_length
        type: s2
      - id: properties
        size: 'properties_length < 0 ? 0 : properties_length'
        doc: name 01 value 02, repeated.
    instances:
      topic_length:
        value: 'is_version_2 ? topic_length_2 : topic_length_1'
      is_compressed:
        value: (sys_flag & 1) != 0
      compression:
        value: (sys_flag >> 8) & 7
      transaction:
        value: (sys_flag >> 2) & 3
      is_inner_batch:
        value: (sys_flag & 192) == 192
  host:
    params:
      - id: is_v6
        type: bool
    seq:
      - id: address
        size: 'is_v6 ? 16 : 4'
      - id: port
        type: s4
