"""What users build graphs with: nests, creation, control flow, state, and the Array API."""
