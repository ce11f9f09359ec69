"""One file a notion: its curve and its rules, which register themselves when imported."""
