"""Without a live recommender: data sets, logged rounds, features, simulations and evaluation."""
