"""Relations: settings that are fine one by one and wrong together."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import product
from pathlib import Path as FilePath

from gateway.config.addresses import Address, ProbeUrl, Url
from gateway.config.document import Document
from gateway.config.problems import Fault, Path
from gateway.config.route_settings import FixedReplySettings, RouteSettings
from gateway.config.senders import is_url, scheme_of, takes_keys
from gateway.config.settings import ListenSettings, Settings
from gateway.dsn import require_readable

_EVERYWHERE = frozenset({"0.0.0.0", "::"})
_HERE = frozenset({"127.0.0.1", "::1", "localhost"})


def faults(settings: Settings, document: Document, folder: FilePath) -> Iterator[Fault]:
    """All contradictions outside single routes, and files that cannot be read."""
    yield from _store(settings, document)
    yield from _listeners(settings)
    yield from _routes(settings)
    yield from _files(settings, document, folder)


def _store(settings: Settings, document: Document) -> Iterator[Fault]:
    store = settings.store
    if store.dsn is not None and store.embedded is not None:
        yield Fault(("store",), "has both dsn and embedded", "keep one of the two")
    if store.dsn is None and store.embedded is None:
        yield Fault(("store",), "names no store", "write dsn: or embedded: under it")
    if store.dsn is not None and not document.stands_in(("store", "dsn")):
        try:
            require_readable(store.dsn)
        except ValueError as error:
            message, _, remedy = str(error).partition("; ")
            yield Fault(("store", "dsn"), message, remedy)
    if store.user is not None and store.embedded is None:
        yield Fault(("store", "user"), "is for the embedded store only", "remove it")


def _listeners(settings: Settings) -> Iterator[Fault]:
    if not settings.listen:
        yield Fault(("listen",), "is an empty list", "write listen: 127.0.0.1:8080")
    taken: dict[Address, str] = {}
    for path, listen in listeners(settings):
        address = listen.address
        if address.port and address in taken:
            message = f"{address.host}:{address.port} is taken by {taken[address]} already"
            yield Fault(path, message, "write another port")
        taken.setdefault(address, path[0] if isinstance(path[0], str) else "listen")


def listeners(settings: Settings) -> Iterator[tuple[Path, ListenSettings]]:
    """Every address that is listened on, deliveries first."""
    for index, listen in enumerate(settings.listen):
        yield ("listen", index), listen
    yield ("admin", "listen"), settings.admin.listen


def _routes(settings: Settings) -> Iterator[Fault]:
    if not settings.routes:
        yield Fault(("routes",), "is an empty list", "write at least one route")
    names: dict[str, int] = {}
    claimed: dict[tuple[str, str], str] = {}
    for index, route in enumerate(settings.routes):
        here: Path = ("routes", index)
        if route.name in names:
            message = f"{route.name!r} is the name of routes.{names[route.name]} too"
            yield Fault((*here, "name"), message, "write another name, or share with scope:")
        names.setdefault(route.name, index)
        for host in route.hosts or ("",):
            if (host, route.path) in claimed:
                message = f"{host}{route.path or '/'} belongs to {claimed[host, route.path]} too"
                yield Fault((*here, "path"), message, "write another path, or other hosts:")
            claimed.setdefault((host, route.path), route.name)
        yield from _loop(settings, route, here)


def _loop(settings: Settings, route: RouteSettings, here: Path) -> Iterator[Fault]:
    urls: list[tuple[str, Url | ProbeUrl]] = [("upstream", route.upstream.url)]
    if route.probe is not None:
        urls.append(("probe", route.probe.url))
    for (_, listen), (name, url) in product(listeners(settings), urls):
        host, port = listen.address.host, listen.address.port
        mine = host == url.host or (host in _EVERYWHERE | _HERE and url.host in _HERE)
        if port == url.port and mine:
            message = f"{url.host}:{url.port} is the gateway itself"
            yield Fault((*here, name, "url"), message, "write the consumer's address")


def _files(settings: Settings, document: Document, folder: FilePath) -> Iterator[Fault]:
    for path, listen in listeners(settings):
        if tls := listen.tls:
            yield from _certificate((*path, "tls"), tls.cert, tls.key, document, folder)
    for index, route in enumerate(settings.routes):
        yield from _route_files(route, ("routes", index), document, folder)


def _route_files(
    route: RouteSettings, here: Path, document: Document, folder: FilePath
) -> Iterator[Fault]:
    tls_path = (*here, "upstream", "tls")
    if asked := route.upstream.tls:
        if asked.ca is not None:
            yield from _readable((*tls_path, "ca"), asked.ca, document, folder)
        if asked.cert is not None and asked.key is not None:
            yield from _certificate(tls_path, asked.cert, asked.key, document, folder)
    yield from _key_files(route, (*here, "signature", "keys"), document, folder)


def _key_files(
    route: RouteSettings, here: Path, document: Document, folder: FilePath
) -> Iterator[Fault]:
    """Never with the name: what is no file may be a secret in the wrong place."""
    known = scheme_of(route)
    if route.signature is None or known is None or not takes_keys(known):
        return  # what is said of that says more
    for place, key in enumerate(route.signature.keys):
        if is_url(key) or document.stands_in((*here, place)):
            continue
        try:
            (folder / key).open("rb").close()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no name of a file"
            message = f"names no file in {folder} that can be read: {why}"
            yield Fault((*here, place), message, "write a file that exists; secrets: for a secret")


def _certificate(
    path: Path, cert: str, key: str, document: Document, folder: FilePath
) -> Iterator[Fault]:
    missing = [
        *_readable((*path, "cert"), cert, document, folder),
        *_readable((*path, "key"), key, document, folder),
    ]
    yield from missing
    if missing or any(document.stands_in((*path, name)) for name in ("cert", "key")):
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # The empty password stands for "never ask on the terminal".
        context.load_cert_chain(folder / cert, folder / key, password="")
    except (ssl.SSLError, OSError, ValueError):
        message = "certificate and key do not belong together, or are not PEM without passphrase"
        yield Fault(path, message, "write the files that were issued together")


def _readable(path: Path, file: str, document: Document, folder: FilePath) -> Iterator[Fault]:
    if document.stands_in(path):
        return
    try:
        (folder / file).open("rb").close()
    except OSError as error:
        message = f"cannot read {folder / file}: {error.strerror}"
        yield Fault(path, message, "write a file that exists")


def route_faults(route: RouteSettings, here: Path, today: date) -> Iterator[Fault]:
    """Contradictions inside one route."""
    yield from _replies(route, here)
    yield from _surrounded(route, here)
    checked = route.promise.checked if route.promise else None
    # Whoever looked may live where it is tomorrow already.
    if checked is not None and today < date.max and checked > today + timedelta(days=1):
        message = f"{checked} is in the future (today is {today})"
        yield Fault((*here, "promise", "checked"), message, "write the day somebody last looked")
    if not route.methods:
        yield Fault((*here, "methods"), "is an empty list", "remove it for the usual methods")


def _surrounded(route: RouteSettings, here: Path) -> Iterator[Fault]:
    """Secrets with white space around them, as `echo` and editors leave it: each would be wrong."""
    told = () if route.signature is None else route.signature.secrets
    found = [((*here, "signature", "secrets", place), one) for place, one in enumerate(told)]
    for path, secret in (*found, ((*here, "verify_token"), route.verify_token or "")):
        if secret != secret.strip() and "-----BEGIN" not in secret:
            message = "begins or ends with white space, which would be part of it"
            yield Fault(path, message, "remove that where it is set")


def memory_faults(route: RouteSettings, here: Path, body_memory: int) -> Iterator[Fault]:
    """Bodies that the process has no room for. `body_memory` in bytes."""
    if route.body_limit > body_memory:
        message = "is more than limits.body_memory, so such a body would never fit"
        yield Fault((*here, "body_limit"), message, "lower it, or raise limits.body_memory")


def tls_faults(route: RouteSettings, here: Path) -> Iterator[Fault]:
    """Contradictions around a route's certificates."""
    tls, path = route.upstream.tls, (*here, "upstream", "tls")
    if tls is None:
        return
    if route.upstream.url.scheme != "https":
        yield Fault(path, "is for https only", "write an https url, or remove tls")
    if (tls.cert is None) != (tls.key is None):
        lone, other = ("cert", "key") if tls.key is None else ("key", "cert")
        yield Fault((*path, lone), f"has no {other}", f"write {other}: FILE beside it")


def _replies(route: RouteSettings, here: Path) -> Iterator[Fault]:
    both = set(route.refused_status or ()) & {*range(200, 300), *route.success_status}
    if both:
        mean = "mean" if len(both) > 1 else "means"
        message = f"has {', '.join(map(str, sorted(both)))}, which {mean} success on this route"
        yield Fault((*here, "refused_status"), message, "keep each status in one of the two lists")
    reply = route.duplicate_reply
    if isinstance(reply, FixedReplySettings):
        path = (*here, "duplicate_reply")
        if reply.status in (204, 205) and reply.body:
            yield Fault((*path, "body"), f"a {reply.status} has no body", "write 200, or no body")
