"""Queries of a view by key: those that bind the key, and those that do not."""

from __future__ import annotations

from rmqindex import index_key, key_hash

__all__ = ["SHAPES", "UNBOUND", "A", "B", "C"]

A = "topic = 'TopicTest' AND key = 'order-49'"
B = "topic = 'TopicTest' AND key = 'a#b'"
C = "topic = '订单主题' AND key = 'order-49'"
COLLIDING = "topic = 'TopicTest' AND key IN ('Aa', 'BB')"
HOURS = "store_timestamp BETWEEN '2023-11-15 08:00:00' AND TIMESTAMP '2023-11-15 11:30:00.5'"

SHAPES = {
    "one key": f"SELECT * FROM {{v}} WHERE {A}",
    "another key": f"SELECT * FROM {{v}} WHERE {B}",
    "the first key again": f"SELECT * FROM {{v}} WHERE {A}",
    "an absent key": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND key = 'absent'",
    "an absent topic": "SELECT * FROM {v} WHERE topic = 'absent' AND key = 'order-49'",
    "null-safe": "SELECT * FROM {v} WHERE topic <=> 'TopicTest' AND key <=> 'order-49'",
    "null": "SELECT * FROM {v} WHERE topic <=> NULL AND key = 'order-49'",
    "a list": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND key IN ('order-49', 'k', 'no')",
    "a list with null": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND key IN ('k', NULL)",
    "two lists": "SELECT * FROM {v} WHERE topic IN ('TopicTest', 'TopicOrder') "
    "AND key IN ('order-49', 'k') AND phy_offset > 3000",
    "keys of one hash": f"SELECT topic, key, phy_offset FROM {{v}} WHERE {COLLIDING}",
    "a contradiction": f"SELECT * FROM {{v}} WHERE {A} AND key = 'k'",
    "union all": f"SELECT * FROM {{v}} WHERE {A} UNION ALL SELECT * FROM {{v}} WHERE {B} "
    f"UNION ALL SELECT * FROM {{v}} WHERE {C}",
    "except": f"SELECT phy_offset FROM {{v}} WHERE {A} "
    f"EXCEPT SELECT phy_offset FROM {{v}} WHERE {B}",
    "intersect": "SELECT slot FROM {v} WHERE topic = 'TopicTest' AND key = 'Aa' "
    "INTERSECT SELECT slot FROM {v} WHERE topic = 'TopicTest' AND key = 'BB'",
    "self-join": "SELECT a.key, b.key, count(*), sum(a.phy_offset - b.phy_offset) FROM {v} a "
    "JOIN {v} b ON a.topic = b.topic AND a.phy_offset < b.phy_offset "
    "WHERE a.topic = 'TopicTest' AND a.key = 'order-49' AND b.key = 'a#b' GROUP BY 1, 2",
    "a CTE used twice": f"WITH c AS (SELECT * FROM {{v}} WHERE {B}) SELECT x.phy_offset, "
    "y.position FROM c x JOIN c y ON x.phy_offset = y.phy_offset AND x.file_path = y.file_path",
    "a scalar subquery": f"SELECT phy_offset, (SELECT max(phy_offset) FROM {{v}} WHERE {B}) "
    f"FROM {{v}} WHERE {A} AND phy_offset < (SELECT avg(phy_offset) FROM {{v}} WHERE {C})",
    "exists": f"SELECT * FROM {{v}} o WHERE {A} AND EXISTS (SELECT 1 FROM {{v}} i WHERE {C} "
    "AND i.slot <> o.slot AND i.phy_offset > o.phy_offset)",
    "not exists": f"SELECT id FROM range(3) WHERE NOT EXISTS (SELECT 1 FROM {{v}} WHERE {A} "
    "AND phy_offset = id)",
    "in subquery": f"SELECT id FROM range(200) WHERE id IN (SELECT position FROM {{v}} WHERE {B})",
    "window": f"SELECT phy_offset, row_number() OVER (ORDER BY phy_offset) FROM {{v}} WHERE {A}",
    "groups": "SELECT topic, key, count(*), max(store_timestamp) FROM {v} "
    "WHERE topic IN ('TopicTest', '订单主题') AND key IN ('order-49', 'a#b') GROUP BY 1, 2",
    "a limit": f"SELECT phy_offset FROM {{v}} WHERE {A} ORDER BY phy_offset DESC LIMIT 3",
    "times": f"SELECT * FROM {{v}} WHERE {A} AND {HOURS}",
    "a day": f"SELECT key, store_timestamp FROM {{v}} WHERE {B} "
    "AND date(store_timestamp) = '2023-11-15'",
    "before everything": f"SELECT * FROM {{v}} WHERE {A} AND store_timestamp < '2023-11-15 07:13'",
    "an exact time": f"SELECT * FROM {{v}} WHERE {A} AND store_timestamp = "
    "timestamp_millis(1700000004511)",
    "positions": f"SELECT * FROM {{v}} WHERE {A} AND position < 60 AND position > 1",
    "one position": f"SELECT * FROM {{v}} WHERE {A} AND position = 2",
    "listed positions": f"SELECT * FROM {{v}} WHERE {A} AND position IN (2, 3, 5, 8)",
    "offsets": f"SELECT * FROM {{v}} WHERE {A} AND phy_offset BETWEEN 20000 AND 110000",
    "a hash beside": f"SELECT * FROM {{v}} WHERE {A} AND key_hash = "
    f"{key_hash(index_key('TopicTest', 'order-49'))}",
    "or beside": f"SELECT * FROM {{v}} WHERE {A} AND (phy_offset < 30000 OR position > 150)",
}

UNBOUND = {
    "everything": "SELECT count(*) FROM {v}",
    "a topic alone": "SELECT * FROM {v} WHERE topic = 'TopicTest'",
    "a key alone": "SELECT * FROM {v} WHERE key = 'order-49'",
    "an or of keys": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND (key = 'k' OR slot = 5)",
    "an or of pairs": f"SELECT * FROM {{v}} WHERE ({A}) OR ({C})",
    "like": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND key LIKE 'order-%'",
    "a function": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND upper(key) = 'K'",
    "not": "SELECT * FROM {v} WHERE topic = 'TopicTest' AND key <> 'k'",
    "a join": "SELECT * FROM {v} JOIN (SELECT 'order-49' AS k UNION ALL SELECT 'k') ON key = k "
    "WHERE topic = 'TopicTest'",
    "a hash alone": "SELECT * FROM {v} WHERE key_hash = 5",
    "times alone": f"SELECT * FROM {{v}} WHERE {HOURS}",
}
