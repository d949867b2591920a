"""Finished runs as files: their schema, one JSON document in and out, shipped ones, and replays with no server."""
