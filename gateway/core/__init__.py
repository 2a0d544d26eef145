"""The rules. Standard library only, and no clock, dice, log or event loop."""
