"""Code that touches data: what a person contributes, and noise that is safe to release."""
