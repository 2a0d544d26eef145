"""Static tokens, and what the table of all schemes says."""

from __future__ import annotations

from base64 import b64encode

import pytest

from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers import presets, schemes
from tests.providers.signed import check, delivery, headers_of, sign, signature_of

MISSING, WRONG = Invalid(Flaw.MISSING), Invalid(Flaw.WRONG)
BASIC = "Basic " + b64encode(b"shop:hush").decode()


@pytest.mark.parametrize(
    ("scheme", "header", "value", "said"),
    [
        ("gitlab-token", "X-Gitlab-Token", "shop:hush", Valid(1)),
        ("gitlab-token", "X-Gitlab-Token", " shop:hush\t", Valid(1)),
        ("gitlab-token", "X-Gitlab-Token", "shop:hush2", WRONG),
        ("gitlab-token", "X-Gitlab-Token", "shop:hus", WRONG),
        ("gitlab-token", "X-Gitlab-Token", "Shop:hush", WRONG),
        ("gitlab-token", "X-Gitlab-Token", "", MISSING),
        ("telegram", "X-Telegram-Bot-Api-Secret-Token", "shop:hush", Valid(1)),
        ("okta-token", "Authorization", "shop:hush", Valid(1)),
        ("okta-token", "Authorization", "Bearer shop:hush", WRONG),
        ("bearer-token", "Authorization", "Bearer shop:hush", Valid(1)),
        ("bearer-token", "Authorization", "bearer  shop:hush", Valid(1)),
        ("bearer-token", "Authorization", "shop:hush", MISSING),
        ("bearer-token", "Authorization", "Bearer", MISSING),
        ("bearer-token", "Authorization", "Bearer ", MISSING),
        ("basic-auth", "Authorization", BASIC, Valid(1)),
        ("basic-auth", "Authorization", BASIC.replace("Basic", "bAsIc"), Valid(1)),
        ("basic-auth", "Authorization", BASIC + "=", WRONG),
        ("basic-auth", "Authorization", BASIC.replace("Basic", "Bearer"), MISSING),
        ("basic-auth", "Authorization", "Basic é", WRONG),
    ],
)
async def test_the_token_is_one_of_the_secrets_or_refused(
    scheme: str, header: str, value: str, said: Valid | Invalid
) -> None:
    signature = signature_of(scheme, "o:ther", "shop:hush")
    assert await check(signature, delivery({header: value}), 0) == said


async def test_the_first_of_two_equal_secrets_is_named() -> None:
    for scheme, header in (("gitlab-token", {"X-Gitlab-Token": "t"}), ("shopify", {})):
        signature = signature_of(scheme, "t", "t")
        one = sign(signature, delivery(header), 0)
        assert await check(signature, one, 0) == Valid(0)


async def test_two_tokens_are_none() -> None:
    one = delivery({"X-Gitlab-Token": "t"})
    twice = one._replace(headers=(*one.headers, (b"x-gitlab-token", b"u")))
    assert await check(signature_of("gitlab-token", "t", "u"), twice, 0) == MISSING


@pytest.mark.parametrize(
    ("scheme", "sent"),
    [("bearer-token", "Bearer a:b"), ("basic-auth", "Basic YTpi"), ("okta-token", "a:b")],
)
def test_the_first_secret_goes_to_the_consumer(scheme: str, sent: str) -> None:
    one = sign(signature_of(scheme, "a:b", "c:d"), delivery({"AUTHORIZATION": "x"}), 0)
    assert headers_of(one)["AUTHORIZATION"] == sent


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        ("standard-webhooks", "whsec_"),
        ("standard-webhooks", "whsec_a2tr%%%%"),
        ("standard-webhooks", "whsec_abcde"),
        ("adyen", "not hex"),
        ("adyen", ""),
        ("adyen", "abc"),
        ("basic-auth", "hush"),
    ],
)
def test_a_text_that_is_no_secret_is_refused_without_being_told(scheme: str, secret: str) -> None:
    fault = schemes.scheme(scheme).fault(secret)
    assert fault is not None
    shown = secret.removeprefix("whsec_")
    assert not shown or shown not in fault


def test_a_secret_that_may_be_one_has_no_fault() -> None:
    for scheme, secret in (
        ("standard-webhooks", "whsec_a2trag"),
        ("standard-webhooks", "a2trag=="),
        ("adyen", "00FF"),
        ("basic-auth", "user:"),
        ("stripe", "whsec_not base64"),
        ("bigcommerce", "any thing"),
    ):
        assert schemes.scheme(scheme).fault(secret) is None


def test_each_preset_names_a_scheme_that_there_is() -> None:
    for name in presets.names():
        fact = presets.preset(name).settings.get("signature.scheme")
        if fact is not None:
            assert schemes.scheme(str(fact.value)).name == fact.value


def test_an_unknown_scheme_is_told_what_there_is() -> None:
    with pytest.raises(LookupError, match="stripe"):
        schemes.scheme("strip")


@pytest.mark.parametrize(
    ("scheme", "tolerance"),
    [
        ("calendly", 180),
        ("contentful", 30),
        ("hubspot-v3", 300),
        ("linear", 60),
        ("mailgun", 9 * 3600),
        ("paddle", 5),
        ("paypal", 73 * 3600),
        ("recurly", 300),
        ("slack", 300),
        ("standard-webhooks", 300),
        ("stripe", 300),
        ("twitch", 600),
        ("zendesk", None),
        ("zoom", 300),
    ],
)
def test_the_tolerance_is_the_providers_own(scheme: str, tolerance: float | None) -> None:
    assert schemes.scheme(scheme).tolerance == tolerance
    assert schemes.scheme(scheme).dated


@pytest.mark.parametrize("name", schemes.names())
def test_a_scheme_is_consistent(name: str) -> None:
    scheme = schemes.scheme(name)
    assert scheme.name == name
    assert all(header == header.lower() for header in scheme.headers)
    assert scheme.tolerance is None or scheme.dated
    assert scheme.proof is None or scheme.proof.strip()
    assert not scheme.signs or "secrets" in scheme.needs
