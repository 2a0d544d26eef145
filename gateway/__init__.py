"""A reverse proxy that lets each webhook event through to an unmodified consumer once."""

__version__ = "0.1.0"
