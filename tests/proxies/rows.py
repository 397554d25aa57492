"""The requests to send: the input table, and requests that two parsers may interpret differently.

A row has the bytes of one request, or of something similar, and the allowed results. Without a gateway the statuses are
exact. A gateway may answer itself, or correct the request; the row then lists further results. The checker ensures what
must hold in any case: one answer for each request, its own; no purchase without an answer, and none of another user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from user_tokens import bad_tokens

PLACED, ASYNC = 201, 202


@dataclass
class Ask:
    """The parts from which a row's bytes are built."""

    voucher: str
    others: dict[str, str]  # vouchers by their defect
    user: str
    who: bytes  # the header line that identifies the user
    admin: bytes
    smuggled: bytes  # a whole purchase by another user

    def head(self, method: str, target: str, fields: bytes = b"", who: bytes | None = None, end: bytes = b"\r\n") -> bytes:
        first = f"{method} {target} HTTP/1.1\r\nHost: test\r\n".encode("latin-1")
        return first + (self.who if who is None else who) + fields + end

    def buy(self, fields: bytes = b"", body: bytes = b"", target: str | None = None, who: bytes | None = None) -> bytes:
        return self.head("POST", target or f"/seckill/{self.voucher}", fields, who) + body

    def body(self, body: bytes, kind: bytes = b"application/json", target: str | None = None) -> bytes:
        fields = b"Content-Length: %d\r\n" % len(body) + (b"Content-Type: " + kind + b"\r\n" if kind else b"")
        return self.buy(fields, body, target)

    def create(self, body: bytes, who: bytes | None = None) -> bytes:
        fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        return self.head("POST", "/admin/vouchers", fields, self.admin if who is None else who) + body


@dataclass
class Row:
    name: str
    make: Callable[[Ask], bytes]
    direct: tuple[int, ...]  # statuses of the first answer; 0: the connection ends, or stays silent, without one
    gateway: tuple[int, ...] = ()  # in addition to those; (-1,): any, but not 0
    instead: bool = False  # `gateway` replaces the others
    most: int = 1  # the maximum number of answers, if every possible request is counted
    most_gateway: int = 0  # the same behind a gateway; 0: as above
    closes: bool = False  # without a gateway the connection ends
    raw: bool = False  # the answer may belong to another protocol
    library: bool = False  # rejected by libmicrohttpd itself, whose version 0.9.75 writes the head of that answer twice
    operators: bool = False  # at the operators' address
    code: str = ""  # of the problem, where the service answers
    same: str = ""  # rows with this mark get the same body if the service answers


ANY = (-1,)


def ids() -> list[Row]:
    bad = ("", "abc", "0", "-1", "+1", "01", "1.0", "1e3", str(2**63), str(2**64 + 1), "4" * 400, "1%00x", "%FF")
    bad += ("\xef\xbc\x91\xef\xbc\x92",)
    rows = [
        Row(f"voucher id {one[:20]!r}", lambda a, one=one: a.buy(target=f"/seckill/{one}", fields=b"Content-Length: 0\r\n"), (400,), (404,))
        for one in bad
    ]
    places = ("/seckill/999999", "/seckill/{v}/", "//seckill/{v}", "/seckill/..", "/seckill/../seckill/{v}", "/..", "/SECKILL/{v}")
    rows += [
        Row(f"place {one}", lambda a, one=one: a.buy(target=one.format(v=a.voucher), fields=b"Content-Length: 0\r\n"), (404,), (400, 401))
        for one in places
    ]
    return rows


def sale() -> list[Row]:
    rows = [
        Row(code, lambda a, code=code: a.buy(b"Content-Length: 0\r\n", target=f"/seckill/{a.others[code]}"), (409,), code=code)
        for code in ("SOLD_OUT", "NOT_STARTED", "ENDED", "PAUSED")
    ]
    rows += [
        Row(f"quantity {one}", lambda a, one=one: a.body(b'{"quantity":%s}' % one.encode()), (422,))
        for one in ("0", "-1", "1.5", '"1"', str(2**31), "3", "null")
    ]
    rows += [
        Row("more than is left", lambda a: a.body(b'{"quantity":2}', target=f"/seckill/{a.others['ONE_LEFT']}"), (409,), code="NOT_ENOUGH"),
        Row("Prefer: xrespond-async", lambda a: a.buy(b"Content-Length: 0\r\nPrefer: xrespond-async\r\n"), (PLACED,)),
        Row("Prefer: wait=5, respond-async", lambda a: a.buy(b"Content-Length: 0\r\nPrefer: wait=5, respond-async\r\n"), (ASYNC,)),
        Row("an absolute target", lambda a: a.buy(b"Content-Length: 0\r\n", target=f"http://test/seckill/{a.voucher}"), (PLACED,)),
        Row("Idempotency-Key of 0", lambda a: a.buy(b"Content-Length: 0\r\nIdempotency-Key:\r\n"), (422,), (PLACED,)),
        Row("Idempotency-Key of 256", lambda a: a.buy(b"Content-Length: 0\r\nIdempotency-Key: " + b"k" * 256 + b"\r\n"), (422,)),
        Row("Idempotency-Key, odd", lambda a: a.buy(b"Content-Length: 0\r\nIdempotency-Key: \xc3\xa9\r\n"), (422,), (400,)),
        Row("Idempotency-Key, two", lambda a: a.buy(b"Content-Length: 0\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n"), (422,)),
    ]
    return rows


def methods() -> list[Row]:
    rows = []
    for method, status in (("GET", 405), ("PUT", 405), ("DELETE", 405), ("TRACE", 405), ("OPTIONS", 405), ("BREW", 501), ("post", 501)):
        make = lambda a, method=method: a.head(method, f"/seckill/{a.voucher}", b"Content-Length: 0\r\n" if method != "GET" else b"")
        rows.append(Row(f"method {method}", make, (status,), (400, 405, 501)))
    return rows


def users() -> list[Row]:
    plain = b"Content-Length: 0\r\n"
    x = b"X-User-Id: "
    return [
        Row("no user", lambda a: a.buy(plain, who=b""), (401,)),
        Row("a blank behind the user", lambda a: a.buy(plain, who=a.who.replace(b"\r\n", b" \t\r\n")), (PLACED,), (401,)),
        Row("two users", lambda a: a.buy(plain, who=a.who + x + b"smuggled\r\n"), (401,), (PLACED,)),
        Row("two users, the other first", lambda a: a.buy(plain, who=x + b"smuggled\r\n" + a.who), (401,), (PLACED,)),
        Row("a user in another case", lambda a: a.buy(plain, who=b"x-uSER-iD: smuggled\r\n" + a.who), (401,), (PLACED,)),
        Row("a user with underscores", lambda a: a.buy(plain, who=b"X_User_Id: smuggled\r\n"), (401,)),
        Row("a user with an underscore", lambda a: a.buy(plain, who=b"X-User_Id: smuggled\r\n"), (401,)),
        Row("a user with underscores, too", lambda a: a.buy(plain, who=b"X_User_Id: smuggled\r\n" + a.who), (PLACED,)),
        Row("a user of a wrong form", lambda a: a.buy(plain, who=x + b"a@b\r\n"), (401,), code="UNAUTHENTICATED"),
        Row("bytes above 127", lambda a: a.buy(plain, who=x + b"al\xc3\xafce\r\n"), (401,), (400,)),
        Row("a user that is hop-by-hop", lambda a: a.buy(plain + b"Connection: keep-alive, X-User-Id\r\n"), (PLACED,), (401,)),
        Row("a user in a trailer", lambda a: a.buy(b"Transfer-Encoding: chunked\r\nTrailer: X-User-Id\r\n", b"0\r\nX-User-Id: smuggled\r\n\r\n"), (PLACED, 401), ANY),
        Row("a user behind a bare CR", lambda a: a.buy(plain, who=b"X-A: b\r" + x + b"smuggled\r\n"), (400,), (401, 400), closes=True),
        Row("another's token", lambda a: a.buy(plain, who=b"Authorization: Bearer a.b.c\r\n"), (401,)),
        Row("an order in capitals, without dashes", lambda a: a.head("GET", f"/orders/{a.others['ORDER'].replace('-', '').upper()}"), (404,), code="NOT_FOUND"),
        Row("another user's order", lambda a: a.head("GET", f"/orders/{a.others['ORDER']}"), (404,)),
    ]


def admins() -> list[Row]:
    def make(who: bytes) -> Callable[[Ask], bytes]:
        return lambda a: a.head("GET", "/admin/vouchers", who=who)

    rows = [
        Row(f"admin: {name}", make(who), (401,), (400,), operators=True)
        for name, who in (
            ("no token", b""),
            ("Basic", b"Authorization: Basic YTpi\r\n"),
            ("a wrong one", b"Authorization: Bearer nothing\r\n"),
            ("a user", b"X-User-Id: alice\r\n"),
        )
    ]
    rows.append(Row("admin: two tokens", lambda a: a.head("GET", "/admin/vouchers", who=a.admin + a.admin), (401,), (400,), operators=True))
    bodies = (b'{"stock":-1}', b'{"title":"t","stock":1.5,"price_cents":1,"begin_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z"}')
    bodies += (b'{"title":"t","stock":1,"price_cents":1,"begin_at":"2027-01-01T00:00:00Z","end_at":"2026-01-01T00:00:00Z"}',)
    rows += [Row(f"terms {n}", lambda a, body=body: a.create(body), (400, 422), operators=True) for n, body in enumerate(bodies)]
    rows += [
        Row("an older version", lambda a: a.head("PATCH", f"/admin/vouchers/{a.voucher}", b'If-Match: "424242"\r\nContent-Type: application/json\r\nContent-Length: 13\r\n', a.admin) + b'{"title":"x"}', (412,), operators=True),
        Row("admin calls at the buyers' address", lambda a: a.head("GET", "/admin/vouchers", who=b"Authorization: Bearer x\r\n"), (404,)),
        Row("payments at the buyers' address", lambda a: a.head("POST", f"/orders/{a.others['ORDER']}/pay", b"Content-Length: 0\r\n", b"Authorization: Bearer x\r\n"), (401,), (404,), instead=True),
        Row("a cursor that was made up", lambda a: a.head("GET", "/vouchers?cursor=" + "A" * 32), (422,)),
        Row("limit 0", lambda a: a.head("GET", "/vouchers?limit=0"), (422,)),
        Row("limit 10^9", lambda a: a.head("GET", "/vouchers?limit=1000000000"), (422,)),
        Row("the last 0 of the feed", lambda a: a.head("GET", "/admin/events?last=0", who=a.admin), (422,), operators=True),
        Row("the last 10^9 of the feed", lambda a: a.head("GET", "/admin/events?last=1000000000", who=a.admin), (422,), operators=True),
    ]
    return rows


def pages() -> list[Row]:
    """Paths of pages, and variations that might lead to something else."""
    there = [Row(f"page {path}", lambda a, path=path: a.head("GET", path), (200,)) for path in ("/", "/?lang=zh", "/web/settings.json")]
    nowhere = ("/web/", "/web/nothing", "/web/..", "/web/../orders", "/web/%2e%2e/orders", "/web/..%2forders", "/web/%2e%2e/%2e%2e/etc/passwd")
    nowhere += ("/web/settings.json%00", "/web/\\..\\x", "/web//settings.json", "/index.html", "/pay", "/demo/orders")
    rows = [Row(f"no page {path}", lambda a, path=path: a.head("GET", path), (404,), (400, 401)) for path in nowhere]
    rows += [
        Row("a page is not written", lambda a: a.head("POST", "/", b"Content-Length: 0\r\n"), (405,)),
        Row("a page with a body", lambda a: a.head("GET", "/web/settings.json", b"Content-Length: 2\r\n") + b"{}", (200,)),
        Row("the dashboard at the buyers' address", lambda a: a.head("GET", "/admin/ui"), (404,)),
        Row("the dashboard", lambda a: a.head("GET", "/admin/ui"), (200,), operators=True),
        Row("a payment of the demo", lambda a: a.head("POST", f"/demo/orders/{a.others['ORDER']}/pay", b"Content-Length: 0\r\n"), (404,)),
    ]
    return there + rows


def bodies() -> list[Row]:
    deep = b"[" * 10000
    odd = (b"{", b"{}x", b'{"quantity":1,"quantity":1}', b'{"quantity":NaN}', b'{"a":"\\u0000"}', b'{"a":"\\ud800"}', b'{"quantity":1e999}')
    rows = [Row(f"body {body[:24]!r}", lambda a, body=body: a.body(body), (400,)) for body in (*odd, deep, b'{"unknown":1}')]
    rows += [
        Row("text/plain", lambda a: a.body(b'{"quantity":1}', b"text/plain"), (415,)),
        Row("no type", lambda a: a.body(b'{"quantity":1}', b""), (415,)),
        Row("an empty object", lambda a: a.body(b"{}"), (PLACED,)),
        Row("a body in gzip", lambda a: a.buy(b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n", b"\x1f\x8b"), (415,), code="UNSUPPORTED_ENCODING"),
        Row("a body over the limit", lambda a: a.body(b" " * 20000), (413,), (400,)),
        Row("a length over the limit", lambda a: a.buy(b"Content-Length: 9223372036854775807\r\n"), (413,), (400, 0)),
        Row("a chunked body over the limit", lambda a: a.buy(b"Transfer-Encoding: chunked\r\n", (b"2000\r\n" + b" " * 8192 + b"\r\n") * 3 + b"0\r\n\r\n"), (413,), (400,)),
    ]
    for value in ("-1", "five", "5x", "0x5", "5, 5", "5,6", "+5", "5 5", "\x0b5", "5\t", str(2**64 + 1), ""):
        make = lambda a, value=value: a.buy(f"Content-Length: {value}\r\n".encode(), b"12345")
        status = (400, 413, 415, 0)
        rows.append(Row(f"Content-Length: {value!r}", make, status, (411, PLACED, 401, 415), most=2, library=True))
    return rows


def heads() -> list[Row]:
    plain = b"Content-Length: 0\r\n"
    rows = [
        Row("no Host", lambda a: a.buy(plain).replace(b"Host: test\r\n", b""), (400,), closes=True),
        Row("two Hosts", lambda a: a.buy(plain + b"Host: other\r\n"), (400,), closes=True),
        Row("a Host and another target", lambda a: a.buy(plain, target=f"http://other/seckill/{a.voucher}"), (PLACED,), (400,)),
        Row("a folded line", lambda a: a.buy(plain + b"X: a\r\n b\r\n"), (400,), (PLACED,), closes=True),
        Row("a folded first line", lambda a: a.buy(plain).replace(b"Host:", b" X: y\r\nHost:"), (400,), (PLACED,), closes=True),
        Row("a long target", lambda a: a.buy(plain, target=f"/seckill/{a.voucher}?" + "a" * 20000), (414, 431, 400), ANY),
        Row("a long field", lambda a: a.buy(plain + b"X: " + b"a" * 40000 + b"\r\n"), (431, 400), ANY),
        Row("many fields", lambda a: a.buy(plain + b"".join(b"X-%d: y\r\n" % n for n in range(2000))), (431, 400), ANY),
        Row("HTTP/0.9", lambda a: b"GET /vouchers\r\n\r\n", (400, 505, 0), ANY, raw=True),
        Row("HTTP/1.2", lambda a: a.buy(plain).replace(b"HTTP/1.1", b"HTTP/1.2"), (PLACED, 400, 505), ANY),
        Row("HTTP/2.0", lambda a: a.buy(plain).replace(b"HTTP/1.1", b"HTTP/2.0"), (PLACED, 400, 505, 0), ANY),
        Row("HTTP/1.0", lambda a: a.buy(plain).replace(b"HTTP/1.1", b"HTTP/1.0"), (PLACED,), ANY),
        Row("an HTTP/2 preface", lambda a: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", (400, 404, 405, 501, 505, 0), ANY, most=2, raw=True),
        Row("a TLS hello", lambda a: b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + b"r" * 189, (400, 0), ANY, raw=True),
        Row("h2c", lambda a: a.buy(plain + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), (PLACED,), ANY),
        Row("Expect without a body", lambda a: a.buy(b"Expect: 100-continue\r\n"), (PLACED,), ANY),
        Row("an unknown Expect", lambda a: a.buy(plain + b"Expect: x\r\n"), (400, 417, PLACED), ANY),
        Row("two blanks", lambda a: a.buy(plain).replace(b"POST ", b"POST  "), (400,), ANY, closes=True),
        Row("two blanks behind the target", lambda a: a.buy(plain).replace(b" HTTP/1.1", b"  HTTP/1.1"), (400,), ANY, closes=True),
        Row("a blank in the target", lambda a: a.buy(plain, target=f"/seckill/ {a.voucher}"), (400,), ANY, closes=True),
        Row("a blank in the query", lambda a: a.head("GET", "/vouchers/events?ids=1, 2"), (400,), ANY, closes=True),
        Row("blanks behind values", lambda a: a.buy(plain + b"Idempotency-Key: k \t\r\n").replace(b"Host: test", b"Host: test \t"), (PLACED,), (400,)),
        Row("a blank behind a length", lambda a: a.buy(b"Content-Length: 0 \r\n"), (400,), (PLACED,), library=True),
        Row("a line without a colon", lambda a: a.buy(plain + b"nothing\r\n"), (400, PLACED), ANY),
        Row("an empty name", lambda a: a.buy(plain + b": x\r\n"), (400,), ANY),
    ]
    # What fills the memory of a connection: an order is answered, or not placed.
    for n in range(6400, 8600, 70):
        pad = b"".join(b"X: " + b"a" * min(2900, n - at) + b"\r\n" for at in range(0, n, 2900))
        rows.append(Row(f"a head of about {n} bytes", lambda a, pad=pad: a.buy(plain + pad), (PLACED, 431), ANY))
    for n in range(100, 130):
        rows.append(Row(f"{n} short fields", lambda a, n=n: a.buy(plain + b"a:b\r\n" * n), (PLACED, 431), ANY))
    for byte in (0, 1, 11, 12, 13, 127):
        rows.append(Row(f"byte {byte} in a value", lambda a, b=byte: a.buy(plain + b"X: a" + bytes([b]) + b"b\r\n"), (400,), (PLACED,), closes=True))
        rows.append(Row(f"byte {byte} in a name", lambda a, b=byte: a.buy(plain + b"X" + bytes([b]) + b"Y: b\r\n"), (400,), (PLACED,), closes=True))
        rows.append(Row(f"byte {byte} in the method", lambda a, b=byte: a.buy(plain).replace(b"POST", b"PO" + bytes([b]) + b"ST"), (400,), ANY, closes=True))
        rows.append(Row(f"byte {byte} in the target", lambda a, b=byte: a.buy(plain).replace(b" HTTP/1.1", bytes([b]) + b" HTTP/1.1"), (400, 404), ANY))
    return rows


def pairs() -> list[Row]:
    """The known ways to smuggle a request. Behind a gateway any status is allowed: the purchases count, and that the
    next answer belongs to the next request."""
    chunked = b"Transfer-Encoding: chunked\r\n"
    end = b"0\r\n\r\n"

    def row(name: str, make: Callable[[Ask], bytes], direct: tuple[int, ...] = (400,), closes: bool = True, most: int = 1, library: bool = False) -> Row:
        return Row(name, make, direct, ANY, most=most, most_gateway=2, closes=closes, library=library)

    def cl(a: Ask, body: bytes) -> bytes:
        return b"Content-Length: %d\r\n" % len(body)

    def both(a: Ask, te: bytes) -> bytes:
        body = end + a.smuggled
        return a.buy(cl(a, body) + te, body)

    def inside(a: Ask, te: bytes = chunked, length: bytes = b"4") -> bytes:
        body = b"%x\r\n" % len(a.smuggled) + a.smuggled + b"\r\n" + end
        return a.buy(b"Content-Length: " + length + b"\r\n" + te, body)

    rows = [
        row("CL.TE", lambda a: both(a, chunked)),
        row("TE.CL", lambda a: inside(a)),
        row("TE before CL", lambda a: a.buy(chunked + cl(a, end + a.smuggled), end + a.smuggled)),
        row("CL 0 and TE", lambda a: a.buy(b"Content-Length: 0\r\n" + chunked, end + a.smuggled)),
        row("two lengths, the first whole", lambda a: a.buy(cl(a, a.smuggled) + b"Content-Length: 0\r\n", a.smuggled)),
        row("two lengths, the second whole", lambda a: a.buy(b"Content-Length: 0\r\n" + cl(a, a.smuggled), a.smuggled)),
        row("two equal lengths", lambda a: a.buy(cl(a, a.smuggled) * 2, a.smuggled), (400, 415)),
        row("a list of lengths", lambda a: a.buy(b"Content-Length: 0, %d\r\n" % len(a.smuggled), a.smuggled), library=True),
        row("a folded length", lambda a: a.buy(b"Content-Length:\r\n %d\r\n" % len(a.smuggled), a.smuggled)),
        row("a folded TE", lambda a: both(a, b"Transfer-Encoding:\r\n chunked\r\n")),
        row("a folded TE, its name", lambda a: both(a, b"X: y\r\n Transfer-Encoding: chunked\r\n")),
        row("CL, a blank before the colon", lambda a: a.buy(b"Content-Length : %d\r\n" % len(a.smuggled), a.smuggled)),
        row("CL, a tab before the colon", lambda a: a.buy(b"Content-Length\t: %d\r\n" % len(a.smuggled), a.smuggled)),
        row("CL, a NUL before the colon", lambda a: a.buy(b"Content-Length\0: %d\r\n" % len(a.smuggled), a.smuggled)),
        row("CL with an underscore", lambda a: a.buy(b"Content_Length: %d\r\nContent-Length: 0\r\n" % len(a.smuggled)), (PLACED,), False),
        row("CL.0", lambda a: a.head("GET", "/vouchers", cl(a, a.smuggled)) + a.smuggled, (200,), False),
        row("CL.0, a call without a body", lambda a: a.head("POST", f"/orders/{a.others['ORDER']}/cancel", cl(a, a.smuggled)) + a.smuggled, (404, 409), False),
        row("CL.0, no such call", lambda a: a.head("POST", "/vouchers", cl(a, a.smuggled)) + a.smuggled, (405,), False),
        row("CL.0, a bad id", lambda a: a.head("POST", "/seckill/x", cl(a, a.smuggled)) + a.smuggled, (400,), False),
        row("0.CL", lambda a: a.head("GET", "/vouchers", chunked) + end, (200,), False),
        row("a body behind HEAD", lambda a: a.head("HEAD", "/vouchers", cl(a, a.smuggled)) + a.smuggled, (200,), False),
        row("Expect and a body", lambda a: a.buy(cl(a, a.smuggled) + b"Expect: 100-continue\r\n", a.smuggled), (415, 400), False),
        row("Expect and no body", lambda a: a.buy(b"Content-Length: 0\r\nExpect: 100-continue\r\n") + a.head("GET", f"/vouchers/{a.voucher}"), (PLACED,), False, 2),
    ]
    forms = (
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding\t: chunked\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Transfer-Encoding: chunked\x0b\r\n",
        b'Transfer-Encoding: "chunked"\r\n',
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: identity, chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked;x=y\r\n",
        b"Transfer-Encoding: chunked \r\n",
        b"Transfer-Encoding:chunked\r\n",
        b"TRANSFER-ENCODING: CHUNKED\r\n",
        b"Transfer-Encoding:\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n",
        b"X: y\rTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\nX: y\r\n",
        b"Transfer\0-Encoding: chunked\r\n",
        b"Transfer_Encoding: chunked\r\n",
        b" Transfer-Encoding: chunked\r\n",
    )
    for te in forms:
        free = te in (b"Transfer_Encoding: chunked\r\n",)  # an ordinary field: the length counts
        rows.append(row(f"TE.TE with CL {te!r}", lambda a, te=te: both(a, te), (415,) if free else (400,), not free))
        rows.append(row(f"TE.TE in a chunk {te!r}", lambda a, te=te: inside(a, te, b"0"), (PLACED,) if free else (400,), not free, 2 if free else 1))
    rows += chunks()
    rows += [
        row("bare LF, all", lambda a: (b"POST /seckill/%s HTTP/1.1\nHost: test\n" % a.voucher.encode()) + a.who.replace(b"\r", b"") + b"Content-Length: 0\n\n" + a.smuggled),
        row("bare LF, the length's line", lambda a: a.buy(b"X: y\nContent-Length: %d\r\n" % len(a.smuggled), a.smuggled)),
        row("bare LF, the end of the head", lambda a: a.buy(b"Content-Length: 0\r\n")[:-2] + b"\n" + a.smuggled, (400,), True, 1),
        row("a length behind a bare CR", lambda a: a.buy(b"X: y\rContent-Length: %d\r\n" % len(a.smuggled), a.smuggled)),
        row("TE of HTTP/1.0", lambda a: a.buy(chunked + b"Connection: keep-alive\r\n", end + a.smuggled).replace(b"HTTP/1.1", b"HTTP/1.0", 1), (PLACED, 400)),
        row("a length that is hop-by-hop", lambda a: a.buy(cl(a, a.smuggled) + b"Connection: keep-alive, Content-Length\r\n", a.smuggled), (415,), False),
        row("TE that is hop-by-hop", lambda a: a.buy(chunked + b"Connection: keep-alive, Transfer-Encoding\r\n", b"%x\r\n" % len(a.smuggled) + a.smuggled + b"\r\n" + end), (415,), False),
        row("CR LF in the target", lambda a: a.buy(b"Content-Length: 0\r\n", target=f"/vouchers%0d%0aX-User-Id:%20smuggled%0d%0a"), (404,), False),
    ]
    return rows


def chunks() -> list[Row]:
    """Chunks whose sizes two parsers may read differently. The body is never a valid purchase, so nothing is bought."""
    rows = []
    forms: list[tuple[str, Callable[[bytes], bytes]]] = [
        ("an extension", lambda s: b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("an extension in quotes", lambda s: b'%x;a="b\\"c"\r\n%s\r\n0\r\n\r\n' % (len(s), s)),
        ("an extension that ends with a bare LF", lambda s: b"2;\nxx\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("a last extension that ends with a bare LF", lambda s: b"0;\n\r\n" + s),
        ("a bare CR in an extension", lambda s: b"2;\rxx\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("a bare LF behind the size", lambda s: b"%x\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("a bare LF behind the data", lambda s: b"%x\r\n%s\n0\r\n\r\n" % (len(s), s)),
        ("nothing behind the data", lambda s: b"%x\r\n%s0\r\n\r\n" % (len(s), s)),
        ("0x", lambda s: b"0x%x\r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("a sign", lambda s: b"+%x\r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("less than nothing", lambda s: b"-1\r\n%s\r\n0\r\n\r\n" % s),
        ("a blank before the size", lambda s: b" %x\r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("a blank behind the size", lambda s: b"%x \r\n%s\r\n0\r\n\r\n" % (len(s), s)),
        ("an underscore", lambda s: b"0_0\r\n%s\r\n0\r\n\r\n" % s),
        ("more than 64 bits", lambda s: b"10000000000000000\r\n%s\r\n0\r\n\r\n" % s),
        ("many zeros", lambda s: b"%s%x\r\n%s\r\n0\r\n\r\n" % (b"0" * 40, len(s), s)),
        ("no size", lambda s: b"\r\n%s\r\n0\r\n\r\n" % s),
        ("no number", lambda s: b"zz\r\n%s\r\n0\r\n\r\n" % s),
        ("no end", lambda s: b"%x\r\n%s\r\n" % (len(s), s)),
        ("trailers", lambda s: b"%x\r\n%s\r\n0\r\nX: y\r\nContent-Length: 5\r\n\r\n" % (len(s), s)),
        ("a trailer that is a request", lambda s: b"2\r\nxx\r\n0\r\n" + s),
    ]
    for name, form in forms:
        make = lambda a, form=form: a.buy(b"Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n", form(a.smuggled))
        # If a gateway reads the last chunk before the hidden purchase, that becomes a separate request of the same
        # client, who is not identified without a token.
        placed = (PLACED,) if name == "a last extension that ends with a bare LF" else ()  # read as an empty body
        rows.append(Row(f"chunk: {name}", make, (400, 415, 413, 0, *placed), ANY, most=1, most_gateway=2, closes=True))
    return rows


def tokens() -> list[Row]:
    """For a service that takes users' tokens itself."""
    plain = b"Content-Length: 0\r\n"

    def bearer(text: str) -> bytes:
        return f"Authorization: Bearer {text}\r\n".encode()

    rows = [
        Row(f"token: {name}", lambda a, name=name: a.buy(plain, who=bearer(bad_tokens(a.user)[name])), (401,), (400, 431), same="401")
        for name in bad_tokens("x")
    ]
    rows += [
        Row("token: none", lambda a: a.buy(plain, who=b""), (401,), same="401"),
        Row("token: Basic", lambda a: a.buy(plain, who=b"Authorization: Basic YTpi\r\n"), (401,), same="401"),
        Row("token: two fields", lambda a: a.buy(plain, who=a.who + a.who), (401,), (400,), same="401"),
        Row("token: two, one of another", lambda a: a.buy(plain, who=a.who + bearer("x")), (401,), (400,), same="401"),
        Row("token: an admin's", lambda a: a.buy(plain, who=a.admin), (401,), same="401"),
        Row("token: X-User-Id alone", lambda a: a.buy(plain, who=b"X-User-Id: smuggled\r\n"), (401,), same="401"),
        Row("token: good", lambda a: a.buy(plain), (PLACED,)),
        Row("token: X-User-Id beside it", lambda a: a.buy(plain, who=b"X-User-Id: smuggled\r\n" + a.who), (PLACED,)),
        Row("token: X-User-Id twice", lambda a: a.buy(plain, who=a.who + b"X-User-Id: smuggled\r\n" * 2), (PLACED,)),
        Row("token: X_User_Id", lambda a: a.buy(plain, who=a.who + b"X_User_Id: smuggled\r\n"), (PLACED,)),
        Row("token: for admin calls", lambda a: a.head("GET", "/admin/vouchers"), (401,), (404,)),
        Row("token: another user's order", lambda a: a.head("GET", f"/orders/{a.others['ORDER']}"), (404,)),
    ]
    return rows


def all_rows() -> list[Row]:
    return [*ids(), *sale(), *methods(), *users(), *admins(), *pages(), *bodies(), *heads(), *pairs()]
