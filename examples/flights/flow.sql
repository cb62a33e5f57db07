-- Delays that travel: three flights in a row, each from where the one before landed, each later than the one before
-- and each at least an hour late. No key is shared by all three legs, so that the join runs at two stations, on all
-- sites: `anabranch explain flow.sql --sites 8` shows them.
--
--   first:  origin ─► destination
--                     = second: origin ─► destination
--                                         = third: origin ─► destination
CREATE STREAM flights (origin STRING, destination STRING, delay BIGINT, distance BIGINT, departure TIMESTAMP)
  FROM parquet 'data/flights' OPTIONS (maxFilesPerTrigger = 1)
  TIME departure LATENESS 1 MINUTE;

CREATE QUERY late_chains INTO parquet 'out/late_chains' AS
  SELECT first.origin AS origin, first.destination AS via, second.destination AS then_via,
         third.destination AS destination, first.delay AS first_delay, second.delay AS second_delay,
         third.delay AS third_delay
  FROM flights [RANGE 6 HOURS] AS first, flights [RANGE 6 HOURS] AS second, flights [RANGE 6 HOURS] AS third
  WHERE first.destination = second.origin AND second.destination = third.origin
    AND first.departure < second.departure AND second.departure < third.departure
    AND first.delay >= 60 AND second.delay >= 60 AND third.delay >= 60;
