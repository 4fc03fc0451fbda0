"""Charts as SVG: from values to what stands where. Pure; templates/components/ writes the markup."""
