"""A proxy before the service that loses, cuts and replaces answers, one request after the other as its rules say.

A rule is (pattern, faults): the pattern is searched in "METHOD path", and each matching request takes the rule's next
fault; when none is left, requests pass. `seen` has every request, in order of arrival.

    "pass"                  as without a proxy
    "drop"                  the request does not reach the service, and there is no answer
    "lose"                  the service carries it out, and its answer is lost: the connection ends
    "hang"                  the same, but the connection stays open
    "cut"                   half of the answer's body, then the connection ends
    "stall"                 half of the body, then nothing more
    "broken"                half of the body, as if that were all
    "async"                 with Prefer: respond-async, so the answer is a 202
    "no wait"               without ?wait=, as through a gateway that knows better
    "twice"                 the service gets the request twice, and the second answer is passed on
    "late"                  the service gets it a second later
    a function              is called when the service has answered, before the answer is passed on
    "one event"             a stream that breaks after its first event
    answer(...)             instead of asking the service
    instead(...)            instead of what the service has answered

With `login`, a (token, user), it is also a gateway: who sends the token as Authorization is that user to the service,
and who sends no Authorization gets a page with 401.
"""

from __future__ import annotations

import http.client
import re
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field

LIMIT_S = 60
LATE_S = 1
OF_CONNECTION = ("content-length", "connection", "transfer-encoding")


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    is_asked: bool = False  # whether the service is
    missing: int = 0  # bytes of the body that do not come


def answer(status: int, body: str, **headers: str) -> Answer:
    return Answer(status, body.encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def problem(status: int, code: str, **headers: str) -> Answer:
    return answer(status, f'{{"code":"{code}","status":{status}}}', Content_Type="application/problem+json", **headers)


def instead(status: int, body: str, **headers: str) -> Answer:
    made = answer(status, body, **headers)
    made.is_asked = True
    return made


def half(status: int, code: str, **headers: str) -> Answer:
    made = problem(status, code, **headers)
    made.missing = 9
    return made


PAGE = "<html><body>a gateway's page</body></html>"


@dataclass
class Seen:
    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    fault: object


class Proxy(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: str, rules: list[tuple[str, list]], login: tuple[str, str] | None = None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = upstream.removeprefix("http://")
        self.rules = [(re.compile(pattern), list(faults)) for pattern, faults in rules]
        self.login = login
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def note(self, method: str, path: str, headers: dict[str, str], body: bytes) -> object:
        with self.lock:
            matching = (faults for pattern, faults in self.rules if pattern.search(f"{method} {path}") and faults)
            faults = next(matching, None)
            fault = faults.pop(0) if faults else "pass"
            self.seen.append(Seen(time.monotonic(), method, path, headers, body, fault))
            return fault

    def requests(self, pattern: str) -> list[Seen]:
        with self.lock:
            return [one for one in self.seen if re.search(pattern, f"{one.method} {one.path}")]

    def left(self) -> list:
        """The faults that no request has taken yet."""
        with self.lock:
            return [fault for _, faults in self.rules for fault in faults]

    def close(self) -> None:
        self.ending.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address) -> None:
        pass  # a client that has gone


class Handler(socketserver.StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) < 2:
            return
        method, path = line[0], line[1]
        headers = {}
        while (row := self.rfile.readline().decode("latin-1").strip()):
            name, _, value = row.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        fault = self.server.note(method, path, headers, body)
        if fault == "drop":
            return
        if self.server.login and not self.log_in(headers):
            self.send(401, {"Content-Type": "text/html"}, PAGE.encode(), len(PAGE))
            return
        if isinstance(fault, Answer) and not fault.is_asked:
            self.send(fault.status, fault.headers, fault.body, len(fault.body) + fault.missing)
            return
        self.forward(method, path, headers, body, fault)

    def log_in(self, headers: dict[str, str]) -> bool:
        token, user = self.server.login
        headers.pop("x-user-id", None)
        if headers.get("authorization") == f"Bearer {token}":
            headers["x-user-id"] = user
        return "authorization" in headers

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes, fault: object) -> None:
        if fault == "async":
            headers = {**headers, "prefer": "respond-async"}
        if fault == "no wait":
            path = path.partition("?")[0]
        if fault == "late":
            time.sleep(LATE_S)
        if fault == "twice":
            self.forward(method, path, headers, body, "lose")
        link = http.client.HTTPConnection(self.server.upstream, timeout=LIMIT_S)
        try:
            passed = {name: value for name, value in headers.items() if name not in ("connection", "host")}
            link.request(method, path, body or None, passed)
            got = link.getresponse()
            if got.headers.get_content_type() == "text/event-stream":
                self.stream(got, fault)
            else:
                self.reply(got, fault)
        finally:
            link.close()

    def reply(self, got: http.client.HTTPResponse, fault: object) -> None:
        text = got.read()
        headers = {name: value for name, value in got.headers.items() if name.lower() not in OF_CONNECTION}
        half = text[: len(text) // 2]
        if fault == "lose":
            return
        if fault == "hang":
            self.idle()
        elif callable(fault):
            fault()
            self.send(got.status, headers, text, len(text))
        elif isinstance(fault, Answer):
            self.send(fault.status, fault.headers, fault.body, len(fault.body))
        elif fault in ("cut", "stall"):
            self.send(got.status, headers, half, len(text))
            if fault == "stall":
                self.idle()
        elif fault == "broken":
            self.send(got.status, headers, half, len(half))
        else:
            self.send(got.status, headers, text, len(text))

    def idle(self) -> None:
        self.server.ending.wait(LIMIT_S)

    def stream(self, got: http.client.HTTPResponse, fault: object) -> None:
        head = f"HTTP/1.1 {got.status} Any", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"
        self.wfile.write("\r\n".join((*head, "Connection: close", "", "")).encode())
        while not self.server.ending.is_set() and (row := got.readline()):
            self.wfile.write(f"{len(row):x}\r\n".encode() + row + b"\r\n")
            if fault == "one event" and row == b"\n":
                return  # without the last chunk
        self.wfile.write(b"0\r\n\r\n")

    def send(self, status: int, headers: dict[str, str], body: bytes, length: int) -> None:
        fields = [f"{name}: {value}" for name, value in headers.items()]
        head = f"HTTP/1.1 {status} Any", *fields, f"Content-Length: {length}", "Connection: close", "", ""
        self.wfile.write("\r\n".join(head).encode() + body)
        self.wfile.flush()

    def finish(self) -> None:
        try:
            super().finish()
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
