"""Access control of the dashboard, which checks the host, origin and token of every request.

Programs send the token as a header. Browsers send it as a cookie, which the URL printed by `telic
serve` sets. API keys of model providers are removed from responses, and headers prevent pages from
loading external resources.
"""

from __future__ import annotations

import hmac
import html
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telic.llm.keys import redact
from telic.web._connections import is_loopback

API = "/api"
_BODY_BYTES = 4 << 20
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
"""policy of pages written by runs that may render but not connect"""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "content-security-policy": _PAGE_POLICY,
    "cache-control": "no-store",
}
_NO_TOKEN = """<!doctype html><meta charset="utf-8"><title>telic</title>
<meta name="viewport" content="width=device-width"><style>body{font:16px/1.5 system-ui;margin:15vh
auto;max-width:34rem;padding:0 1rem;color-scheme:light dark}code{font-weight:600}</style>
<h1>Log in again</h1><p>This browser has no valid token. Print the address with the token
in a terminal of the machine that serves this page, and open it once; the browser keeps it:</p>
<pre><code>telic serve --no-open</code></pre><p>The token stays the same until <code>telic serve
--new-token</code> replaces it.</p>"""


class WebGate:
    """Middleware that controls the access to the application."""

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str] = ()) -> None:
        """`hosts` are the names in addition to this machine's loopback names."""
        self._app, self._token = app, token
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, set the cookie, or forward the request."""
        if scope["type"] == "http":
            answer = self._answer(scope) or self._app
            await answer(scope, receive, _cleaned(send))
        else:
            await self._app(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        headers, path, method = Headers(scope=scope), str(scope["path"]), str(scope["method"])
        host = _host_name(headers.get("host", ""))
        if host not in self._hosts and not is_loopback(host):  # prevents DNS rebinding
            return _refusal(421, "This server does not serve the requested host.")
        if (refusal := _foreign(method, headers)) is not None:
            return _refusal(403, refusal)
        is_api = path.startswith(API)
        if not is_api and method in _SAFE and (greeting := self._greeting(scope, path)):
            return greeting
        if not self._is_known(headers):
            if is_api:
                hint = (
                    "Open the address printed by telic serve, or send Authorization: Bearer TOKEN."
                )
                return _refusal(401, "A token is required.", hint)
            return HTMLResponse(_NO_TOKEN, 401)
        if "transfer-encoding" in headers:
            return _refusal(411, "Send the body's length in Content-Length.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length[:20]) > _BODY_BYTES:
            return _refusal(413, f"The body exceeds the limit of {_BODY_BYTES >> 20} MiB.")
        return None

    def _greeting(self, scope: Scope, path: str) -> Response | None:
        """Move a token from the URL to a cookie to keep it out of the browser history."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == "token"), None)
        if token is None or not self._is_token(token):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # Only one slash: "//elsewhere" would redirect to another host.
        target = "/" + quote(path.lstrip("/")) + (f"?{rest}" if rest else "")
        answer: Response = RedirectResponse(target, 303)
        if Headers(scope=scope).get("sec-fetch-site") == "cross-site":
            # A browser sends the cookie only if the next request comes from this server's page.
            page = f'<meta http-equiv="refresh" content="0;url={html.escape(target)}">'
            answer = HTMLResponse(page)
        answer.set_cookie(
            "telic_token", token, max_age=_YEAR_S, httponly=True, samesite="strict", path="/"
        )
        return answer

    def _is_known(self, headers: Headers) -> bool:
        if "authorization" in headers:
            scheme, _, given = headers["authorization"].partition(" ")
            return scheme.lower() == "bearer" and self._is_token(given)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get("telic_token")
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, given: str) -> bool:
        """Compare a token as bytes and in constant time."""
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    return (name or port).strip("[]").lower()


def _foreign(method: str, headers: Headers) -> str | None:
    """Return the reason to refuse a request as cross-origin, or None."""
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return "Requests from other origins are rejected."
    site = headers.get("sec-fetch-site", "none")
    is_opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not is_opened:
        return "Requests from other origins are rejected."
    is_page = "cookie" in headers and "authorization" not in headers
    if method not in _SAFE and is_page and origin is None and site != "same-origin":
        return "A request that changes data must send its origin."
    return None


def _refusal(status: int, message: str, hint: str | None = None) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"message": message, "hint": hint}, status, headers)


def _cleaned(send: Send) -> Send:
    """Wrap `send` to add headers and to remove API keys from text."""
    held: Message | None = None
    is_text = False

    async def leave(message: Message) -> None:
        nonlocal held, is_text
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            is_text = headers.get("content-type", "").startswith(_TEXT)
            held = message  # its length is known after the body
            return
        body = message.get("body", b"")
        clean = body
        if is_text and body:
            text = redact(body.decode("utf-8", "surrogateescape"))
            clean = text.encode("utf-8", "surrogateescape")
            message = {**message, "body": clean}
        if held is not None:
            headers = MutableHeaders(scope=held)
            if len(clean) != len(body) and "content-length" in headers:
                del headers["content-length"]
                if not message.get("more_body", False):
                    headers["content-length"] = str(len(clean))
            await send(held)
            held = None
        await send(message)

    return leave
