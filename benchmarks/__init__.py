"""What is timed or scored; results are kept as JSON and shown in docs/benchmarks.md."""
