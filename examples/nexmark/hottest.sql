-- q5, its outer part: which auction has had most bids in the last 10 seconds, every 2 seconds; of several the one with the
-- largest number. An aggregate of aggregates is a second flow, over the results of the first: run it after flow.sql, or beside it.
CREATE STREAM counts (auction BIGINT, start TIMESTAMP, bids BIGINT)
  FROM parquet 'out/q5_counts' TIME start LATENESS 10 SECONDS;

CREATE QUERY q5 INTO parquet 'out/q5' AS
  SELECT window.start, max_by(auction, bids) AS auction, MAX(bids) AS bids
  FROM counts GROUP BY window(start, '2 seconds');
