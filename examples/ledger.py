"""Share a budget between two teams in a ledger, which processes and restarts spend from."""

import tempfile
from pathlib import Path

import privacy as dp

with tempfile.TemporaryDirectory() as folder:
    ledger = dp.Ledger.create(Path(folder) / "budgets.db")
    ledger.open("salaries", dp.Budget(epsilon=1, delta=1e-6), dataset="salaries-2026")
    for team, budget in zip(
        ("research", "reports"), dp.Budget(epsilon=1, delta=1e-6).split(2), strict=True
    ):
        ledger.open(team, budget, dataset="salaries-2026", parent="salaries")

    # A spend is on disk before the block runs, and stays spent if the block fails.
    with ledger.spend(dp.Gaussian(20.0), budget="research", label="mean by age"):
        print("run the mechanism")

    # release_sum spends by itself.
    research = ledger.using(budget="research", label="weekly sum")
    contributions = dp.clip_records([0.5, 9.0, -1.0], clip_norm=2.0)
    dp.release_sum(contributions, dp.Gaussian(20.0), ledger=research)

    try:
        ledger.spend(dp.Gaussian(2.0), budget="reports", label="too little noise")
    except dp.BudgetExceeded as refused:
        print("refused:", refused)

    for row in ledger.summary():
        print(f"{row['budget']:9} spent {100 * row['spent_share']:.1f} % of {row['epsilon']:.4g}")
    print("verified:", ledger.verify()["entries"], "entries")
