SET spark.sql.session.timeZone = UTC;

-- Lookups: the keys are found by their hash slots.
CREATE TEMPORARY VIEW messages USING rmqindex
OPTIONS (path '${store}', commitLog 'auto', topic 'TopicTest', keys '["order-49", "ORDER:68"]');

SELECT key, count(*) AS messages, max(store_timestamp) AS newest FROM messages
GROUP BY key ORDER BY key;

-- Scans: every entry, every message.
CREATE TEMPORARY VIEW entries USING rmqindex OPTIONS (path '${store}');
CREATE TEMPORARY VIEW log USING rmqcommitlog OPTIONS (path '${store}');

SELECT count(*) AS entries, max(phy_offset) AS newest FROM entries;
SELECT topic, count(*) AS messages FROM log WHERE topic LIKE 'Topic%' GROUP BY topic ORDER BY topic;
