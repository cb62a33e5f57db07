"""Durable state: immutable blocks, one manifest per step, one writer."""

from anabranch.state.block import BlockMeta, map_block, unique_part, write_block
from anabranch.state.compaction import plan_compaction
from anabranch.state.errors import (
    CheckpointInUseError,
    CorruptionError,
    FencedError,
    InvalidNameError,
    ManifestConflict,
    UnsupportedVersionError,
)
from anabranch.state.expiry import (
    DROP_ALL,
    KEEP_ALL,
    LeafUse,
    WindowRef,
    held_back,
    intermediate_horizon,
    leaf_horizon,
    may_drop,
)
from anabranch.state.fence import Fence, acquire
from anabranch.state.garbage import Garbage, collect_garbage
from anabranch.state.inspect import describe
from anabranch.state.manifest import (
    NO_PARENT,
    Manifest,
    ManifestKey,
    QueryState,
    QueryStatus,
    ResultFile,
    StreamState,
)
from anabranch.state.manifest_codec import digest
from anabranch.state.manifest_log import load, manifest_keys, newest, publish, recover, verify_chain
from anabranch.state.stamp import Stamp
from anabranch.state.storage import FileInfo, ObjectStorage, PosixStorage, Storage

__all__ = [
    "DROP_ALL",
    "KEEP_ALL",
    "NO_PARENT",
    "BlockMeta",
    "CheckpointInUseError",
    "CorruptionError",
    "Fence",
    "FencedError",
    "FileInfo",
    "Garbage",
    "InvalidNameError",
    "LeafUse",
    "Manifest",
    "ManifestConflict",
    "ManifestKey",
    "ObjectStorage",
    "PosixStorage",
    "QueryState",
    "QueryStatus",
    "ResultFile",
    "Stamp",
    "Storage",
    "StreamState",
    "UnsupportedVersionError",
    "WindowRef",
    "acquire",
    "collect_garbage",
    "describe",
    "digest",
    "held_back",
    "intermediate_horizon",
    "leaf_horizon",
    "load",
    "manifest_keys",
    "map_block",
    "may_drop",
    "newest",
    "plan_compaction",
    "publish",
    "recover",
    "unique_part",
    "verify_chain",
    "write_block",
]
