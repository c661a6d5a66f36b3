"""Frontend, what users build graphs with: nests, creation, control flow, state, the Array API."""
