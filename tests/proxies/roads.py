"""The roads to the service: directly, through nginx and through HAProxy, each with the settings of deploy/.

Without a gateway X-User-Id identifies a buyer, otherwise a token: HAProxy verifies it itself, nginx asks the session
service, which is a stub here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

from stack import ADMIN_TOKEN, Instance, Process, free_port, wait_for  # noqa: E402
from user_tokens import AUDIENCE, ISSUER, KEY, token, user_of  # noqa: E402
from wire import Link  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


IN_HAPROXY = {"SECRET": KEY.decode(), "ISSUER": ISSUER, "AUDIENCE": AUDIENCE}


class Road:
    """Where requests are sent, and how a buyer is identified."""

    def __init__(self, name: str, port: int, operators: int, gateway: bool, tokens: bool = False):
        self.name, self.port, self.operators, self.gateway = name, port, operators, gateway
        self.payments = operators if gateway else port  # of the shop's payment side
        self.tokens = tokens  # the service itself takes users' tokens

    def who(self, user: str) -> bytes:
        """The header line that identifies the buyer, with its line end."""
        if self.gateway or self.tokens:
            return f"Authorization: Bearer {token(user)}\r\n".encode()
        return f"X-User-Id: {user}\r\n".encode()

    def admin(self) -> bytes:
        return f"Authorization: Bearer {ADMIN_TOKEN}\r\n".encode()


class Sessions:
    """The session service that nginx queries."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                user = user_of(self.headers.get("Authorization", ""))
                self.send_response(204 if user else 401)
                if user:
                    self.send_header("X-User-Id", user)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class HangsUp:
    """An instance that ends the connection instead of answering a purchase of voucher 0."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                if self.path == "/seckill/0":
                    self.close_connection = True
                else:
                    self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.admin_port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def replaced(text: str, changes: dict[str, str]) -> str:
    """The settings with this machine's addresses; each must occur once, or n times: (n, new)."""
    for old, change in changes.items():
        times, new = change if isinstance(change, tuple) else (1, change)
        if text.count(old) != times:
            raise RuntimeError(f"{old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    return text


# For rows that send more than a client may.
NGINX_WITHOUT_LIMITS = {
    "requests_of_address 128;": "requests_of_address 60000;",
    "lasting_of_address  32;": "lasting_of_address 60000;",
    "rate=100r/s;": "rate=1000000r/s;",
}
HAPROXY_WITHOUT_LIMITS = {
    "sc0_conn_cur gt 128": "sc0_conn_cur gt 60000",
    "sc0_http_req_rate gt 200": "sc0_http_req_rate gt 1000000",
    "sc1_conn_cur gt 32": "sc1_conn_cur gt 60000",
}
CUT_OFF_S = 2  # how long a gateway of `cutting` waits for an answer


class Gateways:
    """nginx and HAProxy in front of an instance, until closed. limited: with the limits as shipped. counting: nginx counts
    failures, as it does by default."""

    def __init__(self, folder: Path, instance: Instance | HangsUp, limited: bool = False, counting: bool = False):
        folder.mkdir(mode=0o755)
        self.forgives, self.max_fails = not counting, "fail_timeout=2s;" if counting else "max_fails=0;"
        self.folder, self.backend, self.for_operators, self.limited = folder, instance.port, instance.admin_port, limited
        self.processes: list[Process] = []
        self.sessions = Sessions()

    def _folder(self, name: str) -> tuple[Path, str]:
        """A folder that nginx's user may write to, and the line with that user."""
        folder = self.folder / name
        folder.mkdir()
        if os.geteuid() != 0:
            return folder, ""
        shutil.chown(folder, "www-data")
        return folder, "user www-data;"

    def nginx(self) -> Road:
        public, operators = free_port(), free_port()
        folder, user = self._folder("nginx")
        paths = "\n    ".join(
            f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        settings = replaced(
            (ROOT / "deploy" / "nginx.conf").read_text(),
            {
                "user                 www-data;": f"daemon off; {user}",
                "worker_processes     auto;": "worker_processes 1;",  # so that all connections share its pool
                "/run/nginx.pid": f"{folder}/pid",
                "error_log            /var/log/nginx/error.log warn;": "error_log stderr warn;",
                "access_log    off;": f"access_log off;\n    {paths}",
                # Both instances are this one. nginx would not count the failures of a single one.
                "server 127.0.0.1:8080 max_fails=0;": (2, f"server 127.0.0.1:{self.backend} {self.max_fails}"),
                "server 127.0.0.1:8090 max_fails=0;": (2, f"server 127.0.0.1:{self.backend} {self.max_fails}"),
                "server 127.0.0.1:8082 max_fails=0;": f"server 127.0.0.1:{self.for_operators} max_fails=0;",
                "server 127.0.0.1:8092 max_fails=0;": f"server 127.0.0.1:{self.for_operators} max_fails=0;",
                "127.0.0.1:9000": f"127.0.0.1:{self.sessions.port}",
                "listen 80 default_server;": f"listen 127.0.0.1:{public} default_server;",
                "127.0.0.1:8081": f"127.0.0.1:{operators}",
            }
            | ({} if self.limited else NGINX_WITHOUT_LIMITS),
        )
        (folder / "nginx.conf").write_text(settings)
        self._start("nginx", ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], public)
        return Road("nginx", public, operators, True)

    def compose(self, cut_off_s: int = 0) -> Road:
        """The nginx of docker-compose.yml, which trusts its clients; both of its instances are this one. cut_off_s: how
        long it waits for an answer, instead of its file's value."""
        public, name = free_port(), "cutting" if cut_off_s else "compose"
        folder, user = self._folder(name)
        settings = replaced(
            (ROOT / "deploy" / "gateway.conf").read_text(),
            {
                "worker_processes auto;": f"worker_processes 1; daemon off; {user}",
                "/tmp/": (6, f"{folder}/"),
                "server seckill-1:8080": (2, f"server 127.0.0.1:{self.backend}"),
                "server seckill-2:8080": (2, f"server 127.0.0.1:{self.backend}"),
                "server seckill-1:8081": f"server 127.0.0.1:{self.for_operators}",
                "server seckill-2:8081": f"server 127.0.0.1:{self.for_operators}",
                "listen 8080;": f"listen 127.0.0.1:{public};",
            }
            | ({"proxy_read_timeout    75s;": f"proxy_read_timeout {cut_off_s}s;"} if cut_off_s else {}),
        )
        (folder / "nginx.conf").write_text(settings)
        self._start(name, ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], public)
        return Road(f"{name} nginx", public, public, False)

    def haproxy(self) -> Road:
        public, operators = free_port(), free_port()
        folder = self.folder / "haproxy"
        folder.mkdir()
        settings = replaced(
            (ROOT / "deploy" / "haproxy.cfg").read_text(),
            {
                "    maxconn 20000\n": "    maxconn 2000\n",
                "    log     127.0.0.1:514 local0 notice\n": "    nbthread 1\n",
                "    log     global\n": "",
                "bind :80\n": f"bind 127.0.0.1:{public}\n",
                "bind 127.0.0.1:8081\n": f"bind 127.0.0.1:{operators}\n",
                "server one 127.0.0.1:8080": (2, f"server one 127.0.0.1:{self.backend}"),
                "server one 127.0.0.1:8082": f"server one 127.0.0.1:{self.for_operators}",
            }
            | ({} if self.limited else HAPROXY_WITHOUT_LIMITS),
        )
        (folder / "haproxy.cfg").write_text(settings)
        self._start("haproxy", ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], public, IN_HAPROXY)
        return Road("HAProxy", public, operators, True)

    def _start(self, name: str, command: list[str], port: int, env: dict[str, str] | None = None) -> None:
        process = Process(name, self.folder / f"{name}.log")
        self.processes.append(process)
        process.start(command, env)

        def answers() -> bool:
            if not process.alive():
                raise RuntimeError(f"{name} has ended: {process.log.read_text()[-500:]}")
            try:
                link = Link(port, 1)
            except OSError:
                return False
            link.send(b"GET /vouchers HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = link.one()
            link.close()
            return answer is not None and answer.status == 200

        wait_for(name, answers)

    def close(self) -> None:
        for process in self.processes:
            process.end(15)
        self.sessions.close()


def starts_haproxy(folder: Path, env: dict[str, str], but: str = "") -> bool:
    """Whether HAProxy accepts its file, without the part `but`, in that environment."""
    settings = folder / "haproxy-secret.cfg"
    settings.write_text((ROOT / "deploy" / "haproxy.cfg").read_text().replace(but, ""))
    others = {name: value for name, value in os.environ.items() if name not in IN_HAPROXY}
    return subprocess.run(["haproxy", "-c", "-f", str(settings)], env=others | env, capture_output=True).returncode == 0


def handing_tokens_on(name: str, road: Road) -> Road:
    """The operators' address forwards Authorization, like a gateway in front of a service that takes users' tokens."""
    return Road(name, road.operators, road.operators, True, True)


def kept_open(backend: int) -> int:
    """Connections to the service that are open now."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = [line.split()[2:4] for line in lines]
    return sum(remote.endswith(f":{backend:04X}") and state == "01" for remote, state in ends)


def missing() -> list[str]:
    return [name for name in ("nginx", "haproxy") if shutil.which(name, path="/usr/sbin:/usr/bin") is None]

