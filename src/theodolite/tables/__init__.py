"""From sums to tables: layers, tokens, units, coordinates, spectra and scales."""
