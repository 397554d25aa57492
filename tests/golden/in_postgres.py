"""PostgreSQL, its sessions, the service's statements prepared in them, and all rows that a case may have."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from pathlib import Path

from shown import Failed, State, difference, mask
from worker import SimPostgres

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WAIT_S = 30.0
END = "----"
# What a case may have filled.
TABLES = (
    "seckill_voucher voucher_stock seckill_offer voucher_order dead_letter order_event payment admin_event stock_change"
    " admin_request archived_voucher archived_part archived_orders shard_seen order_placed sale_event sale_phase webhook_receiver expiry_hold voucher_line"
).split()
MANY = 1000  # of a table with more rows only their number is shown
SHOWN = [*TABLES, "seckill_shard", "seckill_catalogue"]


class Session:
    """A psql. `login` is who it is in PostgreSQL."""

    def __init__(self, server: SimPostgres, login: str):
        words = ["psql", "-XAtq", "-F", " | ", "-h", str(server.dir), "-p", str(server.port), "-U", login, "seckill"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.heard, self.waits = b"", False
        self.call("\\set VERBOSITY sqlstate\n\\pset null -\nSET client_min_messages = 'warning'; SET jit = off; SET timezone = 'UTC';")
        self.pid = self.call("SELECT pg_backend_pid();")[-1]

    def send(self, text: str) -> None:
        text = text if re.search(r"^\\|\\gset|;$", text.strip()) else f"{text};"
        self.process.stdin.write(f"{text}\n\\echo {END}\n".encode())
        self.process.stdin.flush()

    def has_ended(self, seconds: float) -> bool:
        """Whether all is said, maybe not heard yet."""
        until = time.monotonic() + seconds
        while f"{END}\n".encode() not in self.heard:
            if not select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                return False
            if not (part := os.read(self.process.stdout.fileno(), 1 << 16)):
                raise Failed(f"psql has ended: {self.heard.decode()}")
            self.heard += part
        return True

    def hear(self, seconds: float) -> list[str] | None:
        if not self.has_ended(seconds):
            return None
        said, self.heard = self.heard.split(f"{END}\n".encode(), 1)
        return said.decode().splitlines()

    def call(self, text: str) -> list[str]:
        self.send(text)
        if (said := self.hear(WAIT_S)) is None:
            self.waits = True
            raise Failed(f"no answer: {text[:200]}")
        return said

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Postgres:
    def __init__(self, folder: Path, build: Path, preload: dict[str, str]):
        self.server = SimPostgres(folder, "pg", preload)
        self.server.migrate(build, "seckill")
        self.server.give_logins()
        self.prepares = "\n".join(
            f"PREPARE {file.stem} AS {file.read_text()};"
            for file in sorted((ROOT / "sql/statements").glob("*.sql"))
            if file.stem != "listen"
        )
        self.control, self.sessions, self.known = Session(self.server, "postgres"), {}, {}
        if said := self.control.call((HERE / "sql/given.sql").read_text()):
            raise Failed("\n".join(said))
        self.dump, self.usual = " UNION ALL ".join(self.rows(table) for table in SHOWN), self.defaults()

    def keys(self, table: str) -> list[str]:
        return self.control.call(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
            f" WHERE i.indrelid = '{table}'::regclass AND i.indisprimary AND a.attname NOT IN ('tx', 'slot', 'one')"
            " ORDER BY array_position(i.indkey::integer[], a.attnum::integer)"
        )

    def rows(self, table: str) -> str:
        """Without its key, which names it, and without the slot, if it is the voucher's."""
        keys = self.keys(table)
        row = f"to_jsonb(t) - '{{{','.join([*keys, 'tx', 'page_tx'])}}}'::text[]"
        if table in ("voucher_order", "order_event", "order_placed", "sale_event", "payment", "dead_letter", "archived_orders"):
            row += " - CASE WHEN t.slot = slot_of(t.voucher_id::text) THEN 'slot' ELSE '' END"
        # Numbers of events are 128 apart.
        shown = ["(t.seq - 1) / 128 + 1" if key == "seq" and table != "admin_event" else f"t.{key}" for key in keys]
        name = f"concat_ws(' ', '{table}'{''.join(f', {key}' for key in shown)})"
        return (
            f"SELECT json_build_array({name}, {row}) FROM {table} t WHERE (SELECT count(*) FROM {table}) <= {MANY}"
            f" UNION ALL SELECT json_build_array('{table}', json_build_object('rows', count(*))) FROM {table} HAVING count(*) > {MANY}"
        )

    def defaults(self) -> dict[str, dict]:
        """What a column is if nothing is said of it: not shown."""
        usual: dict[str, dict] = {}
        for line in self.control.call(
            "SELECT json_build_array(c.relname, a.attname, pg_get_expr(d.adbin, d.adrelid)) FROM pg_attrdef d"
            " JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum"
            " WHERE c.relnamespace = 'public'::regnamespace"
        ):
            table, column, text = json.loads(line)
            usual.setdefault(table, {})[column] = json.loads(self.control.call(f"SELECT to_jsonb({text})")[0]) if table in SHOWN else None
        return usual

    def reset(self) -> None:
        self.known = {}
        for name, session in list(self.sessions.items()):
            if session.waits:
                self.control.call(f"SELECT pg_terminate_backend({session.pid})")
                session.close()
                del self.sessions[name]
            else:
                session.call("ROLLBACK; RESET ROLE; UNLISTEN *")
        said = self.control.call(
            f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY; UPDATE seckill_catalogue SET change = 0;"
            " UPDATE seckill_shard SET number = 0, shards = 1, beat = 0;"
        )
        if said:
            raise Failed("\n".join(said))

    def state(self) -> State:
        state: State = {}
        for line in self.control.call(self.dump):
            key, row = json.loads(line)
            state[mask(key)] = row
        return state

    def session(self, who: str) -> Session:
        if who not in self.sessions:
            login = {"db": "postgres", "other": "postgres", "keeper": "keeper", "owner": "owner"}.get(who, "seckill")
            self.sessions[who] = Session(self.server, login)
            if login in ("seckill", "postgres") and (said := self.sessions[who].call(self.prepares)):
                raise Failed("\n".join(said))
        return self.sessions[who]

    def run(self, who: str, text: str, shown: bool) -> list[str]:
        session, before = self.session(who), (self.known or self.state()) if shown else {}
        if text == "ends":
            if not session.waits or (said := session.hear(WAIT_S)) is None:
                raise Failed(f"{who} does not end")
            session.waits = False
        else:
            if session.waits:
                raise Failed(f"{who} waits still")
            session.send(text)
            said = self.hear_or_wait(who, session)
        self.settle()
        self.known = self.state() if shown else {}
        return said + difference(before, self.known, self.usual)

    def hear_or_wait(self, who: str, session: Session) -> list[str]:
        if self.is_stopped(who, session):
            session.waits = True
            return [f"{who} waits"]
        return [re.sub(r"( received from server process with PID )\d+", r"\1N", line) for line in session.hear(WAIT_S)]

    def is_stopped(self, who: str, session: Session) -> bool:
        """By a lock; else it has ended."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            if session.has_ended(0.02):
                return False
            if self.control.call(f"SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {session.pid}") != ["0"]:
                return True
        session.waits = True  # its answers would be taken for those of later steps
        raise Failed(f"{who}: no answer")

    def settle(self) -> None:
        """A step may have let others go on, and those others again: until each has ended or waits."""
        waiting = {who for who, session in self.sessions.items() if session.waits}
        while ended := {who for who in waiting if not self.is_stopped(who, self.sessions[who])}:
            waiting -= ended

    def close(self) -> None:
        for session in [self.control, *self.sessions.values()]:
            session.close()
        self.server.end(3)
