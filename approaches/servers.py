"""The servers of the approaches (servers.c), whose child this is, as tests/harness/launcher.py is a test program's:
`servers.py CLOCK`, the library that steps the clock of a Redis server (tests/faults/clock.c)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/harness"))

from launcher import Launcher  # noqa: E402
from stores import Process, RedisServer, await_ready, free_port  # noqa: E402

ZOOKEEPER = Path("/usr/share/zookeeper/bin/zkEnv.sh")
START = (
    f'. {ZOOKEEPER} && exec java -Xmx128m -XX:-UsePerfData -cp "$CLASSPATH:/usr/share/java/*" '
    'org.apache.zookeeper.server.quorum.QuorumPeerMain "$0"'
)


class Redis(RedisServer):
    """Replication needs its port; everything else uses the socket."""

    death_signal = "KILL"

    def __init__(self, folder: Path, name: str, clock: Path, library: str):
        super().__init__(folder, name)
        self.socket, self.clock = folder / f"{name}.sock", clock
        self.preload = {"LD_PRELOAD": library, "CLOCK_FILE": str(clock)}

    def run(self, *settings: str) -> None:
        self.launch("--unixsocket", str(self.socket), "--repl-diskless-sync-delay", "0", *settings)
        await_ready(self.name, self.answers)

    def step(self, seconds: int) -> None:
        """In place, since the file is mapped."""
        with open(self.clock, "r+b" if self.clock.exists() else "wb", buffering=0) as clock:
            clock.write(seconds.to_bytes(8, sys.byteorder, signed=True))


class Servers(Launcher):
    def __init__(self, library: str):
        super().__init__()
        self._library = library
        self._own: dict[str, Redis] = {}
        self._replicas: dict[str, Redis] = {}
        self._others: list[Process] = []

    def start(self, number: str, appendonly: str) -> None:
        """Empty, or with its file."""
        if number not in self._own:
            self._own[number] = self._redis("redis", number)
        self._own[number].step(0)
        self._own[number].run("--appendonly", appendonly)

    def kill(self, number: str) -> None:
        """The server, or the replica that has its place."""
        for one in (self._own[number], self._replicas.get(number)):
            if one is not None:
                one.end(signal.SIGKILL)

    def clock(self, number: str, seconds: str) -> None:
        self._own[number].step(int(seconds))

    def lag(self, number: str) -> None:
        """Gives it a replica that has all its data. The replica stops before its link is cut, so it does not connect
        again and gets nothing that is sent from now on."""
        own = self._own[number]
        if number not in self._replicas:
            self._replicas[number] = self._redis("replica", number)
        replica = self._replicas[number]
        replica.run("--appendonly", "no", "--replicaof", own.address, str(own.port))
        await_ready("a replica", replica.follows)
        replica.signal(signal.SIGSTOP)
        own.call("CLIENT", "KILL", "TYPE", "replica")

    def promote(self, number: str) -> None:
        """It dies, and its replica takes its place."""
        own, replica = self._own[number], self._replicas[number]
        own.end(signal.SIGKILL)
        replica.signal(signal.SIGCONT)
        replica.call("REPLICAOF", "NO", "ONE")
        replica.socket.rename(own.socket)

    def zookeeper(self) -> dict:
        """Nothing where it is not installed."""
        if not ZOOKEEPER.exists():
            return {}
        port, config = free_port(), self._folder / "zoo.cfg"
        config.write_text(
            f"tickTime=200\ndataDir={self._folder}/zookeeper\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )
        one = Process("zookeeper", self._folder / "zookeeper.log")
        one.death_signal = "KILL"
        one.start(["bash", "-c", START, str(config)])
        self._others.append(one)
        return {"zookeeper": f"127.0.0.1:{port}"}

    def _redis(self, name: str, number: str) -> Redis:
        return Redis(self._folder, f"{name}{number}", self._folder / f"clock{number}", self._library)

    def _all(self) -> list[Process]:
        return [*self._own.values(), *self._replicas.values(), *self._others]


if __name__ == "__main__":
    Servers(sys.argv[1])._serve()
