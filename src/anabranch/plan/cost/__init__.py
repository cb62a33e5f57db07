"""What plans, migrations and moves cost."""
