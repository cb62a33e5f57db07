"""The class archive: Spark's classes as the JVM has them after loading, in one file that it maps.

A third of what a start of Spark takes is loading and verifying thousands of classes. `anabranch prepare`
lets a JVM write them down at its end (class data sharing); later JVMs with the same Java and the same jars
map the file. A JVM that does not like an archive goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

import pyspark


def archive_options() -> str:
    """Options of a JVM that make it use the archive; none if there is no archive that suits."""
    archive = archive_path()
    return f"-XX:SharedArchiveFile={archive}" if archive is not None and archive.is_file() else ""


def options_to_write(archive: Path) -> str:
    """Options of a JVM that writes its classes to a file when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}"


@cache
def archive_path() -> Path | None:
    """Where the archive of this Java and these jars is, or will be; None without Java or jars.

    A path with a space would be taken for two options.
    """
    java, jars = _java(), Path(pyspark.__file__).parent / "jars"
    if java is None or not jars.is_dir() or os.environ.get("SPARK_HOME"):
        return None
    parts = [str(java), str(java.stat().st_mtime_ns)]
    parts += [f"{jar.name} {jar.stat().st_mtime_ns}" for jar in sorted(jars.iterdir())]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = home / "anabranch" / f"spark-{pyspark.__version__}-{digest}.jsa"
    return None if " " in str(path) else path


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).exists() else None
