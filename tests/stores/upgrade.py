"""Another version beside this one on one sale, and the way back: instances are replaced one by one while a crowd buys, and
replaced back. A version of another protocol is refused as long as this one lives, and takes over when it has ended.

The other version is this tree with another version number; or, if SECKILL_OTHER is set, the commit that it names, whose
migrations must be among ours."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from driver import Run, run_fault
from fault import Fault
from stack import ROOT, Broken, Instance, Stack, wait_for

CHANGES = {
    "other": ("CMakeLists.txt", r"project\(seckill VERSION [0-9.]+", "project(seckill VERSION 9.9.9"),
    "next": ("src/store/keys.h", r'#define SK_PROTOCOL "[0-9]+"', '#define SK_PROTOCOL "999"'),
}
REFUSED_S = 3.0


def build(folder: Path, name: str) -> Path:
    """The tree with one change, or a commit as it is."""
    tree, commit = folder / name, os.environ.get("SECKILL_OTHER", "") if name == "other" else ""
    tree.mkdir()
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    copy = f"git -C '{ROOT}' archive '{commit}' | tar -x -C '{tree}'" if commit else (
        f"cd '{ROOT}' && {' '.join(listed)} | tar -c --null -T - | tar -x -C '{tree}'"
    )
    subprocess.run(["bash", "-o", "pipefail", "-c", copy], check=True)
    if not commit:
        file, pattern, text = CHANGES[name]
        changed, count = re.subn(pattern, text, (tree / file).read_text())
        if count != 1:
            raise Broken(f"{file} does not have {pattern} once")
        (tree / file).write_text(changed)
    sys.path.append(str(ROOT / "loadtest"))
    import builds  # which knows how to build another tree

    print(f"    building {commit or name}", flush=True)
    builds.make(tree, tree / "build")
    return tree / "build/seckill"


def version(binary: Path) -> str:
    return subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True).stdout.strip()


def replace(run: Run, number: int, binary: Path) -> None:
    """One instance drains, and another version takes its place."""
    one = run.stack.instances[number]
    code = one.end(signal.SIGTERM)
    if code != 0 or "drained" not in one.text():
        run.seen_meanwhile.append(f"{one.name} ended with {code}, not drained")
    one.binary = binary
    one.run()
    wait_for(f"{one.name} ready", one.ready)


def rolled(other: Path):
    """There, with both side by side for a while, and back."""

    def inject(run: Run) -> None:
        own = run.stack.binary
        for binary in (other, own):
            for number in range(len(run.stack.instances)):
                replace(run, number, binary)
                time.sleep(0.5)  # both sell
        run.healed()

    return inject


def side_by_side(stack: Stack, other: Path) -> list[str]:
    print(f"    {version(stack.binary)} beside {version(other)}")
    fault = Fault(
        "roll", "another version and back", rolled(other), instances=3, seconds=10.0, rate=150, users=1300, units=700,
        rebuilds=0, unknown=0.5,  # a connection to an instance that is being replaced
    )
    result = run_fault(stack, fault, 1)
    print(f"    {sum(result.outcomes.values())} purchases, of which {result.outcomes.get('unknown', 0)} met an instance that"
          " was being replaced")
    return [] if result.held else [f"{name}: {some[0]}" for name, some in result.complaints.items()] or [result.why]


def refused_beside(stack: Stack, following: Path) -> list[str]:
    """Of another protocol: alone or not at all."""
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


def run(binary) -> list[str]:
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
