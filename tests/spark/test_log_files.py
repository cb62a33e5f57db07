"""Spark's logs of offsets and commits: the same files, made without a process for each."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.start.conf import cheap_logs
from anabranch.spark.start.log_files import log_files_known

pytestmark = pytest.mark.spark


def test_a_log_file_has_contents_checksum_and_permissions_and_no_process_sets_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    hadoop = jvm.org.apache.hadoop
    conf = hadoop.conf.Configuration(False)
    for key, value in cheap_logs(spark).items():
        conf.set(key, value)
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    with log_files_known(spark):
        manager = managers.create(hadoop.fs.Path(str(tmp_path / "logs")), conf)
    assert manager.fs().getRaw().getClass().getName() == "anabranch.LogFiles$Local"
    manager.mkdirs(hadoop.fs.Path(str(tmp_path / "logs")))
    written = manager.createAtomic(hadoop.fs.Path(str(tmp_path / "logs" / "7")), False)
    written.write(bytearray(b"v1"))
    written.close()
    files = {path.name: path for path in (tmp_path / "logs").iterdir()}
    assert set(files) == {"7", ".7.crc"}
    assert files["7"].read_bytes() == b"v1"
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o644}
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o755
