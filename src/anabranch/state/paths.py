"""Where things lie in a checkpoint directory.

::

    lock                          held by the live session, names its holder; in an object store leases/…
    epochs/00000007               one empty claim per session that ever wrote
    manifests/0000000012.0000.json
    catalogs/…                    streams and queries, named by manifests
    lists/…                       blocks and results of a step that has very many, named by manifests
    blocks/…                      state, named by manifests
    staged/…                      results and dead letters before they are published
    dead_letters/…                refused rows, readable as one table
    tmp/…                         files on their way to their final name; not in an object store
    constants/…                   what the slots of all steps are told, for the workers of one session
    mailbox/…, answers/…          what other processes ask of the running session, and what became of it
    delivered/…                   names the last manifest whose results the sinks have taken
    undelivered/…                 results that sinks have not taken yet, and notes of what they are
    events.jsonl                  what was decided, and why, for people and tools
    progress.jsonl                what every step did
    *.older.jsonl                 the same, from before; in an object store one log in pieces

Files in blocks/, staged/, catalogs/ and lists/ have a stamp in their names (`stamp`).
"""

from __future__ import annotations

import re

import xxhash

from anabranch.state.errors import InvalidNameError

LOCK = "lock"
LEASES = "leases"
EPOCHS = "epochs"
MANIFESTS = "manifests"
CATALOGS = "catalogs"
LISTS = "lists"
BLOCKS = "blocks"
STAGED = "staged"
DEAD_LETTERS = "dead_letters"
TEMPORARY = "tmp"
DELIVERED = "delivered"
UNDELIVERED = "undelivered"
CONSTANTS = "constants"
MAILBOX = "mailbox"
ANSWERS = "answers"

# No leading dot: that excludes "..", hidden files and what editors and NFS leave behind.
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,199}\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def check_name(name: str) -> str:
    """Return `name` if it stays below the root, else raise `InvalidNameError`."""
    if not is_name(name):
        raise InvalidNameError(
            f"{name!r} is not a name in the checkpoint: use parts of letters, digits and _ . = + - "
            "separated by single slashes, none starting with a dot"
        )
    return name


def is_name(name: str) -> bool:
    """Tell whether `name` is a relative path that stays below the root.

    >>> is_name("blocks/orders-b1.arrow"), is_name("../secrets"), is_name("/etc/passwd")
    (True, False, False)
    """
    return all(_PART.match(part) for part in name.split("/"))


def older_log(name: str) -> str:
    """Name the log before this one.

    >>> older_log("events.jsonl")
    'events.older.jsonl'
    """
    stem, _, kind = check_name(name).rpartition(".")
    return f"{stem}.older.{kind}"


def slug(text: str) -> str:
    """Make any text usable inside a file name; not unique.

    >>> slug("orders ⋈ payments")
    'orders_payments'
    """
    return _UNSAFE.sub("_", text)[:60].strip("_") or "_"


def file_stem(name: str) -> str:
    """Begin the names of files that belong to `name`, and to no other.

    What `slug` changed is followed by a hash of the whole name, after a dot, which slugs do not have.
    No stem starts with _: readers of a directory pass over such files.

    >>> file_stem("orders"), file_stem("q_1"), file_stem("q.1")
    ('orders', 'q_1', 'q_1.143ee829')
    """
    readable = slug(name)
    if readable == name != "_":
        return readable
    return f"{readable.strip('_') or 'query'}.{xxhash.xxh3_64_hexdigest(name.encode())[:8]}"
