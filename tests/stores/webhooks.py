"""`seckill webhooks` with real stores, a real service and receivers that misbehave: away, slow, refusing for ever, gone,
asking for patience; the process is killed between a post and its cursor; two processes share a file; PostgreSQL fails
over; the feed is that of two shards. What each receiver got is compared with GET /admin/events.

Each rule that keeps this is broken once (CONTROLS), and must be missed.
"""

from __future__ import annotations

import base64
import hmac
import http.server
import json
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from stack import ADMIN_TOKEN, Broken, Process, Stack, free_port, wait_for

SECRETS = [b"a secret of 24 bytes, yes", b"and the secret of before it"]
TAKE = (204, {})


class Receiver:
    """Keeps what was posted to it. `answers`: what to answer to the next posts, the last one to all others: a status and
    fields, or a function of the post that returns these."""

    def __init__(self, name: str, *answers, page: int = 50, events=None, secrets=None, tls: Path | None = None):
        self.name, self.answers, self.page, self.events = name, list(answers) or [TAKE], page, events
        self.secrets, self.tls, self.port = secrets or SECRETS, tls, free_port()
        self.posts: list[dict] = []  # what was taken, with what was not
        self.wrong: list[str] = []
        self.server = None

    def row(self) -> dict:
        row = {"name": self.name, "page": self.page, "from": "first", "secrets": [secret_text(s) for s in self.secrets]}
        row["url"] = f"{'https' if self.tls else 'http'}://localhost:{self.port}/hook"
        return row | ({"events": self.events} if self.events else {}) | ({"ca": str(self.tls)} if self.tls else {})

    def open(self) -> "Receiver":
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                post = outer.note(self.path, self.headers, body, answer)
                if callable(answer):
                    answer = answer(post)
                status, fields = answer
                self.send_response(status)
                for name, value in ({"Content-Length": "0"} | fields).items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *words):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *words):  # the sender was killed
                pass

        self.server = Server(("localhost", self.port), Handler)
        if self.tls:
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.tls, self.tls.with_suffix(".key"))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def close(self) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def note(self, path: str, fields, body: bytes, answer) -> dict:
        ident, stamp = fields.get("webhook-id", ""), fields.get("webhook-timestamp", "0")
        text = f"{ident}.{stamp}.".encode() + body
        made = ["v1," + base64.b64encode(hmac.digest(secret, text, "sha256")).decode() for secret in self.secrets]
        if fields.get("webhook-signature", "").split() != made:
            self.wrong.append(f"{self.name}: the signatures of {ident} are wrong")
        if abs(time.time() - int(stamp)) > 60:
            self.wrong.append(f"{self.name}: the time stamp of {ident} is not of now")
        document = json.loads(body)
        events = document["data"]["events"] if document["type"] == "seckill.events" else [document]
        if document["type"] == "seckill.test":
            events = []
        elif events[-1]["data"]["id"] != ident or len(events) > self.page or (self.page == 1) != (document["type"] != "seckill.events"):
            self.wrong.append(f"{self.name}: {ident} is no page of at most {self.page}: {body[:200]!r}")
        for event in events:
            if event["type"] != event["data"]["event"] or event["timestamp"] != event["data"]["at"] or "type" in event["data"]:
                self.wrong.append(f"{self.name}: an event is not as it should be: {event}")
        post = {"id": ident, "path": path, "at": time.monotonic(), "taken": answer == TAKE,
                           "events": [event["data"] for event in events]}
        self.posts.append(post)
        return post

    def ids(self, taken: bool = True) -> list[str]:
        return [event["id"] for post in self.posts if post["taken"] or not taken for event in post["events"]]


def secret_text(secret: bytes) -> str:
    return "whsec_" + base64.b64encode(secret).decode()


class Sender(Process):
    """`seckill webhooks`"""

    def __init__(self, scene: "Scene", receivers: list[Receiver], name: str = "sender", env: dict | None = None):
        super().__init__(name, scene.stack.folder / f"webhooks-{name}.log")
        self.scene, self.file, self.port = scene, scene.stack.folder / f"receivers-{name}.json", free_port()
        self.receivers = receivers
        self.file.write_text(json.dumps({"receivers": [receiver.row() for receiver in receivers]}))
        urls = scene.stack.store_urls(scene.proxied)
        self.env = {key: value for key, value in urls.items() if "REDIS" not in key} | {
            "SECKILL_WEBHOOKS": str(self.file),
            "SECKILL_WEBHOOKS_LISTEN": f"127.0.0.1:{self.port}",
        } | (env or {})

    def run(self) -> "Sender":
        self.start([str(self.scene.stack.binary), "webhooks"], self.env)
        return self

    def command(self, *words: str) -> tuple[int, str]:
        import os

        done = subprocess.run([str(self.scene.stack.binary), "webhooks", *words], env=os.environ | self.env,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def metric(self, name: str, labels: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{") and labels in line)


class Scene:
    def __init__(self, stack: Stack, vouchers: int = 2):
        self.stack, self.proxied, self.users = stack, False, 0
        self.receivers: list[Receiver] = []
        self.senders: list[Sender] = []
        self.stack.launch(1, {}, {}, False)
        self.one = stack.instances[0]
        self.vouchers = [self.create() for _ in range(vouchers)]

    def create(self) -> str:
        now = time.time()
        terms = {"title": "Webhooks", "price_cents": 100, "stock": 100000, "begin_at": stamp(now - 5),
                 "end_at": stamp(now + 3600)}
        status, document = self.one.ask("POST", "/admin/vouchers", body=terms)
        if status != 201:
            raise Broken(f"no voucher: {status} {document}")
        return document["id"]

    def buy(self, count: int, pay: int = 0) -> None:
        """Of all vouchers in turn; the first ones are paid, so that the feed has events of each kind."""
        for i in range(count):
            self.users += 1
            status, order = self.one.ask("POST", f"/seckill/{self.vouchers[i % len(self.vouchers)]}", f"u{self.users}")
            if status not in (201, 202):
                raise Broken(f"no order: {status} {order}")
            if i < pay:
                wait_for("it is confirmed", lambda: self.one.ask("GET", f"/orders/{order['id']}", f"u{self.users}")[1].get("status") == "unpaid")
                body = {"reference": f"r{self.users}", "amount_cents": 100, "currency": "CNY"}
                status, order = self.one.ask("POST", f"/orders/{order['id']}/pay", body=body,
                                             headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
                if status != 200:
                    raise Broken(f"not paid: {status} {order}")

    def feed(self) -> list[dict]:
        events, after = [], ""
        while True:
            status, document = self.one.ask("GET", f"/admin/events?limit=100{after}")
            if status != 200:
                raise Broken(f"no feed: {status}")
            if not document["events"]:
                return events
            events += document["events"]
            after = f"&after={document['next']}"

    def receiver(self, name: str, *answers, **more) -> Receiver:
        self.receivers.append(Receiver(name, *answers, **more))
        return self.receivers[-1].open()

    def sender(self, *receivers: Receiver, name: str = "sender", env: dict | None = None) -> Sender:
        self.senders.append(Sender(self, list(receivers), name, env))
        return self.senders[-1]

    def wait_until_sent(self, receiver: Receiver, seconds: float = 20.0) -> set[str]:
        wanted = {event["id"] for event in self.feed() if receiver.events is None or event["event"] in receiver.events}
        wait_for(f"{receiver.name} has all events", lambda: wanted <= set(receiver.ids()), seconds)
        return wanted

    def judge(self, receiver: Receiver, repeated: int = 0) -> list[str]:
        """What the receiver has taken is the feed, each event once but for so many, and in the feed's order in each
        shard. The events of a sale come when its phase is noted, also now."""
        due = self.wait_until_sent(receiver)
        taken = receiver.ids()
        feed = [event["id"] for event in self.feed() if receiver.events is None or event["event"] in receiver.events]
        place, wrong, seen, last = {ident: n for n, ident in enumerate(feed)}, list(receiver.wrong), set(), {}
        shard = {event["id"]: self.shard_of(event) for event in self.feed()}
        again = 0
        for ident in taken:
            if ident not in place:
                wrong.append(f"{receiver.name}: {ident} is not in the feed, or was not wanted")
                continue
            if ident in seen:
                again += 1
                continue
            seen.add(ident)
            if place[ident] < last.get(shard[ident], -1):
                wrong.append(f"{receiver.name}: {ident} came after a later event")
            last[shard[ident]] = place[ident]
        if due - seen:
            wrong.append(f"{receiver.name}: {len(due - seen)} of {len(feed)} events did not come")
        if again > repeated:
            wrong.append(f"{receiver.name}: {again} events came again, at most {repeated} may")
        return wrong

    def shard_of(self, event: dict) -> str:
        return event["voucher_id"] if len(self.stack.shards) > 1 else ""

    def state(self, name: str) -> str:
        rows = self.stack.postgres.sql(f"select state from webhook_receiver where name = '{name}'")
        return " ".join(sorted(row[0] for row in rows))

    def land(self) -> None:
        for sender in self.senders:
            sender.end(signal.SIGKILL)
        for receiver in self.receivers:
            receiver.close()
        self.senders, self.receivers = [], []

    def end_well(self, sender: Sender) -> list[str]:
        code = sender.end(signal.SIGTERM)
        return [] if code == 0 else [f"{sender.name} ends with {code}: {sender.log.read_text()[-300:]}"]


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


# ---- what happens ----


def all_events_come(scene: Scene) -> list[str]:
    whole, single = scene.receiver("whole"), scene.receiver("single", page=1, events=["order.paid"])
    sender = scene.sender(whole, single, env={"http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}).run()
    scene.buy(60, pay=5)
    for receiver in (whole, single):
        scene.wait_until_sent(receiver)
    scene.buy(10)
    scene.wait_until_sent(whole)
    wait_for("nothing is unsent", lambda: sender.metric("seckill_webhook_unsent_seconds", "") == 0)
    counted = sender.metric("seckill_webhook_events_total", 'receiver="whole"')
    wrong = [] if counted == len(whole.ids()) else [f"{counted} events are counted, {len(whole.ids())} came"]
    return wrong + scene.judge(whole) + scene.judge(single) + scene.end_well(sender)


def nothing_twice_after_a_restart(scene: Scene) -> list[str]:
    receiver = scene.receiver("again")
    sender = scene.sender(receiver).run()
    scene.buy(20)
    scene.wait_until_sent(receiver)
    wrong = scene.end_well(sender)
    sender.run()
    scene.buy(10)
    scene.wait_until_sent(receiver)
    return wrong + scene.judge(receiver) + scene.end_well(sender)


def away(scene: Scene) -> list[str]:
    receiver = scene.receiver("away")
    receiver.close()
    sender = scene.sender(receiver).run()
    scene.buy(30)
    wait_for("it is known to fail", lambda: "failing" in scene.state("away"))
    wait_for("its age is shown", lambda: sender.metric("seckill_webhook_unsent_seconds", 'receiver="away"') > 0)
    wrong = scene.end_well(sender)
    sender.run()  # what is unsent is known to no process
    receiver.open()
    scene.wait_until_sent(receiver)
    wait_for("it is known to take", lambda: "failing" not in scene.state("away"))
    return wrong + scene.judge(receiver) + scene.end_well(sender)


def slow(scene: Scene) -> list[str]:
    """A post that runs when the process is to end is finished, and nothing comes twice."""
    began = threading.Event()

    def wait(post: dict) -> tuple:
        began.set()
        time.sleep(2)
        post["taken"] = True
        return TAKE

    scene.buy(5)
    receiver = scene.receiver("slow", wait, TAKE)
    other = scene.receiver("quick")
    sender = scene.sender(receiver, other).run()
    if not began.wait(20):
        return ["nothing is posted"]
    scene.wait_until_sent(other)  # which no slow one holds back
    wrong = scene.end_well(sender)
    sender.run()
    scene.wait_until_sent(receiver)
    return wrong + scene.judge(receiver) + scene.judge(other) + scene.end_well(sender)


def refuses_for_ever(scene: Scene) -> list[str]:
    """Until an operator passes over the page."""
    receiver = scene.receiver("refuses", (500, {}))
    sender = scene.sender(receiver).run()
    scene.buy(1)
    wait_for("tries", lambda: len(receiver.posts) >= 2 * len(scene.stack.shards))
    wrong = [] if len({post["id"] for post in receiver.posts}) <= len(scene.stack.shards) else ["a try has another id"]
    code, said = sender.command("--check")
    if code != 1 or "warn place: refuses" not in said:
        wrong.append(f"--check ends with {code}: {said}")
    skipped = set(receiver.ids(taken=False))
    code, said = sender.command("--skip", "refuses")
    receiver.answers = [TAKE]
    if code != 0 or ": skip\n" not in said:
        wrong.append(f"--skip ends with {code}: {said}")
    wait_for("it is moved on", lambda: scene.state("refuses").replace("sending", "").strip() == "")
    audited = scene.stack.postgres.sql("select count(*) from admin_event where what = 'webhook_skip'")
    if sum(int(row[0]) for row in audited) == 0:
        wrong.append("--skip leaves no trace")
    scene.buy(4)
    wanted = {event["id"] for event in scene.feed()} - skipped
    wait_for("all others", lambda: wanted <= set(receiver.ids()))
    code, said = sender.command("--skip", "refuses")
    if code != 0 or "skip\n" in said.replace("nothing to do", ""):
        wrong.append(f"--skip of one that takes: {code}: {said}")
    return wrong + receiver.wrong + scene.end_well(sender)


def gone(scene: Scene) -> list[str]:
    receiver = scene.receiver("gone", (410, {}))
    sender = scene.sender(receiver).run()
    scene.buy(len(scene.vouchers))
    wait_for("it is stopped", lambda: "stopped" in scene.state("gone"))
    posts = len(receiver.posts)
    time.sleep(4)
    wrong = [] if len(receiver.posts) <= len(scene.stack.shards) and posts <= len(scene.stack.shards) else ["it is still sent to"]
    sender.end(signal.SIGTERM)
    sender.run()
    time.sleep(2)
    if len(receiver.posts) > len(scene.stack.shards):
        wrong.append("a restart sends to it")
    if sender.metric("seckill_webhook_stopped", "") == 0:
        wrong.append("/metrics does not show it")
    receiver.answers = [TAKE]
    code, said = sender.command("--resume", "gone")
    if code != 0 or ": resume\n" not in said:
        wrong.append(f"--resume ends with {code}: {said}")
    scene.wait_until_sent(receiver)
    return wrong + scene.judge(receiver) + scene.end_well(sender)


def asks_for_patience(scene: Scene) -> list[str]:
    receiver = scene.receiver("patience", (429, {"Retry-After": "4"}), TAKE)
    scene.buy(1)
    receiver.page = 100
    sender = scene.sender(receiver).run()
    scene.wait_until_sent(receiver)
    first = receiver.posts[0]
    again = next(post for post in receiver.posts[1:] if post["id"] == first["id"])
    wrong = [] if again["at"] - first["at"] >= 3.9 else [f"Retry-After: 4, and the next try after {again['at'] - first['at']:.1f} s"]
    return wrong + scene.judge(receiver) + scene.end_well(sender)


def redirects(scene: Scene) -> list[str]:
    other = scene.receiver("other")
    receiver = scene.receiver("redirects", (302, {"Location": f"http://localhost:{other.port}/hook"}))
    sender = scene.sender(receiver).run()
    scene.buy(1)
    wait_for("it fails", lambda: "failing" in scene.state("redirects"))
    return (["a redirect is followed"] if other.posts else []) + receiver.wrong + scene.end_well(sender)


def killed_behind_a_post(scene: Scene) -> list[str]:
    """The receiver has the page, and the process dies before it stores that: the page comes again, and no other one."""
    scene.buy(70)
    killed = []

    def kill(post: dict) -> tuple:
        post["taken"] = True
        killed.append(post)
        sender.signal(signal.SIGKILL)
        return TAKE

    receiver = scene.receiver("killed", TAKE, kill, TAKE, page=20)
    sender = scene.sender(receiver).run()
    wait_for("it is killed", lambda: killed and not sender.alive())
    time.sleep(1)  # what it had stored and not yet synced is written by itself
    sender.run()
    scene.wait_until_sent(receiver)
    # Two shards send side by side: the other one's post may be lost with the process as well.
    return scene.judge(receiver, repeated=20 * len(scene.stack.shards)) + scene.end_well(sender)


def two_processes(scene: Scene) -> list[str]:
    receiver = scene.receiver("two")
    first, second = scene.sender(receiver, name="first").run(), scene.sender(receiver, name="second")
    scene.buy(10)
    scene.wait_until_sent(receiver)
    second.run()
    scene.buy(40)
    scene.wait_until_sent(receiver)
    wait_for("one of them waits", lambda: first.metric("seckill_webhook_active", "") + second.metric("seckill_webhook_active", "")
             == len(scene.stack.shards))
    wrong = scene.judge(receiver)
    first.end(signal.SIGKILL)
    scene.buy(20)
    scene.wait_until_sent(receiver)
    return wrong + scene.judge(receiver, repeated=50 * len(scene.stack.shards)) + scene.end_well(second)


def over_tls(scene: Scene) -> list[str]:
    made = scene.stack.folder / "receiver.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", made.with_suffix(".key"),
                    "-out", made], check=True, capture_output=True)
    receiver = scene.receiver("tls", tls=made)
    sender = scene.sender(receiver)
    row = receiver.row()
    code, said = sender.command("--test", "tls")
    wrong = [] if code == 0 and "tls: HTTP 204" in said else [f"--test ends with {code}: {said}"]
    del row["ca"]
    sender.file.write_text(json.dumps({"receivers": [row]}))
    code, said = sender.command("--test", "tls")
    if code == 0 or len(receiver.posts) != 1:
        wrong.append(f"a certificate that nobody knows is believed: {said}")
    sender.file.write_text(json.dumps({"receivers": [receiver.row()]}))
    sender.run()
    scene.buy(3)
    scene.wait_until_sent(receiver)
    return wrong + scene.judge(receiver) + scene.end_well(sender)


def commands(scene: Scene) -> list[str]:
    receiver = scene.receiver("known")
    sender = scene.sender(receiver)
    wrong = []
    for words, code, text in (
        (("--check",), 0, "ok   receiver: known: http://localhost:"),
        (("--test", "none"), 1, "there is no receiver none"),
        (("--skip", "none"), 1, "there is no receiver none"),
        (("--forget", "known"), 1, "is in the file"),
        (("--skip",), 1, "with a NAME"),
        (("--resume", "known"), 0, "nothing to do"),
        (("--test", receiver.row()["url"]), 0, "HTTP 204"),
    ):
        got, said = sender.command(*words)
        if got != code or text not in said:
            wrong.append(f"{' '.join(words)}: ends with {got}: {said}")
    sender.run()
    scene.buy(1)
    scene.wait_until_sent(receiver)
    wrong += scene.end_well(sender)
    other = Receiver("another").row()
    sender.file.write_text(json.dumps({"receivers": [other]}))
    code, said = sender.command("--check")
    if code != 1 or "known is in no file" not in said:
        wrong.append(f"--check with one that is not in the file: {code}: {said}")
    code, said = sender.command("--forget", "known")
    if code != 0 or scene.state("known"):
        wrong.append(f"--forget: {code}: {said}")
    sender.file.write_text('{"receivers": [{"name": "x"}]}')
    code, said = sender.command("--check")
    if code != 2 or "`name` and `url` are required" not in said:
        wrong.append(f"a wrong file: {code}: {said}")
    return wrong


SCENES = [all_events_come, nothing_twice_after_a_restart, away, slow, refuses_for_ever, gone, asks_for_patience, redirects,
          killed_behind_a_post, two_processes, over_tls, commands]


def fails_over(stack: Stack) -> list[str]:
    """The cursor and the events fail over together."""
    stack.prepare("always")
    stack.add_standby()
    scene = Scene(stack, 1)
    scene.proxied = True
    receiver = scene.receiver("survivor")
    try:
        sender = scene.sender(receiver).run()
        scene.buy(30)
        scene.wait_until_sent(receiver)
        scene.buy(20)
        stack.postgres.stop_immediate()
        stack.fail_over()
        stack.pg_proxy.reset(stack.postgres.port)
        stack.postgres.wait_for_standby("")
        stack.land()
        stack.launch(1, {}, {}, False)
        scene.one = stack.instances[0]
        scene.buy(20)
        scene.wait_until_sent(receiver, 40)
        # The cursor is stored without waiting for the standby, so the last pages may come again.
        return scene.judge(receiver, repeated=50) + scene.end_well(sender)
    finally:
        scene.land()


# ---- controls: a rule is broken in the database, and a scene must notice ----

CONTROLS = {
    "no lock": (two_processes, "webhook_begin(text,text)", "pg_try_advisory_lock(hashtextextended('seckill webhook ' || p_name, 0))", "true"),
    "a failure moves the cursor": (away, "webhook_failed(text,xid8,bigint,text,text,timestamptz,xid8,bigint,text)", "tries = r.tries + 1",
                                   "tries = r.tries + 1, tx = p_page_tx, seq = p_page_seq"),
    "the cursor is not stored": (nothing_twice_after_a_restart, "webhook_took(text,xid8,bigint,xid8,bigint)", "SET tx = p_to_tx, seq = p_to_seq,",
                                 "SET"),
    "a stop is forgotten": (gone, "webhook_begin(text,text)", "IF taken THEN", "UPDATE webhook_receiver r SET state = 'sending', why = NULL, unsent_at = NULL WHERE r.name = p_name;\n    IF taken THEN"),
    "nothing is audited": (refuses_for_ever, "webhook_operate(text,text)", "INSERT INTO admin_event", "RETURN true;\n    INSERT INTO admin_event"),
}


def broken(stack: Stack, function: str, old: str, new: str) -> list[str]:
    """Replaces a text in a function at each shard; gives back what it was."""
    before = [server.sql(f"select encode(convert_to(pg_get_functiondef('{function}'::regprocedure), 'UTF8'), 'hex')")[0][0]
              for server in stack.shards]
    for server, text in zip(stack.shards, before):
        definition = bytes.fromhex(text).decode()
        if old not in definition:
            raise Broken(f"{function} has no `{old}`")
        server.sql(definition.replace(old, new))
    return [bytes.fromhex(text).decode() for text in before]


def play(stack: Stack, scene_of, vouchers: int = 4) -> list[str]:
    stack.prepare("no")
    scene = Scene(stack, vouchers)
    try:
        return [f"{scene_of.__name__}: {complaint}" for complaint in scene_of(scene)]
    except Broken as error:
        return [f"{scene_of.__name__}: {error}"]
    finally:
        scene.land()
        stack.land()


def run(binary, *names: str) -> list[str]:
    stack = Stack(binary)
    wrong = []
    try:
        stack.share(2)
        for scene_of in SCENES:
            if names and scene_of.__name__ not in names:
                continue
            began = time.monotonic()
            found = play(stack, scene_of)
            print(f"    {'WRONG' if found else 'well'}  {scene_of.__name__}, {time.monotonic() - began:.0f} s", flush=True)
            wrong += found
        for name, (scene_of, function, old, new) in CONTROLS.items():
            if names and name not in names:
                continue
            kept = broken(stack, function, old, new)
            noticed = play(stack, scene_of)
            for server, text in zip(stack.shards, kept):
                server.sql(text)
            print(f"    {'noticed' if noticed else 'NOT NOTICED'}  {name}: {'; '.join(noticed)[:160]}", flush=True)
            wrong += [] if noticed else [f"nothing notices: {name}"]
        stack.share(1)
        if not names or "fails_over" in names:
            found = fails_over(stack)
            print(f"    {'WRONG' if found else 'well'}  fails_over", flush=True)
            wrong += found
    finally:
        stack.land()
        stack.close()
    return wrong
