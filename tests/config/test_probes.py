"""Where a consumer is asked whether it knows an event."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import report, sample, try_sample
from gateway.core.route import Route, Tls
from tests.config.conftest import Mistakes, Read, whole, without_place, write_pair

URL = "http://127.0.0.1:3000/known?id={event_id}"
PROBE = f'on_doubt: probe\nprobe: {{url: "{URL}"}}'


def route_of(read: Read, lines: str = "") -> Route:
    return read(whole(route=lines)).routes[0]


@pytest.mark.parametrize(
    ("url", "address", "target"),
    [
        (URL, "http://127.0.0.1:3000", "/known?id={event_id}"),
        ("https://app/known/{event_id}/at", "https://app", "/known/{event_id}/at"),
        ("http://app?id={event_id}&x=%20", "http://app", "/?id={event_id}&x=%20"),
        ("http://[::1]:81/{event_id}?a=//..", "http://[::1]:81", "/{event_id}?a=//.."),
    ],
)
def test_a_probe_has_an_address_and_a_target(
    read: Read, url: str, address: str, target: str
) -> None:
    probe = route_of(read, PROBE.replace(URL, url)).probe
    assert probe is not None
    assert f"{probe.upstream.scheme}://{probe.upstream.authority}" == address
    assert probe.upstream.host_header == probe.upstream.authority
    assert probe.target == target


@pytest.mark.parametrize(("timeout", "connect"), [("", 2.0), (", timeout: 10s", 2.0),
                                                  (", timeout: 500ms", 0.5)])  # fmt: skip
def test_a_question_ends_with_its_timeout(read: Read, timeout: str, connect: float) -> None:
    route = route_of(read, PROBE.replace('"}', f'"{timeout}}}'))
    assert route.probe is not None
    upstream = route.probe.upstream
    assert upstream.timeout == {"": 2.0, ", timeout: 10s": 10.0}.get(timeout, 0.5)
    assert upstream.first_byte_timeout == upstream.timeout
    assert (upstream.connect_timeout, upstream.slot_timeout) == (connect, connect)
    assert upstream.concurrency == 16
    assert route.probe.give_up == 3600.0


def test_a_holder_that_asks_first_keeps_its_claim_for_that_too(
    read: Read, mistakes: Mistakes
) -> None:
    assert route_of(read, PROBE).lease == 48.0
    assert route_of(read, f"{PROBE}\nlease: 48s").lease == 48.0
    assert without_place(mistakes(whole(route=f"{PROBE}\nlease: 47s"))) == [
        "routes.0.lease: 47s is less than slot_timeout + connect_timeout + timeout + 5s + the "
        "probe's, so a slow forward would lose its claim to the retry that it provoked; "
        "write 48s or more, or remove it"
    ]


def test_a_probe_over_tls_uses_the_certificates_of_the_upstream(read: Read, tmp_path: Path) -> None:
    write_pair(tmp_path, "own")
    text = whole(route=PROBE.replace(URL, "https://app/{event_id}")).replace(
        'url: "http://127.0.0.1:3000"', "url: https://app, tls: {ca: own.pem}"
    )
    probe = read(text).routes[0].probe
    assert probe is not None
    assert probe.upstream.tls.ca == str(tmp_path / "own.pem")
    plain = read(text.replace("https://app/{event_id}", URL)).routes[0].probe
    assert plain is not None
    assert plain.upstream.tls == Tls(None, None, None)


ONCE = "write it once, as in http://127.0.0.1:3000/known?id={event_id}"
PROBES = [
    ("app/{event_id}", "'app/{event_id}' is not an http or https URL; write http://HOST:PORT"),
    ("http://app/known", f"'http://app/known' has no {{event_id}} behind the host; {ONCE}"),
    ("http://app/{id}", f"'http://app/{{id}}' has no {{event_id}} behind the host; {ONCE}"),
    ("http://app/{event_id}?id={event_id}",
     f"'http://app/{{event_id}}?id={{event_id}}' has more than one {{event_id}}; {ONCE}"),
    ("http://{event_id}/", "'http://{event_id}' has braces or angle brackets, which nothing is put "
     "in place of; write the URL that is really meant"),
    ("http://app/{event_id}/{type}",
     "'http://app/{event_id}/{type}' has braces or angle brackets, and only {event_id} is put in; "
     "write the URL that is really meant, as in http://127.0.0.1:3000/known?id={event_id}"),
    ("http://app/{event_id}#x",
     "'http://app/{event_id}#x' has a fragment, which is never sent; write the URL without"),
    ("http://app/ü?id={event_id}",
     "'http://app/ü?id={event_id}' has characters that no URL has; percent-encode them"),
    ("http://app/../{event_id}",
     "'http://app/../{event_id}' has . or .. in it; write the path that is really meant"),
    ("http://u:secret@app/{event_id}",
     "has a user name or password in it; write the URL without them"),
    ("http://127.0.0.1:8081/{event_id}",
     "127.0.0.1:8081 is the gateway itself; write the consumer's address"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "message"), PROBES)
def test_a_probe_that_cannot_be_meant_is_refused(
    mistakes: Mistakes, url: str, message: str
) -> None:
    said = without_place(mistakes(whole(route=PROBE.replace(URL, url))))
    assert said == [f"routes.0.probe.url: {message}"]


def test_a_wrong_probe_hides_no_other_mistake(mistakes: Mistakes) -> None:
    lines = "on_doubt: probe\nprobe: {url: x, timeout: 3}\nrefused_status: [201]\non_stale: hold"
    assert [line.partition(": ")[0] for line in without_place(mistakes(whole(route=lines)))] == [
        "routes.0.probe.url",
        "routes.0.probe.timeout",
        "routes.0.refused_status",
        "routes.0.on_stale",
    ]


def test_a_probe_may_take_its_host_from_a_variable_that_is_absent_now(
    read: Read, mistakes: Mistakes
) -> None:
    for url in ("${URL}", "http://${HOST}/known?id={event_id}"):
        text = whole(route=PROBE.replace(URL, url))
        assert len(mistakes(text)) == 1
        assert read(text, variables_required=False).routes[0].probe is not None


def test_a_wrong_probe_is_no_reason_to_find_a_lease_short(mistakes: Mistakes) -> None:
    lines = PROBE.replace('"}', '", timeout: 1}') + "\nlease: 45s"
    assert len(mistakes(whole(route=lines))) == 1


def test_try_shows_the_question_that_a_sample_would_lead_to(read: Read) -> None:
    loaded = read(whole(route=PROBE))
    found = try_sample(loaded, "orders", b'{"event_id": "evt 1/\\u00fc&\\ud800"}')
    question = "GET http://127.0.0.1:3000/known?id=evt%201%2F%C3%BC%26%ED%A0%80"
    assert found.probe == question
    assert f"in doubt, asked          {question}" in sample.as_text(found)
    assert try_sample(loaded, "orders", b"{}").probe is None
    assert try_sample(read(whole()), "orders", b'{"event_id": "evt_1"}').probe is None


def test_what_a_probe_shows_of_its_query_is_no_key(read: Read) -> None:
    text = PROBE.replace(URL, "http://app/known?token=sekrit&id={event_id}&plain")
    route = route_of(read, text)
    assert route.probe is not None
    assert route.probe.shown == "/known?token=…&id={event_id}&plain"
    assert route.probe.target_of("e 1") == "/known?token=sekrit&id=e%201&plain"
    said = report.as_text(report.check(read(whole(route=text))))
    assert "sekrit" not in said
    assert "token=…" in said
