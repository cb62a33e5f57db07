"""Flights of 2001 as files of a day each, from the data set of the npm package `vega-datasets`.

npm pack vega-datasets@3.2.1 && tar xzf vega-datasets-3.2.1.tgz
python make_data.py package/data/flights-3m.parquet
anabranch run flow.sql --checkpoint checkpoint --available-now
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COLUMNS = ("origin", "destination", "delay", "distance", "departure")


def make_data(source: Path, folder: Path = Path("data/flights"), *, days: int | None = None) -> int:
    """Write a file for each of the first days; returns how many."""
    flights = pq.read_table(source).rename_columns({"date": "departure"})
    text = {name: flights.column(name).cast(pa.string()) for name in ("origin", "destination")}
    columns = {name: text.get(name, flights.column(name)) for name in COLUMNS}
    columns["departure"] = columns["departure"].cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table(columns).sort_by("departure")
    day = pc.floor_temporal(table.column("departure"), unit="day")
    folder.mkdir(parents=True, exist_ok=True)
    found = pc.unique(day).to_pylist()[:days]
    for number, value in enumerate(found):
        pq.write_table(table.filter(pc.equal(day, value)), folder / f"{number:03d}.parquet")
    return len(found)


if __name__ == "__main__":
    print(f"{make_data(Path(sys.argv[1]))} files in data/flights")
