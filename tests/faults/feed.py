"""Another system that follows each order by GET /admin/events, from one instance after the other during the fault."""

from __future__ import annotations

import threading

PAUSE_S = 0.3
PAGES = 1000  # in a row: more cannot be ours


class Feed:
    """Reads on its own thread between start() and stop(); keeps the events."""

    def __init__(self, run):
        self.run, self.over, self.lock = run, threading.Event(), threading.Lock()
        self.told: list[tuple[str, str]] = []  # order, and what happened
        self.cursor, self.turn = "", 0
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        if self.run.fault.habits.followed:
            self.thread.start()

    def stop(self) -> None:
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()

    def catch_up(self, instance: int | None = None) -> list[tuple[str, str]] | None:
        """All events so far, from this instance or all of them; None: it follows nothing."""
        if not self.run.fault.habits.followed:
            return None
        with self.lock:
            for _ in range(PAGES):
                if not self._read(instance):
                    break
            return list(self.told)

    def _follow(self) -> None:
        while not self.over.wait(PAUSE_S):
            with self.lock:
                self._read(wait_s=1)

    def _read(self, number: int | None = None, wait_s: int = 0) -> bool:
        """Reads one page, and waits for its first event. Returns whether it had any."""
        self.turn += 1
        number = self.turn % len(self.run.stack.instances) if number is None else number
        instance = self.run.stack.instances[number]
        after = f"&after={self.cursor}" if self.cursor else ""
        path = f"/admin/events?limit=100&wait={wait_s}{after}"
        status, document = instance.ask("GET", path, timeout=1.0 + wait_s)
        events = document.get("events", []) if status == 200 else []
        self.told += [(event["order_id"], event["event"]) for event in events if event["type"] != "sale"]
        self.cursor = document.get("next", self.cursor) if status == 200 else self.cursor
        return bool(events)
