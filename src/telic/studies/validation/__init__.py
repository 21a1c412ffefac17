"""Checks V01 to V16: may this candidate be tried at all."""
