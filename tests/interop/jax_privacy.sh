#!/usr/bin/env bash
# Our accountant in the training accountants of jax-privacy, and one training step.
exec "$(dirname "$0")/run" check_jax_privacy.py jax-privacy==2.0.0
