"""Calibration: the smallest noise, or the largest q or T, that meets a privacy target."""

from privacy.calibration.questions import (
    calibrate,
    max_sampling_probability,
    max_steps,
    noise_multiplier,
    recalibrate,
)
from privacy.calibration.search import Infeasible

# fmt: off
__all__ = [
    "Infeasible", "calibrate", "max_sampling_probability", "max_steps", "noise_multiplier",
    "recalibrate",
]
