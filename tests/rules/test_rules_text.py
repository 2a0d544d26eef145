"""What is written of the rules in deploy, runbook and README is true, and Prometheus takes it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import promql_parser
import pytest
import yaml
from typer.testing import CliRunner

from gateway import cli
from gateway.rules import ALERTS, Watched, rules
from scripts import static_rules
from tests.readme import README, ROOT, anchors, blocks, section, table
from tests.rules import test_deliveries, test_duplicates, test_inbox, test_memory
from tests.rules.promtool import Promtool
from tests.rules.scrape import Scraped
from tests.test_documented_commands import COMMANDS

RUNBOOK = (ROOT / "deploy" / "runbook.md").read_text("utf-8")
OF_A_FILE = {"DedupRouteMissing", "DedupRouteUnwatched"}
NAMES = {alert.name for alert in ALERTS}
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))


def metrics(text: str) -> set[str]:
    """Names of metrics in any text, without the ends that a histogram's series have."""
    named = set(re.findall(r"\b(?:dedup|process)_\w+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}


def exposed(scraped: Scraped) -> set[str]:
    return metrics("\n".join(sample.name for sample in scraped.samples.samples))


def expressions(text: str) -> list[str]:
    return [rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_every_rule_has_a_case_in_which_it_fires() -> None:
    played = (test_memory, test_duplicates, test_deliveries, test_inbox)
    assert {case.alert for module in played for case in module.CASES} - {""} == NAMES


def test_the_file_in_deploy_is_what_the_code_makes() -> None:
    assert static_rules.FILE.read_text("utf-8") == static_rules.text()


def test_promtool_finds_nothing_wrong_with_them(promtool: Promtool) -> None:
    assert "SUCCESS" in promtool.check()


def test_every_metric_that_a_rule_names_is_one_of_the_gateway_s(scraped: Scraped) -> None:
    for made in (rules(Watched()), rules(scraped.watched)):
        for expr in expressions(made):
            promql_parser.parse(expr)
        assert metrics(re.sub(r"route_event_type:\w+:\w+", "", made)) <= exposed(scraped)


def test_every_rule_has_its_section_in_the_runbook_and_every_section_its_rule() -> None:
    assert set(SECTIONS) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_section_says_what_it_means_and_what_to_do(name: str) -> None:
    assert "**It means:**" in SECTIONS[name]
    assert re.search(r"\*\*(Do:|do\*\*)", SECTIONS[name])


def test_every_metric_that_the_runbook_names_exists(scraped: Scraped) -> None:
    assert metrics(RUNBOOK) <= exposed(scraped)


def test_every_link_of_the_runbook_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", RUNBOOK):
        file, _, anchor = link.partition("#")
        assert not file or (ROOT / "deploy" / file).exists(), link
        assert not anchor or anchor in anchors(RUNBOOK), link


def test_a_command_line_in_the_runbook_is_understood() -> None:
    shown = re.findall(r"^dedup-gateway (.+)$", RUNBOOK, re.MULTILINE)
    shown += re.findall(r"`dedup-gateway ([^`]+)`", RUNBOOK)
    assert shown
    for words in map(shlex.split, shown):
        verb = next(one for one in (" ".join(words[:2]), words[0]) if one in COMMANDS)
        if rest := words[len(verb.split()) :]:
            COMMANDS[verb].make_context(verb, rest)


@pytest.mark.parametrize("kind", ["any gateway", "this file"])
def test_a_link_of_an_alert_leads_to_its_section(kind: str, scraped: Scraped) -> None:
    watched = Watched() if kind == "any gateway" else scraped.watched
    made = yaml.safe_load(rules(watched, "https://wiki.example/runbook"))
    alerts = [rule for group in made["groups"] for rule in group["rules"] if "alert" in rule]
    for alert in alerts:
        address, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert (address, anchor) == ("https://wiki.example/runbook", alert["alert"].lower())
        assert anchor in anchors(RUNBOOK)
    assert {alert["alert"] for alert in alerts} >= NAMES - {
        "DedupRouteMissing",
        "DedupRouteUnwatched",
    }


def test_readme_lists_every_alert_by_its_severity() -> None:
    for severity, (_, listed) in table("Alerting", "Severity").items():
        said = set(re.findall(r"`(\w+)`", listed))
        assert said == {alert.name for alert in ALERTS if alert.severity.value == severity}
    assert set(re.findall(r"`(Dedup\w+)`", section("Alerting"))) >= NAMES
    assert set(re.findall(r"`(Dedup[A-Z]\w+)`", README)) <= NAMES


def test_what_an_alert_says_has_no_hole_in_it(scraped: Scraped, tmp_path: Path) -> None:
    made = yaml.safe_load(rules(Watched()))
    for group in made["groups"]:
        group["rules"] = [rule for rule in group["rules"] if "alert" in rule]
        for rule in group["rules"]:
            rule |= {"expr": "up * 1234.5", "for": "0s"}
    said = Promtool(tmp_path, "", yaml.safe_dump(made), scraped.samples).says(
        {"route": "orders", "event_type": "order.paid", "instance": "gateway-0"}
    )
    assert set(said) == NAMES - OF_A_FILE
    for texts in said.values():
        for text in texts:
            assert not re.search(r"[{}<]|NaN|no value|: $", text), text
    assert "orders: far more duplicates than usual of order.paid" in said["DedupDuplicateSpike"]


def test_the_command_writes_the_rules_of_its_file(scraped: Scraped, tmp_path: Path) -> None:
    output = tmp_path / "rules.yaml"
    arguments = ["rules", "--config", str(scraped.file), "--runbook-url", "https://w"]
    shown = CliRunner().invoke(cli.app, arguments)
    assert shown.exit_code == 0
    written = CliRunner().invoke(cli.app, [*arguments, "--output", str(output)])
    assert (written.exit_code, written.output) == (0, "")
    assert output.read_text() == shown.output == rules(scraped.watched, "https://w")
    assert list(tmp_path.iterdir()) == [output]


def test_the_rules_of_a_file_have_its_routes_and_numbers(scraped: Scraped) -> None:
    made = rules(scraped.watched)
    below = next(expr for expr in expressions(made) if "dedup_retention_seconds" in expr)
    assert "short" not in below  # accepted
    assert 'route=~"orders|watched|mail|signed|tls\\\\.eu"' in below
    assert f"< {33 * 86400}" in below
    assert f'dedup_retention_seconds{{route="shipping"}}) < {36 * 86400}' in below
    backlog = next(expr for expr in expressions(made) if 'state=~"pending|leased"' in expr)
    assert 'route="shipping",state=~"pending|leased"})) > 500' in backlog


def test_a_folder_that_is_not_there_is_said_in_a_sentence(scraped: Scraped) -> None:
    said = CliRunner().invoke(
        cli.app, ["rules", "--config", str(scraped.file), "--output", "/nowhere/rules.yaml"]
    )
    assert said.exit_code == 2
    assert "--output: /nowhere/rules.yaml.new: no such file or directory" in said.output


def test_rules_are_not_made_of_numbers_that_a_variable_would_have_said(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    text = blocks("yaml")[0].replace("redrive_window: 30d", "redrive_window: ${WINDOW}")
    assert "${DATABASE_URL}" in text  # which no rule is made of
    file.write_text(text)
    said = CliRunner().invoke(cli.app, ["rules", "--config", str(file)])
    assert said.exit_code == 2
    assert "promise.redrive_window of route orders has a variable" in said.output
    whole = CliRunner(env={"WINDOW": "30d"}).invoke(cli.app, ["rules", "--config", str(file)])
    assert whole.exit_code == 0
    assert f"< {33 * 86400}" in whole.output
