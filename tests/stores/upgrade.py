"""Another version next to this one in one sale, and the way back: instances are replaced one by one while a crowd buys,
and then replaced back, as Kubernetes does it with deploy/kubernetes: its settings, probes, preStop and grace period. No
buyer may notice. A version with another protocol is refused while this one lives, and takes over when it ends.

The other version is this tree with another version number or, with a commit, that commit itself (from_commit.py)."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

from crowd import Event
from driver import SHAKY_LATE_S, SHAKY_S, Run, run_fault
from fault import Fault
from stack import PATIENCE, ROOT, Broken, Instance, Stack, wait_for

sys.path.append(str(ROOT / "tests/kubernetes"))
import manifests  # noqa: E402

CHANGES = {
    "other": ("CMakeLists.txt", r"project\(seckill VERSION [0-9.]+", "project(seckill VERSION 9.9.9"),
    "next": ("src/store/keys.h", r'#define SK_PROTOCOL "[0-9]+"', '#define SK_PROTOCOL "999"'),
}
REFUSED_S = 3.0  # enough for an instance that would be admitted
LATE_S = 2.0  # so much later than the cluster a gateway learns that an instance ends
READY_TRIES = 15


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


class Kubelet:
    """What deploy/kubernetes has a cluster do with an instance."""

    def __init__(self, binary: Path):
        objects = manifests.render(manifests.FOLDER / "base")
        deployment = manifests.one(objects, "Deployment")
        if deployment["spec"]["strategy"]["rollingUpdate"] != {"maxSurge": 1, "maxUnavailable": 0}:
            raise Broken("deploy/kubernetes replaces instances in another way than this test")
        self.container = manifests.containers(deployment)[0]
        self.pre_stop_s = manifests.pre_stop_s(self.container)
        self.left_s = manifests.pod(deployment)["terminationGracePeriodSeconds"] - self.pre_stop_s
        text = subprocess.run([str(binary), "--help"], capture_output=True, text=True, check=True).stdout
        usual = {key: default for key in PATIENCE for default in re.findall(rf"  {key}\n.*\n.*default (\d+)", text)}
        self.env = usual | manifests.one(objects, "ConfigMap")["data"]

    def probe(self, one: Instance, name: str) -> bool:
        probe = self.container[name]
        port = {"buyers": one.port, "operators": one.admin_port}[probe["httpGet"]["port"]]
        try:
            url = f"http://127.0.0.1:{port}{probe['httpGet']['path']}"
            with urllib.request.urlopen(url, timeout=probe.get("timeoutSeconds", 1)) as answer:
                return answer.status < 400
        except OSError:
            return False

    def wait(self, one: Instance, name: str, most: int) -> None:
        for _ in range(most):
            if self.probe(one, name):
                return
            time.sleep(self.container[name]["periodSeconds"])
        raise Broken(f"{one.name}: its {name} has failed {most} times")


class Liveness(threading.Thread):
    """Probes the instances until the end. Notes those that a cluster would restart."""

    def __init__(self, run: Run, kubelet: Kubelet):
        super().__init__(daemon=True)
        self.test_run, self.kubelet, self.over, self.restarted = run, kubelet, threading.Event(), []

    def run(self) -> None:
        probe, failed = self.kubelet.container["livenessProbe"], Counter()
        while not self.over.wait(probe["periodSeconds"]):
            for one in list(self.test_run.stack.instances):
                failed[one.name] = 0 if self.kubelet.probe(one, "livenessProbe") else failed[one.name] + 1
                if failed[one.name] == probe["failureThreshold"]:
                    self.restarted.append(f"a cluster would have restarted {one.name}")

    def end(self) -> list[str]:
        self.over.set()
        self.join()
        return self.restarted


class Roll:
    """Forth, with both side by side for a while, and back. `prepare` runs first, while the crowd buys."""

    def __init__(self, kubelet: Kubelet, binaries: list[Path], prepare=lambda: None, pre_stop_s: float = -1.0):
        self.kubelet, self.binaries, self.prepare = kubelet, binaries, prepare
        self.pre_stop_s = kubelet.pre_stop_s if pre_stop_s < 0 else pre_stop_s
        self.ends: list[tuple[int, float, float]] = []  # an instance, and from when to when another one took its place
        self.test_run: Run | None = None

    def __call__(self, run: Run) -> None:
        self.test_run = run
        liveness = Liveness(run, self.kubelet)
        liveness.start()
        self.prepare()
        run.migrated_at = time.time()
        for binary in self.binaries:
            for number in range(len(run.stack.instances)):
                self.replace(run, number, binary)
        run.seen_meanwhile += liveness.end()
        run.healed()

    def replace(self, run: Run, number: int, binary: Path) -> None:
        """The new instance is ready before the old one gets SIGTERM. Buyers are still sent to the old one for a while:
        a gateway does not learn at once where the instances are."""
        old, startup = run.stack.instances[number], self.kubelet.container["startupProbe"]
        new = Instance(100 * (len(self.ends) + 1) + number, run.stack.folder, binary, run.stack.store_urls(False) | self.kubelet.env)
        new.number = number
        run.stack.others.append(new)  # so that it ends, whatever happens
        new.run()
        self.kubelet.wait(new, "startupProbe", startup["failureThreshold"])
        self.kubelet.wait(new, "readinessProbe", READY_TRIES)
        new.fds_at_start = old.fds_at_start
        stopping, began = threading.Thread(target=self.stop, args=(run, old)), time.time()
        stopping.start()
        time.sleep(LATE_S)
        run.stack.instances[number] = new
        run.crowd.ports[number] = new.port
        stopping.join()
        self.ends.append((number, began, time.time()))

    def stop(self, run: Run, old: Instance) -> None:
        time.sleep(self.pre_stop_s)
        code = old.end(signal.SIGTERM, self.kubelet.left_s)
        if code != 0 or "drained" not in old.text():
            run.seen_meanwhile.append(f"{old.name} ended with {code}, not drained")


def failures(run: Run) -> list[Event]:
    """Requests without a definite answer. On a late machine a 503 UNAVAILABLE only means that a store, or the session, was
    late (Run.definite)."""
    late = lambda e: e.code == "UNAVAILABLE" and run.machine_late_s(e.began - SHAKY_S, e.ended) >= SHAKY_LATE_S
    failed = [e for e in run.history if e.outcome == "unknown" and not e.was_late]
    kinds = Counter(f"{e.status or 'no answer'} {e.code}".strip() for e in failed)
    print(f"    {len(run.history)} requests, of which {len(failed)} had no definite answer: {dict(kinds)}", flush=True)
    return [e for e in failed if not late(e)]


def told(failed: list[Event]) -> list[str]:
    return [f"{e.what} of {e.user} got {e.status} {e.code} from instance {e.instance}" for e in failed[:3]]


def side_by_side(stack: Stack, other: Path, prepare=lambda: None) -> list[str]:
    print(f"    {version(stack.binary)} beside {version(other)}", flush=True)
    kubelet = Kubelet(stack.binary)
    roll = Roll(kubelet, [other, stack.binary], prepare)
    fault = Fault(
        "roll", "another version and back", roll, instances=3, seconds=2 * 3 * (kubelet.pre_stop_s + 2), rate=20, users=1300,
        units=700, spread=True, rebuilds=0, env=kubelet.env,
    )
    result = run_fault(stack, fault, 1)
    complaints = [f"{name}: {some[0]}" for name, some in result.complaints.items()]
    wrong = told(failures(roll.test_run)) if roll.test_run else []
    return wrong + ([] if result.held else complaints or [result.why]) + unprepared(stack, kubelet)


def unprepared(stack: Stack, kubelet: Kubelet) -> list[str]:
    """The control: without preStop buyers are sent to an instance that has ended. Only those notice."""
    print("    without preStop", flush=True)
    roll = Roll(kubelet, [stack.binary], pre_stop_s=0.0)
    fault = Fault(
        "unprepared", "replaced without preStop", roll, seconds=2 * LATE_S + 4, rate=20, spread=True, unknown=1.0,
        env=kubelet.env,
    )
    result = run_fault(stack, fault, 1)
    if not roll.test_run:
        return [result.why or str(result.complaints)]
    failed = failures(roll.test_run)
    met = lambda e: any(e.instance == n and e.began <= ended and e.ended >= began for n, began, ended in roll.ends)
    wrong = [] if failed else ["without preStop no request fails: the check of answers finds nothing"]
    return wrong + told([e for e in failed if not met(e)])


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
