"""The Trade-offs tab: runs of the store, selected, drawn, and described in words. No component, no torch."""
