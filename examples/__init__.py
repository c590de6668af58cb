"""Short programs to start from; the tests run each of them.

For a service with API keys each reads one from `MISCLICK_API_KEY`.
"""
