"""Privacy losses of one application of a mechanism: dominating pairs, and transforms of them."""
