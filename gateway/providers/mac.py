"""Macs: most providers' signatures, described and not programmed.

A description says what is signed, with which digest and key, and how a header carries the result:

    written  `t={time},v1={mark}`: the header as the provider writes it
    between  `,`: what divides its parts; any part may come again, and unknown ones are let be
    signed   `{time}.{body}`: the text under the mark. Fields are `{body}` (raw), `{time}` (as it is
             written), `{method}`, `{url}` and `{unescaped_url}` (some percent-escapes undone), and
             header names, `{webhook-id|svix-id}` for one with two spellings

Of several texts in `signed` any may be the right one; the first is what we sign ourselves.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass

from gateway.core.event import Delivery
from gateway.core.signature import Signature
from gateway.providers import wire
from gateway.providers.scheme import Scheme, any_secret
from gateway.providers.signing import Encoding, Signed, plain, verifier
from gateway.providers.stamps import Stamp

# DocuSign sends one for each key, up to a hundred; whoever sends more is trying something.
MOST_MARKS = 100


@dataclass(frozen=True, slots=True)
class Older:
    """A signature of the same text with an older digest, which some consumers still read.

    Nobody has to believe it here; it is signed anew where it came.
    """

    header: str
    written: str
    digest: str


@dataclass(frozen=True, slots=True)
class Mac:
    """One provider's signature."""

    name: str
    headers: tuple[str, ...]
    """Where it is. Each that is there may carry the right one."""
    proof: str | None
    written: str = "{mark}"
    between: str | None = None
    signed: tuple[str, ...] = ("{body}",)
    encoding: Encoding = Encoding.HEX
    digest: str = "sha256"
    stamp: Stamp | None = None
    tolerance: float | None = None
    older: tuple[Older, ...] = ()
    key: Callable[[str], bytes] = plain
    """Makes the key of a secret. Raises ValueError for a text that is none."""
    fault: Callable[[str], str | None] = any_secret


def scheme_of(mac: Mac) -> Scheme:
    """The scheme that a description describes."""
    reader = Reader(mac)
    return Scheme(
        name=mac.name,
        headers=reader.headers,
        carriers=frozenset(_spellings(mac.headers)),
        covered=reader.covered,
        covers_body=all("{body}" in text for text in mac.signed),
        proof=mac.proof,
        verifier=verifier(reader.read, mac.encoding, mac.key),
        signer=lambda signature: MacSigner(mac, signature),
        dated=mac.stamp is not None,
        tolerance=mac.tolerance,
        bare="{body}" in mac.signed,
        signs_url=any("url}" in text for text in mac.signed),
        fault=mac.fault,
    )


class Reader:
    """Reads signatures of one description."""

    def __init__(self, mac: Mac) -> None:
        self._mac = mac
        self._carriers = tuple(name.lower().encode() for name in mac.headers)
        self._stamp = mac.stamp
        self._stamps = () if mac.stamp is None else _spellings(mac.stamp.headers)
        self._texts = tuple(Template(text) for text in mac.signed)
        fields = (name for text in self._texts for name in text.headers)
        self.headers = frozenset((*self._carriers, *self._stamps, *fields))
        """Lower-case names of all that it reads."""
        dated = all("{time}" in text for text in mac.signed)
        signed = frozenset.intersection(*(text.headers for text in self._texts))
        self.covered = signed | frozenset(self._stamps if dated else ())
        """Those under the mark, whichever text it is of."""
        wanted = [_pattern(part, mac) for part in _parts(mac)]
        self._mark = next(one for one in wanted if "mark" in one.groupindex)
        self._time = next((one for one in wanted if "time" in one.groupindex), None)

    def read(self, delivery: Delivery, public_url: str | None) -> Signed | None:
        """What a delivery says; None where something is missing or makes no sense."""
        said = wire.lines(delivery.headers, self.headers)
        if said is None:
            return None
        carried = self._carried(said)
        marks = tuple(found["mark"] for part in carried if (found := self._mark.fullmatch(part)))
        if not 0 < len(marks) <= MOST_MARKS:
            return None
        written, time = None, None
        if self._stamp is not None:
            written = self._written_time(said, carried)
            time = None if written is None else self._stamp.unit.read(written)
            if time is None:
                return None
        filled = [one.fill(delivery, said, public_url, written) for one in self._texts]
        texts = tuple(dict.fromkeys(text for text in filled if text is not None))
        return Signed(marks, texts, time, self._mac.digest) if texts else None

    def _carried(self, said: dict[bytes, bytes]) -> list[bytes]:
        between = self._mac.between
        values = [said[name] for name in self._carriers if name in said]
        if between is None:
            return values
        return [part.strip(b" ") for value in values for part in value.split(between.encode())]

    def _written_time(self, said: dict[bytes, bytes], carried: list[bytes]) -> bytes | None:
        if self._time is None:
            return agreed(said, self._stamps)
        found = {match["time"] for part in carried if (match := self._time.fullmatch(part))}
        return found.pop() if len(found) == 1 else None


class MacSigner:
    """Signs as a description says, with the first secret."""

    def __init__(self, mac: Mac, signature: Signature) -> None:
        self._mac = mac
        self._key = mac.key(signature.secrets[0])
        self._public_url = signature.public_url
        self._text = Template(mac.signed[0])

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer. As it came where something that belongs under the mark is missing."""
        said = wire.lines(delivery.headers, self._text.headers)
        stamp = self._mac.stamp
        time = None if stamp is None else stamp.unit.write(now)
        text = self._text.fill(delivery, said or {}, self._public_url, time)
        if text is None:
            return delivery
        carried = self._carried(self._mac.written, self._mac.digest, text, time)
        lines = wire.put(delivery.headers, self._mac.headers, carried)
        for one in self._mac.older:
            if delivery.header(one.header.lower().encode()) is not None:
                carried = self._carried(one.written, one.digest, text, time)
                lines = wire.put(lines, (one.header,), carried)
        if time is not None and stamp is not None and stamp.headers:
            lines = wire.put(lines, stamp.headers, time)
        return delivery._replace(headers=lines)

    def _carried(self, written: str, digest: str, text: bytes, time: bytes | None) -> bytes:
        mark = self._mac.encoding.write(hmac.digest(self._key, text, digest))
        return written.encode().replace(b"{time}", time or b"").replace(b"{mark}", mark)


class Template:
    """A text with fields."""

    def __init__(self, written: str) -> None:
        pieces = _FIELD.split(written)
        self._pieces = [
            (piece.encode() if place % 2 == 0 else piece) for place, piece in enumerate(pieces)
        ]
        self._spellings = {
            name: _spellings(name.split("|")) for name in pieces[1::2] if name not in _OWN
        }
        self.headers = frozenset(name for names in self._spellings.values() for name in names)
        """Lower-case names of the headers among its fields."""

    def fill(
        self,
        delivery: Delivery,
        said: dict[bytes, bytes],
        public_url: str | None,
        time: bytes | None,
    ) -> bytes | None:
        """The text of one delivery; None where a field has no value."""
        filled: list[bytes] = []
        for piece in self._pieces:
            value = piece if isinstance(piece, bytes) else None
            if isinstance(piece, str):
                value = (
                    agreed(said, self._spellings[piece])
                    if piece in self._spellings
                    else _own(piece, delivery, public_url, time)
                )
            if value is None:
                return None
            filled.append(value)
        return b"".join(filled)


def agreed(said: dict[bytes, bytes], spellings: tuple[bytes, ...]) -> bytes | None:
    """The one value of a header with several spellings; None without one, or where they differ."""
    values = {said[name] for name in spellings if name in said}
    return values.pop() if len(values) == 1 else None


def unescaped(url: bytes) -> bytes:
    """A URL as HubSpot signs it: these characters are themselves, all other escapes stay.

    https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests
    """
    return _UNESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), url)


def _own(name: str, delivery: Delivery, public_url: str | None, time: bytes | None) -> bytes | None:
    match name:
        case "body":
            return delivery.body
        case "time":
            return time
        case "method":
            return delivery.method.encode()
        case "url":
            return wire.url(delivery, public_url)
        case _:
            url = wire.url(delivery, public_url)
            return None if url is None else unescaped(url)


def _parts(mac: Mac) -> list[str]:
    return mac.written.split(mac.between) if mac.between is not None else [mac.written]


def _pattern(part: str, mac: Mac) -> re.Pattern[bytes]:
    before, name, after = _FIELD.split(part)
    # Beside a mark everybody counts seconds or milliseconds.
    what = mac.encoding.alphabet(mac.digest) if name == "mark" else "[0-9]{1,15}"
    return re.compile(f"{re.escape(before)}(?P<{name}>{what}){re.escape(after)}".encode())


def _spellings(names: tuple[str, ...] | list[str]) -> tuple[bytes, ...]:
    return tuple(name.lower().encode() for name in names)


_FIELD = re.compile(r"\{([^}]+)\}")
_OWN = frozenset({"body", "time", "method", "url", "unescaped_url"})
# : / ? @ ! $ ' ( ) * , ;
_UNESCAPED = re.compile(rb"%(3[AaBbFf]|2[FfAaCc14789]|40)")
