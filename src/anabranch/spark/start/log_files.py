"""Spark's logs of offsets and commits, written without starting processes.

Hadoop starts `chmod` for every file that it makes on a local disk, and `readlink` for every rename by Spark's
default manager of checkpoint files: six processes and more in a micro-batch, a tenth of its time where it
has little to do. The manager below renames as the other one that Spark has, and sets permissions by a
system call. Names, contents, checksums and permissions of the files are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from anabranch.spark.start.compiled_class import class_loader, java

MANAGER = "anabranch.LogFiles"
_SOURCE = """
package anabranch;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

public class LogFiles extends FileSystemBasedCheckpointFileManager {
    private final FileSystem files;

    public LogFiles(Path path, Configuration conf) throws IOException {
        super(path, conf);
        FileSystem given = path.getFileSystem(conf);
        if (given instanceof LocalFileSystem) {
            given = new LocalFileSystem(new Local());
            given.initialize(URI.create("file:///"), conf);
        }
        this.files = given;
    }

    public FileSystem fs() {
        return this.files;
    }

    public static class Local extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(
                    pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
"""


@contextmanager
def log_files_known(spark: SparkSession) -> Iterator[None]:
    """Let queries that are started in the block know the class `MANAGER`.

    Spark looks for it where the thread of a query does, which is where the thread looks that starts it.
    """
    thread = java(spark.sparkContext).lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(class_loader(spark.sparkContext, _SOURCE))
    try:
        yield
    finally:
        thread.setContextClassLoader(before)
