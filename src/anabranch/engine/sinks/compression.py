"""How files of results are compressed."""

from __future__ import annotations

from anabranch.errors import ConfigError
from anabranch.plan.logical import Connector

_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
_FAST = _COMPRESSIONS[0]


def compression_of(connector: Connector | None) -> str:
    """How files of results are compressed: as is asked for where they are what the user gets.

    >>> compression_of(Connector("parquet", "out", (("compression", "ZSTD"),))), compression_of(None)
    ('zstd', 'snappy')
    """
    if connector is None or connector.format.lower() != "parquet":
        return _FAST
    asked = next((v for name, v in connector.options if name.lower() == "compression"), _FAST).lower()
    wanted = "none" if asked == "uncompressed" else asked  # Spark knows both
    if wanted not in _COMPRESSIONS:
        raise ConfigError(f"compression = {asked!r}: choose from {', '.join(_COMPRESSIONS)}")
    return wanted
