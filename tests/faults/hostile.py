"""A server that speaks RESP correctly until it lies."""

from __future__ import annotations

import socket
import threading

from stack import free_port

INFO = b"run_id:" + b"0123456789" * 4 + b"\r\nrole:master\r\n"


class HostileRedis:
    """Greets a connection as Redis does; from the first EVALSHA on it sends the lie."""

    LIES = {
        "stray reply": b"+OK\r\n" * 5,
        "deep nesting": b"*1\r\n" * 50 + b":1\r\n",
        "huge array": b"*2147483647\r\n",
        "huge bulk": b"$536870912\r\nx",
        "negative bulk": b"$-5\r\n",
        "wrong type": b":1\r\n",
        "array of nothing": b"*7\r\n" + b"$-1\r\n" * 7,
        "letters too many": b"*7\r\n$2\r\nok\r\n:5\r\n:4\r\n$1\r\n7\r\n$3\r\n1-1\r\n$3\r\n1-1\r\n$9\r\nppppppppp\r\n",
        "cut bulk": b"$10\r\nabc",
        "not RESP": b"HTTP/1.1 200 OK\r\n\r\n",
        "nothing": b"",
        "binary": bytes(range(256)),
    }

    def __init__(self, lie: str):
        self.lie, self.port = self.LIES[lie], free_port()

    def __enter__(self) -> "HostileRedis":
        self.server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.server.close()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(link,), daemon=True).start()

    def _talk(self, link: socket.socket) -> None:
        stream = link.makefile("rb")
        try:
            while line := stream.readline():
                words = []
                for _ in range(int(line[1:])):
                    words.append(stream.read(int(stream.readline()[1:]) + 2)[:-2])
                name = words[0].upper()
                if name == b"SCRIPT":
                    link.sendall(b"$40\r\n" + b"a" * 40 + b"\r\n")
                elif name == b"INFO":
                    link.sendall(b"$%d\r\n%s\r\n" % (len(INFO), INFO))
                elif name in (b"SELECT", b"AUTH"):
                    link.sendall(b"+OK\r\n")
                else:
                    link.sendall(self.lie)
        except (OSError, ValueError):
            pass
        finally:
            link.close()
