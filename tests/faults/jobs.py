"""Several rows at a time, each in a worker process with its own stores and instances. A row marked `alone` runs without
others."""

from __future__ import annotations

import dataclasses
import multiprocessing
import queue
from contextlib import contextmanager
from typing import Callable, Iterator

from fault import Result
from stack import Broken

PATIENCE_S = 1.0


class Room:
    """A seat for each worker. A row that needs all seats closes the door until they are free."""

    def __init__(self, context, workers: int):
        self.door, self.free, self.all = context.Lock(), context.Semaphore(workers), workers

    @contextmanager
    def seat(self, alone: bool):
        needed = self.all if alone else 1
        with self.door:
            for _ in range(needed):
                self.free.acquire()
        try:
            yield
        finally:
            for _ in range(needed):
                self.free.release()


def in_order(faults: list, workers: int, work: Callable) -> Iterator[Result]:
    """`work(take, give, seat)` runs in each worker. It takes row numbers until there is None, holds a seat during a
    row, and gives results, which come out in list order. Rows contain functions, which cannot be sent to another
    process; so their numbers are sent."""
    context = multiprocessing.get_context("fork")
    workers = min(workers, len(faults))
    todo, done, room = context.Queue(), context.Queue(), Room(context, workers)
    for number in [*range(len(faults)), *[None] * workers]:
        todo.put(number)

    def give(number: int, result: Result) -> None:
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        done.put((number, fields | {"fault": None}))

    crew = [context.Process(target=work, args=(todo.get, give, room.seat)) for _ in range(workers)]
    for one in crew:
        one.start()
    try:
        yield from _collect(faults, done, crew)
    except BaseException:
        for one in crew:
            one.terminate()
        raise
    finally:
        for one in crew:
            one.join()  # each cleans up what it has started


def _collect(faults: list, done, crew: list) -> Iterator[Result]:
    ready: dict[int, dict] = {}
    for number, fault in enumerate(faults):
        while number not in ready:
            try:
                ready.update([done.get(timeout=PATIENCE_S)])
            except queue.Empty:
                if not any(one.is_alive() for one in crew) and done.empty():
                    raise Broken("a worker has ended before its time") from None
        yield Result(**(ready.pop(number) | {"fault": fault}))
