"""Checks the vouchers in Redis during a fault; each check is one script, so at one moment."""

from __future__ import annotations

import threading
import time

from stack import Broken
from world import Sample

PAUSE_S = 0.02
SLOW_S = 0.2
# A voucher sells only under the process it was opened under; else no unit is sold, whatever the state is.
READ = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local promotion = string.match(redis.call('INFO', 'replication'), 'master_replid2:(%x+)')
if tonumber(promotion, 16) ~= 0 then run = run .. '-' .. string.sub(promotion, 1, 16) end
local found = {}
for i = 1, #ARGV, 2 do
  local id, name = ARGV[i], ARGV[i + 1]
  local v = redis.call('HMGET', 'seckill:' .. name .. ':voucher', 'state', 'stock', 'epoch', 'run',
    'reopened_ms', 'cache_ms')
  local opened_under = string.match(v[4] or '', '^%d+%-(.+)$') -- the protocol's version stands before it
  local state = opened_under == run and v[1] or 'unsure'
  local buyers = redis.call('HLEN', 'seckill:' .. name .. ':buyers')
  local since_ms = now_ms - (tonumber(v[5]) or 0)
  for _, value in ipairs({ id, state or '', v[2] or '', buyers, v[3] or '', since_ms, tonumber(v[6]) or 0 }) do
    found[#found + 1] = tostring(value)
  end
end
return found
"""


class Watch:
    """Runs on its own thread between start() and stop()."""

    def __init__(self, run):
        self.run, self.over = run, threading.Event()
        self.samples: list[Sample] = []
        self.stalls: list[tuple[float, float]] = []  # when Redis did not answer the suite either
        self.holds: set[tuple[str, float, float]] = set()  # when a reopened voucher sold nothing yet
        self.timed: list[tuple] = []  # the same with times, for rows that read them
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()

    def _read(self) -> list:
        """All at one moment; on a cluster each voucher by itself, at its node."""
        redis, vouchers = self.run.redis, self.run.vouchers[:8]
        if self.run.stack.cluster is None:
            return redis.call("EVAL", READ, 0, *(word for id in vouchers for word in (id, self.run.name(id))), timeout=1)
        asked = [(f"seckill:{self.run.name(id)}:voucher", id, self.run.name(id)) for id in vouchers]
        return sum((redis.call("EVAL", READ, 1, *words, timeout=1) for words in asked), [])

    def _watch(self) -> None:
        last: dict[str, Sample] = {}
        while not self.over.wait(PAUSE_S):
            began, found = time.time(), []
            try:
                found = self._read()
            except (OSError, RuntimeError, ValueError, IndexError, Broken):
                pass  # the fault may be about Redis
            if not found or time.time() - began > SLOW_S:
                self.stalls.append((began, time.time()))
            for id, state, stock, buyers, epoch, since_ms, cache_ms in zip(*(found[part::7] for part in range(7))):
                if 0 <= int(since_ms) <= int(cache_ms):
                    reopened = began - int(since_ms) / 1000
                    self.holds.add((id, round(reopened, 1), round(reopened + int(cache_ms) / 1000, 1)))
                if stock.lstrip("-").isdigit() and buyers.isdigit():
                    sample = Sample(id, state, int(stock), int(buyers), epoch)
                    if sample != last.get(id):
                        self.samples.append(sample)
                        self.timed.append((time.time(), id, state, stock, buyers, epoch))
                    last[id] = sample
