"""What a worker process keeps between two tasks."""
