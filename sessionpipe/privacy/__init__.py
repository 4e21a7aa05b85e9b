"""The privacy rules (protocol §5, §6), and what they are called."""

SECRETS, PERSONS = "secrets@1", "pii@1"
