"""Schemas of study documents, which files, the command line and all interfaces share."""
