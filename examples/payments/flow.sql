-- Orders and the payments for them; a customer who pays too little within ten minutes is reported.
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
