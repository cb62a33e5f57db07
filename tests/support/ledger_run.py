"""Put the promises to the test again and again, with new seeds, and write down what was run.

python -m tests.support.ledger_run --minutes 30 [--kills]

Kinds of tests take turns, at low priority. Every turn is a run of pytest with seeds that were never used.
At the end each kind gets one entry in the ledger. The first failure ends the run: the line that replays it is
printed, and the next run begins with it. The seeds to go on with are in `reliability-seeds.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import ledger

SEEDS = Path("reliability-seeds.json")
FAULT_SEEDS, DAMAGE_SEEDS, KILLS = 700, 200, 6
_SESSIONS = tuple(f"tests/engine/test_{name}.py" for name in ("oracle_generated", "oracle_adaptation"))


@dataclass(frozen=True, slots=True)
class Kind:
    """Tests that are counted together.

    Attributes
    ----------
    first_seed
        Of the first turn ever: beyond those of `make test`.
    seeds
        How many a turn uses.
    variables, arguments
        Environment and arguments of pytest; `{seed}` is the first seed of the turn.
    count
        What a turn has tested, from what pytest printed.
    """

    name: str
    first_seed: int
    seeds: int
    arguments: str
    variables: str = ""
    count: Callable[[str], int] = field(default=lambda _: 0)

    def line(self, seed: int) -> str:
        """What runs this turn, in a shell as well."""
        pytest = f"{shlex.quote(sys.executable)} -m pytest -q -x -s -p no:cacheprovider"
        return f"{self.variables} {pytest} {self.arguments}".format(seed=seed).strip()


def _last_number(pattern: str) -> Callable[[str], int]:
    return lambda said: int((re.findall(pattern, said) or ["0"])[-1])


def _examples(said: str) -> int:
    """Sessions that Hypothesis says have passed.

    >>> _examples("a:\\n - 240 passing examples, 0 failing\\nb:\\n - 50 passing, 0 failing, and 2 invalid")
    290
    """
    return sum(map(int, re.findall(r"(\d+) passing(?: examples)?,", said)))


KINDS = (
    Kind(
        "simulated_faults",
        first_seed=1_000,
        seeds=FAULT_SEEDS,
        arguments="tests/reliability/test_simulated_faults.py -m 'not slow' -k 'any_change or either_of'",
        variables=f"ANABRANCH_FAULT_FIRST_SEED={{seed}} ANABRANCH_FAULT_SEEDS={FAULT_SEEDS}",
        # Each seed on a disk, some in an object store, some with each of the five other scenarios.
        count=lambda _: FAULT_SEEDS + FAULT_SEEDS // 25 + 5 * (FAULT_SEEDS // 70),
    ),
    Kind(
        "generated_queries",
        first_seed=1,
        seeds=1,
        arguments=f"{' '.join(_SESSIONS)} -m 'not slow' --hypothesis-show-statistics "
        "--hypothesis-seed={seed}",
        count=_examples,
    ),
    Kind(
        "damaged_files",
        first_seed=1_000,
        seeds=DAMAGE_SEEDS,
        arguments="tests/reliability/test_damaged_checkpoint.py -k every_damage",
        variables=f"ANABRANCH_DAMAGE_FIRST_SEED={{seed}} ANABRANCH_DAMAGE_SEEDS={DAMAGE_SEEDS}",
        count=lambda _: DAMAGE_SEEDS,
    ),
)
REAL_KILLS = Kind(
    "real_kills",
    first_seed=1_000,
    seeds=10,
    arguments="tests/reliability/test_kills.py -m slow",
    variables=f"ANABRANCH_KILL_FIRST_SEED={{seed}} ANABRANCH_KILLS={KILLS}",
    count=_last_number(r"(\d+) kills so far"),
)


@dataclass(slots=True)
class Done:
    """What was run of a kind: its first seed, how far it came, what was counted, which turn failed."""

    first: int
    next: int
    count: int = 0
    failed: str = ""


def take_turns(
    kinds: Sequence[Kind],
    seeds: dict[str, int],
    time_is_left: Callable[[], bool],
    run: Callable[[str], tuple[bool, str]],
) -> dict[str, Done]:
    """Let kinds take turns until the time is up or a turn fails; `seeds` then has those to go on with."""
    done: dict[str, Done] = {}
    while True:
        for kind in kinds:
            if not time_is_left():
                return done
            seed = seeds.get(kind.name, kind.first_seed)
            so_far = done.setdefault(kind.name, Done(seed, seed))
            passed, said = run(kind.line(seed))
            if not passed:
                so_far.failed = kind.line(seed)
                return done
            so_far.count += kind.count(said)
            so_far.next = seeds[kind.name] = seed + kind.seeds


def _run(line: str) -> tuple[bool, str]:
    ended = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    if ended.returncode:
        print(ended.stdout[-8_000:], ended.stderr[-2_000:], sep="\n")
    return not ended.returncode, ended.stdout


def write_down(file: Path, done: dict[str, Done], command: str) -> None:
    """One entry per kind of which something was run."""
    for name, what in done.items():
        note = f"seeds {what.first}-{what.next - 1}" if what.next > what.first else ""
        failed = f"failed: {what.failed}" if what.failed else ""
        if what.count or failed:
            told = "; ".join(filter(None, (note, failed)))
            ledger.add(file, name, what.count, command=command, failures=int(bool(failed)), note=told)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.ledger_run")
    parser.add_argument("--minutes", type=float, required=True, help="a turn that has begun is ended")
    parser.add_argument("--kills", action="store_true", help="kill drivers and workers on Spark, too")
    given = parser.parse_args()
    os.nice(10)
    seeds: dict[str, int] = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    kinds = (*KINDS, REAL_KILLS) if given.kills else KINDS
    until = time.monotonic() + 60 * given.minutes

    def time_is_left() -> bool:
        return time.monotonic() < until

    def run(line: str) -> tuple[bool, str]:
        print(line, flush=True)
        return _run(line)

    done = take_turns(kinds, seeds, time_is_left, run)
    SEEDS.write_text(json.dumps(seeds, indent=2, sort_keys=True) + "\n")
    command = f"python -m tests.support.ledger_run --minutes {given.minutes:g}{' --kills' * given.kills}"
    write_down(ledger.LEDGER, done, command)
    for name, what in done.items():
        print(f"{name}: {what.count:,}")
    failed = [what.failed for what in done.values() if what.failed]
    for line in failed:
        print(f"FAILED. This replays it:\n{line}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
