"""Tools that must be installed before a contender can run; ./dev setup bench installs them."""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.servers import CONTENDERS

GOPATH = Path("/usr/share/gocode")  # where Debian's packages put the sources of Go libraries
GO_LIBRARIES = ("valyala/fasthttp", "gomodule/redigo", "jackc/pgx/v4")

GO = ("go", *(GOPATH / "src/github.com" / library for library in GO_LIBRARIES))

NEEDED: dict[str, tuple[str | Path, ...]] = {
    "h2o": ("h2o",),
    "webdis": ("webdis",),
    "nginx_lua": ("/usr/sbin/nginx", Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")),
    "redis_benchmark": ("redis-benchmark",),
    "go": GO,
    "go_batch": GO,
    "node": ("node", CONTENDERS / "node/node_modules/.package-lock.json"),
}


def missing(name: str) -> str:
    """What the contender lacks on this machine; empty: nothing."""
    return ", ".join(str(tool) for tool in NEEDED.get(name, ()) if not is_there(tool))


def is_there(tool: str | Path) -> bool:
    return tool.exists() if isinstance(tool, Path) else shutil.which(tool) is not None
