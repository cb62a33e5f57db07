"""What tests, benchmarks and the demo share: workloads, a comparison with the oracle, a loopback cluster."""
