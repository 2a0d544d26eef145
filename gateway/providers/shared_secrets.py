"""Shared secrets: how providers sign with what both sides know. Most of them need no code.

What is remembered only, and was tried against nothing, has no proof. Where a provider names no
tolerance, neither do we: a retry may come with its first stamp, and nobody gains by refusing it.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.providers.derivation import fault_of, standard
from gateway.providers.mac import Mac, Older, scheme_of
from gateway.providers.scheme import Scheme, any_secret
from gateway.providers.signing import Encoding, plain
from gateway.providers.stamps import Stamp, Unit

_SIGNED_AT = "{time}.{body}"
_BESIDE = Stamp(Unit.SECONDS)
_JIRA = "https://developer.atlassian.com/cloud/jira/platform/webhooks/#secure-admin-webhooks"
_PAGERDUTY = "github.com/PagerDuty/go-pagerduty 1.8.0"
_SHOPIFY = "@shopify/shopify-api 13.1.0"

STANDARD_WEBHOOKS = Mac(
    name="standard-webhooks",
    headers=("webhook-signature", "svix-signature"),
    written="v1,{mark}",
    between=" ",
    signed=("{webhook-id|svix-id}.{time}.{body}",),
    encoding=Encoding.BASE64,
    stamp=Stamp(Unit.SECONDS, ("webhook-timestamp", "svix-timestamp")),
    tolerance=300,
    key=standard,
    fault=fault_of(standard, "base64, with or without whsec_ before it"),
    proof="standardwebhooks 1.1, svix 2.9",
)

OF_THE_BODY = (
    Mac("bitbucket", ("X-Hub-Signature",), None, "sha256={mark}"),
    Mac("coinbase-commerce", ("X-CC-Webhook-Signature",), "coinbase-commerce 1.0"),
    Mac(
        "docusign",
        # One for each key that is active.
        tuple(f"X-DocuSign-Signature-{number}" for number in range(1, 101)),
        None,
        encoding=Encoding.BASE64,
    ),
    Mac(
        "github",
        ("X-Hub-Signature-256",),
        "gidgethub 6.0",
        "sha256={mark}",
        older=(Older("X-Hub-Signature", "sha1={mark}", "sha1"),),
    ),
    Mac(
        "hookdeck",
        # The second while a secret is being replaced.
        ("x-hookdeck-signature", "x-hookdeck-signature-2"),
        "@hookdeck/sdk 0.4.0",
        encoding=Encoding.BASE64,
    ),
    Mac("intercom", ("X-Hub-Signature",), None, "sha1={mark}", digest="sha1"),
    Mac("jira", ("X-Hub-Signature",), _JIRA, "sha256={mark}"),
    Mac("lemonsqueezy", ("X-Signature",), None),
    Mac(
        "meta",
        ("X-Hub-Signature-256",),
        None,
        "sha256={mark}",
        older=(Older("X-Hub-Signature", "sha1={mark}", "sha1"),),
    ),
    Mac("mollie", ("X-Mollie-Signature",), "mollie-api-py 1.10", "sha256={mark}"),
    # Its header may carry one for each secret while they are being replaced.
    Mac("pagerduty", ("X-PagerDuty-Signature",), _PAGERDUTY, "v1={mark}", ","),
    Mac("quickbooks", ("intuit-signature",), None, encoding=Encoding.BASE64),
    Mac("razorpay", ("X-Razorpay-Signature",), "razorpay 2.0"),
    # Sentry-Hook-Timestamp is not signed, so it says nothing.
    Mac("sentry", ("Sentry-Hook-Signature",), None),
    Mac("shopify", ("X-Shopify-Hmac-SHA256",), _SHOPIFY, encoding=Encoding.BASE64),
    Mac("typeform", ("Typeform-Signature",), None, "sha256={mark}", encoding=Encoding.BASE64),
    Mac("vercel", ("x-vercel-signature",), None, digest="sha1"),
    Mac("woocommerce", ("X-WC-Webhook-Signature",), None, encoding=Encoding.BASE64),
    Mac("xero", ("x-xero-signature",), None, encoding=Encoding.BASE64),
)

DATED = (
    STANDARD_WEBHOOKS,
    # Its secret is the key itself; what asks for base64 are libraries that will decode it again.
    replace(
        STANDARD_WEBHOOKS,
        name="bigcommerce",
        headers=("webhook-signature",),
        signed=("{webhook-id}.{time}.{body}",),
        stamp=Stamp(Unit.SECONDS, ("webhook-timestamp",)),
        key=plain,
        fault=any_secret,
        proof="standardwebhooks 1.1, used as bigcommerce/docs shows it",
    ),
    Mac(
        "calendly",
        ("Calendly-Webhook-Signature",),
        None,
        "t={time},v1={mark}",
        ",",
        (_SIGNED_AT,),
        stamp=_BESIDE,
        tolerance=180,
    ),
    Mac(
        "paddle",
        ("Paddle-Signature",),
        "paddle-python-sdk 1.16",
        "ts={time};h1={mark}",
        ";",
        ("{time}:{body}",),
        stamp=_BESIDE,
        tolerance=5,
    ),
    Mac(
        "recurly",
        ("recurly-signature",),
        None,
        "{time},{mark}",
        ",",
        (_SIGNED_AT,),
        stamp=Stamp(Unit.MILLISECONDS),
        tolerance=300,
    ),
    Mac(
        "slack",
        ("X-Slack-Signature",),
        "slack-sdk 3.48",
        "v0={mark}",
        signed=("v0:{time}:{body}",),
        stamp=Stamp(Unit.SECONDS, ("X-Slack-Request-Timestamp",)),
        tolerance=300,
    ),
    Mac(
        "stripe",
        ("Stripe-Signature",),
        "stripe 16.1",
        "t={time},v1={mark}",
        ",",
        (_SIGNED_AT,),
        stamp=_BESIDE,
        tolerance=300,
    ),
    Mac(
        "twitch",
        ("Twitch-Eventsub-Message-Signature",),
        None,
        "sha256={mark}",
        signed=("{Twitch-Eventsub-Message-Id}{time}{body}",),
        stamp=Stamp(Unit.RFC_3339, ("Twitch-Eventsub-Message-Timestamp",)),
        tolerance=600,
    ),
    Mac(
        "zendesk",
        ("X-Zendesk-Webhook-Signature",),
        None,
        # An older page of Zendesk's has the time behind the body, and a vector for that.
        signed=("{time}{body}",),
        encoding=Encoding.BASE64,
        stamp=Stamp(Unit.RFC_3339, ("X-Zendesk-Webhook-Signature-Timestamp",)),
    ),
    Mac(
        "zoom",
        ("x-zm-signature",),
        "@zoom/rivet 0.4.0",
        "v0={mark}",
        signed=("v0:{time}:{body}",),
        stamp=Stamp(Unit.SECONDS, ("x-zm-request-timestamp",)),
        tolerance=300,
    ),
)

OF_THE_URL = (
    Mac(
        "square",
        ("x-square-hmacsha256-signature",),
        "squareup 46.0",
        signed=("{url}{body}",),
        encoding=Encoding.BASE64,
        older=(Older("x-square-signature", "{mark}", "sha1"),),
    ),
)

SCHEMES: tuple[Scheme, ...] = tuple(map(scheme_of, (*OF_THE_BODY, *DATED, *OF_THE_URL)))
