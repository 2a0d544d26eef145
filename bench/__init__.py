"""The gateway measured against a bare server, in one run on this machine: `python -m bench`."""
