"""What the Trade-offs tab shows: the runs of the store, selected, drawn, and told in words. No component, no torch."""
