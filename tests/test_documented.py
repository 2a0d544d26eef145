"""README tells an operator everything that the program shows, and nothing that it does not have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway import __version__, app, config, logs
from gateway.config import settings as settings_module
from gateway.core import headers, outcome, route
from gateway.core.answer import Reason, Verdict
from gateway.core.canary import Remembered
from gateway.core.event import Delivery
from gateway.core.headers import Marks
from gateway.core.retention import Shape
from gateway.metrics import STORE_ERROR_KINDS, Metrics
from gateway.store import session
from tests.readme import README, ROOT, anchors, blocks, section, table


def first_configuration(folder: Path, flags: Mapping[str, object] | None = None) -> config.Loaded:
    file = folder / "gateway.yaml"
    file.write_text(blocks("yaml")[0])
    return config.load(file, env={}, flags=flags or {}, variables_required=False)


def every_sample() -> dict[str, tuple[str, set[str]]]:
    """Each metric's type and labels, by exposed name, after all of them were moved."""
    metrics = Metrics()
    loaded = config.load(ROOT / "config/gateway.example.yaml", env={}, variables_required=False)
    metrics.routes(loaded.routes)
    metrics.gauges.watch(
        store_up=lambda: True, pending=lambda: 0, certificates=lambda: [("orders", 1.0)]
    )
    metrics.gauges.watch_inbox(waiting=dict, open_breakers=list)
    memory = {"orders": Remembered(3.0, 2.0, 1.0)}
    metrics.gauges.watch_memory(memories=lambda: memory, last_purge=lambda: 1.0)
    metrics.rejection("", Reason.NO_ROUTE)
    metrics.event("orders", "order.paid")
    metrics.duplicate("orders", "order.paid", Shape.RETRY, 1.0)
    metrics.forward("orders", "delivered", 1.0, slow=True)
    metrics.store_error("lock")
    metrics.signature("orders", "valid", "0")
    metrics.items("orders", Verdict.FIRST, 2)
    metrics.statement("arrive", 0.001, 1)
    text, _ = metrics.render()
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family.type, labels
    return found


def every_setting() -> dict[str, Any]:
    """Dotted names to defaults; None where there is none."""
    document = config.schema()
    found: dict[str, Any] = {}

    def walk(node: Mapping[str, Any], path: str) -> None:
        if "$ref" in node:
            walk(document["$defs"][node["$ref"].rpartition("/")[2]], path)
        for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            walk(choice, path)
        if "items" in node:
            walk(node["items"], path)
        for name, member in node.get("properties", {}).items():
            found.setdefault(f"{path}{name}", member.get("default"))
            walk(member, f"{path}{name}.")

    walk(document, "")
    return found


METRICS = every_sample()
SETTINGS = every_setting()


def test_every_metric_has_a_row_and_every_row_is_a_metric() -> None:
    assert set(table("Metrics", "Metric")) == set(METRICS)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_has_the_labels_that_its_row_says(name: str) -> None:
    said, text = table("Metrics", "Metric")[name]
    kind, labels = METRICS[name]
    assert set(re.findall(r"`(\w+)`", said)) == labels
    assert text.startswith("Histogram:") == (kind == "histogram")


def test_every_metric_that_readme_names_exists() -> None:
    named = set(re.findall(r"`(dedup_\w+)", README)) | set(
        re.findall(r"\b(dedup_\w+)(?=[{\[])", README)
    )
    assert named - set(METRICS) == {"dedup_gateway"}  # the role of deploy/roles.sql


def test_every_kind_of_store_error_is_listed_and_begins_at_zero() -> None:
    said = table("Metrics", "Metric")["dedup_store_errors_total"][1].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", said)) == set(STORE_ERROR_KINDS)
    states = ("08006", "22023", "25006", "26000", "3F000", "40001", "55P03", "57014", "XX000")
    assert {session.verdict(state)[0] for state in states} <= set(STORE_ERROR_KINDS)


def test_every_log_event_has_a_row_and_every_row_is_an_event() -> None:
    assert set(table("Logs", "Event")) == set(logs.EVENTS)


def test_every_verdict_is_told_and_every_verdict_told_exists() -> None:
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \|", section("The provider"), re.MULTILINE)
    assert set(rows) == {verdict.value for verdict in Verdict}


def test_every_rejection_reason_has_a_row_and_every_row_is_a_reason() -> None:
    assert set(table("The provider", "`reason`")) == {reason.value for reason in Reason}


def test_every_outcome_has_a_row() -> None:
    rows = set(table("The provider", "Outcome")) - {"(the gateway died)"}
    assert rows == {kind.__name__.lower() for kind in get_args(outcome.Outcome)}


@pytest.mark.parametrize("shape", Shape)
def test_every_shape_of_duplicates_is_explained(shape: Shape) -> None:
    assert f"`{shape.value}`" in table("Metrics", "Metric")["dedup_duplicates_total"][1]


@pytest.mark.parametrize("kind", ["forward", "observe"])
def test_a_header_that_we_add_is_explained(kind: str) -> None:
    delivery = Delivery("POST", "/", ((b"Host", b"shop"),), b"", "192.0.2.7", "http")
    marks = Marks("evt_1", 2, possible_duplicate=True, idempotency_key="evt_1")
    lines = headers.outbound(
        delivery,
        host=None,
        upstream_host=b"shop",
        trusted=(),
        marks=marks if kind == "forward" else None,
        forwarding=kind == "forward",
    )
    rows = " ".join(table("The consumer", "Header"))
    for name, _ in lines[1:]:
        assert name.decode() in rows


@pytest.mark.parametrize(("title", "inside"), [("The process", False), ("Each route", True)])
def test_every_setting_has_a_row_and_every_row_is_a_setting(title: str, inside: bool) -> None:
    wanted = {
        name.removeprefix("routes.") for name in SETTINGS if name.startswith("routes.") == inside
    }
    assert set(table(title, "Setting")) == wanted


@pytest.mark.parametrize("name", [name for name, default in SETTINGS.items() if default])
def test_a_row_has_the_default_that_the_program_has(name: str) -> None:
    title = "Each route" if name.startswith("routes.") else "The process"
    shown = table(title, "Setting")[name.removeprefix("routes.")][0]
    default = SETTINGS[name]
    text = ", ".join(default) if isinstance(default, list) else str(default)
    assert shown == f"`{text.lower() if isinstance(default, bool) else text}`"


def test_the_statuses_that_count_as_refusals_are_those_of_the_program() -> None:
    shown = table("Each route", "Setting")["refused_status"][0].partition(",")[0]
    assert {int(status) for status in shown.split()} == outcome.REFUSED_BEFORE_EFFECT


def test_the_settings_that_take_a_restart_are_named(tmp_path: Path) -> None:
    old = first_configuration(tmp_path)
    flags = {"listen": "127.0.0.1:1", "admin.listen": "127.0.0.1:2", "store.keep_ids": "false"}
    flags |= {"limits.connections": "9", "log_deliveries": "true", "drain_delay": "1s"}
    new = first_configuration(tmp_path, flags)
    said = re.search(r"the log names them:\s(.+?)\.", README, re.DOTALL)
    assert said
    assert re.findall(r"`(\w+)`", said[1]) == config.changed(old, new)
    assert set(re.findall(r"`(\w+)`", said[1])) <= set(settings_module.Settings.model_fields)


def test_yaml_in_readme_is_a_configuration_that_check_finds_nothing_wrong_with(
    tmp_path: Path,
) -> None:
    assert blocks("yaml")
    for number, text in enumerate(blocks("yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        loaded = config.load(file, env={}, variables_required=False)
        assert not config.check(loaded).unsafe


@pytest.mark.parametrize("file", ["README.md", "deploy/systemd/dedup-gateway.service"])
def test_a_line_that_installs_the_wheel_names_the_file_that_make_wheel_builds(file: str) -> None:
    lines = re.findall(r"pip install (.+)$", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    assert lines
    for line in lines:  # a wildcard would not be expanded: of no file does the name end in ]
        assert shlex.split(line) == [f"./dedup_gateway-{__version__}-py3-none-any.whl[embedded]"]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z]+)\b(?=`|\n)", README))))
def test_a_make_target_in_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)\s]+)\)", README))))
def test_a_link_in_readme_leads_somewhere(link: str) -> None:
    file, _, anchor = link.partition("#")
    if link.startswith("https://"):
        return
    assert not file or (ROOT / file).exists()
    assert not anchor or anchor in anchors(README)


def test_the_key_in_readme_is_that_of_its_own_event(tmp_path: Path) -> None:
    loaded = first_configuration(tmp_path)
    body = re.search(r"curl .* -d '(\{.*\})'", README)
    assert body
    key = config.try_sample(loaded, "orders", body[1].encode()).key
    assert key is not None
    assert key in section("Looking up an event")


def test_the_time_to_stop_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    loaded = first_configuration(tmp_path)
    longest = loaded.routes[0].upstream.longest + route.LONGEST_BUSY_WAIT
    total = loaded.drain_delay + longest + 2 * app.LAST_SETTLEMENTS
    assert f"With the defaults that is {total:.0f} s" in section("Stopping")
