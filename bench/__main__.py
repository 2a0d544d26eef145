"""`python -m bench`: measure, print a table, draw a picture, write JSON.

Whether a ceiling is met is said, and does not decide the exit code: on a busy machine nobody can
promise a ratio. 1 means that something did not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import uvloop
from rich.console import Console

from bench.figures import Found, as_json
from bench.plot import draw
from bench.processes import BenchFailed
from bench.report import show
from bench.run import FULL, QUICK, Scale, run
from gateway.demo.program import ProgramFailed
from gateway.store.embedded import EmbeddedError


def main() -> int:
    options = _options()
    console = Console()
    scale: Scale = QUICK if options.quick else FULL
    if options.ten_million:
        scale = replace(scale, rows=(*scale.rows, 10_000_000))
    try:
        found = uvloop.run(_measured(scale, console))
    except (BenchFailed, ProgramFailed, EmbeddedError) as failure:
        print(failure, *getattr(failure, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    document = as_json(found, quick=options.quick)
    show(console, found, document)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=2) + "\n")
    plot = options.plot or options.output.with_suffix(".png")
    draw(found, plot)
    console.print(f"wrote {options.output} and {plot}", highlight=False, soft_wrap=True)
    return 0


async def _measured(scale: Scale, console: Console) -> Found:
    with console.status("starting") as status:
        return await run(scale, status.update)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about four minutes")
    parser.add_argument(
        "--output", type=Path, default=Path("build/bench.json"), help="where the JSON goes"
    )
    parser.add_argument("--plot", type=Path, help="where the picture goes; beside the JSON")
    parser.add_argument(
        "--ten-million", action="store_true", help="let the claims table grow to 10 million rows"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
