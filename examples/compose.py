"""One data set, several releases: what they cost together, and what is still to spend."""

import privacy as dp

# Three noisy sums of all records, one published count with Laplace noise, and statistics of
# two disjoint groups, of which each record enters one.
plan = dp.compose(
    dp.repeat(dp.Gaussian(12.0), 3),
    dp.Laplace(20.0),
    dp.parallel(dp.Gaussian(15.0), dp.Gaussian(18.0)),
)
spent = dp.account(plan).guarantee(delta=1e-6)
print("so far:", spent)
print("by itself:", dp.account(dp.Gaussian(12.0)).guarantee(delta=1e-6))

# The noise of two further sums, so that everything together meets epsilon = 1.
sigma = dp.calibrate(
    lambda noise: dp.compose(plan, dp.repeat(dp.Gaussian(noise), 2)), epsilon=1, delta=1e-6
)
whole = dp.compose(plan, dp.repeat(dp.Gaussian(sigma), 2))
print(f"noise multiplier of the two: {sigma:.4f}")
print("in the end:", dp.account(whole).guarantee(delta=1e-6))
