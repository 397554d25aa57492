"""The roads to the service: directly, through nginx and through HAProxy, each with the settings of deploy/, in front of
a service that believes them and of one that checks users' tokens itself.

Without a gateway X-User-Id identifies a buyer, otherwise a token: HAProxy verifies it, nginx asks the session service,
which is a stub here, or the service does it.
"""

from __future__ import annotations

import csv
import os
import shutil
import socket
import subprocess
import sys
import threading
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

from stack import ADMIN_TOKEN, Instance, Process, free_port, wait_for  # noqa: E402
from user_tokens import AUDIENCE, ISSUER, KEY, token, user_of  # noqa: E402
from wire import Link  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


IN_HAPROXY = {"SECRET": KEY.decode(), "ISSUER": ISSUER, "AUDIENCE": AUDIENCE}
# Where web pages of the shop come from: for a service that believes its gateway, and for one that checks tokens.
ORIGINS = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]


class Road:
    """Where requests are sent, and how a buyer is identified. cookie: a browser may show the login as a cookie."""

    def __init__(self, name: str, port: int, operators: int, gateway: bool, tokens: bool = False, cookie: bool = False):
        self.name, self.port, self.operators, self.gateway = name, port, operators, gateway
        self.payments = operators if gateway else port  # of the shop's payment side
        self.tokens = tokens  # the service itself takes users' tokens
        self.cookie = cookie
        self.by: Gateways | None = None
        self.folder = Path()  # of its gateway

    def of(self, gateways: Gateways, folder: Path) -> Road:
        self.by, self.folder = gateways, folder
        return self

    def login(self, user: str, **claims: object) -> tuple[str, str]:
        """The header that identifies the buyer."""
        if self.gateway or self.tokens:
            return "Authorization", f"Bearer {token(user, **claims)}"
        return "X-User-Id", user

    def who(self, user: str) -> bytes:
        """The same as a line, with its line end."""
        return "{}: {}\r\n".format(*self.login(user)).encode()

    def admin(self) -> bytes:
        return f"Authorization: Bearer {ADMIN_TOKEN}\r\n".encode()


class Sessions:
    """The session service that nginx queries."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                kept = SimpleCookie(self.headers.get("Cookie", "")).get("session")
                user = user_of(kept.value if kept else self.headers.get("Authorization", "").removeprefix("Bearer "))
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

    READY = 200

    def __init__(self) -> None:
        ready = self.READY

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(ready if self.path == "/readyz" else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                if self.path == "/seckill/0":
                    self.close_connection = True
                else:
                    self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:  # a gateway that hangs up
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.admin_port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class NotReady(HangsUp):
    """An instance that answers, and says that it is not ready."""

    READY = 503


class Unreachable:
    """A port that answers nothing, as if its machine were gone: its queue is full, so each SYN is dropped."""

    def __init__(self) -> None:
        self.sockets = [socket.socket() for _ in range(4)]
        server, *others = self.sockets
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        self.port = server.getsockname()[1]
        for one in others:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", self.port))

    def close(self) -> None:
        for one in self.sockets:
            one.close()


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
    """nginx and HAProxy in front of an instance, until closed. Both of their instances are this one, unless the second is
    at the port `second`. limited: with the limits as shipped. broken: what to replace in the files, for controls."""

    def __init__(self, folder: Path, instance: Instance | HangsUp, limited: bool = False, second: int = 0, broken=None):
        folder.mkdir(mode=0o755)
        self.folder, self.limited, self.broken = folder, limited, broken or {}
        self.ports, self.for_operators = (instance.port, second or instance.port), instance.admin_port
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

    def nginx(self, login: str = "sessions") -> Road:
        """login: of the file's two variants."""
        public, operators = free_port(), free_port()
        name = f"nginx-{login}"
        folder, user = self._folder(name)
        paths = "\n    ".join(
            f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        changes = {
            "user                 www-data;": f"daemon off; {user}",
            "worker_processes     auto;": "worker_processes 1;",  # so that all connections share its pool
            "/run/nginx.pid": f"{folder}/pid",
            "error_log            /var/log/nginx/error.log warn;": "error_log stderr warn;",
            "access_log    off;": f"{self._log_tried(folder)}\n    {paths}",
            "default sessions;": f"default {login};",
            "server 127.0.0.1:8080 ": (2, f"server 127.0.0.1:{self.ports[0]} "),
            "server 127.0.0.1:8090 ": (2, f"server 127.0.0.1:{self.ports[1]} "),
            "server 127.0.0.1:8082 ": f"server 127.0.0.1:{self.for_operators} ",
            "server 127.0.0.1:8092 ": f"server 127.0.0.1:{self.for_operators} ",
            "127.0.0.1:9000": f"127.0.0.1:{self.sessions.port}",
            "listen 80 default_server;": f"listen 127.0.0.1:{public} default_server;",
            "127.0.0.1:8081": f"127.0.0.1:{operators}",
        }
        self._run_nginx(name, "nginx.conf", changes | ({} if self.limited else NGINX_WITHOUT_LIMITS), public)
        by_sessions = login == "sessions"
        return Road("nginx" if by_sessions else "nginx, tokens", public, operators, True, not by_sessions, by_sessions).of(self, folder)

    def compose(self, cut_off_s: int = 0) -> Road:
        """The nginx of docker-compose.yml, which trusts its clients. cut_off_s: how long it waits for an answer, instead
        of its file's value."""
        public, name = free_port(), "cutting" if cut_off_s else "compose"
        folder, user = self._folder(name)
        changes = {
            "worker_processes auto;": f"worker_processes 1; daemon off; {user}",
            "/tmp/": (6, f"{folder}/"),
            "access_log off;": self._log_tried(folder),
            "server seckill-1:8080 ": (2, f"server 127.0.0.1:{self.ports[0]} "),
            "server seckill-2:8080 ": (2, f"server 127.0.0.1:{self.ports[1]} "),
            "server seckill-1:8081 ": f"server 127.0.0.1:{self.for_operators} ",
            "server seckill-2:8081 ": f"server 127.0.0.1:{self.for_operators} ",
            "listen 8080;": f"listen 127.0.0.1:{public};",
        }
        cut_off = {"proxy_read_timeout    75s;": f"proxy_read_timeout {cut_off_s}s;"} if cut_off_s else {}
        self._run_nginx(name, "gateway.conf", changes | cut_off, public)
        return Road(f"{name} nginx", public, public, False).of(self, folder)

    @staticmethod
    def _log_tried(folder: Path) -> str:
        """A log of the addresses that each request was sent to."""
        return f"log_format tried $upstream_addr; access_log {folder}/tried tried;"

    def _break(self, text: str) -> str:
        return replaced(text, {old: new for old, new in self.broken.items() if old in text})

    def _run_nginx(self, name: str, file: str, changes: dict, port: int) -> None:
        origins = "".join(f"\n        {origin} $http_origin;" for origin in ORIGINS)
        changes |= {"map $http_origin $origin {": f"map $http_origin $origin {{{origins}"}
        for one, some in ((file, changes), ("nginx-problems.conf", {})):
            text = replaced((ROOT / "deploy" / one).read_text(), some)
            (self.folder / name / one).write_text(self._break(text))
        folder = self.folder / name
        self._start(name, ["nginx", "-p", str(folder), "-c", str(folder / file), "-e", "stderr"], port)

    def haproxy(self, tokens: str = "gateway") -> Road:
        """tokens: who checks them."""
        public, operators = free_port(), free_port()
        folder = self.folder / f"haproxy-{tokens}"
        folder.mkdir()
        changes = {
            "    maxconn 20000\n": f"    maxconn 2000\n    stats socket {folder}/stats\n",
            "    log     127.0.0.1:514 local0 notice\n": "    nbthread 1\n",
            "    log     global\n": "",
            "bind :80\n": f"bind 127.0.0.1:{public}\n",
            "bind 127.0.0.1:8081\n": f"bind 127.0.0.1:{operators}\n",
        }
        text = replaced((ROOT / "deploy" / "haproxy.cfg").read_text(), changes | ({} if self.limited else HAPROXY_WITHOUT_LIMITS))
        (folder / "haproxy.cfg").write_text(self._break(text))
        env = {f"INSTANCE_{n}": f"127.0.0.1:{port}" for n, port in enumerate(self.ports, 1)}
        env |= {f"OPERATORS_{n}": f"127.0.0.1:{self.for_operators}" for n in (1, 2)}
        env |= {"ORIGINS": " ".join(ORIGINS), "TOKENS": tokens} | (IN_HAPROXY if tokens == "gateway" else {})
        self._start(f"haproxy-{tokens}", ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], public, env)
        by_service = tokens == "service"
        return Road("HAProxy, tokens" if by_service else "HAProxy", public, operators, True, by_service).of(self, folder)

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


def tried(road: Road, port: int) -> int:
    """How many requests nginx has sent to an instance's port, or tried to."""
    return (road.folder / "tried").read_text().count(f"127.0.0.1:{port}")


def statistics(road: Road, backend: str, server: str) -> dict[str, str]:
    """HAProxy's, of one of its servers."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(road.folder / "stats"))
        link.sendall(b"show stat\n")
        rows = csv.DictReader(link.makefile().read().removeprefix("# ").splitlines())
    return next(row for row in rows if (row["pxname"], row["svname"]) == (backend, server))


def kept_open(backend: int) -> int:
    """Connections to the service that are open now."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = [line.split()[2:4] for line in lines]
    return sum(remote.endswith(f":{backend:04X}") and state == "01" for remote, state in ends)


def missing() -> list[str]:
    lost = [name for name in ("nginx", "haproxy") if shutil.which(name, path="/usr/sbin:/usr/bin") is None]
    lost += ["node"] * (shutil.which("node") is None)
    return lost + ["playwright-core"] * (not (ROOT / "tests/browser/node_modules/playwright-core").exists())

