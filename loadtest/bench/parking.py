"""Connections that are parked at contenders/ceiling.c: each has requested /park, and gets no answer meanwhile."""

from __future__ import annotations

import resource
import selectors
import socket
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import Iterator

from lib import common

REQUEST = b"GET /park HTTP/1.1\r\nHost: bench\r\n\r\n"
SPARE_DESCRIPTORS = 256


def raise_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise common.Failure(f"the limit of file descriptors is {hard}, and {needed} are needed")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def count_parked(url: str) -> int:
    with urllib.request.urlopen(url + "/parked", timeout=10) as answer:
        return int(answer.read())


def connect(url: str) -> socket.socket:
    parts = urllib.parse.urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
    connection.sendall(REQUEST)
    return connection


def count_readable(connections: list[socket.socket]) -> int:
    """Connections that were answered or closed."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        return len(selector.select(timeout=0))


@contextmanager
def parked(url: str, count: int) -> Iterator[None]:
    """Parks `count` connections at the server until the end of the block, where all of them must still be parked."""
    connections: list[socket.socket] = []
    raise_descriptors(count)
    try:
        for _ in range(count):
            connections.append(connect(url))
        common.wait_for(f"{count} parked connections at {url}", lambda: count_parked(url) == count, 20)
        yield
        still, disturbed = count_parked(url), count_readable(connections)
        if still != count or disturbed:
            raise common.Failure(f"{url}: {still} of {count} still parked, {disturbed} answered or closed")
    finally:
        for connection in connections:
            connection.close()
    common.wait_for(f"{url} lets go of connections that hung up", lambda: count_parked(url) == 0, 20)
