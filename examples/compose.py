"""Account for several releases of one data set, and calibrate the noise of two more."""

import privacy as dp

# Three noisy sums of all records, one count with Laplace noise, and statistics of two disjoint
# groups (each record is in one of them).
plan = dp.compose(
    dp.repeat(dp.Gaussian(12.0), 3),
    dp.Laplace(20.0),
    dp.parallel(dp.Gaussian(15.0), dp.Gaussian(18.0)),
)
spent = dp.account(plan).guarantee(delta=1e-6)
print("spent so far:", spent)
print("one sum alone:", dp.account(dp.Gaussian(12.0)).guarantee(delta=1e-6))

# Calibrate two further sums so that the composition of all releases meets epsilon = 1.
sigma = dp.calibrate(
    lambda noise: dp.compose(plan, dp.repeat(dp.Gaussian(noise), 2)), epsilon=1, delta=1e-6
)
whole = dp.compose(plan, dp.repeat(dp.Gaussian(sigma), 2))
print(f"noise multiplier of the two sums: {sigma:.4f}")
print("in total:", dp.account(whole).guarantee(delta=1e-6))
