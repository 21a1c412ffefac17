"""The ten tasks of policy search, each in a file of its own, stepped in batches."""
