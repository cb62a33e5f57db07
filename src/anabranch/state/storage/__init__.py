"""Where a checkpoint's files live: one interface, a POSIX directory or an object store behind it."""

from anabranch.state.storage.object_storage import ObjectStorage
from anabranch.state.storage.posix_storage import PosixStorage
from anabranch.state.storage.storage import Data, FileInfo, Hold, Storage, Upload

__all__ = ["Data", "FileInfo", "Hold", "ObjectStorage", "PosixStorage", "Storage", "Upload"]
