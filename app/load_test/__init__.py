"""Many visitors at once on one app: whose text is whose, is any run lost, does memory grow."""
