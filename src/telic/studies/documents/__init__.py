"""Documents of studies: one definition for file, command line and interface."""
