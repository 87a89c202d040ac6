"""Random programs, hostile programs and the figures that the guarantees rest on."""
