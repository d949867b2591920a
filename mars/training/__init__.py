"""Training: stage 1, AR SFT; stage 2, MARS from that checkpoint (section 3.2)."""
