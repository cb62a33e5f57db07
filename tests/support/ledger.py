"""The ledger: how often each promise was put to the test, kept in the repository.

python -m tests.support.ledger add simulated_faults 1000 --command "make test" [--failures 0]
python -m tests.support.ledger show
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LEDGER = Path("reliability-ledger.json")

AIMS = {
    "simulated_faults": 500_000,
    "real_kills": 1_500,
    "damaged_files": 200,
    "generated_queries": 100_000,
    "generated_queries_on_spark": 2_000,
    "migrations_and_moves": 2_000,
    "planted_bugs_caught": 30,
    "soak_minutes": 1_440,
}
"""What is counted, and how far it shall go."""


def add(ledger: Path, kind: str, count: int, *, command: str, failures: int = 0, note: str = "") -> None:
    """Write down one series of tests.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "ledger.json"
    ...     add(file, "real_kills", 12, command="make test")
    ...     add(file, "real_kills", 50, command="make test-slow", failures=1)
    ...     totals(file)["real_kills"]
    (62, 1)
    """
    if kind not in AIMS:
        raise ValueError(f"{kind!r} is not counted: choose from {', '.join(AIMS)}")
    entries = _entries(ledger)
    entry: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "kind": kind,
        "count": count,
        "failures": failures,
        "command": command,
    }
    entries.append(entry | ({"note": note} if note else {}))
    lines = ",\n".join(f"  {json.dumps(e, ensure_ascii=False)}" for e in entries)
    ledger.write_text(f"[\n{lines}\n]\n")


def totals(ledger: Path) -> dict[str, tuple[int, int]]:
    """Count and failures by kind."""
    found = dict.fromkeys(AIMS, (0, 0))
    for entry in _entries(ledger):
        count, failures = found[entry["kind"]]
        found[entry["kind"]] = (count + entry["count"], failures + entry["failures"])
    return found


def _entries(ledger: Path) -> list[dict[str, Any]]:
    return list(json.loads(ledger.read_text())) if ledger.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.ledger", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--file", type=Path, default=LEDGER)
    commands = parser.add_subparsers(dest="do", required=True)
    adding = commands.add_parser("add", help="write down one series of tests")
    adding.add_argument("kind", choices=AIMS)
    adding.add_argument("count", type=int)
    adding.add_argument("--command", required=True)
    adding.add_argument("--failures", type=int, default=0)
    adding.add_argument("--note", default="")
    commands.add_parser("show", help="totals beside their aims")
    given = parser.parse_args()
    if given.do == "add":
        add(
            given.file,
            given.kind,
            given.count,
            command=given.command,
            failures=given.failures,
            note=given.note,
        )
    for kind, (count, failures) in totals(given.file).items():
        print(f"{kind:28} {count:>9,} of {AIMS[kind]:>9,}   failures {failures}")


if __name__ == "__main__":
    main()
