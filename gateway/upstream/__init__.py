"""The hop to the consumer: HTTP/1.1 over asyncio and httptools."""
