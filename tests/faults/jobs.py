"""Several rows at a time, each worker a process with stores and instances of its own."""

from __future__ import annotations

import dataclasses
import multiprocessing
import queue
from typing import Callable, Iterator

from fault import Result
from stack import Broken

PATIENCE_S = 1.0


def in_order(faults: list, workers: int, work: Callable) -> Iterator[Result]:
    """`work(take, give)` runs in each worker: it takes the numbers of rows until there is None, and gives results.
    They come out in the order of the list. Rows hold functions, which do not travel: their numbers do."""
    context = multiprocessing.get_context("fork")
    todo, done = context.Queue(), context.Queue()
    for number in [*range(len(faults)), *[None] * workers]:
        todo.put(number)

    def give(number: int, result: Result) -> None:
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        done.put((number, fields | {"fault": None}))

    crew = [context.Process(target=work, args=(todo.get, give)) for _ in range(min(workers, len(faults)))]
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
            one.join()  # each clears up what it has started


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
