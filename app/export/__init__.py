"""The page as a folder of static files, with recorded runs and measured figures in it; no server answers there."""
