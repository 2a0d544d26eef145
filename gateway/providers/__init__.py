"""Providers: what is known of those who send webhooks, and how they sign."""
