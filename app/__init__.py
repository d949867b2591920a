"""MARS Lens, the app: autoregressive and MARS decoding side by side, every forward pass visible."""
