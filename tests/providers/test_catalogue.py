"""`providers`: what people and programs are shown of presets."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from gateway import catalogue, cli
from gateway.providers import presets
from tests.providers.test_presets import every_preset, evidence


def run(*words: str, columns: int = 80) -> str:
    ended = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli.app, ["providers", *words])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def unfolded(text: str) -> str:
    return "".join(text.split())


@every_preset
def test_all_that_is_known_is_shown_with_its_evidence(name: str) -> None:
    one, shown = presets.preset(name), unfolded(run(name))
    for path in (*one.settings, *one.unknown):
        assert path.removesuffix("s") in shown
    for known in evidence(one):
        said = f"{known.confidence.value} {one.checked}"
        assert unfolded(f"{said}, {known.source}" if known.source else said) in shown
    for text in (one.title, one.doubt, *one.traps, *(never.why for never in one.never)):
        assert text is None or unfolded(text) in shown


@every_preset
def test_what_a_program_reads_has_every_fact_too(name: str) -> None:
    one, shown = presets.preset(name), json.loads(run(name, "--json"))
    assert set(shown["settings"]) == set(one.settings)
    for path, fact in one.settings.items():
        assert shown["settings"][path]["confidence"] == fact.confidence
        assert shown["settings"][path]["value"] == fact.value
    assert shown["checked"] == one.checked.isoformat()


def test_no_address_is_cut_on_a_terminal_and_no_line_is_folded_in_a_pipe() -> None:
    assert "https://docs.stripe.com/webhooks/process-undelivered-events" in run(
        "stripe", columns=40
    )
    piped = CliRunner(env={"COLUMNS": None}).invoke(cli.app, ["providers", "stripe"]).stdout
    listed = CliRunner(env={"COLUMNS": None}).invoke(cli.app, ["providers"]).stdout
    for text in presets.preset("stripe").traps:
        assert f"\n    {text}\n" in piped
    (line,) = [line for line in listed.splitlines() if line.startswith("adyen ")]
    assert "pspReference" in line
    assert line.endswith("200 [accepted]")
    for shown in (piped, listed, run("stripe"), run()):
        assert not [line for line in shown.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("columns", [80, 140])
def test_the_list_names_each_with_its_promise_and_scheme_within_the_terminal(columns: int) -> None:
    shown = run(columns=columns)
    assert max(map(len, shown.splitlines())) <= columns
    for name in presets.names():
        line = next(line for line in shown.splitlines() if line.startswith(f"{name} "))
        assert line
        assert catalogue.promise(presets.preset(name)) in shown


def test_a_scheme_that_nothing_has_shown_right_is_marked() -> None:
    rows = {one["name"]: one["signature"] for one in json.loads(run("--json"))}
    for name, signature in rows.items():
        known = presets.preset(name)
        assert (signature["proof"] is None) == ("unverified" in catalogue.signature(known))
        assert ("the scheme is unverified" in run(name)) == (signature["proof"] is None)


def test_a_preset_says_which_headers_of_its_ids_nobody_signs() -> None:
    assert json.loads(run("github", "--json"))["unsigned"] == [
        "X-GitHub-Hook-ID",
        "X-GitHub-Delivery",
    ]
    assert unfolded("does not sign X-GitHub-Hook-ID, X-GitHub-Delivery:") in unfolded(run("github"))
    for name in ("stripe", "svix", "twitch", "aws-sns", "lemonsqueezy"):
        assert "does not sign" not in run(name)
        assert json.loads(run(name, "--json"))["unsigned"] == []


def test_a_name_that_is_none_is_a_mistake_of_the_user() -> None:
    ended = CliRunner().invoke(cli.app, ["providers", "nettlify"])
    assert ended.exit_code == 2
    assert "netlify" in ended.stderr
