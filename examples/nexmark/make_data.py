"""Write files of an auction house: `python make_data.py [files] [bids per file]`, into ./data."""

import sys
from pathlib import Path

from anabranch.workloads.uniform import auction_streams


def make_data(files: int = 90, bids_per_file: int = 2_000, root: Path = Path("data")) -> None:
    """One file per stream and second, up to a second out of order; and names of eight categories of ten."""
    auction_streams(root, batches=files, bids_per_batch=bids_per_file, disorder_us=800_000)
    (root / "categories").mkdir(parents=True, exist_ok=True)
    labels = ["Books", "Music", "Photo", "Lamps", "Art", "Violins", "Maps", "Harps"]
    lines = [f"{number},{label}" for number, label in enumerate(labels)]
    (root / "categories" / "categories.csv").write_text("\n".join(lines))


if __name__ == "__main__":
    make_data(*map(int, sys.argv[1:]))
