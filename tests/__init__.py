"""A package of its own: a provider's library brings one that is called `tests`, too.

Without this file Python would take that one for ours wherever pytest is not there to know better.
"""
