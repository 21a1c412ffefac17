"""A stand-in for Isaac Lab: its interface, without Isaac Sim."""
