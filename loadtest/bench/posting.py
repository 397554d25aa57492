"""What buyers lose to `seckill webhooks` beside them, on the same cores: their rate with and without it.

Its receiver is here, takes every page at once, and costs the cores something, too. The sender may fall behind while it
is slower than the sale: it must only move on.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

from bench import bounds
from bench.bounds import BUYERS, Outcome
from lib import common
from lib.common import Failure
from lib.servers import cpu_seconds
from lib.service import Service, Side

SECRET = "whsec_c2Vja2lsbC1iZW5jaC1zZWNyZXQtb2YtMzItYnl0ZXM="
FIRST_S = 10


@dataclass
class Posted:
    events: int = 0
    sender_cpu_s: float = 0.0


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    events = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        page = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.events += page.count(b'"event"')
        self.send_response_only(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def poster(service: Service, folder: Path) -> Iterator[Posted]:
    """The sender until the end of the block. It has posted a first order, so it keeps up with what follows or falls
    behind, but is not still about to begin."""
    posted = Posted()
    receiver = Receiver(("127.0.0.1", 0), Handler)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    file, log = folder / "receivers.json", folder / "webhooks.log"
    url = f"http://127.0.0.1:{receiver.server_port}/"
    file.write_text(json.dumps({"receivers": [{"name": "bench", "url": url, "secrets": [SECRET]}]}))
    file.chmod(0o600)
    settings = {name: value for name, value in service.stores.service_settings().items() if name != "SECKILL_REDIS_URL"}
    with log.open("w") as output:
        command = [str(service.stores.build.binary("seckill")), "webhooks"]
        env = os.environ | settings | {"SECKILL_WEBHOOKS": str(file)}
        sender = subprocess.Popen(command, env=env, stdout=output, stderr=output)
    try:
        first = service.voucher()

        def has_begun() -> bool:
            if sender.poll() is not None:
                raise Failure(f"seckill webhooks ended with status {sender.returncode}:\n{log.read_text()[-2000:]}")
            service.buy(first, f"first-{time.monotonic_ns()}")
            return receiver.events > 0

        common.wait_for("a first post", has_begun, FIRST_S, pause=0.2)
        events, cpu_s = receiver.events, cpu_seconds([sender.pid])
        yield posted
        posted.events, posted.sender_cpu_s = receiver.events - events, cpu_seconds([sender.pid]) - cpu_s
    finally:
        sender.terminate()
        sender.wait(30)
        receiver.shutdown()
        receiver.server_close()


def posted(side: Side, seconds: int, flip: bool) -> Outcome:
    counted = Posted()

    def beside() -> bounds.Phase:
        nonlocal counted
        with poster(service, side.folder) as counted:
            return bounds.buyers_beside(service, seconds, 0)

    with side.serving() as service:
        posts, alone = bounds.in_turn(flip, beside, lambda: bounds.buyers_beside(service, seconds, 0))
    if alone.committed_rps == 0:
        raise Failure(f"{BUYERS} buyers get nothing")
    cost_us = counted.sender_cpu_s / counted.events * 1e6 if counted.events else 0.0
    told = (
        f"{posts.committed_rps:,.0f} orders/s beside {counted.events:,} posted events ({cost_us:.0f} us of CPU each), "
        f"{alone.committed_rps:,.0f} without"
    )
    details = {"events": counted.events, "sender_us_per_event": cost_us}
    return Outcome(posts.committed_rps / alone.committed_rps, told, "" if counted.events else "nothing was posted", details)
