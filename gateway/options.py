"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="The YAML file; gateway.yaml here if there is one.", metavar="FILE"
    ),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
