-- Orders and the payments for them. A payment that is too small is reported if it comes at most an hour after
-- its order: an order waits an hour for payments. A payment waits ten minutes for its order, should it come first.
--
--   payment is        10 min before       its order             60 min after
--                     ├───────────────────────┼───────────────────────┤
--                       payments [RANGE 10 M]     orders [RANGE 1 H]
CREATE STREAM orders (id BIGINT, customer BIGINT, amount DOUBLE, ts TIMESTAMP)
  FROM parquet 'data/orders' OPTIONS (maxFilesPerTrigger = 1)
  TIME ts LATENESS 5 SECONDS;

CREATE STREAM payments (order_id BIGINT, paid DOUBLE, ts TIMESTAMP)
  FROM parquet 'data/payments' OPTIONS (maxFilesPerTrigger = 1)
  TIME ts LATENESS 5 SECONDS;

CREATE QUERY underpaid INTO parquet 'out/underpaid' AS
  SELECT o.id, o.customer, o.amount, p.paid
  FROM orders [RANGE 1 HOUR] AS o, payments [RANGE 10 MINUTES] AS p
  WHERE o.id = p.order_id AND p.paid < o.amount;
