"""Each mistake is reported with its place and with what to write instead, word for word."""

from __future__ import annotations

import pytest

from tests.config.conftest import Mistakes, whole, without_place


def test_the_place_is_the_file_and_the_line(mistakes: Mistakes) -> None:
    said = mistakes(whole(route="mode: forward\nlease: 3"))
    assert said == [
        "gateway.yaml:9: routes.0.lease: '3' has no unit; write 3s if seconds are meant"
    ]


AT_THE_TOP = [
    ("listen: 8080", "listen: '8080' is not an address with a port; write it as in 127.0.0.1:8080"),
    ("listen: 127.0.0.1:80800",
     "listen: '127.0.0.1:80800' has a port above 65535; write one up to that"),
    ("admin: 127.0.0.1:9",
     'admin: is not a mapping; write admin: {listen: "127.0.0.1:9"}'),
    ("listen: :8080",
     "listen: ':8080' is not a host and a port; write 0.0.0.0:8080 or [::]:8080"),
    ("listen: []", "listen: is an empty list; write listen: 127.0.0.1:8080"),
    ("listen: {address: '127.0.0.1:1', tls: {cert: no.pem}}",
     "listen.tls.key: missing; write key: FILE"),
    ("listen: ['127.0.0.1:1', '127.0.0.1:1']",
     "listen.1: 127.0.0.1:1 is taken by listen already; write another port"),
    ("admin: {listen: 127.0.0.1:8080}",
     "admin.listen: 127.0.0.1:8080 is taken by listen already; write another port"),
    ("trusted_proxies: [10.0.0.1/8]",
     "trusted_proxies.0: '10.0.0.1/8' has bits beyond its prefix; write 10.0.0.0/8"),
    ("trusted_proxies: all",
     "trusted_proxies: 'all' is not a network; write it as in 10.0.0.0/8"),
    ("limits: {connections: 1_000}",
     "limits.connections: '1_000' is not a whole number from 1; write one, as in 64"),
    ("limits: {connections: 010}",
     "limits.connections: '010' is not a whole number from 1; write one, as in 64"),
    ("limits: {body_timeout: 0s}",
     "limits.body_timeout: is zero, which would never let anything finish; write a longer time"),
    ("drain-delay: 5s", "drain-delay: unknown setting; did you mean drain_delay?"),
    ("log_deliveries: on", "log_deliveries: 'on' is neither yes nor no here; write true or false"),
    ("rout: 1", "rout: unknown setting; did you mean routes?"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), AT_THE_TOP)
def test_a_mistake_at_the_top_is_reported_with_its_line_and_a_remedy(
    mistakes: Mistakes, line: str, message: str
) -> None:
    assert without_place(mistakes(whole(top=line))) == [message]


STORES = [
    ("store: {}", "store: names no store; write dsn: or embedded: under it"),
    ("store: {dsn: 'postgresql://h/d', embedded: ./data}",
     "store: has both dsn and embedded; keep one of the two"),
    ("store: postgresql://u:secret@h/d",
     'store: is not a mapping; write store: {dsn: "…"}'),
    ("store: {dsn: 'mysql://u:secret@h/d'}",
     "store.dsn: is not a Postgres URL, which begins with postgresql://; "
     "write postgresql://user:password@host/database"),
    ("store: {dsn: 'postgresql://u:secret@h:abc/d'}",
     "store.dsn: port 'abc' is not a number; write one, as in host:5432, or none"),
    ("store: {dsn: 'postgresql://u:se@ret#a/b@h:5432/d'}",
     "store.dsn: has @ # / ? or a bracket where none can be; "
     "percent-encode them in the password, as in %40 for @"),
    ("store: {dsn: 'postgresql://h/d', user: me}",
     "store.user: is for the embedded store only; remove it"),
    ("", 'store: missing; write store: {dsn: "${DATABASE_URL}"} or store: {embedded: ./data}'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), STORES)
def test_a_store_has_to_be_named_once(mistakes: Mistakes, line: str, message: str) -> None:
    assert without_place(mistakes(whole().replace("store: {embedded: ./data}", line))) == [message]


def test_everything_is_reported_in_one_run(mistakes: Mistakes) -> None:
    text = """\
        listen: 0.0.0.0
        drain: 5s
        routes:
          - name: orders
            name: others
            path: hooks
            upstream: {url: "http://127.0.0.1:3000", timeot: 3s}
            event_id: literal:x
            mode: ${MODE}
            duplicate_reply: {status: 500}
          - name: others
            path: /b
            upstream: {url: "http://127.0.0.1:3000"}
            event_id: json:/id
            lease: 3s
        """
    said = mistakes(text, env={"DEDUP__LIMITS__CONECTIONS": "3"})
    assert [line.partition("; ")[0] for line in said] == [
        "gateway.yaml:1: listen: '0.0.0.0' is not an address with a port",
        "gateway.yaml:2: drain: unknown setting",
        "gateway.yaml:5: routes.0.name: given twice, here and on line 4",
        "gateway.yaml:6: routes.0.path: 'hooks' does not start with a slash",
        "gateway.yaml:7: routes.0.upstream.timeot: unknown setting",
        "gateway.yaml:8: routes.0.event_id: can be the same for unrelated deliveries, "
        "which would all count as one event",
        "gateway.yaml:9: routes.0.mode: the variable MODE is not set",
        "gateway.yaml:10: routes.0.duplicate_reply.status: "
        "500 would make the provider send the event again",
        "gateway.yaml:15: routes.1.lease: 3s is less than "
        "slot_timeout + connect_timeout + timeout + 5s, "
        "so a slow forward would lose its claim to the retry that it provoked",
        "gateway.yaml: store: missing",
        "environment DEDUP__LIMITS__CONECTIONS: limits.conections: unknown setting",
    ]


def test_what_stands_in_for_a_wrong_value_is_not_found_wanting_itself(mistakes: Mistakes) -> None:
    text = whole(route="lease: 15s").replace('3000"}', '3000", timeout: 3}')
    assert without_place(mistakes(text)) == [
        "routes.0.upstream.timeout: '3' has no unit; write 3s if seconds are meant"
    ]


def test_no_mistake_repeats_a_secret(mistakes: Mistakes) -> None:
    said = mistakes(
        whole(top="trusted_proxies: 5").replace("{embedded: ./data}", '{dsn: "${DSN}"}'),
        env={"DSN": "pg://me:hunter2@h/d"},
    )
    assert "hunter2" not in "\n".join(said)
