"""Run untrusted code, checked against an allow-list and executed in a confined process."""
