"""The verbs: parse, call, print. No rule lives here.

Exit codes: 0 done, 1 found something wrong, 2 usage or configuration, 3 store away.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import secrets
import sys
from collections.abc import Callable, Coroutine
from datetime import date
from pathlib import Path
from typing import Annotated, Any, NoReturn

import asyncpg
import typer
import uvloop
from rich.console import Console

from gateway import __version__, failpoints, logs
from gateway.app import Gateway
from gateway.config import ConfigError, Embedded, Loaded, load, quick, report, sample, schema
from gateway.demo.play import run_demo
from gateway.demo.sample import run_sample
from gateway.demo.shapes import FULL
from gateway.store import migrate as migrations
from gateway.store.embedded import EmbeddedError
from gateway.store.multihost import CONNECT_ERRORS, NoWritableHost

FOUND, USAGE, STORE_AWAY = 1, 2, 3

DEFAULT_FILE = Path("gateway.yaml")
# The default 4,096 connections of senders, as many to consumers, and room for larger settings.
OPEN_FILES = 65_536

app = typer.Typer(
    help="A reverse proxy that lets each webhook event through to an unmodified consumer once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The YAML file; gateway.yaml here if there is one."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"dedup-gateway {__version__}")
        raise typer.Exit


@app.command()
def serve(
    config: ConfigOption = None,
    upstream: Annotated[
        str | None, typer.Option(help="Without a file: the consumer's URL.", metavar="URL")
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Without a file: the route's path.", metavar="PATH")
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            help="Without a file: where the id is, as in json:/event_id.", metavar="WHERE"
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where deliveries are taken.", metavar="HOST:PORT")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(help="Where metrics and probes are.", metavar="HOST:PORT")
    ] = None,
    embedded: Annotated[
        Path | None, typer.Option(help="Keep claims in a Postgres of our own, in this directory.")
    ] = None,
) -> None:
    """Run the gateway, from a file or for one route given on the command line."""
    flags: dict[str, object] = {}
    if listen is not None:
        flags["listen"] = listen
    if admin is not None:
        flags["admin.listen"] = admin
    if embedded is not None:
        flags["store.embedded"] = str(embedded)
    if upstream is None:
        file = _file(config)

        def reread() -> Loaded:
            return load(file, env=os.environ, flags=flags, today=date.today())

        loaded = _loaded(reread)
        _run(lambda: _serve(loaded, reread))
        return
    if config is not None or path is None or event_id is None:
        _fail(
            USAGE,
            "without a file, serve needs --upstream, --path and --event-id together: "
            "--upstream http://127.0.0.1:3000 --path /hooks/orders --event-id json:/event_id",
        )
    only = _loaded(
        lambda: quick(upstream, path, event_id, env=os.environ, flags=flags, today=date.today())
    )
    _run(lambda: _serve(only, None))


@app.command()
def check(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    no_env: Annotated[
        bool, typer.Option("--no-env", help="Do not require the variables that the file names.")
    ] = False,
) -> None:
    """Read the configuration and say what it means; exit 1 when something in it is unsafe."""
    file = _file(config)
    loaded = _loaded(
        lambda: load(file, env=os.environ, variables_required=not no_env, today=date.today())
    )
    findings = report.check(loaded)
    _print(report.as_json(findings) if as_json else report.as_text(findings))
    raise typer.Exit(FOUND if findings.unsafe else 0)


@app.command("try")
def try_(
    sample_file: Annotated[
        str, typer.Argument(help="A body, or a whole HTTP request; - reads stdin.", metavar="FILE")
    ],
    route: Annotated[
        str | None, typer.Option(help="The route that it is for; else its host and path decide.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the gateway would make of a sample request. Sends nothing."""
    file = _file(config)
    loaded = _loaded(lambda: load(file, env=os.environ, variables_required=False))
    try:
        raw = sys.stdin.buffer.read() if sample_file == "-" else Path(sample_file).read_bytes()
        found = sample.try_sample(loaded, route, raw)
    except (OSError, ValueError) as error:
        _fail(USAGE, str(error))
    _print(sample.as_json(found) if as_json else sample.as_text(found))
    raise typer.Exit(0 if found.usable else FOUND)


@app.command("schema")
def schema_() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    _print(json.dumps(schema(), indent=2))


@app.command()
def migrate(
    config: ConfigOption = None,
    dsn: Annotated[
        str | None, typer.Option(help="Instead of the file's store: a role that may create.")
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the SQL instead of applying it.")
    ] = False,
) -> None:
    """Bring the store's schema to this release."""
    if print_only:
        _print(migrations.script())
        return
    target = dsn or _dsn(config)
    try:
        applied = asyncio.run(migrations.migrate(target))
    except ValueError as error:
        _fail(USAGE, f"the DSN cannot be used: {error}")
    except asyncpg.InsufficientPrivilegeError as error:
        _fail(USAGE, f"{error}; give --dsn with a role that may create, or apply --print")
    except (NoWritableHost, *CONNECT_ERRORS) as error:
        _fail(STORE_AWAY, f"the store cannot be migrated: {error or type(error).__name__}")
    _print("\n".join(f"applied {name}" for name in applied) or "nothing to do")


@app.command()
def demo() -> None:
    """Show the three shapes of duplicates, against a consumer directly and through the gateway."""
    logs.configure(quiet=True)
    raise typer.Exit(uvloop.run(run_demo(Console(), FULL)))


@app.command("sample", hidden=True)
def sample_(config: ConfigOption = None) -> None:
    """Run the embedded store, a sample consumer and the gateway in front of it."""
    file = _file(config)
    loaded = _loaded(lambda: load(file, env=os.environ))
    _run(lambda: run_sample(loaded, Console(), lambda: f"evt_{secrets.token_hex(6)}"))


async def _serve(loaded: Loaded, reread: Callable[[], Loaded] | None) -> int:
    gateway = Gateway(loaded, reread=reread, at=failpoints.parse(os.environ))
    try:
        await gateway.start()
        _calm_collector()
        await gateway.run_until_stopped()
    finally:
        await gateway.stop()
    return 0


def _run(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    logs.configure()
    _allow_open_files()
    try:
        code = uvloop.run(work())
    except EmbeddedError as error:
        _fail(STORE_AWAY, str(error))
    except (OSError, ValueError) as error:  # an address, a file, a DSN: what `start` cannot use
        _fail(USAGE, str(error))
    raise typer.Exit(code)


def _calm_collector() -> None:
    """Leave what was loaded out of every collection, and collect less often.

    A delivery makes a few hundred objects and no cycles; at the usual 700 the collector took 6 to
    8 % of the CPU of a first delivery, most of it to walk modules.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _allow_open_files() -> None:
    """Raise the soft limit: with the usual 1024, `limits.connections` would mean nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _loaded(read: Callable[[], Loaded]) -> Loaded:
    try:
        return read()
    except ConfigError as error:
        _fail(USAGE, str(error))


def _file(config: Path | None) -> Path | None:
    if config is not None:
        return config
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _dsn(config: Path | None) -> str:
    file = _file(config)
    store = _loaded(lambda: load(file, env=os.environ)).store
    if isinstance(store, Embedded):
        _fail(USAGE, "an embedded store is migrated by `serve`; give --dsn for another one")
    return store.text


def _print(text: str) -> None:
    typer.echo(text)


def _fail(code: int, message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


def main() -> None:
    """The console script."""
    app()
