"""The auction workload: three streams with names, prices and references that follow each other in time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.workloads.stream_files import START_US, Clock, Ints, Workload, joined, utc_times, write_stream


def auction_streams(
    root: Path,
    *,
    batches: int = 20,
    bids_per_batch: int = 10_000,
    interval_us: int = 1_000_000,
    disorder_us: int = 200_000,
    seed: int = 0,
) -> Workload:
    """Write an auction house: `persons` register, open `auctions`, and others place `bids`.

    There are 20 bids and 3 auctions per person. Whom an auction belongs to and what a bid is for is
    mostly recent, sometimes old. A bid repeats its auction's seller, so that the three streams can be
    joined along a chain (person – auction – bid) and also on the seller alone.
    """
    persons = Clock(batches, bids_per_batch // 20, interval_us, disorder_us, seed)
    auctions = Clock(batches, 3 * bids_per_batch // 20, interval_us, disorder_us, seed)
    bids = Clock(batches, bids_per_batch, interval_us, disorder_us, seed)

    def persons_of(batch: int) -> pa.Table:
        rng, arrival, ts = persons.rows_of(batch, stream=0)
        number = persons.first_id(batch) + np.arange(len(arrival))
        name = joined(_pick(rng, _GIVEN_NAMES, len(ts)), " ", _pick(rng, _FAMILY_NAMES, len(ts)))
        return pa.table(
            {"id": number, "name": name, "city": _pick(rng, _CITIES, len(ts)), "ts": utc_times(ts)}
        )

    def auctions_of(batch: int) -> pa.Table:
        rng, arrival, ts = auctions.rows_of(batch, stream=1)
        number = auctions.first_id(batch) + np.arange(len(arrival))
        columns = {
            "id": number,
            "seller": _seller_of(number, persons, auctions, seed),
            "item": joined(_pick(rng, _QUALITIES, len(ts)), " ", _pick(rng, _ITEMS, len(ts))),
            "category": rng.integers(0, 10, len(ts)),
            "reserve": np.round(rng.lognormal(4.0, 1.0, len(ts)), 2),
            "ts": utc_times(ts),
        }
        return pa.table(columns)

    def bids_of(batch: int) -> pa.Table:
        rng, arrival, ts = bids.rows_of(batch, stream=2)
        opened = (arrival - START_US) * max(auctions.rows_per_batch, 1) // interval_us
        auction = np.maximum(opened - 1 - _age(rng, len(ts), auctions.rows_per_batch), 0)
        columns = {
            "auction": auction,
            "seller": _seller_of(auction, persons, auctions, seed),
            "bidder": rng.integers(0, max(1, persons.first_id(batch + 1)), len(ts)),
            "price": np.round(rng.lognormal(4.0, 1.2, len(ts)), 2),
            "ts": utc_times(ts),
        }
        return pa.table(columns)

    made = (
        write_stream(root, "persons", batches, persons_of),
        write_stream(root, "auctions", batches, auctions_of),
        write_stream(root, "bids", batches, bids_of),
    )
    return Workload(made, batches, interval_us, disorder_us)


_GIVEN_NAMES = (
    "Ada",
    "Bao",
    "Chidi",
    "Dalia",
    "Emre",
    "Freya",
    "Goran",
    "Hana",
    "Ines",
    "Jun",
    "Kofi",
    "Lena",
)
_FAMILY_NAMES = (
    "Abara",
    "Brook",
    "Castell",
    "Dvorak",
    "Eriksen",
    "Fontaine",
    "Gupta",
    "Haddad",
    "Ito",
    "Jansen",
)
_CITIES = ("Aarhus", "Bergen", "Cusco", "Durban", "Essen", "Fes", "Ghent", "Hanoi", "Izmir", "Jaipur", "Kobe")
_QUALITIES = ("worn", "mint", "signed", "rare", "boxed", "restored", "plain", "Ünique")
_ITEMS = ("atlas", "banjo", "camera", "desk lamp", "easel", "fiddle", "globe", "harp", "ink set", "jar")


def _seller_of(auction: Ints, persons: Clock, auctions: Clock, seed: int) -> Ints:
    """The seller of an auction, a function of its number: a person who registered before it opened."""
    registered = auction * persons.rows_per_batch // max(auctions.rows_per_batch, 1)
    mixed = (auction.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    share = (mixed >> np.uint64(40)).astype(np.float64) / (1 << 24)
    age = -np.log1p(-share) * max(persons.rows_per_batch, 1)
    return np.maximum(registered - 1 - age.astype(np.int64), 0)


def _age(rng: np.random.Generator, rows: int, scale: int) -> Ints:
    """How many auctions ago: most within one batch, one in ten anywhere in the last thirty."""
    old = rng.random(rows) < 0.1
    return (rng.exponential(np.where(old, 10.0, 0.5), rows) * max(scale, 1)).astype(np.int64)


def _pick(rng: np.random.Generator, words: tuple[str, ...], rows: int) -> pa.Array:
    return pc.take(pa.array(words, pa.string()), pa.array(rng.integers(0, len(words), rows)))
