"""A managed fail-over: Redis has one name, which moves to another server. Each instance has a hosts file of its own, in
a mount namespace of its own."""

from __future__ import annotations

import os
import time

from rush import Rush, books, voucher_of
from stack import REDIS_PASSWORD, Instance, NotInjectable, RedisServer, Stack, redis_url, wait_for

NAME, OLD, NEW = "redis.test", "127.0.0.1", "127.0.0.2"
STALE_S = 2.0  # for so long the name has the address of the server that has become a replica
NOTICED_S = 3.0  # in which a link without any call leaves a replica


class Named(Instance):
    """Resolves names by a hosts file of its own."""

    def start(self, command, env=None, user=None) -> None:
        hosts = self.env["HOSTS"]
        super().start(["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh", *command], env, user)


class Elsewhere(RedisServer):
    """At another address, on the port of the first."""

    address = NEW


def clients(redis: RedisServer) -> int:
    return redis.call("CLIENT", "LIST").count("user=seckill")


def follow(one: RedisServer, other: RedisServer) -> None:
    one.call("REPLICAOF", other.address, other.port)


def moved(stack: Stack) -> list[str]:
    old, hosts = stack.redis, stack.folder / "hosts"
    stack.servers += 1
    new = Elsewhere(stack.folder, f"redis-{stack.servers}")
    new.port = old.port
    stack.others.append(new)
    new.run("always", "--replicaof", old.address, str(old.port))
    points_to = lambda server: hosts.write_text(f"{server.address} {NAME}\n")  # in place: the mounts show it
    points_to(old)
    hosts.chmod(0o644)
    env = stack.store_urls(False) | {"HOSTS": str(hosts), "SECKILL_REDIS_URL": redis_url(old.port).replace(OLD, NAME)}
    stack.instances = made = [Named(n, stack.folder, stack.binary, env) for n in range(2)]
    for one in made:
        one.run()
    for one in made:
        wait_for("ready", one.ready)
    wait_for("a replica", new.follows)
    voucher, links = voucher_of(made[0]), clients(old)
    rush, wrong = Rush(made, voucher), []
    try:
        wait_for("a sale", lambda: rush.confirmed_after(0) > 0)
        new.call("REPLICAOF", "NO", "ONE")
        follow(old, new)
        wait_for("the links leave", lambda: all("it has become a replica" in one.text() for one in made))
        wait_for("the stale address is retried", lambda: all("it is a replica" in one.text() for one in made))
        time.sleep(STALE_S)
        stale = time.time()
        if clients(new) > 0 or any(one.ready() for one in made):
            wrong.append("ready, although the name has a replica's address")
        points_to(new)
        wait_for("a sale at the new address", lambda: rush.confirmed_after(stale) > 0)
        print(f"    sold again {rush.confirmed_after(stale) - stale:.2f} s after the name had moved")
    finally:
        rush.end()
    wait_for("settled", lambda: new.call("XLEN", f"seckill:{{{voucher}}}:journal") == 0)
    wrong += books(stack, rush, voucher, new)
    return wrong + idle(old, new, links, made, points_to)


def idle(old: RedisServer, new: RedisServer, links: int, made: list[Instance], points_to) -> list[str]:
    """The way back without a purchase: links that send nothing, or only read, leave as well."""
    wait_for("a replica again", old.follows)
    wait_for("all links", lambda: clients(new) == links)
    points_to(old)
    old.call("REPLICAOF", "NO", "ONE")
    follow(new, old)
    wait_for("every link leaves the replica", lambda: clients(new) == 0, NOTICED_S)
    wait_for("all links at the first address", lambda: clients(old) == links)
    return [] if all(one.ready() for one in made) else ["not ready at the first address"]


def run(binary) -> list[str]:
    if os.geteuid() != 0:
        raise NotInjectable("a hosts file of its own needs root")
    stack = Stack(binary)
    try:
        stack.prepare("always", fresh_redis=True)
        return moved(stack)
    finally:
        stack.land()
        stack.close()
