"""Finished runs as files: what a run is, one JSON document in and out, shipped ones, and replays with no server."""
