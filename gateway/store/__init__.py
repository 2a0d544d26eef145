"""Postgres: named statements, batches, migrations and the embedded server."""
