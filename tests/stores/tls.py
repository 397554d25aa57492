"""TLS on both links, with our own authorities: to PostgreSQL by libpq, to Redis by the service itself. A certificate of
another authority, for another name, or one that has expired is rejected."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from clusters import Cluster, Node
from rush import Rush, books, voucher_of
from sentinels import Sentinel, addresses
from stack import Broken, Instance, Stack, free_port, redis_url, wait_for

REFUSED_S = 2.5  # how long to watch an instance that must not become ready
HOST = "127.0.0.1"


def openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"openssl {words[0]}: {done.stderr.strip()}")


class Authority:
    def __init__(self, folder: Path, name: str):
        self.folder, self.name, self.signed = folder, name, 0
        self.crt, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", str(self.key), "-out", str(self.crt))

    def sign(self, name: str, alternative: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate and its key; with negative days it has expired."""
        self.signed += 1
        request, crt, key = (self.folder / f"{self.name}-{name}-{self.signed}.{end}" for end in ("csr", "crt", "key"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-addext", f"subjectAltName={alternative}", "-keyout", str(key), "-out", str(request))
        openssl("x509", "-req", "-in", str(request), "-CA", str(self.crt), "-CAkey", str(self.key), "-CAcreateserial",
                "-days", str(days), "-copy_extensions", "copy", "-out", str(crt))
        return crt, key


def tls_url(port: int, host: str) -> str:
    return redis_url(port).replace("redis://", "rediss://").replace(HOST, host)


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


def must_sell(stack: Stack, env: dict[str, str], check=None) -> list[str]:
    one = instance(stack, env)
    try:
        wait_for("an instance over TLS that sells", lambda voucher=[]: sells(one, voucher))
        return check() if check else []
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
        postgres.own(copy)
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


def serve_redis_tls(stack: Stack, port: int, certificate: tuple[Path, Path], ca: Authority, clients: str = "no") -> None:
    """Redis serves TLS on this port, too; `clients`: whether it wants their certificates."""
    crt, key = certificate
    stack.redis.end(signal.SIGTERM)
    stack.redis.run(
        "always", "--tls-port", str(port), "--tls-cert-file", str(crt), "--tls-key-file", str(key),
        "--tls-ca-cert-file", str(ca.crt), "--tls-auth-clients", clients,
    )


def redis_over_tls(stack: Stack, ours: Authority, other: Authority) -> list[str]:
    port = free_port()
    by = lambda host, ca: {"SECKILL_REDIS_URL": tls_url(port, host), "SECKILL_REDIS_CA": str(ca)}
    good = ours.sign("redis", f"IP:{HOST},DNS:localhost")
    serve_redis_tls(stack, port, good, ours)
    wrong = must_sell(stack, by(HOST, ours.crt)) + must_sell(stack, by("localhost", ours.crt))
    wrong += must_not_connect(stack, by(HOST, other.crt), "certificate")
    wrong += must_not_connect(stack, by(HOST, stack.folder / "none.crt"), "No such file")
    wrong += must_not_connect(stack, {"SECKILL_REDIS_URL": tls_url(port, HOST)}, "certificate")  # the system's authorities
    wrong += must_not_connect(stack, {"SECKILL_REDIS_URL": redis_url(port)}, "Redis")  # without TLS
    wrong += must_not_connect(stack, {"SECKILL_REDIS_URL": tls_url(stack.redis.port, HOST)}, "Redis")  # where there is none
    serve_redis_tls(stack, port, ours.sign("redis", "IP:192.0.2.1,DNS:elsewhere.example"), ours)
    wrong += must_not_connect(stack, by(HOST, ours.crt), "IP address mismatch")
    wrong += must_not_connect(stack, by("localhost", ours.crt), "hostname mismatch")
    serve_redis_tls(stack, port, ours.sign("redis", f"IP:{HOST}", days=-1), ours)
    wrong += must_not_connect(stack, by(HOST, ours.crt), "certificate has expired")
    serve_redis_tls(stack, port, good, ours, "yes")
    crt, key = ours.sign("service", "DNS:service.example")
    wrong += must_sell(stack, by(HOST, ours.crt) | {"SECKILL_REDIS_CERT": str(crt), "SECKILL_REDIS_KEY": str(key)})
    wrong += must_not_connect(stack, by(HOST, ours.crt), "Redis")
    return wrong + redis_renewed(stack, port, ours, other)


def redis_renewed(stack: Stack, port: int, ours: Authority, other: Authority) -> list[str]:
    """Redis restarts with a certificate of another authority while it sells, and the service's file follows: it is read
    again at each connection."""
    authority = stack.folder / "current.crt"
    shutil.copy(ours.crt, authority)
    serve_redis_tls(stack, port, ours.sign("redis", f"IP:{HOST}"), ours)
    one = instance(stack, {"SECKILL_REDIS_URL": tls_url(port, HOST), "SECKILL_REDIS_CA": str(authority)})
    voucher: list[str] = []
    try:
        wait_for("a sale", lambda: sells(one, voucher))
        serve_redis_tls(stack, port, other.sign("redis", f"IP:{HOST}"), other)
        wait_for("refused", lambda: "certificate" in one.text())
        late = one.ask("POST", f"/seckill/{voucher[0]}", "late")[0]
        shutil.copy(other.crt, authority)
        wait_for("a sale under the new authority", lambda: sells(one, voucher))
        return [] if late == 503 else [f"a purchase without Redis was answered {late}"]
    finally:
        one.end(signal.SIGTERM)


def bad_links(stack: Stack, port: int, ours: Authority) -> list[str]:
    """Encrypted connections that are slow, lose 5 %, are cut in the handshake and after it, or hang in the handshake."""
    proxy = stack.another_proxy(port)
    serve_redis_tls(stack, port, ours.sign("redis", f"IP:{HOST}"), ours)
    one = instance(stack, {"SECKILL_REDIS_URL": tls_url(proxy.port, HOST), "SECKILL_REDIS_CA": str(ours.crt)})
    stack.instances = [one]
    wait_for("ready", one.ready)
    voucher = voucher_of(one)
    rush = Rush([one], voucher)
    try:
        wait_for("a sale", lambda: rush.confirmed_after(0) > 0)
        proxy.delay_ms = 50
        time.sleep(1.5)
        proxy.delay_ms, proxy.cut_chance = 0, 0.05
        time.sleep(2.5)
        proxy.cut_chance = 0
        for direction, most in (("down", 6000), ("up", 3000)):
            for proxy.cut_after[direction] in range(1, most, most // 60):
                proxy.drop_all()
                time.sleep(0.05)
            proxy.cut_after[direction] = None
        proxy.drop_all()
        wait_for("a sale after cuts", lambda since=time.time(): rush.confirmed_after(since) > 0)
        proxy.swallow["down"] = True
        proxy.drop_all()
        wait_for("the handshake's end", lambda: "connecting takes too long" in one.text())
        proxy.swallow["down"] = False
        proxy.drop_all()
        wait_for("a sale after silence", lambda since=time.time(): rush.confirmed_after(since) > 0)
    finally:
        rush.end()
    wait_for("settled", lambda: stack.redis.call("XLEN", f"seckill:{{{voucher}}}:journal") == 0)
    wrong = books(stack, rush, voucher, stack.redis)
    stack.land()
    return wrong


def sentinels_over_tls(stack: Stack, port: int, ours: Authority, other: Authority) -> list[str]:
    """They announce an address, unless they are told to announce names: the master's certificate must be for that."""
    crt, key = ours.sign("sentinel", f"IP:{HOST}")
    before = (
        f"port 0\ntls-port PORT\ntls-cert-file {crt}\ntls-key-file {key}\ntls-ca-cert-file {ours.crt}\n"
        "tls-auth-clients no\ntls-replication yes\n"
    )
    names = "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"
    by_address, by_name = Sentinel(stack, 0, port, HOST, before), Sentinel(stack, 1, port, "localhost", before + names)

    def env(one: Sentinel, ca: Authority) -> dict[str, str]:
        found = addresses([one])
        url = found["SECKILL_REDIS_URL"].replace("redis+", "rediss+")
        return found | {"SECKILL_REDIS_URL": url, "SECKILL_REDIS_CA": str(ca.crt)}

    serve_redis_tls(stack, port, ours.sign("redis", f"IP:{HOST}"), ours)
    for one in (by_address, by_name):
        one.run()
    wrong = must_sell(stack, env(by_address, ours))
    wrong += must_not_connect(stack, env(by_address, other), "a sentinel does not answer")
    wrong += must_not_connect(stack, env(by_name, ours), "hostname mismatch")
    serve_redis_tls(stack, port, ours.sign("redis", "DNS:localhost"), ours)
    wrong += must_not_connect(stack, env(by_address, ours), "IP address mismatch")
    return wrong + must_sell(stack, env(by_name, ours))


def cluster_over_tls(stack: Stack, ours: Authority, other: Authority) -> list[str]:
    """All nodes, and the links between them. A master that is replaced is found over TLS, too."""
    crt, key = ours.sign("node", f"IP:{HOST}")

    class TlsNode(Node):
        def run(self, appendfsync: str = "always", *extra: str) -> None:
            self.tls_port = getattr(self, "tls_port", 0) or free_port()
            super().run(
                appendfsync, "--tls-port", str(self.tls_port), "--tls-cert-file", str(crt), "--tls-key-file", str(key),
                "--tls-ca-cert-file", str(ours.crt), "--tls-auth-clients", "no", "--tls-cluster", "yes",
                "--tls-replication", "yes", *extra,
            )

    cluster, voucher = Cluster(stack, kind=TlsNode), []
    try:
        cluster.create()
        user = redis_url(0).split("//")[1].split("@")[0]
        seeds = ",".join(f"{HOST}:{node.tls_port}" for node in cluster.nodes)
        by = lambda ca: {"SECKILL_REDIS_URL": f"rediss+cluster://{user}@{seeds}", "SECKILL_REDIS_CA": str(ca)}
        wrong = must_not_connect(stack, by(other.crt), "no slot map")
        one = instance(stack, by(ours.crt))
        try:
            wait_for("a sale on a cluster over TLS", lambda: sells(one, voucher))
            master = cluster.node_of(f"seckill:{{{voucher[0]}}}:voucher")
            ready = one.text().count(f"port={master.tls_port}")
            cluster.kill(master)
            wait_for("a sale on the new master", lambda: sells(one, voucher), 40)
        finally:
            one.end(signal.SIGTERM)
        return wrong if ready else [*wrong, f"the log does not name the TLS port {master.tls_port}"]
    finally:
        cluster.close()


def run(binary) -> list[str]:
    stack = Stack(binary)
    try:
        stack.prepare("always")
        ours, other = Authority(stack.folder, "ours"), Authority(stack.folder, "other")
        for path in stack.folder.glob("*.crt"):
            path.chmod(0o644)
        wrong = redis_over_tls(stack, ours, other)
        port = free_port()
        wrong += bad_links(stack, port, ours) + sentinels_over_tls(stack, port, ours, other)
        wrong += cluster_over_tls(stack, ours, other)
        return wrong + postgres_over_tls(stack, ours, other)
    finally:
        stack.land()
        stack.close()
