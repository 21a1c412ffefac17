"""Run untrusted code, which is checked against an allow-list and executed in a confined process."""
