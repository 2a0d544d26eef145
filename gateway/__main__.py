"""`python -m gateway` is the same program as `dedup-gateway`."""

from __future__ import annotations


def main() -> None:
    """The console script. Ctrl-C while the program is still being loaded ends it quietly too."""
    try:
        from gateway.cli import app

        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
