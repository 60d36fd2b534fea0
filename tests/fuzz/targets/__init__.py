"""One module for each decoder, or for several that are ways to one answer."""
