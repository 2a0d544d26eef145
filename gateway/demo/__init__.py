"""What the gateway is for, to look at: a sample consumer, and the shapes of duplicates."""
