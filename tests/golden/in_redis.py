"""Redis, its scripts called as the service calls them, and what is in it."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path

from shown import Failed, State, difference, few, mask, value
from worker import REDIS_PASSWORD, SimRedis

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 30.0
DUMP = """local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local what
  if kind == 'hash' then what = redis.call('HGETALL', key)
  elseif kind == 'string' then what = redis.call('GET', key)
  elseif kind == 'list' then what = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then what = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else what = redis.call('XRANGE', key, '-', '+') end
  all[#all + 1] = { key, kind, redis.call('PTTL', key), what }
end
return all"""


class Link:
    """A connection to Redis."""

    def __init__(self, server: SimRedis, *login: str):
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)
        self.stream = self.socket.makefile("rb")
        if login:
            self.call("AUTH", *login)

    def call(self, *words):
        self.socket.sendall(self.server._command(words))
        return self.server._read(self.stream)


class Redis:
    def __init__(self, folder: Path, _build: Path, preload: dict[str, str]):
        self.server = SimRedis(folder, "redis", preload)
        self.server.run()
        self.all, self.service = Link(self.server), Link(self.server, "seckill", REDIS_PASSWORD)
        self.scripts = {file.stem: self.service.call("SCRIPT", "LOAD", self.script(file)) for file in (ROOT / "lua").glob("*.lua")}

    @staticmethod
    def script(file: Path) -> str:
        """With what it includes, as embed.cmake puts it together."""
        return re.sub(r"^-- include: (\S+)$", lambda m: (file.parent / m[1]).read_text(), file.read_text(), flags=re.M)

    def reset(self) -> None:
        self.all.call("FLUSHALL")

    def state(self) -> State:
        state: State = {}
        for key, kind, ttl, what in self.all.call("EVAL", DUMP, 0):
            if kind in ("hash", "zset"):
                state[key] = dict(zip(what[::2], what[1::2]))
            elif kind == "string":
                state[key] = {"text": what}
            elif kind == "list":
                state[key] = {"list": " ".join(what)}
            else:
                state |= {f"{key} {mask(one[0])}": dict(zip(one[1][::2], one[1][1::2])) for one in what}
            if ttl >= 0 and key in state:
                state[key]["TTL"] = f"{ttl}ms"
        return state

    def writes(self) -> int:
        return int(re.search(r"rdb_changes_since_last_save:(\d+)", self.all.call("INFO", "persistence"))[1])

    def send(self, who: str, text: str) -> list[str]:
        words = shlex.split(text)
        try:
            if words[0] in self.scripts:
                return [self.reply(self.service.call("EVALSHA", self.scripts[words[0]], *self.spread(words[1:]))) or "[]"]
            return [self.reply(self.all.call(*self.spread(words)))]
        except RuntimeError as error:
            return [f"error: {re.sub(r' script: .*', '', str(error))}"]

    @staticmethod
    def spread(words: list[str]) -> list[str]:
        """`*3 u% o%` is u1 o1 u2 o2 u3 o3: the words behind it, up to the end, as often."""
        at = next((i for i, word in enumerate(words) if re.fullmatch(r"\*\d+", word)), None)
        if at is None:
            return words
        return words[:at] + [word.replace("%", str(n)) for n in range(1, int(words[at][1:]) + 1) for word in words[at + 1 :]]

    def reply(self, answer) -> str:
        if not isinstance(answer, list):
            return value(answer)
        return " ".join(few([f"[{self.reply(one)}]" if isinstance(one, list) else value(one) for one in answer]))

    def run(self, who: str, text: str, shown: bool) -> list[str]:
        """The steps of a macro; only the last one is shown."""
        *first, last = re.split(r" ; ", text)
        for one in first:
            if (said := self.send(who, one)[0]).startswith("error"):
                raise Failed(f"{one}: {said}")
        before, wrote = self.state(), self.writes()
        said = self.send(who, last)
        lines = difference(before, self.state(), {})
        if not lines and self.writes() != wrote:
            lines = ["  (written, and the same as before)"]
        return said + lines

    def close(self) -> None:
        self.server.end(9)
