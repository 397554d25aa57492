"""A copy of the tree whose mutants of C are all compiled in, its tests, and what notices a mutant."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sim"), str(HERE.parent / "harness")]

from sites import Site, choice  # noqa: E402
from stores import ROOT  # noqa: E402
from worker import Worker, scratch  # noqa: E402

REACH_BYTES = 65536  # SK_MUTANTS_MAX
WORLDS, WORKERS, SIDE_BY_SIDE = 60, 2, 6
WORLDS_S = 60.0  # for twenty
LEAST_S, SLOWER = 10.0, 10.0  # a test that takes so many times as long as without a mutant hangs
TRANSCRIPTS_S = 600
WHOLE = 12  # integration tests for a survivor: what all of them reach, these few notice or none does
TEXT_LATER = re.compile(r"integration/test_(sql_\w+|archive|books|check|erase|life|lists|operate|order_moves|race|reopening|repair|retire|settled_sale)$")
ORDER_PATH = re.compile(r"src/(sale|recovery|store|wire)/|src/api/(purchase|moves|order_lookup|waiting)\.")
ALIVE, UNREACHED = "alive", "alive, and not reached"
CLUSTER = "integration/make_cluster"
UNIT, INTEGRATION = re.compile("unit/"), re.compile("integration/")
ERROR = re.compile(r"^([^:\s]+):(\d+):\d+: error", re.M)


class Test:
    """A program of CTest's."""

    def __init__(self, told: dict):
        self.name, self.command = told["name"], told["command"]
        properties = {one["name"]: one["value"] for one in told["properties"]}
        self.env = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        self.folder = properties["WORKING_DIRECTORY"]
        self.base_s, self.reached = 0.0, b""

    def passes(self, env: dict[str, str], limit_s: float) -> bool:
        # In a session of its own, so that what it started ends with it: Check gives each test a group.
        process = subprocess.Popen(
            self.command, env=os.environ | self.env | env, cwd=self.folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return process.wait(limit_s) in (0, 77)
        except subprocess.TimeoutExpired:
            return False
        finally:
            subprocess.run(["pkill", "-9", "-s", str(process.pid)])
            process.wait()

    def limit_s(self) -> float:
        return max(LEAST_S, SLOWER * self.base_s)


class Lab:
    """The copy of the tree, its builds, its tests, and workers that play worlds. `laboratory()` opens and closes it."""

    def __init__(self, folder: Path, stores: Path, sites: list[Site]):
        self.tree, self.folder, self.stores = folder / "tree", folder, stores
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name, follow_symlinks=False)
        self.numbers = {site: number for number, site in enumerate(sites, 1)}
        self.tests: list[Test] = []
        self.workers: list[Worker] = []
        self.sim_reached = b""
        self.lock = threading.Lock()

    def say(self, text: str) -> None:
        print(f"==> {text}", flush=True)

    def write(self, path: str, sites: list[Site]) -> None:
        text = (ROOT / path).read_bytes()
        for site in sorted(sites, key=lambda one: one.start, reverse=True):
            new = site.new if not path.endswith(".c") else choice(site, self.numbers[site])
            text = text[: site.start] + new.encode() + text[site.end :]
        (self.tree / path).write_bytes(text)

    def write_all(self) -> None:
        for path in {site.path for site in self.numbers}:
            self.write(path, [site for site in self.numbers if site.path == path])

    def make(self, build: str, *targets: str) -> subprocess.CompletedProcess:
        words = ["cmake", "--build", build, "-j", str(WORKERS), *(("--target", *targets) if targets else ())]
        return subprocess.run(words, cwd=self.tree, capture_output=True, text=True)

    def build(self) -> None:
        """Leaves out what does not compile."""
        flags = f"-DCMAKE_C_FLAGS=-w -include {self.tree / 'tests/mutants/mutant.h'}"
        for build, options in (("build", ()), ("build-sim", ("-DSK_FAILPOINTS=ON", "-DSK_TESTS=OFF"))):
            subprocess.run(["cmake", "-S", ".", "-B", build, flags, *options], cwd=self.tree, capture_output=True, check=True)
        self.write_all()
        while (made := self.make("build", "seckill")).returncode:
            self.leave_out(made)
        for build in ("build", "build-sim"):
            if (made := self.make(build)).returncode:
                sys.exit(f"mutants: {made.stdout[-2000:]}{made.stderr[-2000:]}")

    def leave_out(self, made: subprocess.CompletedProcess) -> None:
        said, before = made.stdout + made.stderr, len(self.numbers)
        for path, line in {(os.path.relpath(found[1], self.tree), int(found[2])) for found in ERROR.finditer(said)}:
            for site in [one for one in self.numbers if one.path == path and one.line <= line <= one.line + one.old.count("\n")]:
                del self.numbers[site]
            self.write(path, [site for site in self.numbers if site.path == path])
        if len(self.numbers) == before:
            sys.exit(f"mutants: {said[-3000:]}")

    def measure(self, kind: re.Pattern) -> None:
        """The time of each test that matches, and which mutants it reaches."""
        told = json.loads(subprocess.run(
            ["ctest", "--test-dir", "build", "--show-only=json-v1"], cwd=self.tree, capture_output=True, text=True, check=True
        ).stdout)  # fmt: skip
        tests = {one["name"]: Test(one) for one in told["tests"]}
        cluster = tests.pop(CLUSTER)
        chosen = [test for name, test in tests.items() if kind.match(name)]
        if any(INTEGRATION.match(test.name) for test in chosen) and not cluster.passes({}, 120):
            sys.exit("mutants: no cluster for the integration tests")

        def one(_: int, test: Test) -> None:
            began, reached = time.monotonic(), self.reached_file(test.name)
            if not test.passes({"SK_MUTANTS_REACHED": str(reached)}, 300):
                return self.say(f"left out, since it fails with no mutant: {test.name}")
            test.base_s, test.reached = time.monotonic() - began, reached.read_bytes()
            with self.lock:
                self.tests.append(test)

        known = {test.name for test in self.tests}
        self.each([test for test in chosen if test.name not in known], one)
        self.tests.sort(key=lambda test: test.base_s)

    def reached_file(self, name: str) -> Path:
        file = self.folder / f"reached-{name.replace('/', '-')}"
        file.write_bytes(bytes(REACH_BYTES))
        file.chmod(0o666)
        return file

    def measure_worlds(self) -> None:
        """Starts the workers, too."""
        self.workers += [Worker(self.stores, number, self.tree / "build-sim") for number in range(WORKERS)]
        worker, reached = self.workers[0], self.reached_file("sim")
        worker.env |= {"SK_MUTANTS_REACHED": str(reached), "SK_MUTANT": "0"}
        if "FAILED" in worker.play(1, WORLDS).stdout:
            sys.exit("mutants: a world fails with no mutant")
        del worker.env["SK_MUTANTS_REACHED"]
        self.sim_reached = reached.read_bytes()

    def each(self, things: Iterable, judge: Callable[[int, object], None]) -> None:
        """Calls judge(number of the thread, thing) for each, in as many threads as there are workers."""
        queue = iter(things)

        def work(worker: int) -> None:
            while True:
                with self.lock:
                    thing = next(queue, None)
                if thing is None:
                    return
                judge(worker, thing)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # ---- one mutant ----

    def try_tests(self, kind: re.Pattern, number: int, most: int | None = None) -> str:
        """The shortest first."""
        reached = [test for test in self.tests if kind.match(test.name) and test.reached[number]]
        env = {"SK_MUTANT": str(number)}
        return next((test.name for test in reached[:most] if not test.passes(env, test.limit_s())), "")

    def try_worlds(self, worker: Worker, number: int) -> str:
        """Of twenty at a time."""
        worker.env["SK_MUTANT"] = str(number)
        for first in range(1, WORLDS, 20):
            try:
                done = worker.play(first, 20, limit_s=WORLDS_S)
            except subprocess.TimeoutExpired:
                return "sim: hangs"
            why = next((line for line in done.stdout.splitlines() if "FAILED" in line), "")
            if why or done.returncode:
                return f"sim: {why[:120]}"
        return ""

    def try_c(self, worker: int, site: Site) -> str:
        number = self.numbers[site]
        return (
            self.try_tests(UNIT, number)
            or (self.try_worlds(self.workers[worker], number) if self.sim_reached[number] else "")
            or (ALIVE if self.is_reached(number) else UNREACHED)
        )

    def is_reached(self, number: int) -> bool:
        return bool(self.sim_reached[number]) or any(test.reached[number] for test in self.tests)

    def try_text(self, site: Site) -> str:
        """Of Lua or SQL. Alone in the tree: it is built for each."""
        self.write(site.path, [site])
        try:
            if why := self.try_transcripts(site.floor):
                return why
            later = [test for test in self.tests if TEXT_LATER.match(test.name)]
            if self.make("build", "integration").returncode or self.make("build-sim", "sim", "seckill").returncode:
                return "is not built"
            made = subprocess.run(["ctest", "--test-dir", "build", "-R", CLUSTER], cwd=self.tree, capture_output=True)
            if made.returncode:
                return CLUSTER
            if why := self.try_text_in_worlds():
                return why
            return self.try_side_by_side(later) or "alive"
        finally:
            self.write(site.path, [])

    def try_side_by_side(self, tests: list[Test]) -> str:
        """They wait most of the time."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            done = {pool.submit(test.passes, {}, test.limit_s()): test for test in tests}
            failed = next((done[one] for one in as_completed(done) if not one.result()), None)
            pool.shutdown(cancel_futures=True)
        return failed.name if failed else ""

    def try_transcripts(self, kind: str) -> str:
        """Which case of lua or sql fails. The migrations are in the program."""
        if kind == "sql" and self.make("build", "seckill").returncode:
            return "is not built"
        process = subprocess.Popen([self.tree / "tests/golden/run", "--first", kind], cwd=self.tree, stdout=subprocess.PIPE, text=True)
        try:
            said, _ = process.communicate(timeout=TRANSCRIPTS_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends its stores
            process.wait()
            return f"golden/{kind}: hangs"
        case = re.search(r"^failed in (.*)$", said, re.M)
        return "" if process.returncode == 0 else f"golden/{kind}: {case[1] if case else said[-100:]}"

    def try_text_in_worlds(self) -> str:
        folder = self.stores / "text"
        folder.mkdir()
        folder.chmod(0o755)
        try:
            worker = Worker(folder, 0, self.tree / "build-sim")
        except SystemExit:
            return "sim: its stores are not set up"
        try:
            return self.try_worlds(worker, 0)
        finally:
            worker.close()
            shutil.rmtree(folder)


@contextmanager
def laboratory(sites: list[Site]) -> Iterator[Lab]:
    """A lab with a folder of its own, and another one in memory for the stores of its workers."""
    folder = Path(tempfile.mkdtemp(prefix="seckill-mutants.", dir="/var/tmp"))
    stores = Path(tempfile.mkdtemp(prefix="sim-mutants-", dir=scratch()))
    for one in (folder, stores):
        one.chmod(0o755)
    for one in (signal.SIGINT, signal.SIGTERM):  # a shell's job in the background ignores the first
        signal.signal(one, signal.default_int_handler)
    lab = Lab(folder, stores, sites)
    try:
        yield lab
    finally:
        for worker in lab.workers:
            worker.close()
        for one in (folder, stores):
            shutil.rmtree(one, ignore_errors=True)
