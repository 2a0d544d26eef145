"""Senders: what a route is told of its provider, as the program uses it.

Batches, signatures and handshakes, with every default resolved, as `routes` does it for the rest.
"""

from __future__ import annotations

from pathlib import Path as FilePath

from gateway.config.addresses import Url
from gateway.config.places import Wanted
from gateway.config.route_settings import RouteSettings
from gateway.config.sender_settings import AnswerSettings, HandshakeSettings
from gateway.core.batch import BatchPolicy, OnMixed
from gateway.core.handshake import Condition, Greeting, Handshake
from gateway.core.signature import Signature
from gateway.providers import certificates, public_keys, tokens
from gateway.providers.presets import Preset, preset
from gateway.providers.scheme import Scheme
from gateway.providers.schemes import names, scheme

# Standard Webhooks has both kinds.
_PUBLIC = frozenset(
    one.name
    for family in (public_keys.SCHEMES, certificates.SCHEMES, tokens.SCHEMES)
    for one in family
) | {"standard-webhooks"}
_EXPECTED = ("audience", "issuer", "email", "webhook_id")


def preset_of(settings: RouteSettings) -> Preset | None:
    """What is known of the route's provider."""
    return None if settings.provider is None else preset(settings.provider)


def scheme_of(settings: RouteSettings) -> Scheme | None:
    """How the provider signs, whether or not the route checks it; None where nobody knows."""
    name = None if settings.signature is None else settings.signature.scheme
    if name is None and (given := preset_of(settings)) is not None:
        fact = given.settings.get("signature.scheme")
        name = fact.value if fact is not None and isinstance(fact.value, str) else None
    return scheme(name) if name in names() else None


def takes_keys(known: Scheme) -> bool:
    """Whether a scheme is, or may be, checked with public keys."""
    return known.name in _PUBLIC


def batch(settings: RouteSettings) -> BatchPolicy | None:
    """Where the items are, and what becomes of mixed ones."""
    told = settings.batch
    if told is None:
        return None
    return BatchPolicy(
        told.items, told.event_id, told.event_type, told.event_time, _on_mixed(settings)
    )


def _on_mixed(settings: RouteSettings) -> OnMixed:
    if settings.on_mixed is not None:
        return settings.on_mixed
    return OnMixed.FILTER if settings.resign or not covers_body(settings) else OnMixed.WHOLE


def covers_body(settings: RouteSettings) -> bool:
    """Whether the provider's signature breaks when items are left out of a body."""
    known = scheme_of(settings)
    return known is not None and known.covers_body


def signature(settings: RouteSettings, folder: FilePath) -> Signature | None:
    """What deliveries are checked by; `folder`: what names of key files start from."""
    told, known = settings.signature, scheme_of(settings)
    if told is None or known is None:
        return None
    expected = ((name, getattr(told, name)) for name in _EXPECTED)
    return Signature(
        scheme=known.name,
        secrets=told.secrets,
        keys=tuple(key if is_url(key) else str(folder / key) for key in told.keys),
        tolerance=known.tolerance if told.tolerance is None else told.tolerance.total_seconds(),
        public_url=None if told.public_url is None else _written(told.public_url),
        expected=tuple((name, value) for name, value in expected if value is not None),
        headers=known.headers,
        resign=settings.resign,
    )


def is_url(key: str) -> bool:
    """Whether a key is to be fetched; else it is a file's name."""
    return key.lower().startswith(("https://", "http://"))


def _written(url: Url) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    usual = {"http": 80, "https": 443}[url.scheme]
    port = "" if url.port == usual else f":{url.port}"
    return f"{url.scheme}://{host}{port}{url.path or ''}"


def handshakes(settings: RouteSettings) -> tuple[Handshake, ...]:
    """Those of the route; with a greeting where the gateway answers."""
    return tuple(_handshake(one, settings) for one in settings.handshakes)


def _handshake(told: HandshakeSettings, settings: RouteSettings) -> Handshake:
    token = settings.verify_token
    unknown = token is None and any(wanted.by_token for wanted in told.match)
    answered = told.answer is not None and settings.answer_handshakes and not unknown
    return Handshake(
        methods=frozenset(told.methods),
        conditions=tuple(_condition(wanted, token) for wanted in told.match),
        signed=told.signed,
        greeting=_greeting(told.answer) if told.answer is not None and answered else None,
    )


def _condition(wanted: Wanted, token: str | None) -> Condition:
    """Without a token of its own the route cannot tell, and the consumer has to."""
    return Condition(wanted.where, token if wanted.by_token else wanted.equals, wanted.absent)


def _greeting(told: AnswerSettings) -> Greeting:
    usual = "application/json" if told.members else "text/plain" if told.text else None
    return Greeting(
        status=told.status,
        content_type=told.content_type or usual,
        headers=tuple(told.headers.items()),
        text=told.text,
        members=tuple(told.members.items()),
    )
