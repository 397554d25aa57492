"""A byte-level TCP proxy between an instance and a store: delays, cuts, swallows.

It runs on a thread of its own; its knobs are plain attributes, set from outside at any time. `up` is the
direction from the instance to the store.
"""

from __future__ import annotations

import asyncio
import random
import threading


class Proxy:
    def __init__(self, port: int):
        self.port = port
        self.random = random.Random(1)
        self.reset(0)
        self.loop = asyncio.new_event_loop()
        self.links: set[asyncio.StreamWriter] = set()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.ready.wait()

    def reset(self, upstream: int) -> None:
        self.upstream = upstream
        self.delay_ms = 0.0
        self.cut_chance = 0.0  # of each chunk: closes the connection instead
        self.cut_after: dict[str, int | None] = {"up": None, "down": None}  # bytes passed by the next connections
        self.swallow = {"up": False, "down": False}  # half-open: nothing arrives, and neither side notices
        self.swallow_of = ""  # only connections from this address; "": all
        self.late_s: dict[asyncio.StreamWriter, float] = {}  # what these connections send arrives so much later

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self.ready.set()
        self.loop.run_forever()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, store_writer)
        self.links.update(both)
        up, down = self._pump(reader, store_writer, "up", both), self._pump(store_reader, writer, "down", both)
        await asyncio.gather(up, down)
        self.links.difference_update(both)

    async def _pump(self, reader, writer, direction: str, both) -> None:
        left = self.cut_after[direction]
        source = both[0].get_extra_info("peername")[0]
        try:
            while chunk := await reader.read(65536):
                if self.delay_ms:
                    await asyncio.sleep(self.delay_ms / 1000)
                if direction == "up" and both[0] in self.late_s:
                    await asyncio.sleep(self.late_s[both[0]])  # the store's side stays open
                if self.swallow[direction] and self.swallow_of in ("", source):
                    continue
                if self.cut_chance and self.random.random() < self.cut_chance:
                    break
                if left is not None:
                    chunk, left = chunk[:left], left - len(chunk)
                writer.write(chunk)
                await writer.drain()
                if left is not None and left <= 0:
                    break
        except OSError:
            pass
        for one in both:
            one.close()

    def be_late(self, seconds: float) -> None:
        """What is sent on the connections that are open now arrives later, also if its sender has closed them."""
        self.late_s = {link: seconds for link in self.links}

    def drop_all(self) -> None:
        """Closes all connections."""
        self.loop.call_soon_threadsafe(lambda: [link.transport.abort() for link in list(self.links)])

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
