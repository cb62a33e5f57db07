"""From sources to rows on the wire, in Spark SQL."""
