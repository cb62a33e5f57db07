"""Flip, cut, swap and delete files of a real checkpoint: named before anything wrong comes out."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.state import CorruptionError, PosixStorage, collect_garbage, newest
from tests.support.crash_scenario import (
    BATCHES,
    CrashRun,
    Tricks,
    World,
    assert_same,
    expected,
    often_collected,
    scratch,
)
from tests.support.disk_faults import Disk, DiskFault, failing_disk
from tests.support.faults import SimulatedCrash
from tests.support.storages import CHOSEN

pytestmark = pytest.mark.skipif(CHOSEN != "posix", reason="damages files in place")

SEEDS = int(os.environ.get("ANABRANCH_DAMAGE_SEEDS", "200"))
FIRST_SEED = int(os.environ.get("ANABRANCH_DAMAGE_FIRST_SEED", "0"))
KINDS = ("flip", "cut", "grow", "zero", "delete", "swap", "swap sizes equal")


@dataclass(frozen=True)
class Pristine:
    """A checkpoint that died in batch 2, after its commit and before its results were published."""

    root: Path
    needed: tuple[str, ...]
    """Files that the next session must read, relative to the checkpoint."""


@pytest.fixture(scope="module")
def pristine() -> Iterator[Pristine]:
    with scratch("damage") as root, often_collected():
        world = World(root / "w")
        world.session(batches=2)
        dry = root / "dry"
        shutil.copytree(root / "w", dry)
        with failing_disk(Disk(dry)) as disk:
            World(dry, done=2).session(batches=3)
        first_link = next(i for i, s in enumerate(disk.steps) if s.startswith("link pairs-"))
        with (
            pytest.raises(SimulatedCrash),
            failing_disk(Disk(root / "w", first_link + 1, DiskFault.BEFORE)),
        ):
            world.session(batches=3)
        manifest = newest(PosixStorage(root / "w" / "ck"))
        assert manifest is not None
        assert manifest.batch == 2
        assert manifest.results
        yield Pristine(root, _needed(root))


def _needed(root: Path) -> tuple[str, ...]:
    """Staged files of the newest manifest, it, its catalog, and blocks that the next batch will open."""
    shutil.copytree(root / "w", root / "look")
    run = CrashRun(root / "look", Tricks(random.Random(0)))
    try:
        manifest = run.loop.manifest
        assert manifest is not None
        live = {f"blocks/{b.name}" for b in run.loop._task(3, 0.0).blocks}
        assert manifest.catalog_log is not None
        staged = {f"staged/{f.name}" for f in (*manifest.results, *manifest.dead_letters)}
    finally:
        run.close()
    assert len(live) > 3
    return tuple(sorted(live | staged | {"manifests/0000000002.0000.json", manifest.catalog_log.whole.name}))


def test_every_damage_is_named_and_no_wrong_row_comes_out(pristine: Pristine) -> None:
    found: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        draw = random.Random(seed)
        root = pristine.root / "damaged"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(pristine.root / "w", root)
        folder = draw.choice(["blocks", "staged", "manifests", "catalogs"])
        name = draw.choice([n for n in pristine.needed if n.startswith(folder)])
        # Without the newest manifest, the step before is whole: see the next test.
        kind = draw.choice([k for k in KINDS if (folder, k) != ("manifests", "delete")])
        damaged = _damage(root / "ck" / name, kind, draw) or _damage(root / "ck" / name, "flip", draw)
        what = f"seed {seed}: {kind} {name}"
        with pytest.raises(CorruptionError) as damage:
            World(root, done=2).session()
        assert any(n in str(damage.value) for n in damaged), f"{what}: {damage.value}"
        found[name.partition("/")[0]] += 1
    print(dict(found))
    assert set(found) == {"blocks", "manifests", "staged", "catalogs"}
    assert found.total() == SEEDS


def test_a_deleted_newest_manifest_repeats_the_batch_or_is_refused_but_never_doubles_it(
    pristine: Pristine,
) -> None:
    for published in (False, True):
        root = pristine.root / "deleted"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(pristine.root / "w", root)
        world = World(root, done=2)
        if published:
            world.session(batches=3)
            world.done = 2
        (root / "ck" / "manifests" / "0000000002.0000.json").unlink()
        world.session()
        assert_same(world.result(), expected(), f"published before: {published}")
    root = pristine.root / "skipped"
    shutil.copytree(pristine.root / "w", root)
    world = World(root, done=2)
    world.session(batches=3)
    (root / "ck" / "manifests" / "0000000002.0000.json").unlink()
    with pytest.raises(AnabranchError, match="restored without the other"):
        world.session(batches=BATCHES)


def test_a_damaged_older_manifest_is_named_when_garbage_is_collected_and_nothing_is_deleted(
    pristine: Pristine,
) -> None:
    root = pristine.root / "older"
    shutil.copytree(pristine.root / "w", root)
    manifests = sorted((root / "ck" / "manifests").iterdir())
    assert len(manifests) >= 2
    path = manifests[-2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))
    storage = PosixStorage(root / "ck")
    before = storage.list("")
    with pytest.raises(CorruptionError, match=re.escape(path.name)):
        collect_garbage(storage, keep=2)
    assert storage.list("") == before
    World(root, done=2).session()  # which needs only the newest
    assert_same(World(root).result(), expected(), "beside a damaged older manifest")


def _damage(path: Path, kind: str, draw: random.Random) -> list[str]:
    """Damage a file; return the names of what changed: none if this kind of damage is not possible."""
    data = path.read_bytes()
    match kind:
        case "flip":
            bit = draw.randrange(8 * len(data))
            new = bytearray(data)
            new[bit // 8] ^= 1 << bit % 8
            return _rewrite(path, bytes(new))
        case "cut":
            return _rewrite(path, data[: draw.randrange(len(data))])
        case "grow":
            return _rewrite(path, data + bytes(draw.randint(1, 64)))
        case "zero":
            start = draw.randrange(len(data))
            return _rewrite(path, data[:start] + bytes(len(data) - start))
        case "delete":
            path.unlink()
            return [path.name]
        case _:
            others = [p for p in path.parent.iterdir() if p != path and p.suffix == path.suffix]
            if kind == "swap sizes equal":
                others = [p for p in others if p.stat().st_size == len(data)]
            if not others:
                return []
            other = draw.choice(sorted(others))
            swapped = other.read_bytes()
            other.write_bytes(data)
            return [*_rewrite(path, swapped), other.name]


def _rewrite(path: Path, data: bytes) -> list[str]:
    changed = data != path.read_bytes()
    path.write_bytes(data)
    return [path.name] if changed else []
