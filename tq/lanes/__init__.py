"""Where handlers run: threads for functions, one event loop for coroutines."""
