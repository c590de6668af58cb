"""Short programs to start from; the tests run each of them."""
