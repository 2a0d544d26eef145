"""`python -m gateway` is the same program as `dedup-gateway`."""

from gateway.cli import main

main()
