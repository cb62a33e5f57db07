-- Queries of the Nexmark benchmark (Tucker, Tufte, Papadimos, Maier: NEXMark, 2002; numbers as in Apache Beam and
-- nexmark-flink) over the auction house of `make_data.py`. Times are event times.
CREATE STREAM persons (id BIGINT, name STRING, city STRING, ts TIMESTAMP)
  FROM parquet 'data/persons' OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS 1 SECOND;

CREATE STREAM auctions (id BIGINT, seller BIGINT, item STRING, category BIGINT, reserve DOUBLE, ts TIMESTAMP)
  FROM parquet 'data/auctions' OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS 1 SECOND;

CREATE STREAM bids (auction BIGINT, seller BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  FROM parquet 'data/bids' OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS 1 SECOND;

CREATE TABLE categories (id BIGINT, label STRING) FROM csv 'data/categories';

-- q1: prices in another currency.
CREATE QUERY q1 INTO parquet 'out/q1' AS
  SELECT auction, bidder, round(0.908 * price, 2) AS price, ts FROM bids;

-- q2: bids for some auctions.
CREATE QUERY q2 INTO parquet 'out/q2' AS
  SELECT auction, price FROM bids WHERE auction % 123 = 0;

-- q10: bids with the folder that they would be logged to.
CREATE QUERY q10 INTO parquet 'out/q10' AS
  SELECT auction, bidder, price, date_format(ts, 'yyyy-MM-dd') AS day, date_format(ts, 'HH:mm') AS minute FROM bids;

-- q13: auctions with what a table says about their category.
CREATE QUERY q13 INTO parquet 'out/q13' AS
  SELECT a.id, a.item, upper(c.label) AS category FROM auctions a JOIN categories c ON a.category = c.id;

-- q14: bids of some price, with the kind of time of day that they were made at.
CREATE QUERY q14 INTO parquet 'out/q14' AS
  SELECT auction, bidder, 0.908 * price AS price,
    CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night' ELSE 'other' END
      AS daytime
  FROM bids WHERE 0.908 * price > 100;

-- q5, its inner part: how many bids an auction has had in the last 10 seconds, every 2 seconds. Which of them has
-- most is an aggregate of aggregates: hottest.sql.
CREATE QUERY q5_counts INTO parquet 'out/q5_counts' AS
  SELECT auction, window.start, window.end, COUNT(*) AS bids
  FROM bids GROUP BY auction, window(ts, '10 seconds', '2 seconds');

-- q7: the highest bid of every 10 seconds, and who made it.
CREATE QUERY q7 INTO parquet 'out/q7' AS
  SELECT window.end, MAX(price) AS price, max_by(bidder, price) AS bidder, max_by(auction, price) AS auction
  FROM bids GROUP BY window(ts, '10 seconds');

-- q8: persons who opened an auction in the 10 seconds in which they registered.
CREATE QUERY q8 INTO parquet 'out/q8' AS
  SELECT p.id, p.name, window.start, COUNT(*) AS opened
  FROM persons [RANGE 10 SECONDS] AS p, auctions [RANGE 10 SECONDS] AS a
  WHERE p.id = a.seller
    AND unix_seconds(p.ts) - unix_seconds(p.ts) % 10 = unix_seconds(a.ts) - unix_seconds(a.ts) % 10
  GROUP BY p.id, p.name, window(greatest(p.ts, a.ts), '10 seconds');

-- q11: how many bids a bidder makes in a row, without a pause of 1 second.
CREATE QUERY q11 INTO parquet 'out/q11' AS
  SELECT bidder, session_window.start, session_window.end, COUNT(*) AS bids
  FROM bids GROUP BY bidder, session_window(ts, '1 second');

-- q12: how many bids a bidder makes in every 10 seconds.
CREATE QUERY q12 INTO parquet 'out/q12' AS
  SELECT bidder, window.start, window.end, COUNT(*) AS bids
  FROM bids GROUP BY bidder, window(ts, '10 seconds');

-- q16: per seller (there are no channels here) and minute: bids, bidders and auctions, in all and by rank of price.
CREATE QUERY q16 INTO parquet 'out/q16' AS
  SELECT seller, window.start, COUNT(*) AS bids,
    COUNT(*) FILTER (WHERE price < 20) AS low, COUNT(*) FILTER (WHERE price >= 200) AS high,
    COUNT(DISTINCT bidder) AS bidders, COUNT(DISTINCT bidder) FILTER (WHERE price >= 200) AS high_bidders,
    COUNT(DISTINCT auction) AS auctions
  FROM bids GROUP BY seller, window(ts, '1 minute');

-- q17: statistics of every auction and minute.
CREATE QUERY q17 INTO parquet 'out/q17' AS
  SELECT auction, window.start, COUNT(*) AS bids, COUNT(*) FILTER (WHERE price < 20) AS low,
    MIN(price) AS least, MAX(price) AS most, median(price) AS middle
  FROM bids GROUP BY auction, window(ts, '1 minute');

-- q18: the last bid of every bidder for every auction, by the minute.
CREATE QUERY q18 INTO parquet 'out/q18' AS
  SELECT bidder, auction, window.end, last(price) AS price, MAX(ts) AS ts
  FROM bids GROUP BY bidder, auction, window(ts, '1 minute');
