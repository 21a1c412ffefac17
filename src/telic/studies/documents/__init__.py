"""Study documents, defined once for files, command line and interfaces."""
