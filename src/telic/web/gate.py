"""Who may ask: every request names this host, comes from no other page, and has the token.

The token comes as a header (programs), or as a cookie that is set once from the address that
`telic serve` prints (browsers). A share link gives a cookie of its own, which reads one thing and
changes nothing, until the link is withdrawn. Every answer leaves through here, too: without keys of
model providers, and with headers that let a page load nothing from elsewhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter
from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telic.connections import body_refusal, is_bearer, is_loopback, is_token
from telic.core.config import Record
from telic.errors import TelicError, UnknownName
from telic.llm.keys import redact
from telic.storage.files import read_record, write_json
from telic.storage.keys import user_key
from telic.storage.locks import taking_turns
from telic.web.place import WebPlace

TOKEN_VARIABLE = "TELIC_WEB_TOKEN"
API = "/api"
SHARE = "/share/"
BODY_BYTES = 4 << 20
_SAFE = ("GET", "HEAD")
_YEAR_S = 365 * 24 * 3600
_TEXT = ("application/json", "text/", "application/javascript")
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:;"
    " style-src 'self' 'unsafe-inline'; script-src 'self' 'wasm-unsafe-eval';"
    " worker-src 'self' blob:; connect-src 'self' blob: data:; frame-src 'self';"
    " object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; img-src 'self' data:; media-src 'self' data: blob:;"
    " style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'self'"
)
"""for pages that runs made: they may draw, and reach nothing"""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_NO_TOKEN = """<!doctype html><meta charset="utf-8"><title>telic</title>
<meta name="viewport" content="width=device-width"><style>body{font:16px/1.5 system-ui;margin:15vh
auto;max-width:34rem;padding:0 1rem;color-scheme:light dark}code{font-weight:600}</style>
<h1>This page needs its token</h1><p>Open the whole address that <code>telic serve</code> printed in
your terminal; it ends in <code>?token=…</code>. The browser remembers it after that.</p>
<p>A share link that leads here was withdrawn, or is not whole.</p>"""
_SHARES_FILE = ".shares.json"
_SIGNATURE_LETTERS = 64
_MOST_SHARES = 1000


class Grant(NamedTuple):
    """What somebody may do."""

    thing: str | None = None
    """the only thing that may be read; None: everything may be read and done"""

    @property
    def is_full(self) -> bool:
        """Whether nothing is held back."""
        return self.thing is None

    def allows(self, method: str, path: str) -> bool:
        """Say whether a request may be made."""
        if self.thing is None:
            return True
        home = f"{API}/things/{self.thing}"
        is_read = path in (f"{API}/about", home) or path.startswith(f"{home}/")
        return method in _SAFE and (is_read or not path.startswith(API))


class WebGate:
    """Stands before the application."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        shared_thing: Callable[[str], str | None] = lambda share: None,
    ) -> None:
        self._app = app
        self._token = token
        self._shared_thing = shared_thing
        """the thing that a share link shows; None: it shows nothing any more"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal or a cookie, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        await (answer or self._app)(scope, receive, _leaving(scope, send))

    def _answer(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), str(scope["path"])
        if not _is_this_machine(headers.get("host", "")):
            return _refusal(421, "This host is not served here.")
        if refusal := _foreign(scope["method"], headers):
            return refusal
        if greeting := self._greeting(scope, path):
            return greeting
        grant = self._grant(headers)
        if grant is None:
            if path.startswith(API):
                hint = "Send the token that telic serve printed: Authorization: Bearer TOKEN."
                return _refusal(401, "A token is needed.", hint)
            return HTMLResponse(_NO_TOKEN, 401)
        if not grant.allows(scope["method"], path):
            return _refusal(403, "A share link shows one thing, and changes nothing.")
        scope["grant"] = grant
        refusal = body_refusal(headers, BODY_BYTES)
        return None if refusal is None else _refusal(*refusal)

    def _greeting(self, scope: Scope, path: str) -> Response | None:
        """Turn a token in an address into a cookie, so that it stays in no history."""
        if scope["method"] not in _SAFE:
            return None
        if path.startswith(SHARE):
            share = path.removeprefix(SHARE)
            thing = self._shared_thing(share)
            if thing is None:
                return HTMLResponse(_NO_TOKEN, 401)
            return _with_cookie(f"/things/{quote(thing)}", "share", share)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == "token"), None)
        if token is None or path.startswith(API) or not is_token(token, self._token):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash at most: "//elsewhere" would lead away.
        place = "/" + quote(path.lstrip("/")) + (f"?{rest}" if rest else "")
        return _with_cookie(place, "token", token)

    def _grant(self, headers: Headers) -> Grant | None:
        if "authorization" in headers:
            return Grant() if is_bearer(headers, self._token) else None
        cookies = _cookies(headers)
        if is_token(cookies.get("telic_token", ""), self._token):
            return Grant()
        thing = self._shared_thing(cookies.get("telic_share", ""))
        return None if thing is None else Grant(thing)


def _is_this_machine(host: str) -> bool:
    """Say whether a Host header names this machine; a name of elsewhere may lead here by DNS."""
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    name = (name or port).strip("[]").lower()
    return is_loopback(name)


def _foreign(method: str, headers: Headers) -> Response | None:
    """Refuse what a page of another origin asks for, were it on this machine."""
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return _refusal(403, "Pages of other origins are not served.")
    came_from = headers.get("sec-fetch-site", "none")
    is_opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if came_from not in ("none", "same-origin") and not is_opened:
        return _refusal(403, "Pages of other origins are not served.")
    is_page = "cookie" in headers and "authorization" not in headers
    if method not in _SAFE and is_page and origin is None and came_from != "same-origin":
        return _refusal(403, "A request that changes something has to say its origin.")
    return None


def _refusal(status: int, message: str, hint: str | None = None) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"message": message, "hint": hint}, status, headers)


def _cookies(headers: Headers) -> dict[str, str]:
    try:
        return {name: each.value for name, each in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _with_cookie(place: str, name: str, value: str) -> Response:
    answer = RedirectResponse(place, 303)
    answer.set_cookie(
        f"telic_{name}", value, max_age=_YEAR_S, httponly=True, samesite="strict", path="/"
    )
    return answer


def _leaving(scope: MutableMapping[str, Any], send: Send) -> Send:
    """Return a `send` that adds headers and takes keys out of text."""
    held: Message | None = None
    is_text = False

    async def leave(message: Message) -> None:
        nonlocal held, is_text
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("content-security-policy", _PAGE_POLICY)
            headers.setdefault("cache-control", "no-store")
            is_text = headers.get("content-type", "").startswith(_TEXT)
            held = message  # its length is known when the body is
            return
        body = message.get("body", b"")
        if is_text and body:
            clean = redact(body.decode("utf-8", "surrogateescape"))
            message = {**message, "body": clean.encode("utf-8", "surrogateescape")}
        if held is not None:
            _mend_length(MutableHeaders(scope=held), len(body), message)
            await send(held)
            held = None
        await send(message)

    return leave


def _mend_length(headers: MutableHeaders, length: int, message: Message) -> None:
    """Let the head of an answer say how long it is now; of one in parts, nothing."""
    if len(message.get("body", b"")) == length or "content-length" not in headers:
        return
    if message.get("more_body", False):
        del headers["content-length"]
    else:
        headers["content-length"] = str(len(message["body"]))


# ---------------------------------------------------------------------------- share links
# A link is signed with the user's key and listed beside the runs; the list holds no secret, so who
# can read it can make no link. What is not on the list shows nothing, whatever its signature.


class ShareLine(Record):
    """A link that holds."""

    id: str
    thing: str
    made: str
    """UTC, ISO 8601"""
    note: str = ""


class ShareList(Record):
    """The links of a folder of runs."""

    schema_version: Literal[1] = 1
    shares: tuple[ShareLine, ...] = ()


class ShareLink(Record):
    """A link to hand out."""

    share: ShareLine
    path: str
    """of the address, behind the server's own"""


class ShareRequest(Record):
    """What to share."""

    note: str = Field(default="", max_length=200, description="for whom, or why")


class ShareLinks:
    """The links of a folder of runs."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place

    @property
    def _file(self) -> Path:
        return self._place.runs_dir / _SHARES_FILE

    def lines(self) -> tuple[ShareLine, ...]:
        """Return the links that hold."""
        if not self._file.exists():
            return ()
        return read_record(self._file, ShareList).shares

    def make(self, thing: str, note: str) -> ShareLink:
        """Make a link to a thing."""
        made = datetime.now(UTC).isoformat(timespec="seconds")
        line = ShareLine(id=secrets.token_hex(8), thing=thing, made=made, note=note)
        with taking_turns(self._file.with_suffix(".lock")):
            kept = (*self.lines(), line)[-_MOST_SHARES:]
            write_json(self._file, ShareList(shares=kept))
        return ShareLink(share=line, path=f"{SHARE}{line.id}.{self._signature(line)}")

    def withdraw(self, name: str) -> ShareLine:
        """Let a link show nothing any more."""
        with taking_turns(self._file.with_suffix(".lock")):
            known = {line.id: line for line in self.lines()}
            if name not in known:
                raise UnknownName("share", name[:60], list(known))
            left = tuple(line for line in known.values() if line.id != name)
            write_json(self._file, ShareList(shares=left))
        return known[name]

    def thing(self, token: str) -> str | None:
        """Return the thing that a link shows; None: nothing."""
        name, _, signature = token.partition(".")
        if not name or len(token) > 200 or not token.isascii():
            return None
        try:
            line = next((each for each in self.lines() if each.id == name), None)
        except TelicError:  # a damaged list shows nothing
            return None
        if line is None or not secrets.compare_digest(self._signature(line), signature):
            return None
        return line.thing

    def _signature(self, line: ShareLine) -> str:
        key = user_key(self._place.runs_dir)
        content = f"share {line.id} {line.thing} {self._place.runs_dir.resolve()}".encode()
        return key.sign(content).rpartition(":")[2][:_SIGNATURE_LETTERS]


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of share links."""
    router, shares = APIRouter(tags=["shares"]), ShareLinks(place)

    @router.get("/shares")
    def list_shares() -> tuple[ShareLine, ...]:
        """List the share links that hold."""
        return shares.lines()

    @router.post("/things/{thing}/share")
    def share_thing(thing: str, asked: ShareRequest) -> ShareLink:
        """Make a link with which anybody who reaches this server reads this one thing."""
        place.thing(thing)
        return shares.make(thing, asked.note)

    @router.post("/shares/{share}/withdraw")
    def withdraw_share(share: str) -> ShareLine:
        """Withdraw a share link."""
        return shares.withdraw(share)

    return router
