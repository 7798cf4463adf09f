"""What data can tell of parameters: profile likelihoods, and the Fisher information."""
