"""Tests of flows: a kit for users, and what tests, benchmarks and the demo share."""

from anabranch.testing.flow_test import FlowTest
from anabranch.testing.oracle_compare import assert_same_rows

__all__ = ["FlowTest", "assert_same_rows"]
