"""A primary with a synchronous standby: `--migrate` finds the primary, and `--check` names each server, and warns when no
standby is there. Faults 61a to 61c have the fail-over itself."""

from __future__ import annotations

import os
import subprocess

from stack import Stack, wait_for


def said(stack: Stack, command: str, url: str) -> str:
    """What a command of the service prints, with the standby first in the URL."""
    both = url.replace("@", f"@127.0.0.1:{stack.standby.port},")
    env = os.environ | stack.store_urls(False) | {"SECKILL_DATABASE_URL": both}
    done = subprocess.run([str(stack.binary), command], env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


def checked(stack: Stack) -> list[str]:
    names, own = "postgresql synchronous standbys: ", stack.postgres.url("seckill")
    wrong = []

    def expect(when: str, *lines: str) -> None:
        printed = said(stack, "--check", own)
        wrong.extend(f"{when}: no line `{line}`: {printed[-1500:]}" for line in lines if line not in printed)

    hosts = f"127.0.0.1 port {stack.standby.port}, a standby", f"127.0.0.1 port {stack.postgres.port}, the primary"
    expect("both run", f"ok   {names}`standby`, of which this login sees no more", *(f"ok   postgresql host: {h}" for h in hosts))
    stack.postgres.sql("grant pg_monitor to seckill")
    expect("the login may see it", f"ok   {names}standby\n")
    if "migration was there" not in said(stack, "--migrate", stack.postgres.url("owner")):
        wrong.append("--migrate does not find the primary")
    stack.postgres.wait_for_standby("")
    expect("nobody waits for it", f"warn {names}none: a fail-over may lose")
    stack.postgres.wait_for_standby(stack.standby.NAME)
    wait_for("a synchronous standby", stack.standby.is_synchronous)
    stack.standby.stop_immediate()
    gone = lambda: stack.postgres.sql("select count(*) from pg_stat_replication") == [["0"]]
    wait_for("no standby", gone)
    expect("the standby is away", f"warn {names}none of `standby` is attached", "warn postgresql host: 127.0.0.1: ")
    return wrong


def run(binary) -> list[str]:
    stack = Stack(binary)
    try:
        stack.prepare("always")
        stack.add_standby()
        return checked(stack)
    finally:
        stack.land()
        stack.close()
