"""Whether an index is sound: rules, and what was found against them."""
