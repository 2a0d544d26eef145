"""Adyen: each item of a batch is signed for itself, over some of its fields.

So a batch can lose items and needs no new signature; and each of its items has to be right, since
an item that somebody adds is no more right than any other. The platform's webhooks are signed as a
whole, in a header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gateway.core.batch import MOST_ITEMS
from gateway.core.document import bytes_of, is_out_of_proportion
from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Valid
from gateway.providers import wire
from gateway.providers.derivation import fault_of, hexadecimal
from gateway.providers.keyset import Keyring
from gateway.providers.scheme import Scheme, Verifier
from gateway.providers.signing import Encoding, Signed, keys, maker

_OF_THE_WHOLE = b"hmacsignature"
_MARK = re.compile(Encoding.BASE64.alphabet("sha256"))
_FIELDS = (
    ("pspReference",),
    ("originalReference",),
    ("merchantAccountCode",),
    ("merchantReference",),
    ("amount", "value"),
    ("amount", "currency"),
    ("eventCode",),
    ("success",),
)


class AdyenVerifier:
    """Checks all items of a delivery, or the delivery where it is signed as a whole."""

    def __init__(self, signature: Signature, keyring: Keyring) -> None:
        del keyring  # the secrets are all there is to it
        self._keys = keys(signature, hexadecimal)

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Valid only if every item is; the secret is the first item's."""
        del now
        signed = read(delivery)
        if not signed:
            return Invalid(Flaw.MISSING)
        # All are tried, so that time does not tell which of them was wrong.
        secrets = [maker(one, self._keys, Encoding.BASE64) for one in signed]
        first = secrets[0]
        return Invalid(Flaw.WRONG) if first is None or None in secrets else Valid(first)


def read(delivery: Delivery) -> list[Signed] | None:
    """What each item says; None where one of them says nothing that makes sense."""
    said = wire.lines(delivery.headers, frozenset({_OF_THE_WHOLE}))
    if said is None:
        return None
    if said:
        mark = said[_OF_THE_WHOLE]
        whole = Signed((mark,), (delivery.body,))
        return [whole] if _MARK.fullmatch(mark.decode("latin-1")) else None
    if delivery.header(b"content-encoding") is not None:
        return None  # what is read of it for the id would be other bytes
    signed = [_item(entry) for entry in _entries(delivery.body)]
    return None if None in signed else [one for one in signed if one is not None]


def _entries(body: bytes) -> list[object]:
    if is_out_of_proportion(body):
        return []
    try:
        # Adyen sends UTF-8; what else JSON may be in, not every consumer reads in the same way.
        found = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=wire.members,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
        )
    except (ValueError, RecursionError):
        return []
    entries = found.get("notificationItems") if isinstance(found, dict) else None
    return entries if isinstance(entries, list) and len(entries) <= MOST_ITEMS else []


def _item(entry: object) -> Signed | None:
    item = entry.get("NotificationRequestItem") if isinstance(entry, dict) else None
    if not isinstance(item, dict):
        return None
    mark = _text(item, ("additionalData", "hmacSignature"))
    fields = [_text(item, path) for path in _FIELDS]
    if not _MARK.fullmatch(mark):
        return None
    # Older documentation escapes what divides the fields; the library does not.
    escaped = [field.replace("\\", "\\\\").replace(":", "\\:") for field in fields]
    texts = dict.fromkeys(":".join(some) for some in (fields, escaped))
    return Signed((mark.encode(),), tuple(map(bytes_of, texts)))


def _text(item: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = item
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""


def _verifier(signature: Signature, keyring: Keyring) -> Verifier:
    return AdyenVerifier(signature, keyring)


SCHEME = Scheme(
    name="adyen",
    headers=frozenset({_OF_THE_WHOLE}),
    carriers=frozenset({_OF_THE_WHOLE}),
    covered=frozenset(),
    covers_body=False,
    proof="Adyen 16.0",
    verifier=_verifier,
    fault=fault_of(hexadecimal, "a number of bytes in hex"),
)
