"""Calibrate the noise of a training run for three targets with two accounting methods.

The run is 1000 steps of DP-SGD with Poisson sampling: each step includes each record
independently with probability 0.01.
"""

import privacy as dp

RUN = {"sampling_probability": 0.01, "steps": 1000}
NOTIONS = ("tightest", "rdp")

print(f"{'epsilon':>8} " + " ".join(f"{notion:>10}" for notion in NOTIONS))
for epsilon in (0.5, 1.0, 4.0):
    noise = [
        dp.noise_multiplier(epsilon=epsilon, delta=1e-6, notion=notion, **RUN) for notion in NOTIONS
    ]
    print(f"{epsilon:>8} " + " ".join(f"{sigma:10.4f}" for sigma in noise))
