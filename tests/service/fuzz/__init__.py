"""What Schemathesis has to know of this API."""

#: The models that are there before a run: every kind of features and of learning.
MODELS = ("ads", "hashed", "labels")
