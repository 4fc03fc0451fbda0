"""What one report says: events of the engine added up into histograms, counters, spans and samples."""
