"""Two networks of their own on this machine, joined by a wire; nobody else can connect to them."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_SUBNET = "10.213.0"


@dataclass(frozen=True, slots=True)
class Network:
    """A network namespace with one address on the wire, and a loopback of its own."""

    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """A command as it runs in there."""
        return ["ip", "netns", "exec", self.name, *words]


def no_networks() -> str | None:
    """Why networks cannot be made here; None if they can."""
    if shutil.which("ip") is None:
        return "there is no `ip` command"
    try:
        with two_networks():
            return None
    except subprocess.CalledProcessError as error:
        return f"`ip netns` cannot be used: {error.stderr.strip()}"


@contextmanager
def two_networks() -> Iterator[tuple[Network, Network]]:
    """Make two networks; they are gone on exit, when what runs in them has ended."""
    tag = uuid.uuid4().hex[:6]
    near, far = (Network(f"ab{tag}{i}", f"{_SUBNET}.{i}") for i in (1, 2))
    ends = {near: f"ab{tag}n", far: f"ab{tag}f"}
    try:
        for network in (near, far):
            _ip("netns", "add", network.name)
        _ip("link", "add", ends[near], "type", "veth", "peer", "name", ends[far])
        for network, end in ends.items():
            _ip("link", "set", end, "netns", network.name)
            _ip("-n", network.name, "address", "add", f"{network.address}/30", "dev", end)
            for device in (end, "lo"):
                _ip("-n", network.name, "link", "set", device, "up")
        yield near, far
    finally:
        for network in (near, far):
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", network.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)
