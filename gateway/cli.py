"""The verbs: parse, call, print. No rule lives here.

Exit codes: 0 done, 1 found something wrong, 2 usage or configuration, 3 store away.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import asyncpg
import typer
from rich.console import Console
from typer.core import TyperGroup

from gateway import __version__, asking, catalogue, logs, process, sources
from gateway.config import ConfigError, Dsn, Embedded, Loaded, report, sample, schema
from gateway.core.claim import StoreAway
from gateway.demo.play import run_demo
from gateway.demo.sample import run_sample
from gateway.demo.shapes import FULL
from gateway.failures import sentence
from gateway.operating import claims, inbox
from gateway.operating.audit import audit
from gateway.operating.backfill import backfill
from gateway.operating.report import report as report_on
from gateway.options import ConfigOption, JsonOption
from gateway.process import FOUND, STORE_AWAY, USAGE
from gateway.rules.command import write_rules
from gateway.store import beside
from gateway.store import migrate as migrations
from gateway.store.embedded import EmbeddedError
from gateway.store.multihost import CONNECT_ERRORS, NoWritableHost

INTERRUPTED = 130


class Verbs(TyperGroup):
    """All commands: their mistakes, Ctrl-C and a screen that takes nothing end each alike."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As the library does; a full disk or a closed terminal is a sentence and no traceback."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            _discard_output()
            with suppress(OSError):
                typer.echo(sentence(error), err=True)
            raise SystemExit(FOUND) from None

    def invoke(self, ctx: Any) -> Any:
        """As the library does; interrupted, with the exit code that shells have for it."""
        try:
            return super().invoke(ctx)
        except (ConfigError, sources.Unusable) as error:
            _fail(USAGE, str(error))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=Verbs,
    help="A reverse proxy that lets each webhook event through to an unmodified consumer once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes show a switch as one that takes a <bool>
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(claims.app, name="claims", short_help="Look up an event, or let it through again.")
app.add_typer(inbox.app, name="inbox", short_help="List, redrive, drop or complete stored events.")
app.command("backfill", short_help="Mark events as processed already.")(backfill)
app.command("audit", short_help="Compare what was done, or sent, with the claims.")(audit)
app.command("report", short_help="Say what a time in observe has shown.")(report_on)
app.command("rules", short_help="Write alerting rules for Prometheus.")(write_rules)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"dedup-gateway {__version__}")
        raise typer.Exit


@app.command(short_help="Run the gateway.")
def serve(
    config: ConfigOption = None,
    upstream: Annotated[
        str | None,
        typer.Option(help="One route without a file: the consumer's URL.", metavar="URL"),
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="One route without a file: its path.", metavar="PATH")
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            help="One route without a file: where the id is, as in json:/event_id.", metavar="WHERE"
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            help="One route without a file: whose preset says where the id is.", metavar="NAME"
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where deliveries are taken.", metavar="HOST:PORT")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(help="Where metrics and probes are.", metavar="HOST:PORT")
    ] = None,
    embedded: Annotated[
        Path | None,
        typer.Option(
            help="Keep claims in a Postgres of our own, in this folder.", metavar="FOLDER"
        ),
    ] = None,
) -> None:
    """Run the gateway, from a file or for one route given on the command line.

    Without a file, --upstream, --path and --event-id or --provider go together; of the two,
    --event-id wins.
    """
    logs.configure()
    flags = {"listen": listen, "admin": admin, "embedded": embedded}
    given = {"upstream": upstream, "path": path, "event_id": event_id, "provider": provider}
    if any(value is not None for value in given.values()):
        only = sources.one_route(config, given, flags)
        _run(lambda: process.serve(only, None))

    file = sources.file(config)

    def reread() -> Loaded:
        return sources.read(file, flags, serving=True)

    loaded = reread()
    _run(lambda: process.serve(loaded, reread))


@app.command(short_help="Read the configuration and say what it means.")
def check(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    no_env: Annotated[
        bool, typer.Option("--no-env", help="Do not require the variables that the file names.")
    ] = False,
    ask_store: Annotated[
        bool,
        typer.Option(
            "--store", help="Ask the store what it remembers, too, and how it may lose that."
        ),
    ] = False,
) -> None:
    """Read the configuration and say what it means; exit 1 when something in it is unsafe."""
    loaded = sources.read(config, variables_required=not no_env)
    findings = report.check(loaded, _ask_store(loaded) if ask_store else None)
    _print(report.as_json(findings) if as_json else report.as_text(findings))
    raise typer.Exit(FOUND if findings.unsafe else 0)


def _ask_store(loaded: Loaded) -> report.StoreFindings:
    store = loaded.store
    try:
        dsn = beside.running(store.path) if isinstance(store, Embedded) else store.text
        return asyncio.run(asking.ask(dsn, loaded))
    except (StoreAway, EmbeddedError) as away:
        _fail(STORE_AWAY, f"the store cannot be asked: {away}")
    except ValueError as error:
        _fail(USAGE, f"store.dsn: {error}")


@app.command("try", short_help="Show what the gateway would make of a sample request.")
def try_(
    sample_file: Annotated[
        str,
        typer.Argument(help="A body, or a whole HTTP request; - reads stdin.", metavar="SAMPLE"),
    ],
    route: Annotated[
        str | None,
        typer.Option(
            help="The route that it is for; else its host and path decide.", metavar="NAME"
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the gateway would make of a sample request. Sends nothing."""
    loaded = sources.read(config, variables_required=False)
    try:
        raw = sys.stdin.buffer.read() if sample_file == "-" else Path(sample_file).read_bytes()
        found = sample.try_sample(loaded, route, raw, time.time())
    except (OSError, ValueError) as error:
        _fail(USAGE, sentence(error))
    _print(sample.as_json(found) if as_json else sample.as_text(found))
    raise typer.Exit(0 if found.usable else FOUND)


app.command(short_help="Show what is known of providers.")(catalogue.providers)


@app.command("schema")
def schema_() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    _print(json.dumps(schema(), indent=2))


@app.command()
def migrate(
    config: ConfigOption = None,
    dsn: Annotated[
        str | None,
        typer.Option(help="Instead of the file's store: a role that may create.", metavar="DSN"),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the SQL instead of applying it.")
    ] = False,
) -> None:
    """Bring the store's schema to this release."""
    if print_only:
        _print(migrations.script())
        return
    target = dsn or sources.store_dsn(config)
    try:
        applied = asyncio.run(migrations.migrate(target))
    except ValueError as error:
        _fail(USAGE, f"--dsn: {error}")
    except asyncpg.InsufficientPrivilegeError as error:
        _fail(USAGE, f"{error}; give --dsn with a role that may create, or apply --print")
    except (NoWritableHost, *CONNECT_ERRORS) as error:
        _fail(STORE_AWAY, f"the store {Dsn(target)} cannot be migrated: {sentence(error)}")
    _print("\n".join(f"applied {name}" for name in applied) or "nothing to do")


@app.command(short_help="Show the three shapes of duplicates.")
def demo() -> None:
    """Show the three shapes of duplicates, against a consumer directly and through the gateway."""
    logs.configure(quiet=True)
    raise typer.Exit(process.run_waiting(lambda: run_demo(_screen(), FULL)))


@app.command("sample", hidden=True)
def sample_(config: ConfigOption = None) -> None:
    """Run the embedded store, a sample consumer and the gateway in front of it."""
    logs.configure(quiet=True)  # the screen is for the lines that say what to try
    loaded = sources.read(config)
    _run(lambda: run_sample(loaded, _screen(), lambda: f"evt_{secrets.token_hex(6)}"))


def _run(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    try:
        code = process.run(work)
    except (EmbeddedError, OSError, ValueError) as error:
        _fail(process.exit_code(error), sentence(error))
    raise typer.Exit(code)


def _screen() -> Console:
    """Without colours for numbers and paths: a colour says that something is wrong, or well."""
    return Console(highlight=False)


def _print(text: str) -> None:
    typer.echo(text)


def _discard_output() -> None:
    """What is still buffered would fail once more when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _fail(code: int, message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)
