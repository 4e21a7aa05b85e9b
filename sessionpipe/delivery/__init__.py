"""Delivery: from the outbox to a sink, once each, in order, within what the sink may see."""
