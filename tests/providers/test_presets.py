"""Presets: each is whole and consistent, and says how well it knows what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gateway import catalogue
from gateway.core.durations import parse_duration
from gateway.core.location import FirstOf, Literal, canonical, may_be_constant, parse_location
from gateway.core.retention import UNKNOWN_PART
from gateway.core.route import Mode, Route
from gateway.providers import presets, schemes
from gateway.providers.presets import Confidence, Fact, Never, Preset

# Days that ids have to be known at least, as researched on their own: the longer of the retry
# horizon and the redrive window. None where neither is known.
FLOORS = {
    "adyen": 30, "auth0": 1, "aws-sns": 14, "azure-event-grid": 1, "bigcommerce": 3,
    "bitbucket": None, "braintree": 1, "calendly": 1, "chargebee": 4, "clerk": 90,
    "cloudevents": None, "coinbase-commerce": 3, "contentful": 1, "discord-events": 1,
    "discord-interactions": None, "docusign": 15, "gcp-pubsub": 31, "github": 3, "gitlab": 30,
    "hookdeck": 30, "hubspot": 1, "intercom": 1, "jira": 3, "lemonsqueezy": 1, "linear": 1,
    "mailgun": 1, "meta": 7, "mollie": 2, "netlify": None, "okta": None, "paddle": 90,
    "pagerduty": 2, "paypal": 3, "plaid": 1, "postmark": 45, "quickbooks": None, "razorpay": 15,
    "recurly": 15, "sendgrid": 1, "sentry": None, "shopify": 1, "slack": 1, "square": 28,
    "standard-webhooks": 4, "stripe": 30, "svix": 90, "telegram": 1, "twilio": 1, "twitch": None,
    "typeform": None, "vercel": 1, "woocommerce": None, "xero": 1, "zendesk": None, "zoom": 1,
}  # fmt: skip
# Sources disagree about the id, or nothing says that a retry repeats it.
DOUBTFUL = {
    "bigcommerce", "bitbucket", "braintree", "docusign", "hubspot", "linear", "mailgun", "netlify",
    "sentry", "shopify", "typeform", "woocommerce", "zendesk", "zoom",
}  # fmt: skip
PASSING = {"discord-interactions", "mollie", "plaid"}
IDENTITIES = ("event_id", "batch.event_id")

every_preset = pytest.mark.parametrize("name", presets.names())


def evidence(one: Preset) -> Iterator[Fact | Never]:
    yield from one.settings.values()
    yield from one.unknown.values()
    yield from one.never
    if one.special is not None:
        yield one.special


def listed(fact: Fact | None) -> list[str]:
    if fact is None:
        return []
    value = [fact.value] if isinstance(fact.value, str) else fact.value
    return [str(part) for part in value]


def span(one: Preset, path: str) -> timedelta:
    fact = one.settings.get(path)
    return UNKNOWN_PART if fact is None else parse_duration(str(fact.value))


def test_there_is_a_preset_of_each_provider_that_was_looked_into() -> None:
    assert len(FLOORS) == 55
    assert set(presets.names()) == set(FLOORS)


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(LookupError, match="netlify"):
        presets.preset("nettlify")


@every_preset
def test_every_fact_says_how_well_it_is_known_and_where_it_was_read(name: str) -> None:
    one = presets.preset(name)
    assert one.evidence in ("good", "partial", "weak")
    for known in evidence(one):
        assert known.source or known.confidence in (Confidence.MEMORY, Confidence.INFERRED), known
    handshakes = one.settings.get("handshakes")
    for said in handshakes.value if handshakes else ():
        assert isinstance(said, dict)
        assert said.get("source") or said["confidence"] == Confidence.MEMORY


@every_preset
def test_each_part_of_the_promise_is_either_known_or_said_to_be_unknown(name: str) -> None:
    one = presets.preset(name)
    for path in catalogue.PROMISED:
        assert (path in one.settings) != (path in one.unknown), path


@every_preset
def test_ids_are_remembered_for_as_long_as_an_old_event_can_return(name: str) -> None:
    one = presets.preset(name)
    kept = span(one, "promise.retry_horizon") + span(one, "promise.redrive_window")
    assert kept > timedelta(0), "a route without memory recognises nothing"
    assert math.ceil(kept / timedelta(days=1)) >= (FLOORS[name] or 0)


@every_preset
def test_an_id_that_is_doubtful_says_why_and_the_others_do_not(name: str) -> None:
    assert (presets.preset(name).doubt is not None) == (name in DOUBTFUL)


@every_preset
def test_what_has_no_safe_id_passes_through_and_the_others_have_one(name: str) -> None:
    one = presets.preset(name)
    assert one.passes == (name in PASSING)
    assert one.passes != any(path in one.settings for path in IDENTITIES)
    assert ("batch.items" in one.settings) == ("batch.event_id" in one.settings)


@every_preset
def test_no_composite_id_consists_of_fixed_words_alone(name: str) -> None:
    for path in IDENTITIES:
        parts = [parse_location(part) for part in listed(presets.preset(name).settings.get(path))]
        assert not parts or not all(map(may_be_constant, parts)), path


@every_preset
def test_a_scope_that_is_not_there_costs_no_protection(name: str) -> None:
    for part in listed(presets.preset(name).settings.get("scope")):
        location = parse_location(part)
        assert isinstance(location, FirstOf)
        assert location.options[-1] == Literal("-")


@every_preset
def test_what_is_never_an_id_is_not_the_id(name: str) -> None:
    one = presets.preset(name)
    never = {
        canonical(parse_location(said.where))
        for said in one.never
        if said.where.startswith(("header:", "json:", "form:", "query:"))
    }
    for path in IDENTITIES:
        parts = [canonical(parse_location(part)) for part in listed(one.settings.get(path))]
        # Beside others it may tell siblings apart, where it is the same on a retry.
        assert len(parts) != 1 or not never.intersection(parts[0].split(" | "))


@every_preset
def test_a_preset_names_a_scheme_that_there_is(name: str) -> None:
    scheme = str(presets.preset(name).settings["signature.scheme"].value)
    assert scheme in schemes.names()


@every_preset
def test_a_route_that_names_its_provider_is_a_whole_route(
    name: str, routes: dict[str, Route]
) -> None:
    route = routes[name]
    assert route.recipe.scope[0] == Literal(name)
    assert (route.mode is Mode.OBSERVE) == (name in DOUBTFUL)
    assert bool(route.pass_through) == (name in PASSING)
    assert bool(route.handshakes) == ("handshakes" in presets.preset(name).settings)
