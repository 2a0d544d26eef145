"""Presets' keys: events that look alike are kept apart, and one event has one key.

The traps that were researched, each as a pair of requests.
"""

from __future__ import annotations

import json

import pytest

from gateway.core.batch import Batch
from gateway.core.batch import read as read_batch
from gateway.core.event import Delivery, EventKey
from gateway.core.fingerprint import fingerprint
from gateway.core.keying import Missing, Reading
from gateway.core.route import Route


def delivery(body: str, *headers: str, query: str = "") -> Delivery:
    lines = [line.partition(": ") for line in headers]
    raw = tuple((name.encode(), value.encode()) for name, _, value in lines)
    return Delivery("POST", f"/{query}", raw, body.encode(), "192.0.2.1", "https")


def key(route: Route, sent: Delivery) -> EventKey | None:
    """What an event is claimed by; of a batch, its only item with an id. None without one."""
    reading = Reading(sent)
    if route.batch is not None:
        found = read_batch(reading, route.batch, route.recipe, route.per_attempt)
        if isinstance(found, Batch):
            (item,) = found.by_key().values() or (None,)
            return None if item is None or item.part is None else item.part.key
    known = reading.identify(route.recipe)
    assert isinstance(known, EventKey | Missing), known
    return known if isinstance(known, EventKey) else None


HUBSPOT = {"portalId": 1, "subscriptionId": 2, "eventId": 3, "occurredAt": 1767225600000}
PSP = {"eventCode": "AUTHORISATION", "pspReference": "P1", "merchantAccountCode": "M"}
CLOUD_EVENT = {"specversion": "1.0", "id": "1", "source": "intuit.sample", "type": "created"}
ORDER = {"type": "orders", "id": "1", "attributes": {"updated_at": "2026-01-01T00:00:00Z"}}
LEMON = json.dumps({"meta": {"event_name": "order_created"}, "data": ORDER})
ENTITY = {
    "name": "Customer",
    "id": "1",
    "operation": "Create",
    "lastUpdated": "2026-01-01T00:00:00Z",
}
AT = {"ReceivedAt": "2026-01-01T00:00:00Z"}
OPEN = {"RecordType": "Open", "MessageID": "m", "Recipient": "a@example.com"}
GRANT = {"application_id": "1", "type": 1}


def adyen(**fields: object) -> str:
    item = {"NotificationRequestItem": {**PSP, **fields}}
    return json.dumps({"live": "false", "notificationItems": [item]})


def quickbooks(*realms: str) -> str:
    """The older form: two companies may have an entity of one name, id and moment."""
    changed = [{"realmId": realm, "dataChangeEvent": {"entities": [ENTITY]}} for realm in realms]
    return json.dumps({"eventNotifications": changed})


def discord(**data: object) -> str:
    event = {"type": "APPLICATION_AUTHORIZED", "timestamp": "2026-01-01T00:00:00.1", "data": data}
    return json.dumps({**GRANT, "event": event})


SIBLINGS = {
    "two steps of one message": (
        "twilio",
        delivery("AccountSid=A&MessageSid=S&MessageStatus=sent"),
        delivery("AccountSid=A&MessageSid=S&MessageStatus=delivered"),
    ),
    "two callbacks of one call": (
        "twilio",
        delivery("AccountSid=A&CallSid=C&CallStatus=in-progress&SequenceNumber=1"),
        delivery("AccountSid=A&CallSid=C&CallStatus=in-progress&SequenceNumber=2"),
    ),
    "one event for two hooks": (
        "github",
        delivery("{}", "X-GitHub-Delivery: g", "X-GitHub-Hook-ID: 1"),
        delivery("{}", "X-GitHub-Delivery: g", "X-GitHub-Hook-ID: 2"),
    ),
    "a payment that failed and then succeeded": (
        "adyen",
        delivery(adyen(success="false", eventDate="2026-01-01T00:00:00+01:00")),
        delivery(adyen(success="true", eventDate="2026-01-01T00:00:00+01:00")),
    ),
    "one number in two portals": (
        "hubspot",
        delivery(json.dumps([HUBSPOT])),
        delivery(json.dumps([{**HUBSPOT, "portalId": 9}])),
    ),
    "two companies' first customers": (
        "quickbooks",
        delivery(json.dumps([{**CLOUD_EVENT, "intuitaccountid": "realm-1"}])),
        delivery(json.dumps([{**CLOUD_EVENT, "intuitaccountid": "realm-2"}])),
    ),
    "two readers of one mail": (
        "postmark",
        delivery(json.dumps({**OPEN, **AT})),
        delivery(json.dumps({**OPEN, **AT, "Recipient": "b@example.com"})),
    ),
    "two links in one mail": (
        "postmark",
        delivery(json.dumps({**OPEN, "RecordType": "Click", "OriginalLink": "https://a.example"})),
        delivery(json.dumps({**OPEN, "RecordType": "Click", "OriginalLink": "https://b.example"})),
    ),
    "two events of one mail without ids": (
        "sendgrid",
        delivery('[{"sg_message_id":"m","event":"open","timestamp":1,"email":"a@example.com"}]'),
        delivery('[{"sg_message_id":"m","event":"open","timestamp":2,"email":"a@example.com"}]'),
    ),
    "two statuses of one message": (
        "meta",
        delivery('{"entry":[{"changes":[{"value":{"statuses":[{"id":"w","status":"sent"}]}}]}]}'),
        delivery('{"entry":[{"changes":[{"value":{"statuses":[{"id":"w","status":"read"}]}}]}]}'),
    ),
    "one id of two topics": (
        "azure-event-grid",
        delivery('[{"topic":"t1","id":"1"}]'),
        delivery('[{"topic":"t2","id":"1"}]'),
    ),
    "one user in two guilds": (
        "discord-events",
        delivery(discord(user={"id": "7"}, guild={"id": "1"})),
        delivery(discord(user={"id": "7"}, guild={"id": "2"})),
    ),
    "one id of two sources": (
        "cloudevents",
        delivery("{}", "ce-source: a", "ce-id: 1"),
        delivery("{}", "ce-source: b", "ce-id: 1"),
    ),
    "an order that was made and refunded at once": (
        "lemonsqueezy",
        delivery(LEMON),
        delivery(LEMON.replace("order_created", "order_refunded")),
    ),
    "two deletions": (
        "woocommerce",
        delivery('{"id":1}', "X-WC-Webhook-ID: 5", "X-WC-Webhook-Topic: order.deleted"),
        delivery('{"id":2}', "X-WC-Webhook-ID: 5", "X-WC-Webhook-Topic: order.deleted"),
    ),
    "two messages about one message, unwrapped": (
        "gcp-pubsub",
        delivery('{"message":{"messageId":"1"}}', "x-goog-pubsub-message-id: 2"),
        delivery('{"message":{"messageId":"1"}}', "x-goog-pubsub-message-id: 3"),
    ),
    "one number in two topics, unwrapped": (
        "gcp-pubsub",
        delivery("{}", "x-goog-pubsub-message-id: 1", "x-goog-pubsub-subscription-name: a"),
        delivery("{}", "x-goog-pubsub-message-id: 1", "x-goog-pubsub-subscription-name: b"),
    ),
    "two updates with one hash": (
        "bigcommerce",
        delivery('{"hash":"h","created_at":1}'),
        delivery('{"hash":"h","created_at":2}'),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "one", "other"), SIBLINGS.values(), ids=SIBLINGS)
def test_events_that_look_alike_are_kept_apart(
    name: str, one: Delivery, other: Delivery, routes: dict[str, Route]
) -> None:
    first, second = key(routes[name], one), key(routes[name], other)
    assert first is not None
    assert second is not None
    assert first.digest != second.digest


SAME = {
    "a request that is tried twice": (
        "twilio",
        delivery("AccountSid=A&CallSid=C&CallStatus=ringing", "I-Twilio-Idempotency-Token: t"),
        delivery("AccountSid=A&CallSid=C&CallStatus=ringing", "I-Twilio-Idempotency-Token: t"),
    ),
    "an item with an id that is grouped otherwise": (
        "sendgrid",
        delivery('[{"sg_event_id":"e","event":"open","timestamp":1,"email":"a@example.com"}]'),
        delivery('[{"sg_event_id":"e","event":"open","timestamp":2}]'),
    ),
    "an attempt that counts itself": (
        "hubspot",
        delivery(json.dumps([{**HUBSPOT, "attemptNumber": 0}])),
        delivery(json.dumps([{**HUBSPOT, "attemptNumber": 1}])),
    ),
    "a white-labelled sender": (
        "svix",
        delivery("{}", "svix-id: msg_1"),
        delivery("{}", "webhook-id: msg_1"),
    ),
    "a hook that got a signing token": (
        "gitlab",
        delivery("{}", "Idempotency-Key: k"),
        delivery("{}", "webhook-id: k"),
    ),
    "binary and structured mode": (
        "cloudevents",
        delivery('{"id":"not this","source":"nor this"}', "ce-source: s", "ce-id: 1"),
        delivery('{"source":"s","id":"1"}'),
    ),
    "a batch of one and the event alone": (
        "cloudevents",
        delivery('[{"source":"s","id":"1"}]'),
        delivery('{"source":"s","id":"1"}'),
    ),
    "raw delivery and the envelope": (
        "aws-sns",
        delivery("raw", "x-amz-sns-message-id: m", "x-amz-sns-topic-arn: arn"),
        delivery('{"MessageId":"m","TopicArn":"arn"}'),
    ),
    "a message in its wrapper and without": (
        "gcp-pubsub",
        delivery('{"message":{"messageId":"1"},"subscription":"s"}'),
        delivery("{}", "x-goog-pubsub-message-id: 1", "x-goog-pubsub-subscription-name: s"),
    ),
    "a recording under another name, which nobody signs": (
        "lemonsqueezy",
        delivery(LEMON, "X-Event-Name: order_created"),
        delivery(LEMON, "X-Event-Name: order_refunded"),
    ),
    "a payload that lost the line break at its end": (
        "braintree",
        delivery("bt_signature=p%7Cm&bt_payload=AAAA%0AAAAA%0A"),
        delivery("bt_signature=p%7Cm&bt_payload=AAAA%0AAAAA"),
    ),
    "another message in the same body": (
        "meta",
        delivery('{"entry":[{"id":"1","changes":[{"value":{"messages":[{"id":"wamid"}]}}]}]}'),
        delivery('{"entry":[{"id":"2"},{"changes":[{"value":{"messages":[{"id":"wamid"}]}}]}]}'),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "one", "other"), SAME.values(), ids=SAME)
def test_one_event_has_one_key_however_it_comes(
    name: str, one: Delivery, other: Delivery, routes: dict[str, Route]
) -> None:
    first, second = key(routes[name], one), key(routes[name], other)
    assert first is not None
    assert second is not None
    assert first.digest == second.digest


WITHOUT_ID = {
    "a step of a call without a token": (
        "twilio",
        delivery("AccountSid=A&CallSid=C&CallStatus=in-progress&Digits=1"),
    ),
    "a body of a trigger's own making": ("zendesk", delivery('{"ticket":7}')),
    "a platform event that is not counted": (
        "adyen",
        delivery('{"type":"balancePlatform.transfer.updated","data":{"id":"1"}}'),
    ),
    "a change of a page": ("meta", delivery('{"object":"page","entry":[{"id":"1","time":1}]}')),
    "an event of a shape that nobody knows": ("discord-events", delivery(discord(other="1"))),
    "entities of two companies": ("quickbooks", delivery(quickbooks("realm-1", "realm-2"))),
    "an old self-managed GitLab": ("gitlab", delivery("{}", "X-Gitlab-Webhook-UUID: u")),
}


@pytest.mark.parametrize(("name", "sent"), WITHOUT_ID.values(), ids=WITHOUT_ID)
def test_what_cannot_be_told_from_its_siblings_has_no_id(
    name: str, sent: Delivery, routes: dict[str, Route]
) -> None:
    assert key(routes[name], sent) is None


ATTEMPTS = {
    "chargebee": ('{"id":"e","webhooks":[1]}', '{"id":"e","webhooks":[1,2]}'),
    "coinbase-commerce": ('{"id":"1","attempt_number":1}', '{"id":"2","attempt_number":2}'),
    "docusign": ('{"event":"e","retryCount":0}', '{"event":"e","retryCount":1}'),
    "gcp-pubsub": ('{"deliveryAttempt":1}', '{"deliveryAttempt":2}'),
    "hubspot": ('{"eventId":1,"attemptNumber":0}', '{"eventId":1,"attemptNumber":1}'),
    "intercom": ('{"id":"n","delivery_attempts":1}', '{"id":"n","delivery_attempts":2}'),
    "linear": ('{"type":"Issue","webhookTimestamp":1}', '{"type":"Issue","webhookTimestamp":2}'),
    "mailgun": ('{"signature":{"token":"a"}}', '{"signature":{"token":"b"}}'),
    "paddle": ('{"event_id":"e","notification_id":1}', '{"event_id":"e","notification_id":2}'),
    "stripe": ('{"id":"evt_1"}', '{"id":"evt_1","pending_webhooks":1}'),
    "zoom": ('{"event":"e","download_token":"a"}', '{"event":"e","download_token":"b"}'),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_what_changes_with_each_attempt_makes_no_other_body(
    name: str, routes: dict[str, Route]
) -> None:
    first, second = (body.encode() for body in ATTEMPTS[name])
    per_attempt = routes[name].per_attempt
    assert fingerprint(first, per_attempt) == fingerprint(second, per_attempt)
    assert fingerprint(first) != fingerprint(second)


def test_every_preset_that_names_what_changes_is_tried(routes: dict[str, Route]) -> None:
    assert {name for name, route in routes.items() if route.per_attempt} == set(ATTEMPTS)
