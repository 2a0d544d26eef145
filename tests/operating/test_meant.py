"""Which event a command line means: the key is the one that the route would make."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import load, try_sample
from gateway.operating import meant
from gateway.operating.options import Event
from gateway.sources import Unusable
from tests.operating.rows import FILE

PAYMENT = b"POST /hooks/payments HTTP/1.1\r\nHost: a\r\n\r\ntxn_id=T1&status=Paid"
ACCOUNT = b'POST /hooks/accounts HTTP/1.1\r\nHost: a\r\nX-Account: a1\r\n\r\n{"id": 7}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gateway.yaml").write_text(FILE)
    (tmp_path / "payment.http").write_bytes(PAYMENT)
    (tmp_path / "account.http").write_bytes(ACCOUNT)
    (tmp_path / "blank.json").write_bytes(b'{"event_id": " "}')
    return tmp_path


def key(
    *ids: str, route: str | None = None, body: str | None = None, hex_: str | None = None
) -> str:
    found = meant.key(None, Event(ids, route, body, hex_))
    assert isinstance(found, bytes)
    return found.hex()


def made(folder: Path, route: str, raw: bytes) -> str | None:
    loaded = load(folder / "gateway.yaml", env={}, variables_required=False)
    return try_sample(loaded, route, raw).key


def test_an_id_is_keyed_as_its_route_keys_it(folder: Path) -> None:
    assert key("7", route="orders") == made(folder, "orders", b'{"event_id": 7}')
    assert key("a,b", route="orders") == made(folder, "orders", b'{"event_id": "a,b"}')


@pytest.mark.parametrize(
    "ids", [("T1", "Paid"), ("T1", "v1", "Paid"), ("T1,Paid",), ("T1,v1,Paid",)], ids=",".join
)
def test_a_composite_id_is_its_parts_or_what_logs_and_lists_show(
    folder: Path, ids: tuple[str, ...]
) -> None:
    assert key(*ids, route="payments") == made(folder, "payments", PAYMENT)


def test_an_id_within_what_only_deliveries_tell_is_looked_for_as_claims_keep_it(
    folder: Path,
) -> None:
    event = Event(("7",), "accounts", None, None)
    assert meant.key(None, event) == meant.Kept("accounts", ("7",))


def test_a_request_or_a_key_means_an_event_without_any_id(folder: Path) -> None:
    account = made(folder, "accounts", ACCOUNT)
    assert account is not None
    assert key(body="account.http") == account
    assert key(body="account.http", route="accounts") == account
    assert key(hex_=account.upper()) == account


BOTH = """\
  - name: both
    path: /hooks/both
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: [json:/id, json:/type, literal:v1]
    batch: {items: json:/events, event_id: [literal:item, json:/code, json:/number, json:/day]}
  - name: alike
    path: /hooks/alike
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: [json:/id, literal:one]
    batch: {items: json:/events, event_id: [json:/id, literal:item]}
  - name: checked
    path: /hooks/checked
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/id
    signature: {scheme: stripe, secrets: whsec_of_today}
  - name: shops
    path: /hooks/shops
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/id
    scope: "shop-${SHOP}"
  - name: mail
    path: /hooks/mail
    provider: sendgrid
    upstream: {url: "http://127.0.0.1:3000"}
  - name: adyen
    path: /hooks/adyen
    provider: adyen
    upstream: {url: "http://127.0.0.1:3000"}
"""


@pytest.fixture
def more(folder: Path) -> Path:
    (folder / "gateway.yaml").write_text(FILE + BOTH)
    return folder


@pytest.mark.parametrize(
    ("ids", "body"),
    [
        (("e1", "paid"), b'{"id": "e1", "type": "paid"}'),
        (("c", "7", "d"), b'{"events": [{"code": "c", "number": 7, "day": "d"}]}'),
        (("item,c,7,d",), b'{"events": [{"code": "c", "number": 7, "day": "d"}]}'),
    ],
)
def test_an_id_is_that_of_a_body_or_of_an_item_as_it_has_parts(
    more: Path, ids: tuple[str, ...], body: bytes
) -> None:
    loaded = load(more / "gateway.yaml", env={}, variables_required=False)
    found = try_sample(loaded, "both", body)
    keys = {found.key, *(item.key for item in found.items)} - {None}
    assert {key(*ids, route="both")} == keys


def test_an_item_of_adyens_is_looked_for_under_the_id_that_logs_show(more: Path) -> None:
    item = "-,AUTHORISATION,psp_1,true,2026-01-01T00:00:00+01:00"
    for ids in ((item,), tuple(item.split(","))):
        assert meant.key(None, Event(ids, "adyen", None, None)) == meant.Kept("adyen", (item,))


def test_one_value_that_all_parts_may_have_is_written_once(more: Path) -> None:
    body = b'[{"sg_event_id": "m1", "event": "open", "timestamp": 7, "email": "a@example.com"}]'
    loaded = load(more / "gateway.yaml", env={}, variables_required=False)
    (item,) = try_sample(loaded, "mail", body).items
    assert key("m1", route="mail") == key("m1", "m1", "m1", "m1", route="mail") == item.key


def test_an_id_that_a_body_and_an_item_may_have_is_looked_for_as_either(more: Path) -> None:
    event = Event(("7",), "alike", None, None)
    assert meant.key(None, event) == meant.Kept("alike", ("7,one", "7,item"))


def test_a_request_is_found_whatever_has_become_of_its_signature(more: Path) -> None:
    lines = b"POST /hooks/checked HTTP/1.1\r\nHost: a\r\nStripe-Signature: t=1,v1=00\r\n\r\n"
    (more / "old.http").write_bytes(lines + b'{"id": "evt_1"}')
    assert key(body="old.http") == key("evt_1", route="checked")


def test_an_id_of_too_many_parts_is_told_how_many_there_are(more: Path) -> None:
    with pytest.raises(Unusable) as caught:
        key("a", route="both")
    said = str(caught.value)
    assert "has 2 parts, in this order: json:/id json:/type" in said
    assert "or 3 parts, in this order: json:/code json:/number json:/day" in said


def test_without_a_variable_that_keys_are_made_by_no_event_is_meant(
    more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (more / "body.json").write_bytes(b'{"id": 7}')
    events = [Event(("7",), "shops", None, None), Event((), "shops", "body.json", None)]
    for event in events:
        with pytest.raises(Unusable) as caught:
            meant.key(None, event)
        assert "scope of route shops has a variable that is not set here" in str(caught.value)
    assert key("7", route="orders")
    monkeypatch.setenv("SHOP", "north")
    assert len({meant.key(None, event) for event in events}) == 1


UNUSABLE = [
    (Event((), None, None, None), "name one event: its ID or --operation with --route, or --body"),
    (Event(("a",), "orders", None, "0" * 32), "name one event"),
    (Event(("a",), None, None, None), "write --route NAME with it"),
    (Event(("a",), "nope", None, None), "no route is called 'nope'; there is orders, payments"),
    (Event((" ",), "orders", None, None), "a blank ID is no id"),
    (Event(("a", "b"), "orders", None, None), "has 1 part, in this order: json:/event_id"),
    (Event(("T1",), "payments", None, None), "2 parts, in this order: form:txn_id form:status"),
    (Event((), None, None, "abc"), "--key: 'abc' is not a key; write its 32 hex digits"),
    (Event((), None, "nope.json", None), "--body: nope.json: no such file or directory"),
    (Event((), "orders", "blank.json", None), "--body blank.json: no usable id at json:/event_id"),
    (Event((), None, "blank.json", None), "no route takes this host and path: 404; --route NAME"),
]


@pytest.mark.parametrize(("event", "said"), UNUSABLE, ids=lambda one: str(one)[:40])
def test_a_line_that_means_no_event_says_what_to_write(event: Event, said: str) -> None:
    with pytest.raises(Unusable) as caught:
        meant.key(None, event)
    assert said in str(caught.value)
