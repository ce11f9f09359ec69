"""The noise for a training run, under three targets and in two notions.

1000 steps of noisy gradient descent, each on a fresh Poisson sample that holds
one record in a hundred.
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
