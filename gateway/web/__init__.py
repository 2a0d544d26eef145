"""The side that providers and probes see: an aiohttp server, raw bytes in, raw bytes out."""
