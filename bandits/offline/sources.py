"""Addresses, hashes and licenses of the public data sets."""

from typing import Literal

from bandits.offline.downloads import Source

Edition = Literal["latest-small", "25m", "32m"]
Policy = Literal["random", "bts"]
Campaign = Literal["all", "men", "women"]

_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_ARCHIVED = "https://web.archive.org/web/2024id_/"
_MOVIELENS_CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM TiiS 5, 4, Article 19. https://doi.org/10.1145/2827872"
)
_MOVIELENS_LICENSE = (
    "MovieLens {edition} is for research; no commercial use and no endorsement without permission; "
    "{sharing}"
)
_SHARED = "it may be redistributed under these same conditions."
_NOT_SHARED = "it may not be redistributed without separate permission."


def _movielens(edition: Edition, known_hash: str, sharing: str = _NOT_SHARED) -> Source:
    address = f"{_GROUPLENS}/ml-{edition}.zip"
    return Source(
        f"ml-{edition}.zip",
        known_hash,
        (address, _ARCHIVED + address),
        _MOVIELENS_LICENSE.format(edition=edition, sharing=sharing),
        _MOVIELENS_CITATION,
    )


MOVIELENS: dict[Edition, Source] = {
    "latest-small": _movielens(
        "latest-small",
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
        _SHARED,
    ),
    "25m": _movielens(
        "25m", "sha256:8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa"
    ),
    "32m": _movielens("32m", "md5:d472be332d4daa821edc399621853b57"),
}
"""The archives by edition. GroupLens publishes an MD5 for each; for 32m we know no other hash."""

_EIGENTASTE = "https://eigentaste.berkeley.edu/dataset"
_RECOMMENDERLAB = (
    "https://raw.githubusercontent.com/r-forge/recommenderlab/master/pkg/recommenderlabJester/"
    "Work/Jester"
)
_JESTER_HASHES = {
    1: "cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615",
    2: "4d312fd824d8c8cb2c9c952a7b1fb7c00d1f5fd3ece370f7285aa701d371748b",
    3: "7f548d3762d3506cf7cd37d8cb9e3adb67984a7da7aa2d2096d5e0b1b884758d",
}
JESTER = {
    part: Source(
        f"jester/jester_dataset_1_{part}.zip",
        f"sha256:{digest}",
        (f"{_EIGENTASTE}/jester_dataset_1_{part}.zip", f"{_RECOMMENDERLAB}/jester-data-{part}.zip"),
        "Jester is freely available for research use when acknowledged; its terms do not mention "
        "redistribution.",
        "Ken Goldberg, Theresa Roeder, Dhruv Gupta, and Chris Perkins. Eigentaste: A Constant Time "
        "Collaborative Filtering Algorithm. Information Retrieval 4(2), 133-151, July 2001.",
    )
    for part, digest in _JESTER_HASHES.items()
}
"""The archives of Jester's first data set by part."""

_OBP = (
    "https://raw.githubusercontent.com/st-tech/zr-obp/master/obd",
    "https://cdn.jsdelivr.net/gh/st-tech/zr-obp@master/obd",
)
_OPEN_BANDIT_HASHES: dict[tuple[Policy, Campaign], str] = {
    ("bts", "all"): "0ad874e4dbf6902f0845dd478ad8dde5ef6903583d3ffaace78411bdad064106",
    ("bts", "men"): "db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
    ("bts", "women"): "e5d1b49a39b608585a2f3014a3f54970430cd37a495c1b73fceb85cdf428a5b8",
    ("random", "all"): "7168295b6e0a9eabcf3392320a5dd434e542b68e705d5cd9491499af589812f1",
    ("random", "men"): "ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
    ("random", "women"): "e65f3bd3beb17664fa69cc129bf7bf852a775f8ffa630506e505fc905315bb34",
}
_OPEN_BANDIT_LICENSE = (
    "The sample of the Open Bandit data comes with a repository under Apache-2.0; the terms of the "
    "full data are on https://research.zozo.com/data.html."
)
_OPEN_BANDIT_CITATION = (
    "Saito, Aihara, Matsutani, Narita. Open Bandit Dataset and Pipeline: Toward Realistic and "
    "Reproducible Off-Policy Evaluation. arXiv:2008.07146."
)
OPEN_BANDIT = {
    (policy, campaign): Source(
        f"obd/{policy}/{campaign}/{campaign}.csv",
        f"sha256:{digest}",
        tuple(f"{address}/{policy}/{campaign}/{campaign}.csv" for address in _OBP),
        _OPEN_BANDIT_LICENSE,
        _OPEN_BANDIT_CITATION,
    )
    for (policy, campaign), digest in _OPEN_BANDIT_HASHES.items()
}
"""The files of the sample by policy and campaign."""
