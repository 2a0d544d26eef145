"""The rules of signatures with shared secrets, each broken in one place."""

from __future__ import annotations

from scripts.edits import Edit

PLACE = "gateway/providers"
SIGNING, WIRE, STAMPS = f"{PLACE}/signing.py", f"{PLACE}/wire.py", f"{PLACE}/stamps.py"
MAC, DERIVATION, TOKENS = f"{PLACE}/mac.py", f"{PLACE}/derivation.py", f"{PLACE}/static_tokens.py"
ADYEN, TWILIO, HUBSPOT = f"{PLACE}/adyen.py", f"{PLACE}/twilio.py", f"{PLACE}/hubspot.py"
CONTENTFUL, IN_BODY = f"{PLACE}/contentful.py", f"{PLACE}/in_body.py"
KEYING = "gateway/core/keying.py"
_GENERAL = ["tests/providers/test_hmac.py", "tests/providers/test_static_tokens.py"]
_URLS = ["tests/providers/test_hmac_urls.py"]
_BODIES = ["tests/providers/test_hmac_bodies.py", "tests/providers/test_hmac_vectors.py"]
TESTS_OF_SIGNATURES = {
    SIGNING: [*_GENERAL, *_BODIES],
    WIRE: [*_GENERAL, *_URLS, *_BODIES],
    STAMPS: _GENERAL,
    MAC: [*_GENERAL, *_URLS],
    DERIVATION: _GENERAL,
    TOKENS: _GENERAL,
    ADYEN: _BODIES,
    TWILIO: _URLS,
    HUBSPOT: [*_GENERAL, *_URLS],
    CONTENTFUL: _BODIES,
    IN_BODY: _BODIES,
    KEYING: ["tests/providers/test_preset_keys.py"],
}
EDITS_OF_SIGNATURES = [
    Edit("signature: not the first of the right secrets", SIGNING,
         "made, signed.marks) and found is None", "made, signed.marks)"),
    Edit("signature: the future accepted", SIGNING, "abs(now - time) >", "now - time >"),
    Edit("signature: the tolerance itself refused", SIGNING,
         "abs(now - time) > tolerance", "abs(now - time) >= tolerance"),
    Edit("signature: the last character ignored", SIGNING,
         "compare_digest(made, mark)", "compare_digest(made[:-1], mark[:-1])"),
    Edit("signature: only the first text", SIGNING,
         "for text in signed.texts:", "for text in signed.texts[:1]:"),
    Edit("signature: two lines that differ believed", WIRE,
         " or found.setdefault(low, value) != value:", " or not found.setdefault(low, value):"),
    Edit("signature: a second spelling believed", WIRE, "if low != dashed or", "if"),
    Edit("signature: blanks around a value counted", WIRE,
         'value = value.strip(b" \\t")', "value = bytes(value)"),
    Edit("signature: a lone slash is a path", WIRE,
         'public.path not in ("", "/")', 'public.path not in ("",)'),
    Edit("signature: the public query ignored", WIRE, "if public.query:", "if False:"),
    Edit("signature: milliseconds are seconds", STAMPS,
         "(1 if self is Unit.SECONDS else 1000)", "1"),
    Edit("signature: one of two times", MAC,
         "found.pop() if len(found) == 1", "min(found) if found"),
    Edit("signature: one of two spellings", MAC,
         "values.pop() if len(values) == 1", "min(values) if values"),
    Edit("signature: marks taken for times", MAC, '"[0-9]{1,15}"', 'r"[^,;= ]+"'),
    Edit("signature: only the first part of a header", MAC,
         'found["mark"] for part in carried if', 'found["mark"] for part in carried[:1] if'),
    Edit("signature: unreadable base64 believed", DERIVATION, "validate=True", "validate=False"),
    Edit("signature: unpadded base64 refused", DERIVATION,
         ' + "=" * (-len(encoded) % 4)', ""),
    Edit("token: the kind ignored", TOKENS, "if kind.lower() == self._kind", "if kind"),
    Edit("adyen: one right item is enough", ADYEN, " or None in secrets", ""),
    Edit("adyen and SNS: members that occur twice", WIRE,
         "if len(found) < len(pairs):", "if False:"),
    Edit("adyen: any number of items", ADYEN, " and len(entries) <= MOST_ITEMS", ""),
    Edit("twilio: a form that is packed", TWILIO,
         'delivery.header(b"content-encoding") is not None or ', ""),
    Edit("twilio: any number of fields", TWILIO,
         "    if body.count(b\"&\") >= MOST_FIELDS:\n        return None\n", ""),
    Edit("twilio: a form of any length", TWILIO, " or len(body) > LONGEST", ""),
    Edit("adyen: no header", ADYEN, "    if said:\n", "    if False:\n"),
    Edit("twilio: a body under nothing believed", TWILIO,
         "    elif delivery.body:\n        behind = None\n", ""),
    Edit("twilio: a digest that is not the body's", TWILIO,
         'behind = b"" if _is_of(digests, delivery.body) else None', 'behind = b""'),
    Edit("twilio: the port as it came", TWILIO, "        yield host + rest\n", ""),
    Edit("twilio: a form in the order that it came", TWILIO, "in sorted(pairs)", "in pairs"),
    Edit("hubspot: no older version", HUBSPOT, "if _OLDER not in said or url is None:", "if True:"),
    Edit("hubspot: the second version without the URL", HUBSPOT,
         'delivery.method.encode() + url if second else b""', 'b""'),
    Edit("contentful: a list that is not signed", CONTENTFUL,
         "if not names >= {_SIGNED, _TIME} or", "if"),
    Edit("contentful: a listed header that is missing", CONTENTFUL,
         " or len(said) != len(names)", ""),
    Edit("contentful: the path as it came", CONTENTFUL, "(_normalised(path), path)", "(path,)"),
    Edit("braintree: a line break that is lost", IN_BODY,
         '(payload.encode(), payload.encode() + b"\\n")', "(payload.encode(),)"),
    Edit("braintree: a line break that makes another event", KEYING,
         'found.rstrip("\\n")', "found"),
    Edit("braintree: any payload", IN_BODY, " or not _PAYLOAD.fullmatch(payload)", ""),
]  # fmt: skip
