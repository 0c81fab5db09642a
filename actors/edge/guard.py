"""Who may use which route over TCP: Host allow-list, Origin and Referer, bearer token and scope (T48).

Pure: raw ASGI headers in, nothing or an APIProblem out. The order is fixed: Host, token, scope, Origin; so that a page
in a browser learns nothing, whatever it sends.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.edge.api.errors import APIProblem
from actors.edge.auth import Scope, Tokens

__all__ = ["ALLOWED_HOSTS", "GRANTS", "Guard", "headers_of", "host_name"]

ALLOWED_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})

# needed scope -> scopes that have it
GRANTS: Mapping[Scope, frozenset[Scope]] = {
    Scope.SENSOR: frozenset(Scope),
    Scope.ROUTER: frozenset({Scope.ROUTER, Scope.OPERATOR}),
    Scope.OPERATOR: frozenset({Scope.OPERATOR}),
}

Headers = Mapping[bytes, bytes]


def headers_of(scope: Mapping[str, object]) -> dict[bytes, bytes]:
    """Return the headers of an ASGI scope by lower case name; of repeated ones the first counts."""
    pairs = scope["headers"]
    assert isinstance(pairs, list | tuple)
    found: dict[bytes, bytes] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def host_name(value: str) -> str:
    """Cut the port off a Host header: ``[::1]:7717`` is ``::1``."""
    value = value.strip().lower()
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.rpartition(":")[0] if value.count(":") == 1 else value


class Guard:
    """Checks a request's headers against one route's needs."""

    def __init__(self, tokens: Tokens, hosts: frozenset[str] = ALLOWED_HOSTS) -> None:
        self._tokens = tokens
        self._hosts = hosts

    def check(self, headers: Headers, needed: Scope | None) -> None:
        """Raise APIProblem 421, 401 or 403; ``needed`` None is an open route, whose Host must fit as well."""
        self._check_host(headers)
        if needed is None:
            return
        self._check_token(headers, needed)
        if needed is Scope.OPERATOR:
            _refuse_pages(headers)

    def _check_host(self, headers: Headers) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if host_name(host) not in self._hosts:
            raise APIProblem.of(421, "foreign_host", "this Host is not served here; use 127.0.0.1 or localhost")

    def _check_token(self, headers: Headers, needed: Scope) -> None:
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        granted = self._tokens.scope_of(token.strip()) if kind.lower() == "bearer" else None
        if granted is None:
            raise APIProblem.of(401, "unauthorized", "a valid bearer token is needed: Authorization: Bearer TOKEN")
        if granted not in GRANTS[needed]:
            allowed = ", ".join(sorted(GRANTS[needed]))
            raise APIProblem.of(403, "wrong_scope", f"a {granted} token may not do this; allowed: {allowed}")


def _refuse_pages(headers: Headers) -> None:
    for name in (b"origin", b"referer"):
        if name in headers:
            raise APIProblem.of(403, "foreign_origin", f"requests with {name.decode()} are refused")
