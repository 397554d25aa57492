"""Another version next to this one in one sale, and the way back: instances are replaced one by one while a crowd buys,
and then replaced back. A version with another protocol is refused while this one lives, and takes over when it ends.

The other version is this tree with another version number or, with a commit, that commit itself (from_commit.py)."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from crowd import Event
from driver import Run, run_fault
from fault import Fault
from stack import ROOT, Broken, Instance, Stack, wait_for

CHANGES = {
    "other": ("CMakeLists.txt", r"project\(seckill VERSION [0-9.]+", "project(seckill VERSION 9.9.9"),
    "next": ("src/store/keys.h", r'#define SK_PROTOCOL "[0-9]+"', '#define SK_PROTOCOL "999"'),
}
REFUSED_S = 3.0  # enough for an instance that would be admitted


def make(tree: Path) -> Path:
    sys.path.append(str(ROOT / "loadtest"))
    from lib import builds  # it can build another tree

    print(f"    building {tree.name}", flush=True)
    builds.make(tree, tree / "build")
    return tree / "build/seckill"


def build(folder: Path, name: str) -> Path:
    """Builds the tree with one change."""
    tree = folder / name
    tree.mkdir()
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    copy = f"cd '{ROOT}' && {' '.join(listed)} | tar -c --null -T - | tar -x -C '{tree}'"
    subprocess.run(["bash", "-o", "pipefail", "-c", copy], check=True)
    file, pattern, text = CHANGES[name]
    changed, count = re.subn(pattern, text, (tree / file).read_text())
    if count != 1:
        raise Broken(f"{file} does not have {pattern} once")
    (tree / file).write_text(changed)
    return make(tree)


def version(binary: Path) -> str:
    return subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True).stdout.strip()


class Roll:
    """Forth, with both side by side for a while, and back. `prepare` runs first, while the crowd buys."""

    def __init__(self, other: Path, prepare=lambda: None):
        self.other, self.prepare = other, prepare
        self.pauses: list[tuple[int, float, float]] = []  # an instance, from its SIGTERM until the next is ready
        self.history: list[Event] = []

    def __call__(self, run: Run) -> None:
        own, self.history = run.stack.binary, run.history
        self.prepare()
        for binary in (self.other, own):
            for number in range(len(run.stack.instances)):
                self.replace(run, number, binary)
                time.sleep(0.5)  # both versions sell
        run.healed()

    def replace(self, run: Run, number: int, binary: Path) -> None:
        """One instance drains, and another version replaces it."""
        one, began = run.stack.instances[number], time.time()
        code = one.end(signal.SIGTERM)
        if code != 0 or "drained" not in one.text():
            run.seen_meanwhile.append(f"{one.name} ended with {code}, not drained")
        one.binary = binary
        one.run()
        wait_for(f"{one.name} ready", one.ready)
        self.pauses.append((number, began, time.time()))


def failures(history: list[Event], pauses: list[tuple[int, float, float]]) -> list[str]:
    """Requests without a definite answer, to instances that were not being replaced."""
    met = lambda e: any(e.instance == n and e.began <= ended and e.ended >= began for n, began, ended in pauses)
    return [
        f"{e.what} of {e.user} got {e.status} {e.code} from instance {e.instance}, which was not being replaced"
        for e in history
        if e.outcome == "unknown" and not e.was_late and not met(e)
    ]


def failures_are_found() -> list[str]:
    """The control."""
    event = lambda instance, status: Event(10.0, 11.0, "buy", "u", "1", instance, status=status)
    history, pauses = [event(0, 503), event(0, 0), event(1, 503), event(1, 201)], [(0, 9.0, 10.5), (1, 1.0, 2.0)]
    found = failures(history, pauses)
    return [] if len(found) == 1 and "instance 1" in found[0] else [f"the check of answers finds {found}"]


def side_by_side(stack: Stack, other: Path, prepare=lambda: None) -> list[str]:
    print(f"    {version(stack.binary)} beside {version(other)}", flush=True)
    roll = Roll(other, prepare)
    fault = Fault(
        "roll", "another version and back", roll, instances=3, seconds=10.0, rate=60, users=1300, units=700, spread=True,
        rebuilds=0, unknown=0.5,  # connections to an instance that is being replaced
    )
    result = run_fault(stack, fault, 1)
    wrong = failures(roll.history, roll.pauses)[:3] + failures_are_found()
    kinds = Counter(f"{e.status or 'no answer'} {e.code}".strip() for e in roll.history if e.outcome == "unknown")
    print(f"    {len(roll.history)} requests, of which {kinds.total()} met an instance that was being replaced: {dict(kinds)}")
    complaints = [f"{name}: {some[0]}" for name, some in result.complaints.items()]
    return wrong if result.held else wrong + (complaints or [result.why])


def refused_beside(stack: Stack, following: Path) -> list[str]:
    """A version with another protocol runs alone or not at all."""
    wrong: list[str] = []
    stack.prepare("always", fresh_redis=True)
    stack.launch(1, {}, {}, False)
    ours = stack.instances[0]
    theirs = Instance(7, stack.folder, following, stack.store_urls(False))
    theirs.run()
    stack.instances.append(theirs)
    time.sleep(REFUSED_S)
    if theirs.ready():
        wrong.append("an instance of another protocol is ready beside ours")
    if not ours.ready():
        wrong.append("ours is not ready any more")
    lines = [line for line in theirs.text().splitlines() if "version" in line or "protocol" in line]
    print(f"    it says: {lines[-1] if lines else 'nothing'}")
    if not lines:
        wrong.append("the refused instance does not say why")
    ours.end(signal.SIGTERM)
    ours.note_exit()
    stack.instances.remove(ours)
    wait_for("the other protocol when ours has ended", theirs.ready)
    back = Instance(8, stack.folder, stack.binary, stack.store_urls(False))
    back.run()
    stack.instances.append(back)
    time.sleep(REFUSED_S)
    if back.ready():
        wrong.append("ours is ready beside the other protocol")
    theirs.end(signal.SIGTERM)
    theirs.note_exit()
    stack.instances.remove(theirs)
    wait_for("ours again, when the other protocol has ended", back.ready)
    return wrong


def run(binary: Path, commit: str = "") -> list[str]:
    if commit:
        import from_commit

        return from_commit.run(binary, commit)
    stack = Stack(binary)
    folder = stack.folder / "builds"
    folder.mkdir()
    try:
        other, following = build(folder, "other"), build(folder, "next")
        return side_by_side(stack, other) + refused_beside(stack, following)
    finally:
        stack.land()
        stack.close()
        shutil.rmtree(folder, ignore_errors=True)
