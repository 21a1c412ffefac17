"""The ten tasks of policy search, stepped in batches."""
