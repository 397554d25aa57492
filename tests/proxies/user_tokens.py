"""Users' tokens, valid ones and invalid ones of every kind."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

KEY = b"key-of-the-tests-of-32-bytes-and"
KID, ISSUER, AUDIENCE = "k1", "https://login.test", "shop"
PUBLIC_KID, PUBLIC = "p1", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"  # RFC 8037, A.2


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


KEYS = f"{KID} HS256 {encoded(KEY)}\n{PUBLIC_KID} EdDSA {PUBLIC}\n"  # a file of SECKILL_TOKEN_KEYS
ENV = {"SECKILL_AUTH": "token", "SECKILL_TOKEN_ISSUER": ISSUER, "SECKILL_TOKEN_AUDIENCE": AUDIENCE}


def claims_of(user: str) -> dict:
    return {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600}


def signed(header: bytes, claims: bytes, key: bytes = KEY) -> str:
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{encoded(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def token(user: str, header: dict | None = None, key: bytes = KEY, **claims: object) -> str:
    """A value of None omits the claim."""
    head = {"alg": "HS256", "typ": "JWT", "kid": KID} | (header or {})
    body = {name: value for name, value in (claims_of(user) | claims).items() if value is not None}
    return signed(json.dumps(head).encode(), json.dumps(body).encode(), key)


def user_of(text: str) -> str | None:
    """The user of a valid token, as the session service sees it."""
    body, _, mac = text.rpartition(".")
    good = encoded(hmac.new(KEY, body.encode(), hashlib.sha256).digest())
    if not hmac.compare_digest(good, mac):
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(body.partition(".")[2] + "=="))
        return claims["sub"] if claims["exp"] > time.time() else None
    except (ValueError, KeyError):
        return None


def bad_tokens(user: str) -> dict[str, str]:
    now = int(time.time())
    good = token(user)
    head, body, mac = good.split(".")
    raw = json.dumps(claims_of(user)).encode()
    plain = b'{"alg":"HS256","kid":"k1"}'
    return {
        "alg none": f"{encoded(json.dumps({'alg': 'none', 'kid': KID}).encode())}.{body}.",
        "alg none, signed": token(user, {"alg": "none"}),
        "HS256 with a public key": token(user, {"kid": PUBLIC_KID}, base64.urlsafe_b64decode(PUBLIC + "=")),
        "HS256 with a public key's text": token(user, {"kid": PUBLIC_KID}, PUBLIC.encode()),
        "another algorithm": token(user, {"alg": "HS512"}),
        "no kid": signed(b'{"alg":"HS256"}', raw),
        "a wrong kid": token(user, {"kid": "k2"}),
        "another key": token(user, key=b"x" * 32),
        "crit": token(user, {"crit": ["exp"]}),
        "expired": token(user, exp=now - 3600),
        "no exp": token(user, exp=None),
        "exp a string": token(user, exp=str(now + 3600)),
        "not yet": token(user, nbf=now + 3600),
        "nbf a string": token(user, nbf="0"),
        "another issuer": token(user, iss="https://other.test"),
        "no issuer": token(user, iss=None),
        "for others": token(user, aud="other"),
        "for others, a list": token(user, aud=["a", "b"]),
        "for nobody": token(user, aud=[]),
        "no sub": token(user, sub=None),
        "an empty sub": token(user, sub=""),
        "a long sub": token(user, sub="a" * 65),
        "an odd sub": token(user, sub="a b"),
        "a number for a sub": token(user, sub=7),
        "duplicate sub": signed(plain, raw[:-1] + b', "sub": "smuggled"}'),
        "duplicate alg": signed(b'{"alg":"HS256","kid":"k1","alg":"none"}', raw),
        "claims that are a list": signed(plain, b"[]"),
        "claims that are no JSON": signed(plain, b"{"),
        "a NUL in sub": signed(plain, raw.replace(user.encode(), user.encode() + b"\\u0000")),
        "6 KB": token(user, more="x" * 4500),
        "one dot": f"{head}.{body}",
        "three dots": f"{good}.x",
        "no dot": "x",
        "nothing": "",
        "bad base64": f"{head}.{body}.{mac[:-1]}*",
        "padding": f"{head}.{body}.{mac}=",
        "a signature cut": f"{head}.{body}.{mac[:-2]}",
        "a signature of nothing": f"{head}.{body}.",
        "a blank behind": f"{good} x",
    }
