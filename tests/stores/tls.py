"""TLS on both links, with our own authorities: to PostgreSQL by libpq, to Redis by a stunnel on each side, with the
files of deploy/stunnel. A certificate of another authority, or for another name, is rejected."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path

from stack import ROOT, Broken, Instance, NotInjectable, Process, Stack, free_port, redis_url, wait_for

REFUSED_S = 2.5  # how long to watch an instance that must not become ready
HOST = "127.0.0.1"


def openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"openssl {words[0]}: {done.stderr.strip()}")


class Authority:
    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.crt, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", str(self.key), "-out", str(self.crt))

    def sign(self, name: str, alternative: str) -> tuple[Path, Path]:
        """A server's certificate and key."""
        request, crt, key = (self.folder / f"{self.name}-{name}.{end}" for end in ("csr", "crt", "key"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-addext", f"subjectAltName={alternative}", "-keyout", str(key), "-out", str(request))
        openssl("x509", "-req", "-in", str(request), "-CA", str(self.crt), "-CAkey", str(self.key), "-CAcreateserial",
                "-days", "2", "-copy_extensions", "copy", "-out", str(crt))
        return crt, key


def instance(stack: Stack, env: dict[str, str]) -> Instance:
    one = Instance(0, stack.folder, stack.binary, stack.store_urls(False) | env)
    one.run()
    return one


def sells(one: Instance, voucher: list[str]) -> bool:
    if not one.ready():
        return False
    if not voucher:
        now = time.time()
        at = lambda seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds))
        terms = {"title": "TLS", "stock": 1000, "price_cents": 1, "begin_at": at(-3600), "end_at": at(86400)}
        status, document = one.ask("POST", "/admin/vouchers", body=terms)
        if status != 201:
            return False
        voucher.append(document["id"])
    return one.ask("POST", f"/seckill/{voucher[0]}", f"u{time.time_ns()}")[0] == 201


def must_sell(stack: Stack, env: dict[str, str], look=None) -> list[str]:
    one = instance(stack, env)
    try:
        wait_for("an instance over TLS that sells", lambda voucher=[]: sells(one, voucher))
        return look() if look else []
    finally:
        one.end(signal.SIGTERM)


def must_not_connect(stack: Stack, env: dict[str, str], why: str, log: Path | None = None) -> list[str]:
    """The instance runs and never becomes ready; the log has the reason."""
    one = instance(stack, env)
    try:
        deadline, told = time.monotonic() + REFUSED_S * 4, lambda: (log.read_text() if log else one.text())
        time.sleep(REFUSED_S)
        while why not in told() and time.monotonic() < deadline:
            time.sleep(0.1)
        wrong = [f"ready, and should not be: {why}"] if one.ready() else []
        return wrong + ([] if why in told() else [f"the log does not say: {why}"])
    finally:
        one.end(signal.SIGTERM)


# ---- PostgreSQL ----


def serve_tls(stack: Stack, certificate: tuple[Path, Path]) -> None:
    """PostgreSQL uses it from its next reload, and then accepts no network connection without TLS."""
    postgres = stack.postgres
    for path, name in zip(certificate, ("tls.crt", "tls.key")):
        copy = postgres.dir / "data" / name
        shutil.copy(path, copy)
        copy.chmod(0o600)
        if postgres.user:
            owner = pwd.getpwnam(postgres.user)
            os.chown(copy, owner.pw_uid, owner.pw_gid)
    (postgres.dir / "data/pg_hba.conf").write_text("local all all trust\nhostssl all all all trust\n")
    postgres.sql("alter system set ssl_cert_file = 'tls.crt'", "postgres")
    postgres.sql("alter system set ssl_key_file = 'tls.key'", "postgres")
    postgres.sql("alter system set ssl = on", "postgres")
    postgres.sql("select pg_reload_conf()", "postgres")
    wait_for("TLS", lambda: postgres.sql("show ssl", "postgres") == [["on"]])
    time.sleep(0.3)  # new backends read the files


def all_encrypted(stack: Stack) -> list[str]:
    rows = stack.postgres.sql(
        "select a.application_name, s.ssl, s.version from pg_stat_ssl s join pg_stat_activity a using (pid)"
        " where a.usename = 'seckill'"
    )
    print(f"    PostgreSQL: {len(rows)} connections, {sorted({row[2] for row in rows})}")
    return [f"a connection without TLS: {row}" for row in rows if row[1] != "t"] or ([] if rows else ["no connection"])


def postgres_over_tls(stack: Stack, ours: Authority, other: Authority) -> list[str]:
    url = stack.postgres.url("seckill")
    full = {"SECKILL_DATABASE_URL": f"{url}?sslmode=verify-full&sslrootcert={ours.crt}"}
    strange = {"SECKILL_DATABASE_URL": f"{url}?sslmode=verify-full&sslrootcert={other.crt}"}
    serve_tls(stack, ours.sign("postgres", f"IP:{HOST}"))
    wrong = must_sell(stack, full, lambda: all_encrypted(stack))
    wrong += must_not_connect(stack, strange, "certificate verify failed")
    wrong += must_not_connect(stack, {"SECKILL_DATABASE_URL": f"{url}?sslmode=disable"}, "no encryption")
    serve_tls(stack, ours.sign("elsewhere", "IP:192.0.2.1,DNS:elsewhere.example"))
    wrong += must_not_connect(stack, full, "does not match host name")
    serve_tls(stack, ours.sign("postgres", f"IP:{HOST}"))
    return wrong


# ---- Redis ----


def stunnel(stack: Stack, name: str, changes: dict[str, str]) -> Process:
    """With the shipped file, except for these settings."""
    program = shutil.which("stunnel4") or shutil.which("stunnel")
    if program is None:
        raise NotInjectable("there is no stunnel4: ./dev setup stores")
    lines = []
    for line in (ROOT / "deploy/stunnel" / f"{name}.conf").read_text().splitlines():
        key = line.partition("=")[0].strip()
        lines.append(f"{key} = {changes.pop(key)}" if key in changes else line)
    if changes:
        raise Broken(f"{name}.conf has no {', '.join(changes)}")
    stack.servers += 1
    path = stack.folder / f"{name}-{stack.servers}.conf"
    path.write_text("\n".join(lines) + "\n")
    process = Process(name, path.with_suffix(".log"))
    process.start([program, str(path)])
    stack.others.append(process)
    wait_for(name, lambda: "Configuration successful" in process.log.read_text() or not process.alive())
    if not process.alive():
        raise Broken(f"{name}: {process.log.read_text()[-300:]}")
    return process


def redis_over_tls(stack: Stack, ours: Authority, other: Authority) -> list[str]:
    crt, key = ours.sign("redis", f"IP:{HOST},DNS:redis.example")
    tls_port = free_port()
    server = {"accept": f"{HOST}:{tls_port}", "connect": f"{HOST}:{stack.redis.port}", "cert": str(crt), "key": str(key)}
    first = stunnel(stack, "redis-server", dict(server))

    def client(authority: Authority, name: str) -> tuple[Process, dict[str, str]]:
        port = free_port()
        process = stunnel(stack, "redis-client", {
            "accept": f"{HOST}:{port}", "connect": f"{HOST}:{tls_port}", "CAfile": str(authority.crt), "checkHost": name,
        })
        return process, {"SECKILL_REDIS_URL": redis_url(port)}

    wrong = must_sell(stack, client(ours, "redis.example")[1])
    process, env = client(other, "redis.example")
    wrong += must_not_connect(stack, env, "certificate verify failed", process.log)
    process, env = client(ours, "elsewhere.example")
    wrong += must_not_connect(stack, env, "certificate verify failed", process.log)
    wrong += must_not_connect(stack, {"SECKILL_REDIS_URL": redis_url(tls_port)}, "Redis")  # without TLS

    # The tunnel dies while it sells, and comes back.
    one = instance(stack, client(ours, "redis.example")[1])
    voucher: list[str] = []
    try:
        wait_for("a sale", lambda: sells(one, voucher))
        first.end(signal.SIGKILL)
        wait_for("503 without the tunnel", lambda: one.ask("POST", f"/seckill/{voucher[0]}", "late")[0] == 503)
        stunnel(stack, "redis-server", dict(server))
        wait_for("a sale after the tunnel came back", lambda: sells(one, voucher))
        rows = stack.postgres.sql(f"select count(*) from voucher_order where voucher_id = {voucher[0]}")
        print(f"    Redis: {rows[0][0]} orders through a tunnel that died in between")
    finally:
        one.end(signal.SIGTERM)
    return wrong


def run(binary) -> list[str]:
    stack = Stack(binary)
    try:
        stack.prepare("always")
        ours, other = Authority(stack.folder, "ours"), Authority(stack.folder, "other")
        for path in stack.folder.glob("*.crt"):
            path.chmod(0o644)
        return redis_over_tls(stack, ours, other) + postgres_over_tls(stack, ours, other)
    finally:
        stack.land()
        stack.close()
