SET spark.sql.session.timeZone = UTC;
SET spark.sql.python.filterPushdown.enabled = true;

-- Lookups: the keys are pushed down to hash slots.
CREATE TEMPORARY VIEW files USING rmqindex OPTIONS (path '${store}', pushdown 'true');
CREATE TEMPORARY VIEW messages AS SELECT * FROM files WHERE position >= 1;

SELECT key, count(*) AS messages, max(store_timestamp) AS newest FROM messages
WHERE topic = 'TopicTest' AND key IN ('order-49', 'ORDER:68') GROUP BY key ORDER BY key;

-- Scans: every entry, every message.
CREATE TEMPORARY VIEW entries USING rmqindex OPTIONS (path '${store}');
CREATE TEMPORARY VIEW log USING rmqcommitlog OPTIONS (path '${store}');

SELECT count(*) AS entries, max(phy_offset) AS newest FROM entries;
SELECT topic, count(*) AS messages FROM log WHERE topic LIKE 'Topic%' GROUP BY topic ORDER BY topic;
