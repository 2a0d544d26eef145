"""Every command, option and exit code is in README, and every one in README exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from gateway import cli
from tests.readme import README, blocks, section, table

PROGRAM = typer.main.get_command(cli.app)
COMMANDS: Mapping[str, Any] = {
    f"{group} {name}".strip(): command
    for group, commands in {"": PROGRAM, **PROGRAM.commands}.items()  # type: ignore[attr-defined]
    for name, command in getattr(commands, "commands", {}).items()
    if not hasattr(command, "commands")
}
# Words of the table of commands that stand for several options.
STAND_FOR = {
    "EVENT": {"--route", "--operation", "--body", "--key"},
    "MANY": {"--state", "--route", "--older-than", "--why"},
}


def command_lines() -> list[list[str]]:
    """Every `dedup-gateway …` of README, as words after the program's name."""
    shown = [line for block in blocks("sh") for line in block.splitlines()]
    texts = [*shown, *re.findall(r"`([^`\n]+)`", README)]
    return [shlex.split(text)[1:] for text in texts if text.startswith("dedup-gateway ")]


def options(command: Any) -> set[str]:
    found = {option for parameter in command.params for option in parameter.opts}
    return {option for option in found if option.startswith("--")} - {"--help"}


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_a_command_line_in_readme_is_understood(words: list[str]) -> None:
    verb = next(one for one in (" ".join(words[:2]), words[0]) if one in COMMANDS)
    COMMANDS[verb].make_context(
        verb, words[len(verb.split()) :]
    )  # raises for what it does not know


def test_every_command_has_a_row_with_all_of_its_options() -> None:
    rows = table("Commands", "Command")
    shown = {name: command for name, command in COMMANDS.items() if not command.hidden}
    assert set(rows) == set(shown)
    for name, command in shown.items():
        said = set(re.findall(r"`(--[\w-]+)`", rows[name][0]))
        for word in re.findall(r"\b[A-Z]+\b", rows[name][0]):
            said |= STAND_FOR[word]
        assert said == options(command)
    for option in options(PROGRAM):
        assert f"`{option}`" in section("Commands")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["schema"], 0),
        (["check", "--config", "short.yaml"], 1),
        (["check", "--config", "absent.yaml"], 2),
        (["migrate", "--dsn", "postgresql://dedup@127.0.0.1:1/dedup"], 3),
    ],
    ids=lambda one: str(one) if isinstance(one, int) else one[0],
)
def test_an_exit_code_means_what_its_row_says(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    short = blocks("yaml")[0].replace("${DATABASE_URL}", "postgresql://h/d")
    Path("short.yaml").write_text(short + "    retention: 1d\n")
    assert CliRunner().invoke(cli.app, words).exit_code == code
    assert set(table("Commands", "Exit code")) == {"0", "1", "2", "3", "130"}
