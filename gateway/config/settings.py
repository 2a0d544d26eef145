"""What a user can write: unit, default and the damage of a wrong value of each setting.

The text under a setting is its documentation; editors show it (see `schema`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.config.kinds import Count, Duration, Filled, Listed, Network, Place, Size, Span, Truth
from gateway.config.route_settings import RouteSettings
from gateway.config.strict import STRICT, Strict, written


class ListenerTlsSettings(Strict):
    """The certificate that senders see."""

    cert: Filled
    """PEM file: our certificate, then those between it and the root. One missing, and senders
    refuse to connect."""
    key: Filled
    """PEM file of its private key, without a passphrase."""


class ListenSettings(Strict):
    """An address to take requests on."""

    address: Place
    """Host and port, as in 0.0.0.0:8080 or [::1]:8080; port 0 is any free one."""
    tls: ListenerTlsSettings | None = None
    """Take https only. Default: plain http."""

    @model_validator(mode="before")
    @classmethod
    def _bare_address(cls, value: Any) -> Any:
        return {"address": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core))]}


class AdminSettings(Strict):
    """Where metrics and probes are."""

    listen: ListenSettings = written("127.0.0.1:8081")
    """Address of /metrics, /healthz and /readyz. Default 127.0.0.1:8081. Probes and scrapers from
    elsewhere need an address that they reach; senders should not reach it."""


class StoreSettings(Strict):
    """Where claims are kept: one Postgres for all gateways that share their memory."""

    dsn: Filled | None = None
    """A Postgres of your own (15 or later), as in postgresql://user:password@host/database.
    @ # / ? in the password are percent-encoded, as in %40 for @."""
    embedded: Filled | None = None
    """A folder for a Postgres of the gateway's own, on this machine. Two gateways with an embedded
    store each have two memories, and let an event through once each."""
    user: Filled | None = None
    """The system user that runs the embedded Postgres when the gateway runs as root. Default:
    postgres if there is one, else nobody. It must be able to enter the folder."""
    keep_ids: Truth = written("true")
    """Whether claims keep the first 255 characters of their event id, for people. `false` saves a
    third of the space, and nobody can look up which event a claim was."""


class LimitSettings(Strict):
    """What one gateway process holds at most."""

    connections: Count = written("4096")
    """Open connections of senders; more are closed at once. Too few turns senders away, too many
    runs out of file descriptors."""
    body_memory: Size = written("128MiB")
    """Bodies in memory, all together; further large ones wait, then get 503. Too much, and a burst
    of large bodies gets the process killed."""
    body_timeout: Span = written("30s")
    """How long a sender may take for its body before it gets 408. Too short fails slow senders,
    too long lets stalled ones hold memory."""


class Settings(BaseSettings):
    """The gateway's configuration."""

    model_config = SettingsConfigDict(**STRICT)  # type: ignore[typeddict-item]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """One source: the document over which environment and flags are laid already (`layers`).

        The library's own environment source cannot reach into a list by index, and knows neither
        the variable nor the line behind a mistake.
        """
        return (init_settings,)

    listen: Annotated[tuple[ListenSettings, ...], *Listed] = written(("127.0.0.1:8080",))
    """Where deliveries are taken: an address, {address, tls}, or a list of them. Default
    127.0.0.1:8080, which nobody outside this machine reaches."""
    admin: AdminSettings = Field(default_factory=AdminSettings)
    """Metrics and probes."""
    store: StoreSettings
    """Where claims are kept. There is no default: gateways that each keep their own memory do not
    see each other's events."""
    trusted_proxies: Annotated[tuple[Network, ...], *Listed] = ()
    """Networks of proxies in front of the gateway, whose X-Forwarded-* are extended; those of
    everybody else are replaced. Default: none. Too wide, and any sender can claim any address."""
    limits: LimitSettings = Field(default_factory=LimitSettings)
    """What one process holds at most."""
    drain_delay: Duration = written("5s")
    """How long requests are still taken after SIGTERM, with readiness red already, so that
    balancers notice first. Too short, and rolling restarts refuse senders."""
    log_deliveries: Truth = written("false")
    """One log line for each delivery. Default false; busy routes write much of it. Read at start
    only."""
    routes: tuple[RouteSettings, ...]
    """What is protected. A request for no route gets 404."""
