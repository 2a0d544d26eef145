"""Asynchronous glue between the rules and the edges; declares the Protocols that it needs."""
