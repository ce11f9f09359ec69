"""Store a mechanism as JSON, read it back, and compute its guarantee again."""

import json

import privacy as dp

step = dp.PoissonSampled(dp.Gaussian(1.2), sampling_probability=0.02)
run = dp.compose(dp.repeat(step, 500), dp.Gaussian(20.0))

record = json.dumps({"ran": run.to_json(), "delta": 1e-6}, indent=2)
print(record)

read = json.loads(record)
again = dp.mechanism_from_json(read["ran"])
assert again == run
print(dp.account(again).guarantee(delta=read["delta"]))
