"""Packets: no row is lost in them, and a site with few rows gets them in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.sim.packets import Packets

SITES = 4
SITE_OF = np.repeat(np.arange(SITES), 8)


def packets(*, rows_per_packet: int = 12, seed: int = 0) -> Packets:
    return Packets(
        len(SITE_OF),
        producers=16,
        sites=SITES,
        rows_per_packet=rows_per_packet,
        rng=np.random.default_rng(seed),
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_row_has_left_or_is_in_an_open_packet(seed):
    connections, rng = packets(seed=seed), np.random.default_rng(seed)
    came, left = np.zeros(len(SITE_OF), np.int64), np.zeros(len(SITE_OF), np.int64)
    for _ in range(300):
        rows = rng.poisson(0.7, len(SITE_OF))
        came += rows
        left += connections.add(rows, SITE_OF)
        assert (connections.open >= 0).all()
        assert connections.open.sum() <= SITES * 16 * 12
    assert (came == left + connections.open).all()


def test_packets_of_one_row_go_at_once():
    rows = np.arange(len(SITE_OF))
    assert (packets(rows_per_packet=1).add(rows, SITE_OF) == rows).all()


def test_a_flush_sends_what_one_site_has_and_nothing_else():
    connections = packets()
    connections.add(np.full(len(SITE_OF), 3), SITE_OF)
    before = connections.open.copy()
    gone = connections.flush(2, SITE_OF)
    assert (gone == np.where(SITE_OF == 2, before, 0)).all()
    assert (connections.open == before - gone).all()


def test_a_site_with_few_rows_is_seen_less_surely_than_its_rows_would_be():
    """Counts of whole packets vary as 12 × Poisson: twelve times the variance of single rows."""
    rng, rounds = np.random.default_rng(7), 4000

    def variance_per_row(rows_per_packet: int) -> float:
        connections = packets(rows_per_packet=rows_per_packet)
        seen = [connections.add(rng.poisson(0.5, len(SITE_OF)), SITE_OF)[:8].sum() for _ in range(rounds)]
        return float(np.var(seen) / np.mean(seen))

    assert variance_per_row(1) == pytest.approx(1.0, rel=0.15)
    assert variance_per_row(12) > 6
