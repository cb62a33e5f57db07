-- Aircraft that come too near to each other, or to a thunderstorm: joins by proximity in space and in time, without any
-- equality. Spark, Flink and the like refuse such joins of streams, or run them on one machine. Here rows are spread over
-- all sites by their times: `anabranch explain flow.sql --sites 8` shows it.
--
-- x and y are kilometres from the radar, altitudes are feet.
CREATE STREAM positions (aircraft STRING, x DOUBLE, y DOUBLE, altitude DOUBLE, ts TIMESTAMP)
  FROM parquet 'data/positions' OPTIONS (maxFilesPerTrigger = 1)
  TIME ts LATENESS 5 SECONDS;

CREATE STREAM storms (cell BIGINT, x DOUBLE, y DOUBLE, top DOUBLE, ts TIMESTAMP)
  FROM parquet 'data/storms' OPTIONS (maxFilesPerTrigger = 1)
  TIME ts LATENESS 30 SECONDS;

-- Less than five nautical miles apart, and less than a thousand feet, within ten seconds.
CREATE QUERY conflicts INTO parquet 'out/conflicts' AS
  SELECT one.aircraft AS one, other.aircraft AS other, one.ts AS seen, other.ts AS other_seen,
         l2_distance(array(one.x, one.y), array(other.x, other.y)) AS km, one.altitude - other.altitude AS feet
  FROM positions [RANGE 10 SECONDS] AS one, positions [RANGE 10 SECONDS] AS other
  WHERE l2_distance(array(one.x, one.y), array(other.x, other.y)) < 9.26
    AND abs(one.altitude - other.altitude) < 1000
    AND one.aircraft < other.aircraft;

-- Inside twenty kilometres of a storm cell that was seen in the last minute, and not above it.
CREATE QUERY in_storms INTO parquet 'out/in_storms' AS
  SELECT p.aircraft, s.cell, p.ts AS seen, l2_distance(array(p.x, p.y), array(s.x, s.y)) AS km
  FROM positions [RANGE 1 SECONDS] AS p, storms [RANGE 1 MINUTE] AS s
  WHERE l2_distance(array(p.x, p.y), array(s.x, s.y)) < 20 AND p.altitude < s.top;
