"""Pure rules: what runs next, graphs, contracts. No I/O, no clock."""
