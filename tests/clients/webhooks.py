"""The receivers of docs/cookbook.md. What they answer is tried by posts of our own. Then `seckill webhooks` sends them
the feed, through a proxy that loses answers and repeats posts, and at the end each one's table must be the feed."""

from __future__ import annotations

import base64
import hmac
import http.client
import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

import lab
from proxy import Proxy, answer

STEP = "receive webhooks"
FILES = {"python": "receiver.py", "js": "receiver.mjs", "java": "Receiver.java"}
LINES_MOST = {"python": 60, "js": 70, "java": 110}
SENDER = [str(lab.ROOT / "build/seckill"), "webhooks"]
BODY_MOST = 1_000_000
EARLY_ORDERS = 60  # more than a page has events
LIMIT_S = 90


def make_name(what: str) -> str:
    """Unique also among earlier runs with these stores, in which a receiver's place is kept under its name."""
    return f"{what}-{os.urandom(4).hex()}"


def make_secret() -> str:
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """Outside the range from which clients' ports are taken, so that it can be opened again after a restart."""
    return next(port for port in iter(lambda: random.randrange(15000, 31000), 0) if not is_open(port))


class Receiver:
    """A block of the cookbook, as a process."""

    def __init__(self, language: str, text: str, scratch: Path):
        self.language = language
        self.name = make_name(language)
        self.folder = scratch / f"receiver-{self.name}"
        self.folder.mkdir()
        self.secrets = [make_secret(), make_secret()]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = self.folder / ("webhooks.db" if language == "python" else "webhooks.jsonl")
        (self.folder / FILES[language]).write_text(text)
        if language == "java":
            self.compile()
        self.process: subprocess.Popen | None = None

    def compile(self) -> None:
        try:
            lab.compile_java(self.folder, lab.JAVA / "seckill/SeckillClient.java", self.folder / FILES["java"])
        except AssertionError as error:
            raise ValueError(error) from None  # a control that does not compile is none

    def start(self) -> None:
        command = {
            "python": ["python3", FILES["python"]],
            "js": ["node", FILES["js"]],
            "java": ["java", "-XX:TieredStopAtLevel=1", "-cp", ".", "seckill.Receiver"],
        }[self.language]
        values = {"PATH": os.environ["PATH"], "PORT": str(self.port), "WEBHOOK_SECRETS": " ".join(self.secrets)}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, env=values, stdout=log, stderr=log)
        lab.until(f"{self.name} listens", lambda: is_open(self.port) or self.process.poll() is not None)
        assert self.process.poll() is None, (self.folder / "log").read_text()

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def rows(self) -> list[dict]:
        if self.language == "python":
            return [json.loads(body) for (body,) in self.query("SELECT body FROM event ORDER BY position")]
        try:
            return [json.loads(line) for line in self.written().split(b"\n")[:-1]]
        except ValueError as error:
            raise AssertionError(f"a line of {self.name} is broken: {error}") from None

    def has(self, event_id: str) -> bool:
        if self.language == "python":
            return self.query("SELECT 1 FROM event WHERE id = ?", event_id) != []
        return event_id.encode() in self.written()

    def query(self, statement: str, *values: str) -> list[tuple]:
        if not self.file.exists():
            return []
        with closing(sqlite3.connect(self.file)) as db:
            try:
                return db.execute(statement, values).fetchall()
            except sqlite3.OperationalError:
                return []  # there is no table yet

    def written(self) -> bytes:
        return self.file.read_bytes() if self.file.exists() else b""

    def ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]


@contextmanager
def running(language: str, text: str, scratch: Path) -> Iterator[Receiver]:
    receiver = Receiver(language, text, scratch)
    try:
        receiver.start()
        yield receiver
    finally:
        receiver.kill()


# ---- posts of our own ----


@dataclass
class Post:
    body: bytes
    id: str = "id-1"
    at: str = field(default_factory=lambda: str(int(time.time())))
    signatures: str | None = None
    length: int | None = None  # that is announced; then no body is sent

    def mac(self, secret: str, version: str = "v1") -> str:
        text = f"{self.id}.{self.at}.".encode() + self.body
        made = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), text, "sha256")
        return f"{version},{base64.b64encode(made).decode()}"

    def signed(self, *secrets: str) -> Post:
        self.signatures = " ".join(map(self.mac, secrets))
        return self

    def to(self, receiver: Receiver) -> int:
        link = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=20)
        try:
            link.putrequest("POST", "/hook")
            link.putheader("Content-Type", "application/json")
            link.putheader("Content-Length", str(len(self.body) if self.length is None else self.length))
            if self.signatures is not None:
                link.putheader("webhook-id", self.id)
                link.putheader("webhook-timestamp", self.at)
                link.putheader("webhook-signature", self.signatures)
            link.endheaders(self.body if self.length is None else None)
            return link.getresponse().status
        finally:
            link.close()


def event(name: str) -> dict:
    return {"id": name, "event": "order.placed", "order_id": "1-2", "voucher_id": "7", "at": "2026-01-01T00:00:00.000Z",
            "total_cents": 990, "why": 'a "茶" \\ \n'}  # fmt: skip


def single(one: dict) -> bytes:
    return json.dumps({"type": one["event"], "timestamp": one["at"], "data": one}, ensure_ascii=False).encode()


def page(*events: dict) -> bytes:
    each = [json.loads(single(one)) for one in events]
    made = {"type": "seckill.events", "timestamp": "2026-01-01T00:00:00.000Z", "data": {"events": each}}
    return json.dumps(made, ensure_ascii=False).encode()


def expect(what: str, got: object, wanted: object) -> None:
    assert got == wanted, f"{what}: {got} instead of {wanted}"


def answers_posts(language: str, text: str, scratch: Path) -> None:
    with running(language, text, scratch) as receiver:
        refuses(receiver)
        expect("the table after what was refused", receiver.ids(), [])
        takes(receiver)


def refuses(receiver: Receiver) -> None:
    first, second = receiver.secrets
    now = int(time.time())
    body = page(event("refused"))

    def changed(**members: str | bytes) -> Post:
        post = Post(body).signed(first)
        for name, value in members.items():
            setattr(post, name, value)
        return post

    for what, post in {
        "no signature": Post(body),
        "an empty signature": Post(body, signatures=""),
        "another secret": Post(body).signed(make_secret()),
        "another body": changed(body=page(event("forged"))),
        "another id": changed(id="id-2"),
        "another time": changed(at=str(now - 5)),
        "another version": Post(body, signatures=Post(body).mac(first, "v2")),
        "half a signature": Post(body, signatures=Post(body).mac(first)[:20]),
        "a signature that is no text of ours": Post(body, signatures="v1,é v1, ,"),
        "an old time": Post(body, at=str(now - 330)).signed(first),
        "a late time": Post(body, at=str(now + 330)).signed(second),
        "a time that is none": Post(body, at="now").signed(first),
        "a time without end": Post(body, at="9" * 5000).signed(first),
    }.items():
        expect(what, post.to(receiver), 401)
    for broken in (b"", b"{", b"[]", b"7", b'{"type":"seckill.events"}', b'{"type":"order.paid","data":{}}'):
        expect(f"the body {broken}", Post(broken).signed(first).to(receiver), 400)
    one_without = page(event("beside"), {"event": "order.placed", "at": ""})
    expect("an event without an id", Post(one_without).signed(first).to(receiver), 400)
    too_long = Post(page({**event("long"), "why": "x" * BODY_MOST})).signed(first)
    too_long.length = len(too_long.body)
    expect("a body that is too long", send_long(too_long, receiver), 413)


def send_long(post: Post, receiver: Receiver) -> int:
    """Java reads as far as the bound; the others answer before the body is sent. A connection that ends is as good."""
    if receiver.language == "java":
        post.length = None
    try:
        return post.to(receiver)
    except TimeoutError:
        return 0
    except OSError:
        return 413


def takes(receiver: Receiver) -> None:
    first, second = receiver.secrets
    now = int(time.time())

    def give(what: str, post: Post, *ids: str) -> None:
        expect(what, post.to(receiver), 204)
        expect(f"the table after {what}", receiver.ids(), list(ids))

    one, two, three, four = map(event, ("1", "2", "3", "4"))
    give("a page", Post(page(one, two)).signed(first), "1", "2")
    give("the same page", Post(page(one, two)).signed(first), "1", "2")
    give("the same event alone", Post(single(two)).signed(first), "1", "2")
    give("a page of which one is new", Post(page(two, three)).signed(second), "1", "2", "3")
    give("an event alone", Post(single(four)).signed(make_secret(), second), "1", "2", "3", "4")
    expect("the table", receiver.rows(), [json.loads(single(one))["data"] for one in (one, two, three, four)])
    old = Post(page(one), at=str(now - 240))
    old.signatures = f"v1a,{'A' * 86}== {old.mac(make_secret())} {old.mac(first)}"
    give("one signature of several", old, "1", "2", "3", "4")
    give("a page twice in itself", Post(page(event("5"), event("5"))).signed(first), "1", "2", "3", "4", "5")
    give("a test", Post(single({**event("6"), "event": "seckill.test"})).signed(first), "1", "2", "3", "4", "5")
    receiver.kill()
    if receiver.language != "python":
        with receiver.file.open("ab") as file:
            file.write(b'{"id":"half a line')
    receiver.start()
    ids = [str(number) for number in range(1, 106)]
    full = page(*({**event(one), "why": "茶" * 2000} for one in ids[4:]))
    give("a large page after a crash", Post(full).signed(first), *ids)
    receiver.restart()
    give("the same page after another one", Post(full).signed(second), *ids)


# ---- posts of `seckill webhooks` ----


def feed() -> list[dict]:
    found: list[dict] = []
    after = ""
    while True:
        got = lab.ask("GET", "/admin/events" + after, lab.ADMIN)
        if not got["events"]:
            return found
        found += got["events"]
        after = f"?after={got['next']}"


def make_events(voucher: str, user: str, number: int) -> None:
    order = lab.buy(voucher, user)
    if number % 3 == 0:
        lab.ask("POST", f"/orders/{order}/cancel", {"X-User-Id": user})
    elif number % 3 == 1:
        paid = {"reference": f"p-{order}", "amount_cents": lab.TERMS["price_cents"], "currency": "CNY"}
        lab.ask("POST", f"/orders/{order}/pay", lab.ADMIN, paid)


def settings_of_sender(file: Path) -> dict[str, str]:
    stores = {name: lab.SETTINGS[name] for name in ("SECKILL_DATABASE_URL", "SECKILL_SHARDS") if name in lab.SETTINGS}
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "no_proxy": "*", "SECKILL_WEBHOOKS": str(file), **stores}


@contextmanager
def sending(folder: Path, receivers: list[dict]) -> Iterator[None]:
    file, log = folder / "receivers.json", folder / "log-of-sender"
    file.write_text(json.dumps({"receivers": receivers}))
    file.chmod(0o600)
    with log.open("wb") as output:
        sender = subprocess.Popen(SENDER, env=settings_of_sender(file), stdout=output, stderr=output)
    try:
        yield
        assert sender.poll() is None, f"the sender has ended: {log.read_text()}"
        sender.terminate()
        expect("the sender's exit status after SIGTERM", sender.wait(30), 0)
    except AssertionError as error:
        raise AssertionError(f"{error}\nThe sender's log: {log.read_text()[-2000:]}") from None
    finally:
        sender.kill()
        sender.wait()


def faults(receiver: Receiver) -> list:
    """Its posts take these, one after the other. The function kills it as soon as it has answered."""
    busy = answer(503, "", Retry_After="1")
    return ["lose", "twice", receiver.restart, "lose", "late", "drop", "pass", busy, receiver.restart, "lose", "twice"]


def has_the_feed(blocks: list[tuple[str, str, int]], scratch: Path) -> None:
    """Each of (language, text, most events in a post) gets the whole feed, and more of it meanwhile. One that gets each
    event alone begins with what is new: the feed has thousands of events."""
    voucher = lab.voucher(stock=10000)
    user = make_name("hook")
    for number in range(EARLY_ORDERS):
        lab.buy(voucher, f"{user}-early-{number}")
    with ExitStack() as stack:
        receivers = [stack.enter_context(running(language, text, scratch)) for language, text, _ in blocks]
        proxies = [Proxy(one.url, [("POST /hook", faults(one))]) for one in receivers]
        for proxy in proxies:
            stack.callback(proxy.close)
        entries = [
            {
                "name": one.name,
                "url": f"{proxy.url}/hook",
                "secrets": one.secrets[::-1],
                "page": most,
                "from": "now" if most == 1 else "first",
            }
            for one, proxy, (_, _, most) in zip(receivers, proxies, blocks)
        ]
        past = len(feed())
        stack.enter_context(sending(receivers[0].folder, entries))
        deadline = time.monotonic() + LIMIT_S
        for number in itertools.count():
            left = {one.name: proxy.left() for one, proxy in zip(receivers, proxies) if proxy.left()}
            if not left:
                break
            assert time.monotonic() < deadline, f"not posted: {left}"
            make_events(voucher, f"{user}-{number}", number)
            time.sleep(0.1)
        last = feed()[-1]["id"]
        for one, proxy, (_, _, most) in zip(receivers, proxies, blocks):
            lab.until(f"{one.name} has the newest event", lambda: one.has(last), LIMIT_S)
            expect_feed(one, past if most == 1 else None)
            check_posts(proxy, most)


def expect_feed(receiver: Receiver, past: int | None = None) -> None:
    """`past`: its table begins at an event that came after so many."""
    rows = receiver.rows()
    events = [{name: value for name, value in one.items() if name != "type"} for one in feed()]
    begin = 0 if past is None else next(at for at, one in enumerate(events) if one["id"] == rows[0]["id"])
    assert past is None or begin >= past, f"{receiver.name} has {past - begin} events of the past"
    events = events[begin : begin + len(rows)]
    ids, wanted = [one["id"] for one in rows], [one["id"] for one in events]
    assert len(set(ids)) == len(ids), f"{receiver.name} has {len(ids) - len(set(ids))} events more than once"
    missing = [one for one in wanted if one not in set(ids)]
    assert not missing, f"{receiver.name} lacks {len(missing)} events of {len(wanted)}, the first is {missing[0]}"
    assert ids == wanted, f"{receiver.name} has another order than the feed"
    for row, one in zip(rows, events):
        expect(f"an event of {receiver.name}", row, one)


def check_posts(proxy: Proxy, most: int) -> None:
    """A try of a page is that page, and its id is its last event's."""
    bodies: dict[str, bytes] = {}
    for post in proxy.requests("POST /hook"):
        name = post.headers["webhook-id"]
        made = json.loads(post.body)
        events = [made] if most == 1 else made["data"]["events"]
        expect("webhook-id", name, events[-1]["data"]["id"])
        assert len(events) <= most, f"{len(events)} events in a post, of {most}"
        expect(f"the type of a page of {most}", made["type"], made["data"]["event"] if most == 1 else "seckill.events")
        expect("another try's body", bodies.setdefault(name, post.body) == post.body, True)


def runs_as_printed(commands: str, text: str, scratch: Path) -> None:
    """The page's own commands, on another port and with another name."""
    folder = scratch / make_name("printed")
    folder.mkdir()
    (folder / "build").symlink_to(lab.ROOT / "build")
    receiver = Receiver("python", text, folder)
    assert commands.count("PORT=8090") == 1 and SENDER[0].endswith("build/seckill"), commands
    script = commands.replace("PORT=8090", f"PORT={receiver.port}").replace('"shop"', f'"{receiver.name}"').replace("$ ", "")
    (folder / FILES["python"]).write_text(text)
    receiver.file = folder / receiver.file.name
    lab.buy(lab.voucher(), "alice")
    last = feed()[-1]["id"]
    with (folder / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["sh", "-euc", script], cwd=folder, env=settings_of_sender(Path()), stdout=log, stderr=log, start_new_session=True
        )
    try:
        lab.until("the receiver has the newest event", lambda: shell.poll() is None and receiver.has(last), LIMIT_S)
        expect_feed(receiver)
    except AssertionError as error:
        raise AssertionError(f"{error}\nThe log: {(folder / 'log').read_text()[-2000:]}") from None
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()


# ---- what is run ----

Test = tuple[str, Callable[[], None]]
ANSWERS = "what it answers, and what is in its table"
SENT = "its table is the feed, although answers are lost"


def tests(blocks: dict[tuple[str, str], str], commands: str, scratch: Path) -> list[Test]:
    texts = {language: blocks[STEP, language] for language in FILES}
    all_of_them = [(language, text, 50) for language, text in texts.items()] + [("python", texts["python"], 1)]
    found: list[Test] = [
        (f"webhooks: {language}: {ANSWERS}", lambda args=(language, text): answers_posts(*args, scratch))
        for language, text in texts.items()
    ]
    found.append((f"webhooks: each receiver: {SENT}", lambda: has_the_feed(all_of_them, scratch)))
    found.append(("webhooks: the page's commands", lambda: runs_as_printed(commands, texts["python"], scratch)))
    return found


def run_broken(blocks: dict[tuple[str, str], str], scratch: Path, language: str, test: str, old: str, new: str) -> None:
    text = blocks[STEP, language]
    if text.count(old) != 1:  # no assertion, which would count as noticed
        raise ValueError(f"{FILES[language]} has {text.count(old)} times {old!r}")
    broken = text.replace(old, new)
    if test == SENT:
        has_the_feed([(language, broken, 50)], scratch)
    else:
        answers_posts(language, broken, scratch)
