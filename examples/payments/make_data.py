"""Write files of orders and payments: `python make_data.py [files] [orders per file]`, into ./data."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MINUTE_US = 60_000_000
LONGEST_DELAY_US = 5_000_000
START_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)


def make_data(files: int = 10, orders_per_file: int = 1_000, root: Path = Path("data")) -> None:
    """One file per stream and minute; one payment in ten is too small, one in twenty never comes."""
    rng = np.random.default_rng(7)
    for number in range(files):
        ids = number * orders_per_file + np.arange(orders_per_file)
        amount = np.round(rng.lognormal(3.5, 1.0, orders_per_file), 2)
        ordered = (
            START_US + number * MINUTE_US + np.sort(rng.integers(0, MINUTE_US - 5_000_000, orders_per_file))
        )
        _write(
            root / "orders",
            number,
            {"id": ids, "customer": rng.integers(0, 500, orders_per_file), "amount": amount},
            ordered,
        )
        pays = rng.random(orders_per_file) < 0.95
        short = rng.random(orders_per_file) < 0.1
        paid = np.round(np.where(short, amount * 0.9, amount), 2)
        delay = rng.integers(0, 5_000_000, orders_per_file)
        _write(
            root / "payments", number, {"order_id": ids[pays], "paid": paid[pays]}, (ordered + delay)[pays]
        )


def _write(folder: Path, number: int, columns: dict[str, np.ndarray], times: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns | {"ts": pa.array(times).cast(pa.timestamp("us", tz="UTC"))})
    # Spark skips names that start with a dot: it never sees half a file.
    hidden = folder / f".{number:04d}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(folder / f"{number:04d}.parquet")


if __name__ == "__main__":
    make_data(*(int(argument) for argument in sys.argv[1:3]))
