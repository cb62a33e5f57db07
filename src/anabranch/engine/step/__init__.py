"""The driver's side of a step: plan it, run it, commit it, deliver it."""
