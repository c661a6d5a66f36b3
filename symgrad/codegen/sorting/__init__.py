"""Vector sorting for the Sort structure: keys, sorting networks, sorted runs and their merges."""
