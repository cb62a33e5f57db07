"""Write files of an auction house: `python make_data.py [files] [bids per file]`, into ./data."""

import sys
from pathlib import Path

from anabranch.workloads.uniform import auction_streams


def make_data(files: int = 90, bids_per_file: int = 2_000, root: Path = Path("data")) -> None:
    """One file per stream and second; rows are up to a second out of order."""
    auction_streams(root, batches=files, bids_per_batch=bids_per_file, disorder_us=800_000)


if __name__ == "__main__":
    make_data(*map(int, sys.argv[1:]))
