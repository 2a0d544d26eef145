"""`rules`: writes the file that Prometheus loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway import sources
from gateway.failures import sentence
from gateway.options import ConfigOption
from gateway.rules.rule import Watched
from gateway.rules.text import DEFAULT_RUNBOOK, rules


def write_rules(
    config: ConfigOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write them there, in one step.", metavar="FILE"),
    ] = None,
    runbook: Annotated[
        str,
        typer.Option(
            "--runbook-url", help="Where your people read the runbook's sections.", metavar="URL"
        ),
    ] = DEFAULT_RUNBOOK,
) -> None:
    """Write alerting rules for Prometheus, with the routes and numbers of the configuration.

    Make them anew when the configuration changes: a route that they do not know is an alert, too.
    """
    loaded = sources.read(config, variables_required=False)
    for route, setting in loaded.unknown_numbers.items():
        raise sources.Unusable(
            f"{setting} of route {route} has a variable that is not set here, so that the rules"
            " would be others; set it as the gateway has it"
        )
    text = rules(Watched(loaded.routes, loaded.accepted_short_retention), runbook)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        # Prometheus may read it at any time.
        fresh = output.with_name(f"{output.name}.new")
        fresh.write_text(text, "utf-8")
        fresh.replace(output)
    except OSError as error:
        raise sources.Unusable(f"--output: {sentence(error)}") from None
