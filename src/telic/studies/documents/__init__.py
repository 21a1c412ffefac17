"""Schemas of study documents, shared by files, the command line and all interfaces."""
