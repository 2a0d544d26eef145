"""SNS: which members are signed, by whose certificate, and for which topic."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.signature import Invalid, Valid
from tests.providers import named_certificates as published
from tests.providers.certified import (
    CONFIRMATION,
    MISSING,
    NOTIFICATION,
    ROUTE,
    SIGNED,
    TOPIC,
    WRONG,
    check,
    posted,
    sns,
    web,
)
from tests.providers.publishers import Web, certificate, rsa_key, signature_of


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(
    "message",
    [
        NOTIFICATION,
        {key: value for key, value in NOTIFICATION.items() if key != "Subject"},
        {**NOTIFICATION, "Subject": None},
        CONFIRMATION,
        {**CONFIRMATION, "Type": "UnsubscribeConfirmation"},
    ],
    ids=["notification", "no subject", "null subject", "subscribed", "unsubscribed"],
)
async def test_each_kind_of_message_is_checked_by_the_members_that_it_signs(
    message: dict[str, Any], version: str
) -> None:
    assert await check(ROUTE["aws-sns"], posted(sns(message, version))) == Valid(0)


async def test_what_amazon_signed_itself_is_valid() -> None:
    source = Web()
    source.documents[published.SNS_CERTIFICATE_URL] = published.SNS_CERTIFICATE
    for message in published.SNS_MESSAGES:
        one = posted(message)
        route = signature_of("aws-sns", audience=message["TopicArn"])
        assert await check(route, one, published.SNS_TIME, source) == Valid(0)
        changed = posted({**message, "Message": "Hello World"})
        assert await check(route, changed, published.SNS_TIME, source) == WRONG


async def test_a_route_may_take_several_topics_and_no_others() -> None:
    several = replace(ROUTE["aws-sns"], expected=(("audience", "arn:x"), ("audience", TOPIC)))
    assert await check(several, posted(sns(NOTIFICATION))) == Valid(0)
    source = web()
    foreign = posted(sns({**NOTIFICATION, "TopicArn": TOPIC + "2"}))
    assert await check(several, foreign, source=source) == WRONG
    assert source.fetched == []


@pytest.mark.parametrize("member", [*SIGNED["Notification"].split(), "Signature"])
async def test_one_changed_member_of_a_message_is_refused(member: str) -> None:
    message = sns(NOTIFICATION)
    for at in range(len(message[member])):
        old = message[member]
        changed = {**message, member: old[:at] + chr(ord(old[at]) ^ 1) + old[at + 1 :]}
        answer = await check(ROUTE["aws-sns"], posted(changed))
        assert isinstance(answer, Invalid), at


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_sns_message_id": "m-2"},
        {"x_amz_sns_message_type": "SubscriptionConfirmation"},
        {"x_amz_sns_topic_arn": TOPIC + "2"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_a_header_that_says_otherwise_than_the_signed_body_is_refused(
    headers: dict[str, str],
) -> None:
    assert await check(ROUTE["aws-sns"], posted(sns(NOTIFICATION), **headers)) == WRONG


async def test_no_message_comes_without_the_headers_that_repeat_its_members() -> None:
    whole = posted(sns(NOTIFICATION))
    for name, _ in whole.headers:
        rest = tuple(line for line in whole.headers if line[0] != name)
        for lines in (rest, (*rest, (name, b" "))):
            answer = await check(ROUTE["aws-sns"], whole._replace(headers=lines))
            assert answer == (MISSING if name.startswith(b"x-amz") else Valid(0)), name


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"{" * 100_000,
        b'{"Type": "Notification"}',
        json.dumps({**sns(NOTIFICATION), "Type": "Other"}).encode(),
        json.dumps({**sns(NOTIFICATION), "Type": ["Notification"]}).encode(),
        json.dumps({**sns(NOTIFICATION), "Message": 7}).encode(),
        json.dumps({**sns(NOTIFICATION), "Message": "\ud800"}).encode(),
        json.dumps({**sns(NOTIFICATION), "SignatureVersion": "3"}).encode(),
        json.dumps({**sns(NOTIFICATION), "Timestamp": "yesterday"}).encode(),
        json.dumps({**sns(NOTIFICATION), "Signature": "!"}).encode(),
        json.dumps({**sns(NOTIFICATION), "SigningCertURL": None}).encode(),
        # Which of two members a consumer reads is its own affair.
        b'{"Message": "another", ' + json.dumps(sns(NOTIFICATION)).encode()[1:],
    ],
)
async def test_what_is_no_message_has_no_signature(body: bytes) -> None:
    assert await check(ROUTE["aws-sns"], posted(NOTIFICATION)._replace(body=body)) == MISSING


FORGED_SNS = [
    "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.com.example.com/SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.com@example.com/SimpleNotificationService-0123abcd.pem",
    "https://example.com/sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.com:8443/SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem?x=1",
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem#x",
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem\n",
    "https://sns.eu-west-1.amazonaws.com/../SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.com/?Action=X&y=/SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.co/SimpleNotificationService-0123abcd.pem",
    "https://snsxeu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "https://mine.s3.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "https://sns.mine.s3.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "https://sns.s3-us-west-2.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "https://sns.eu-west-1.amazonaws.com.cn/SimpleNotificationService-0123abcd.pem",
    "HTTPS://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("url", FORGED_SNS)
async def test_no_certificate_of_another_host_than_amazons_is_asked_for(url: str) -> None:
    source = web()
    source.documents[url] = certificate(rsa_key("one"))
    assert await check(ROUTE["aws-sns"], posted(sns(NOTIFICATION, url=url)), source=source) == WRONG
    assert source.fetched == []


@pytest.mark.parametrize(
    "url",
    [
        "https://sns.us-gov-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem",
        "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-0123abcd.pem",
    ],
)
async def test_amazons_other_partitions_are_known(url: str) -> None:
    source = web()
    source.documents[url] = certificate(rsa_key("one"))
    one = posted(sns(NOTIFICATION, url=url))
    assert await check(ROUTE["aws-sns"], one, source=source) == Valid(0)


async def test_a_body_that_would_take_too_much_memory_is_not_read() -> None:
    large = json.dumps({**sns(NOTIFICATION), "Message": "x" * 2**20}).encode()
    many = json.dumps({**sns(NOTIFICATION), "MessageAttributes": [{}] * 2**20}).encode()
    whole = posted(sns(NOTIFICATION))
    assert await check(ROUTE["aws-sns"], whole._replace(body=large)) == WRONG
    assert await check(ROUTE["aws-sns"], whole._replace(body=many)) == MISSING
