"""The training of the embedded query generator: pack pairs, train on a GPU, report."""
