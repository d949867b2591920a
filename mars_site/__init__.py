"""The page of `app` without its server: as static files, with models that write in the visitor's browser; as a Space.

`app/site.py` alone imports it, where it is there; the app works without it. `browser/` has its scripts: `shell.js`
mounts the parts of the app's page and answers from files what they ask Python; `live/` is the engine, in a worker.
`record.py` makes the runs that are shipped, from the command line.
"""
