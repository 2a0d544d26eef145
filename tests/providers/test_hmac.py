"""What a check believes, what it does not, and what signing anew leaves alone."""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import sha1, sha256

import pytest

from gateway.core.event import Delivery
from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers import schemes
from gateway.providers.stamps import Unit
from tests.providers.signed import (
    BODY,
    NoKeys,
    check,
    delivery,
    headers_of,
    sign,
    signature_of,
    with_one_byte_changed,
)

NOW = 1_790_000_000
MISSING, WRONG, EXPIRED = (Invalid(flaw) for flaw in (Flaw.MISSING, Flaw.WRONG, Flaw.EXPIRED))
WHSEC = "whsec_" + b64encode(b"k" * 24).decode()
OTHER = "whsec_" + b64encode(b"o" * 24).decode()
SECRETS = {"standard-webhooks": (WHSEC, OTHER), "basic-auth": ("a:b", "c:d")}
IDS = {"webhook-id": "msg_1", "Twitch-Eventsub-Message-Id": "e76c6bd4"}
SIGNED_BY_US = (
    "bigcommerce",
    "calendly",
    "github",
    "hubspot-v3",
    "paddle",
    "pagerduty",
    "recurly",
    "shopify",
    "slack",
    "square",
    "standard-webhooks",
    "stripe",
    "twitch",
    "zendesk",
    "zoom",
)
every_scheme = pytest.mark.parametrize("scheme", SIGNED_BY_US)


def secrets(scheme: str) -> tuple[str, str]:
    return SECRETS.get(scheme, ("current", "former"))


def signed(scheme: str, secret: str | None = None, at: float = NOW) -> Delivery:
    return sign(signature_of(scheme, secret or secrets(scheme)[0]), delivery(IDS), at)


def mark_lines(scheme: str, one: Delivery) -> list[tuple[bytes, bytes]]:
    carriers = {
        name
        for name in schemes.scheme(scheme).headers
        if name.endswith((b"signature", b"signature-256", b"signature-v3", b"sha256"))
    }
    return [line for line in one.headers if line[0].lower() in carriers]


def and_line(one: Delivery, name: bytes, value: bytes) -> Delivery:
    return one._replace(headers=(*one.headers, (name, value)))


@every_scheme
async def test_the_same_line_twice_is_as_good_as_once(scheme: str) -> None:
    one = signed(scheme)
    name, value = mark_lines(scheme, one)[0]
    signature = signature_of(scheme, secrets(scheme)[0])
    assert await check(signature, and_line(one, name.upper(), value), NOW) == Valid(0)


@every_scheme
async def test_two_lines_that_differ_are_not_believed(scheme: str) -> None:
    one = signed(scheme)
    signature = signature_of(scheme, secrets(scheme)[0])
    for name in sorted(schemes.scheme(scheme).headers & {low.lower() for low, _ in one.headers}):
        assert await check(signature, and_line(one, name, b"1790000001"), NOW) == MISSING


@every_scheme
async def test_a_spelling_that_cgi_takes_for_the_same_is_not_believed(scheme: str) -> None:
    one = signed(scheme)
    signature = signature_of(scheme, secrets(scheme)[0])
    for name, value in mark_lines(scheme, one):
        torn = and_line(one, name.replace(b"-", b"_"), value)
        assert await check(signature, torn, NOW) == MISSING


@every_scheme
@pytest.mark.parametrize(
    "value",
    ["", " ", "junk", "v1=", "t=,v1=", "sha256=", "v1, v1,", "\x00", "ÿþ", "=" * 44, "0" * 63],
)
async def test_what_cannot_be_read_is_missing(scheme: str, value: str) -> None:
    one = signed(scheme)
    names = {name for name, _ in mark_lines(scheme, one)}
    lines = tuple(
        (name, value.encode("latin-1") if name in names else old) for name, old in one.headers
    )
    signature = signature_of(scheme, secrets(scheme)[0])
    assert await check(signature, one._replace(headers=lines), NOW) == MISSING


@every_scheme
async def test_without_a_signature_it_is_missing(scheme: str) -> None:
    assert await check(signature_of(scheme, secrets(scheme)[0]), delivery(IDS), NOW) == MISSING


@every_scheme
async def test_one_changed_byte_of_what_is_read_is_refused(scheme: str) -> None:
    one = signed(scheme)
    names = [name.decode() for name in schemes.scheme(scheme).headers]
    signature = signature_of(scheme, secrets(scheme)[0])
    for where, changed in with_one_byte_changed(one, names, body=True):
        assert await check(signature, changed, NOW) in (WRONG, MISSING), where


SEVERAL = {
    "calendly": "t={now},v1={wrong},v1={hex}",
    "paddle": "ts={now};h1={wrong};h1={hex}",
    "pagerduty": "v1={wrong},v1={hex}",
    "recurly": "{now}000,{wrong},{hex}",
    "stripe": "t={now},v0={wrong},v1={wrong},v1={hex}",
}
TEXTS = {"paddle": b"%d:%s", "pagerduty": b"%.0s%s", "recurly": b"%d000.%s"}


@pytest.mark.parametrize("scheme", SEVERAL)
async def test_one_right_signature_among_several_is_enough(scheme: str) -> None:
    text = b"%d.%s" % (NOW, BODY)
    if scheme == "pagerduty":
        text = BODY
    elif scheme in TEXTS:
        text = TEXTS[scheme] % (NOW, BODY)
    right = hmac.new(b"former", text, sha256).hexdigest()
    value = SEVERAL[scheme].format(now=NOW, wrong="0" * 64, hex=right)
    header = schemes.scheme(scheme).headers
    (name,) = header
    one = delivery({name.decode(): value})
    assert await check(signature_of(scheme, "current", "former"), one, NOW) == Valid(1)
    assert await check(signature_of(scheme, "current"), one, NOW) == WRONG


async def test_of_two_times_beside_the_mark_none_is_the_signed_one() -> None:
    mark = hmac.new(b"current", b"%d.%s" % (NOW, BODY), sha256).hexdigest()
    for times, said in ((f"t={NOW},t={NOW}", Valid(0)), (f"t={NOW},t={NOW + 1}", MISSING)):
        one = delivery({"Stripe-Signature": f"{times},v1={mark}"})
        assert await check(signature_of("stripe", "current"), one, NOW) == said


async def test_standard_webhooks_takes_any_of_its_signatures() -> None:
    text = b"msg_1.%d.%s" % (NOW, BODY)
    right = b64encode(hmac.digest(b"o" * 24, text, "sha256")).decode()
    for spelling in ("webhook", "svix"):
        one = delivery(
            {
                f"{spelling}-id": "msg_1",
                f"{spelling}-timestamp": str(NOW),
                f"{spelling}-signature": f"v1,{'A' * 43}= v1a,abc v1,{right}",
            }
        )
        assert await check(signature_of("standard-webhooks", WHSEC, OTHER), one, NOW) == Valid(1)


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"svix-id", b"msg_2"), (b"svix-timestamp", b"1790000001"), (b"svix-id", b"msg_1")],
)
async def test_an_id_beside_the_signed_one_is_not_believed(name: bytes, value: bytes) -> None:
    one = and_line(signed("standard-webhooks"), name, value)
    said = await check(signature_of("standard-webhooks", WHSEC), one, NOW)
    assert said == (Valid(0) if value == b"msg_1" else MISSING)


@pytest.mark.parametrize("secret", [WHSEC, WHSEC.removeprefix("whsec_"), WHSEC.rstrip("=")])
async def test_a_standard_secret_may_lack_prefix_and_padding(secret: str) -> None:
    one = signed("standard-webhooks", WHSEC)
    assert await check(signature_of("standard-webhooks", secret), one, NOW) == Valid(0)


@pytest.mark.parametrize("number", [1, 2, 100])
async def test_docusign_signs_once_for_each_key(number: int) -> None:
    right = b64encode(hmac.digest(b"former", BODY, "sha256")).decode()
    headers = {"X-DocuSign-Signature-1": "A" * 43 + "=", f"X-DocuSign-Signature-{number}": right}
    one = delivery(headers)
    assert await check(signature_of("docusign", "current", "former"), one, NOW) == Valid(1)


@pytest.mark.parametrize(
    ("scheme", "headers"),
    [
        ("sentry", {"Sentry-Hook-Timestamp": "1"}),
        ("github", {"Date": "Thu, 01 Jan 1970 00:00:00 GMT"}),
    ],
)
async def test_a_time_that_is_not_signed_says_nothing(scheme: str, headers: dict[str, str]) -> None:
    signature = signature_of(scheme, "current", tolerance=60)
    assert await check(signature, sign(signature, delivery(headers), NOW), NOW) == Valid(0)


@pytest.mark.parametrize(
    ("scheme", "header", "stamp", "said"),
    [
        ("slack", "X-Slack-Request-Timestamp", str(NOW * 1000), EXPIRED),
        ("hubspot-v3", "X-HubSpot-Request-Timestamp", str(NOW), EXPIRED),
        ("slack", "X-Slack-Request-Timestamp", "1e9", MISSING),
        ("slack", "X-Slack-Request-Timestamp", "-1790000000", MISSING),
        ("slack", "X-Slack-Request-Timestamp", "٣", MISSING),
        ("slack", "X-Slack-Request-Timestamp", "9" * 400, MISSING),
        ("twitch", "Twitch-Eventsub-Message-Timestamp", "2026-09-21T13:46:40", MISSING),
        ("twitch", "Twitch-Eventsub-Message-Timestamp", "2026-13-41T00:00:00Z", MISSING),
    ],
)
async def test_a_time_in_another_unit_is_far_away_or_none(
    scheme: str, header: str, stamp: str, said: Invalid
) -> None:
    text = {
        "slack": b"v0:%s:%s" % (stamp.encode(), BODY),
        "hubspot-v3": b"POSThttps://hooks.example.com/hooks/shop?x=1%s%s" % (BODY, stamp.encode()),
        "twitch": b"e76c6bd4%s%s" % (stamp.encode(), BODY),
    }[scheme]
    digest = hmac.digest(b"current", text, "sha256")
    (name,) = (one for one in schemes.scheme(scheme).headers if b"signature" in one)
    mark = {"slack": f"v0={digest.hex()}", "twitch": f"sha256={digest.hex()}"}
    carried = mark.get(scheme, b64encode(digest).decode())
    lines = ((name, carried.encode()), (header.encode(), stamp.encode()))
    one = delivery(IDS)
    one = one._replace(headers=(*one.headers, *lines))
    assert await check(signature_of(scheme, "current"), one, NOW) == said


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (b"2026-09-21T13:46:40Z", 1789998400.0),
        (b"2026-09-21T13:46:40.634234626Z", 1789998400.634234),
        (b"2026-09-21T15:46:40+02:00", 1789998400.0),
    ],
)
def test_a_time_of_day_is_read_with_its_offset(text: bytes, moment: float) -> None:
    assert Unit.RFC_3339.read(text) == pytest.approx(moment, abs=1e-5)


@every_scheme
def test_signing_anew_touches_nothing_but_the_signature_and_its_time(scheme: str) -> None:
    came = and_line(signed(scheme, secrets(scheme)[1], NOW - 9999), b"X-Other", b"a, b")
    came = and_line(came, b"x-OTHER", b"c")
    sent = sign(signature_of(scheme, *secrets(scheme)), came, NOW)
    assert [name for name, _ in sent.headers] == [name for name, _ in came.headers]
    assert sent._replace(headers=()) == came._replace(headers=())
    ours = schemes.scheme(scheme).headers - {b"webhook-id", b"twitch-eventsub-message-id"}
    changed = {
        new[0].lower() for old, new in zip(came.headers, sent.headers, strict=True) if old != new
    }
    assert changed <= ours
    assert changed


@pytest.mark.parametrize(
    ("scheme", "header", "value"),
    [
        ("github", "X-Hub-Signature", "sha1=" + hmac.new(b"current", BODY, sha1).hexdigest()),
        (
            "square",
            "x-square-signature",
            b64encode(
                hmac.digest(b"current", b"https://hooks.example.com/hooks/shop?x=1" + BODY, "sha1")
            ).decode(),
        ),
        ("hubspot-v3", "X-HubSpot-Signature", sha256(b"current" + BODY).hexdigest()),
    ],
)
def test_an_older_signature_is_signed_anew_where_it_came(
    scheme: str, header: str, value: str
) -> None:
    signature = signature_of(scheme, "current")
    sent = sign(signature, delivery({header: "stale"}), NOW)
    assert headers_of(sent)[header] == value
    assert header not in headers_of(sign(signature, delivery(), NOW))


def test_no_text_of_ours_shows_a_secret() -> None:
    for scheme in SIGNED_BY_US:
        current = secrets(scheme)[0]
        signature = signature_of(scheme, current)
        shown = repr((signature, schemes.verifier(signature, NoKeys()), schemes.signer(signature)))
        assert current not in shown
