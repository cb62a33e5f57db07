"""Aircraft and storms over a piece of land of 600 by 400 kilometres, as a radar would tell them.

python make_data.py
anabranch run flow.sql --checkpoint checkpoint --available-now

Aircraft fly from waypoint to waypoint, turn there, change their levels, and are seen every five seconds, some
metres beside where they are; reports come up to three seconds late. Storms drift and are seen every twenty.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WIDTH_KM, HEIGHT_KM = 600.0, 400.0
WAYPOINTS = 12
"""Aircraft meet where their routes do."""
REPORT_S, STORM_S, FILE_S = 5.0, 20.0, 30
BEGIN_US = 1_767_225_600_000_000
"""Midnight of 1 January 2026, UTC."""
NOISE_KM = 0.05
MOST_DELAY_S = 3.0


def make_data(
    folder: Path = Path("data"), *, aircraft: int = 200, storms: int = 8, seconds: int = 600, seed: int = 1
) -> int:
    """Write a file of each stream for every half minute of arrival; returns how many."""
    draw = np.random.default_rng(seed)
    waypoints = draw.random((WAYPOINTS, 2)) * (WIDTH_KM, HEIGHT_KM)
    flights = [_flight(draw, f"AB{number:04d}", waypoints, seconds) for number in range(aircraft)]
    cells = [_storm(draw, number, seconds) for number in range(storms)]
    files = 0
    for name, tracks in (("positions", flights), ("storms", cells)):
        files = _write(folder / name, draw, pa.concat_tables(tracks), seconds)
    return files


def _flight(draw: np.random.Generator, name: str, waypoints: np.ndarray, seconds: int) -> pa.Table:
    """Positions of one aircraft: legs between waypoints at its speed, levels of a thousand feet."""
    times = _times(draw, seconds, REPORT_S)
    speed = draw.uniform(700, 950) / 3600
    route = waypoints[draw.permutation(len(waypoints))]
    lengths = np.linalg.norm(np.diff(route, axis=0), axis=1)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    along = (draw.uniform(0, lengths[0]) + speed * times) % at[-1]
    place = np.column_stack([np.interp(along, at, route[:, axis]) for axis in (0, 1)])
    place += draw.normal(0, NOISE_KM, place.shape)
    levels = 1000.0 * draw.integers(29, 42, 2)
    change = np.clip((times - draw.uniform(0, seconds)) * 25, 0, abs(levels[1] - levels[0]))  # 1,500 ft/min
    altitude = levels[0] + np.sign(levels[1] - levels[0]) * change + draw.normal(0, 20, len(times))
    columns = {"aircraft": pa.array([name] * len(times)), "x": place[:, 0], "y": place[:, 1]}
    return pa.table(columns | {"altitude": altitude, "ts": _stamps(times)})


def _storm(draw: np.random.Generator, cell: int, seconds: int) -> pa.Table:
    times = _times(draw, seconds, STORM_S)
    start, drift = draw.random(2) * (WIDTH_KM, HEIGHT_KM), draw.normal(0, 0.01, 2)
    place = start + times[:, None] * drift
    top = draw.uniform(25_000, 45_000) + draw.normal(0, 300, len(times))
    columns = {"cell": np.full(len(times), cell), "x": place[:, 0], "y": place[:, 1]}
    return pa.table(columns | {"top": top, "ts": _stamps(times)})


def _times(draw: np.random.Generator, seconds: int, every_s: float) -> np.ndarray:
    first = draw.uniform(0, every_s)
    times = np.arange(first, seconds, every_s)
    return np.sort(times + draw.uniform(-0.2, 0.2, len(times)))


def _stamps(times: np.ndarray) -> pa.Array:
    return pa.array(BEGIN_US + (times * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))


def _write(folder: Path, draw: np.random.Generator, rows: pa.Table, seconds: int) -> int:
    """Files in the order of arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    seen_s = (rows.column("ts").cast(pa.int64()).to_numpy() - BEGIN_US) / 1e6
    arrived_s = seen_s + draw.uniform(0, MOST_DELAY_S, len(seen_s))
    order = np.argsort(arrived_s)
    rows, number = rows.take(pa.array(order)), (arrived_s[order] // FILE_S).astype(int)
    files = int(seconds // FILE_S) + 1
    for file in range(files):
        pq.write_table(rows.filter(pa.array(number == file)), folder / f"{file:04d}.parquet")
    return files


if __name__ == "__main__":
    print(f"{make_data()} files in data/positions and in data/storms")
