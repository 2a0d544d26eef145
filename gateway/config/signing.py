"""Signing: settings about signatures and late deliveries, and what is wrong with them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from gateway.config import local_keys, senders
from gateway.config.custody import stores
from gateway.config.problems import Fault, Path
from gateway.config.route_settings import RouteSettings
from gateway.config.sender_settings import HandshakeSettings, SignatureSettings
from gateway.core.durations import format_duration
from gateway.core.handshake import Proof
from gateway.core.route import Mode, OnDoubt, OnStale, Route
from gateway.providers.scheme import Scheme

StandsIn = Callable[[Path], bool]
"""Whether the value at a path is there only because a variable is not."""


def faults(
    settings: RouteSettings, route: Route, here: Path, stands_in: StandsIn
) -> Iterator[Fault]:
    """Contradictions inside one route."""
    known = senders.scheme_of(settings)
    if settings.signature is not None:
        path = (*here, "signature")
        if known is None:
            yield Fault((*path, "scheme"), "missing", _how_to_name(settings))
        else:
            yield from _signature(settings.signature, known, route, path, stands_in)
    yield from _resigning(settings, known, here)
    yield from _late(settings, known, here)
    yield from _handshakes(settings, known, here)


def _signature(
    told: SignatureSettings, known: Scheme, route: Route, path: Path, stands_in: StandsIn
) -> Iterator[Fault]:
    wrong = [
        *_needs(told, known, path),
        *_secrets(told, known, path, stands_in),
        *_keys(told, known, path),
    ]
    yield from wrong
    yield from _tolerance(told, known, route, path)
    if not wrong and not _has_stand_ins(told, path, stands_in):
        yield from _unusable(told, route, path)


def _has_stand_ins(told: SignatureSettings, path: Path, stands_in: StandsIn) -> bool:
    listed = (("secrets", told.secrets), ("keys", told.keys))
    places = ((name, index) for name, values in listed for index in range(len(values)))
    return any(stands_in((*path, *place)) for place in places)


def _unusable(told: SignatureSettings, route: Route, path: Path) -> Iterator[Fault]:
    """What only shows when somebody tries to check with it."""
    why = None if route.signature is None else local_keys.unusable(route.signature)
    if why is not None:
        where = "keys" if told.keys else "secrets"
        yield Fault((*path, where), why, "write the provider's public key as PEM or JWKS")


def _how_to_name(settings: RouteSettings) -> str:
    if settings.provider is None:
        return "write scheme: NAME, or the route's provider:"
    return f"write scheme: NAME; the preset {settings.provider} knows none"


def _needs(told: SignatureSettings, known: Scheme, path: Path) -> Iterator[Fault]:
    # Without it the request's own URL is taken, which may be right: that is only said.
    for name in known.needs:
        by_keys = name == "secrets" and told.keys and senders.takes_keys(known)
        if name != "public_url" and not by_keys and not getattr(told, name):
            remedy = _EXAMPLES.get(name, f"write {name}: …")
            yield Fault((*path, name), f"missing: {known.name} is not checked without", remedy)


_EXAMPLES = {
    "secrets": 'write secrets: ["${WEBHOOK_SECRET}"]',
    "keys": "write keys: [FILE], with the provider's public key in it",
    "audience": "write audience: NAME, as it was set up at the provider",
}


def _secrets(
    told: SignatureSettings, known: Scheme, path: Path, stands_in: StandsIn
) -> Iterator[Fault]:
    for index, secret in enumerate(told.secrets):
        where = (*path, "secrets", index)
        if stands_in(where):
            continue
        if (why := known.fault(secret)) is not None:
            message, _, remedy = why.partition("; ")
            yield Fault(where, message, remedy or f"write it as {known.name} issues it")
        elif secret in told.secrets[:index]:
            yield Fault(where, "is there twice", "remove one of the two")


def _tolerance(told: SignatureSettings, known: Scheme, route: Route, path: Path) -> Iterator[Fault]:
    where = (*path, "tolerance")
    if told.tolerance is None:
        return
    if not known.dated:
        message = f"{known.name} signs no time stamp, so there is nothing to tolerate"
        yield Fault(where, message, "remove it")
    elif told.tolerance > route.retention:
        shown, kept = format_duration(told.tolerance), format_duration(route.retention)
        message = f"{shown} is longer than the retention of {kept}: a recording sent again is new"
        yield Fault(where, message, f"write {kept} or less")


def _keys(told: SignatureSettings, known: Scheme, path: Path) -> Iterator[Fault]:
    if told.keys and not senders.takes_keys(known):
        message = f"{known.name} is checked with shared secrets, not with public keys"
        yield Fault((*path, "keys"), message, "write secrets: for a secret, or another scheme")
    for index, key in enumerate(told.keys):
        if key.lower().startswith("http://"):
            message = "would fetch the provider's keys unprotected, where anybody can replace them"
            yield Fault((*path, "keys", index), message, "write https://")
        elif senders.is_url(key) and not _can_be_fetched(key):
            yield Fault((*path, "keys", index), "is no URL", "write https://HOST/PATH")


def _can_be_fetched(key: str) -> bool:
    try:
        parts = urlsplit(key)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _resigning(settings: RouteSettings, known: Scheme | None, here: Path) -> Iterator[Fault]:
    path, told = (*here, "resign"), settings.signature
    if not settings.resign:
        return
    if told is None:
        message = "has no secret to sign with"
        yield Fault(path, message, 'write signature: {secrets: ["${WEBHOOK_SECRET}"]}')
    elif known is not None and not known.signs:
        message = f"cannot be: only the provider can sign in the scheme {known.name}"
        yield Fault(
            path, message, "remove it; late_delivery: REASON if the consumer checks no time"
        )


def _late(settings: RouteSettings, known: Scheme | None, here: Path) -> Iterator[Fault]:
    """A signed time stamp that is out of tolerance by the time that the consumer sees it."""
    if known is None or not _ages(settings, known):
        return
    for name, what in _delivering_late(settings):
        span = _tolerated(settings, known)
        after = "" if span is None else f" after {format_duration(span)}"
        message = (
            f"{what}, and the signature's time stamp ({known.name}) is out of tolerance{after}"
        )
        yield Fault((*here, name), message, _on_time(known))
        return


def _ages(settings: RouteSettings, known: Scheme) -> bool:
    """Whether deliveries have a time stamp that the consumer may find too old."""
    given = senders.preset_of(settings)
    # Where a provider signs only on request, `custody` says what if somebody asked for it.
    perhaps = settings.signature is None and given is not None and not given.signs_always
    return known.dated and not (settings.resign or settings.late_delivery or perhaps)


def late_too(settings: RouteSettings) -> str:
    """What has to be written beside a setting by which deliveries come late; empty for nothing."""
    known = senders.scheme_of(settings)
    if known is None or not _ages(settings, known):
        return ""
    return ", with resign: true and its secrets" if known.signs else ", with late_delivery: REASON"


def _tolerated(settings: RouteSettings, known: Scheme) -> timedelta | None:
    if settings.signature is not None and settings.signature.tolerance is not None:
        return settings.signature.tolerance
    return None if known.tolerance is None else timedelta(seconds=known.tolerance)


def _on_time(known: Scheme) -> str:
    reason = "late_delivery: REASON if the consumer does not mind"
    if known.signs:
        return f"write resign: true, with signature.secrets, or {reason}"
    return f"write {reason}"


def _delivering_late(settings: RouteSettings) -> Iterator[tuple[str, str]]:
    if settings.mode is Mode.OBSERVE or settings.pass_through is not None:
        return
    if settings.mode is Mode.INBOX:
        yield "mode", "an inbox delivers when it can"
    if settings.acknowledge_after is not None:
        yield "acknowledge_after", "what was acknowledged is sent again later"
    if settings.on_doubt is not OnDoubt.RETRY:
        yield "on_doubt", "what is held is sent when a person says so"
    if settings.on_stale is OnStale.HOLD:
        yield "on_stale", "what is held is sent when a person says so"


def _handshakes(settings: RouteSettings, known: Scheme | None, here: Path) -> Iterator[Fault]:
    for index, one in enumerate(settings.handshakes):
        path: Path = (*here, "handshakes", index)
        if not (one.match or one.methods):
            yield Fault((*path, "match"), "is an empty list, which every event is", "write one")
        if one.answer is not None and one.answer.text is not None and one.answer.members:
            yield Fault((*path, "answer"), "has both text and json", "keep one of the two")
        if _proves(one) and not one.signed and known is not None and known.bare:
            message = (
                f"false has anybody's text signed: the answer is its HMAC, as {known.name} signs"
            )
            remedy = "write signed: true, or leave the answer to the consumer"
            yield Fault((*path, "signed"), message, remedy)


def _proves(told: HandshakeSettings) -> bool:
    members = () if told.answer is None else told.answer.members.values()
    return any(isinstance(value, Proof) for value in members)


def advice(settings: RouteSettings, route: Route, here: Path) -> Iterator[Fault]:
    """What is allowed and probably not meant."""
    known, told = senders.scheme_of(settings), settings.signature
    refuses = route.mode is not Mode.OBSERVE
    if known is not None and known.signs_url and told is not None and told.public_url is None:
        message = (
            f"{known.name} signs the URL; that of the request is taken, http or https and Host"
        )
        remedy = "write public_url: https://HOST as the provider calls it, if a proxy is in front"
        yield Fault((*here, "signature", "public_url"), message, remedy)
    if told is not None and known is not None and known.proof is None and refuses:
        message = f"the check of {known.name} is unverified: a mistake in it refuses every delivery"
        remedy = "watch dedup_signatures_total in mode: observe first"
        yield Fault((*here, "signature"), message, remedy)
    if settings.late_delivery and (known is None or not known.dated or not stores(route)):
        message = "is not needed: nothing is delivered late here under a signed time stamp"
        yield Fault((*here, "late_delivery"), message, "remove it")
    yield from _unused(settings, here)


def _unused(settings: RouteSettings, here: Path) -> Iterator[Fault]:
    by_token = any(wanted.by_token for one in settings.handshakes for wanted in one.match)
    if settings.verify_token is not None and not by_token:
        message = "no handshake of this route compares with it"
        yield Fault((*here, "verify_token"), message, "remove it, or write it into a handshake")
    answerable = any(one.answer is not None for one in settings.handshakes)
    if settings.answer_handshakes and not answerable:
        message = "the answer to no handshake of this route is known; they pass to the consumer"
        yield Fault((*here, "answer_handshakes"), message, "remove it")
    elif settings.answer_handshakes and by_token and settings.verify_token is None:
        message = "a handshake by token passes to the consumer without the route's verify_token"
        yield Fault((*here, "answer_handshakes"), message, 'write verify_token: "${VERIFY_TOKEN}"')
    proving = any(map(_proves, settings.handshakes))
    if settings.answer_handshakes and proving and settings.signature is None:
        message = "a handshake that asks for proof of the secret passes to the consumer without one"
        remedy = 'write signature: {secrets: ["${WEBHOOK_SECRET}"]}'
        yield Fault((*here, "answer_handshakes"), message, remedy)
    answered = any(one.signed and one.answer is not None for one in settings.handshakes)
    unchecked = settings.signature is None and senders.scheme_of(settings) is not None
    if settings.answer_handshakes and answered and not proving and unchecked:
        message = "anybody gets the answers that only a signed handshake should have"
        remedy = "write signature: too; Discord removes an endpoint that answers its forgeries"
        yield Fault((*here, "answer_handshakes"), message, remedy)
    own = "handshakes" in settings.model_fields_set and settings.provider is None
    if own and answerable and not settings.answer_handshakes:
        message = "their answers are not given: handshakes pass to the consumer"
        yield Fault((*here, "handshakes"), message, "write answer_handshakes: true")
