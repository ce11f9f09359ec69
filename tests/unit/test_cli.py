"""The commands, called in this process: answers, tables, sources of values, refusals."""

import json
import math
import re
import sys
from importlib.metadata import EntryPoint

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import privacy as dp
from privacy.answers import runs
from privacy.cli import app, main, output, pages
from privacy.cli.serve import serve
from privacy.numerics import rounding

TARGET = ("--epsilon", "1", "--delta", "1e-5")
KEYS = [
    "schema",
    "version",
    "noise_multiplier",
    "sigma",
    "clip_norm",
    "epsilon",
    "delta",
    "target_epsilon",
    "sampling_probability",
    "steps",
    "sampler",
    "batch_size",
    "max_batch_size",
    "records",
    "epochs",
    "relation",
    "notion",
    "order",
    "certified",
]
CONVERT_KEYS = [
    "schema",
    "version",
    "given",
    "epsilon",
    "delta",
    "rho",
    "mu",
    "noise_multiplier",
    "sigma",
    "clip_norm",
    "relation",
    "conversion",
]
COMMANDS = [
    "account",
    "check",
    "completion",
    "convert",
    "delta",
    "epsilon",
    "explain",
    "sampling-probability",
    "sigma",
    "steps",
    "verify",
]
ESCAPE = "\x1b"


def call(*args, text=None):
    return CliRunner().invoke(main, [str(arg) for arg in args], input=text)


def table(*args):
    done = call(*args)
    assert done.exit_code == 0, done.output
    return dict(re.split(r"  +", line) for line in done.stdout.splitlines())


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def answer(*args):
    done = call(*args, "--json")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    return strict(line)


def batch(*args, lines):
    done = call(*args, "--batch", text="".join(line + "\n" for line in lines))
    assert done.stderr == ""
    return [strict(line) for line in done.stdout.splitlines()], done.exit_code


def refusal(*args, code=2):
    done = call(*args)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


class TestAnswers:
    def test_sigma_has_every_key_in_order(self):
        found = answer("sigma", *TARGET)
        assert list(found) == KEYS
        assert found["schema"] == "dpcalib.sigma/1"
        assert found["version"] == dp.__version__
        assert found["noise_multiplier"] == found["sigma"]
        assert found["noise_multiplier"] == dp.noise_multiplier(epsilon=1, delta=1e-5, certify=True)
        assert 1 - 1e-9 < found["epsilon"] <= found["target_epsilon"] == 1
        assert found["delta"] == 1e-5
        assert (found["clip_norm"], found["sampling_probability"], found["steps"]) == (1, 1, 1)
        assert found["relation"] == "ADD_OR_REMOVE_ONE"
        assert (found["notion"], found["order"], found["certified"]) == ("gaussian", None, True)

    def test_sigma_of_a_sampled_run(self):
        found = answer("sigma", *TARGET, "-q", 0.01, "--steps", 1000, "--clip-norm", 0.5)
        assert list(found) == KEYS
        run = {"sampling_probability": 0.01, "steps": 1000}
        assert found["noise_multiplier"] == dp.noise_multiplier(epsilon=1, delta=1e-5, **run)
        assert found["sigma"] == found["noise_multiplier"] / 2
        assert (found["notion"], found["order"]) == ("contour", None)
        assert found["certified"] is True
        assert {key: found[key] for key in run} == run

    def test_epsilon_and_delta_are_each_others_inverse(self):
        spent = answer("epsilon", "--noise-multiplier", 2, "--delta", 1e-5)
        assert list(spent) == KEYS
        assert spent["target_epsilon"] is None
        assert spent["epsilon"] == pytest.approx(1.993092, rel=1e-6)
        back = answer("delta", "--noise-multiplier", 2, "--epsilon", repr(spent["epsilon"]))
        assert list(back) == KEYS
        assert back["delta"] == pytest.approx(1e-5, rel=1e-9)

    def test_steps_is_the_last_that_fits(self):
        noise = ("--noise-multiplier", 20)
        most = answer("steps", *TARGET, *noise)
        assert list(most) == KEYS
        assert most["epsilon"] <= 1
        more = answer("epsilon", *noise, "--delta", 1e-5, "--steps", most["steps"] + 1)
        assert more["epsilon"] > 1

    def test_sampling_probability_is_the_largest_that_fits(self):
        noise = ("--noise-multiplier", 2)
        most = answer("sampling-probability", *TARGET, *noise)
        assert list(most) == KEYS
        assert 0 < most["sampling_probability"] < 1
        assert most["epsilon"] <= 1
        q = most["sampling_probability"] * (1 + 1e-6)
        assert answer("epsilon", *noise, "--delta", 1e-5, "-q", q)["epsilon"] > 1

    def test_sigma_is_read_in_the_unit_of_the_clip_norm(self):
        given = answer("epsilon", "--sigma", 1.5, "--clip-norm", 0.5, "--delta", 1e-5)
        assert (given["sigma"], given["noise_multiplier"], given["clip_norm"]) == (1.5, 3, 0.5)
        unit = answer("epsilon", "--noise-multiplier", 3, "--delta", 1e-5)
        assert given["epsilon"] == unit["epsilon"]

    @pytest.mark.parametrize("spelling", ["replace-one", "REPLACE_ONE", "Replace_One"])
    def test_relation(self, spelling):
        found = answer("sigma", *TARGET, "--relation", spelling)
        assert found["relation"] == "REPLACE_ONE"
        assert found["sigma"] == pytest.approx(2 * answer("sigma", *TARGET)["sigma"], rel=1e-12)

    @pytest.mark.parametrize("notion", ["gaussian", "zcdp", "rdp"])
    def test_notion(self, notion):
        assert answer("sigma", *TARGET, "--notion", notion)["notion"] == notion

    def test_certify_requires_a_proof_and_no_certify_skips_it(self):
        sampled = ("sigma", *TARGET, "-q", 0.1, "--steps", 10, "--notion", "rdp")
        assert answer(*sampled, "--certify")["certified"] is True
        assert answer("sigma", *TARGET, "--no-certify")["certified"] is False

    def test_infinity_is_a_string(self):
        for conversion in ("optimal", "classic", "gaussian"):
            little = ("convert", "--noise-multiplier", "1e-200", "--delta", 1e-5)
            found = answer(*little, "--conversion", conversion)
            assert found["rho"] == found["epsilon"] == "inf"
        with pytest.raises(ValueError, match="not JSON compliant"):
            output.to_json({"epsilon": math.nan})


class TestConvert:
    def test_keys(self):
        assert list(answer("convert", "--rho", 0.1)) == CONVERT_KEYS

    def test_without_delta_there_is_no_epsilon(self):
        found = answer("convert", "--mu", 0.5)
        assert (found["epsilon"], found["delta"], found["conversion"]) == (None, None, None)
        assert found["rho"] == pytest.approx(0.125)
        assert found["noise_multiplier"] == pytest.approx(2)

    @pytest.mark.parametrize("conversion", ["optimal", "classic", "gaussian"])
    @pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
    @pytest.mark.parametrize("source", ["epsilon", "rho", "mu", "noise_multiplier", "sigma"])
    def test_every_source_describes_one_release(self, source, relation, conversion):
        rest = ("--delta", 1e-5, "--relation", relation, "--conversion", conversion)
        rest += ("--clip-norm", 2)
        first = answer("convert", "--epsilon", 0.8, *rest)
        again = answer("convert", f"--{source.replace('_', '-')}", repr(first[source]), *rest)
        for key in ("epsilon", "rho", "mu", "noise_multiplier", "sigma"):
            assert again[key] == pytest.approx(first[key], rel=1e-9)
        assert again["given"] == source

    def test_gaussian_conversion_is_exact(self):
        found = answer("convert", *TARGET, "--conversion", "gaussian")
        assert found["noise_multiplier"] == pytest.approx(3.730632, rel=1e-6)
        assert found["rho"] == pytest.approx(0.5 * found["mu"] ** 2)

    def test_a_budget_is_printed_rounded_down(self):
        exact, shown = answer("convert", *TARGET), table("convert", *TARGET)
        assert float(shown["rho (zCDP)"]) <= exact["rho"]
        assert float(shown["mu (Gaussian DP)"]) <= exact["mu"]
        assert float(shown["sigma"]) >= exact["sigma"]


def fixed_size_epsilons(*, delta, sigma, records, epochs, cell=1e-3):
    """Return bounds of an epsilon that batches of half the records cost under add or remove.

    All records are +1 but the additional one, -1. An epoch of `records` is two batches; of
    `records` + 1, a random one is dropped, so that one of the batches, at random, holds the
    additional record and its sum is 2 less, or none does. With d = 2 / sigma and y1, y2 the sums
    as noise in standard deviations, the likelihood ratio of an epoch is
    (1 + records / 2 (e^(d y1 - d^2/2) + e^(d y2 - d^2/2))) / (records + 1).
    Its logarithm is put on a lattice, rounded down and up, and convolved.
    """
    d = 2 / sigma
    edges = cell * np.arange(math.floor(-math.log(records + 1) / cell), math.ceil(6 / cell))
    y = np.linspace(-12, 12, 2001)
    rest = (np.exp(edges) * (records + 1) - 1) / (records / 2) * math.exp(d * d / 2)
    rest = rest[:, None] - np.exp(d * y)
    inner = ndtr(np.where(rest > 0, np.log(np.maximum(rest, 1e-300)) / d, -np.inf))

    def below(shift):
        """Return P(loss <= edge) where the first batch is moved."""
        return inner @ (np.exp(-0.5 * (y - shift) ** 2) * (y[1] - y[0]) / math.sqrt(2 * math.pi))

    mass = np.diff((below(0) + records * below(d)) / (records + 1))
    assert mass.sum() == pytest.approx(1, abs=1e-9)
    size = 2 ** math.ceil(math.log2(epochs * len(mass)))
    whole = np.fft.irfft(np.fft.rfft(mass, size) ** epochs, size)

    def epsilon(start):
        losses = epochs * start + cell * np.arange(size)
        low, high = 0.0, 20.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            above = losses > middle
            found = -(whole[above] * np.expm1(middle - losses[above])).sum()
            low, high = (middle, high) if found > delta else (low, middle)
        return low

    return epsilon(edges[0]), epsilon(edges[1])


LOADER = ("--batch-size", 256, "--records", 60_000, "--epochs", 15)
REPLACED = ("--relation", "replace-one")


class TestSamplers:
    """A run described by what its loader does."""

    def test_sampling_probability_and_steps_follow_from_the_batches(self):
        run = ("--noise-multiplier", 1.1, "--delta", 1e-5)
        found = answer("epsilon", *run, *LOADER)
        typed = answer("epsilon", *run, "-q", "256/60000", "--steps", 3516)
        assert found["epsilon"] == typed["epsilon"]
        assert (found["steps"], found["sampler"], found["records"]) == (3516, "poisson", 60_000)

    def test_sampler_of_fixed_size(self):
        run = ("--sampler", "fixed-size", *LOADER, *REPLACED)
        found = answer("epsilon", "--noise-multiplier", 2, "--delta", 1e-5, *run)
        step = dp.FixedSizeSampled(dp.Gaussian(2), batch_size=256, records=60_000)
        curve = dp.account(dp.repeat(step, 3516), relation="REPLACE_ONE")
        assert found["epsilon"] == curve.epsilon(1e-5)
        assert found["sampling_probability"] == 256 / 60_000
        options = (*run[:6], "--noise-multiplier", 2, *REPLACED)
        most = answer("steps", "--epsilon", 1, "--delta", 1e-5, *options)["steps"]
        for steps, fits in ((most, True), (most + 1, False)):
            curve = dp.account(dp.repeat(step, steps), relation="REPLACE_ONE")
            assert (curve.delta(1.0) <= 1e-5) is fits

    def test_sampler_of_limited_size(self):
        run = ("--sampler", "truncated-poisson", "--max-batch-size", 300, *LOADER)
        found = answer("delta", "--noise-multiplier", 1.1, "--epsilon", 2, *run)
        step = dp.TruncatedPoisson(
            dp.Gaussian(1.1),
            sampling_probability=256 / 60_000,
            max_batch_size=300,
            records=60_000,
        )
        assert found["delta"] == dp.account(dp.repeat(step, 3516)).delta(2.0)

    @pytest.mark.parametrize("relation", ["replace-one", "replace-special"])
    def test_sampler_of_shuffled_epochs(self, relation):
        run = ("--sampler", "shuffle", "--epochs", 15, "--relation", relation)
        found = answer("sigma", *TARGET, *run)
        epochs = dp.Epochs(dp.Gaussian(found["noise_multiplier"]), passes=15)
        assert dp.account(epochs, relation=found["relation"]).delta(1.0) <= 1e-5
        assert (found["steps"], found["sampling_probability"]) == (None, None)
        assert answer("sigma", *TARGET, *run, *LOADER)["steps"] == 15 * 235

    @pytest.mark.parametrize("sampler", ["fixed-size", "shuffle"])
    def test_samplers_that_move_other_records_need_a_relation(self, sampler):
        text = refusal("sigma", *TARGET, "--sampler", sampler, *LOADER)
        assert "displaces others" in text
        assert "DataLoader(shuffle=True)" in text
        assert "Pass --relation REPLACE_ONE or REPLACE_SPECIAL." in text

    @pytest.mark.parametrize(
        ("typed", "told"),
        [
            (("--sampler", "fixed-size", "--steps", 9), "Pass --batch-size and --records, which"),
            (("--batch-size", 9), "Pass --records, which"),
            (("--sampler", "truncated-poisson", "-q", 0.1), "Pass --max-batch-size and --rec"),
            (("--sampler", "shuffle"), "Pass --epochs, which"),
            (("--epochs", 15), "--sampler shuffle"),
            (("-q", 0.1, "--steps", 9, "--epochs", 3), "does not use --epochs. Remove --epochs."),
            (("-q", 0.1, *LOADER), "Remove --sampling-probability."),
            (("--max-batch-size", 9, *LOADER), "Remove --max-batch-size."),
            (("--sampler", "shuffle", "--steps", 9, *LOADER), "Remove --steps."),
            (("--batch-size", 9, "--records", 8), "batch_size=9 to be <= records=8"),
            (
                ("--sampler", "batches", "--epochs", 15),
                "one of poisson, fixed-size, truncated-poisson",
            ),
        ],
    )
    def test_a_sampler_names_the_options_that_it_needs(self, typed, told):
        assert told in refusal("sigma", *TARGET, *typed)

    def test_epochs_do_not_solve_for_steps(self):
        run = ("--noise-multiplier", 2, "--sampler", "shuffle")
        assert "sampler='shuffle' to be one of poisson" in refusal("steps", *TARGET, *run)

    @pytest.mark.parametrize(
        ("run", "told"),
        [
            (("--sampler", "fixed-size", *LOADER), "256 of the 60000 records are drawn uniformly"),
            (("--sampler", "shuffle", *LOADER), "at most one batch of each of 15 epochs"),
            (
                ("--sampler", "truncated-poisson", "--max-batch-size", 300, *LOADER),
                "a uniformly chosen subset of 300 is used",
            ),
        ],
    )
    def test_explain_states_what_the_sampler_assumes(self, run, told):
        noise = ("--noise-multiplier", 2, "--delta", 1e-5, *REPLACED)
        text = answer("explain", *noise, *run)["statement"]
        assert told in text
        assert "at most 15 of the" in text
        assert f"epsilon is {23.3464}" in text


class TestExplain:
    def test_the_statement_contains_the_required_facts(self):
        done = call("explain", *TARGET, "-q", 0.01, "--steps", 1000, "--epochs", 10)
        assert done.exit_code == 0
        text = " ".join(done.stdout.split())
        for part in (*dp.NeighboringRelation, "Poisson", "fixed-size batches", "Not covered"):
            assert part in text
        assert "at most 10 of the 1000 steps" in text
        assert max(map(len, done.stdout.splitlines())) <= 88

    def test_without_poisson_sampling_the_record_participates_with_certainty(self):
        run = ("--noise-multiplier", 5, "--delta", 1e-5, "-q", 0.01, "--steps", 100)
        found = answer("explain", *run, "--epochs", 3)
        assert list(found) == [*KEYS, "epsilon_without_poisson", "attack", "statement"]
        unknown = answer("explain", *run)
        assert unknown["epochs"] == 100
        for answered, epochs in ((found, 3), (unknown, 100)):
            sure = dp.repeat(dp.Gaussian(5), epochs)
            assert answered["epsilon_without_poisson"] == {
                relation: dp.account(sure, relation=relation).epsilon(1e-5)
                for relation in ("REPLACE_ONE", "REPLACE_SPECIAL")
            }

    def test_without_poisson_adding_a_record_costs_more(self):
        """One record more displaces another: 15 participations would claim 3.2646."""
        low, high = fixed_size_epsilons(delta=1e-5, sigma=5, records=512, epochs=15)
        assert high - low < 0.02
        assert low >= 4.829 > 1.4 * 3.2646
        assert high <= 7.329

    @pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
    def test_without_poisson_adding_a_record_has_no_epsilon(self, relation):
        run = ("--noise-multiplier", 5, "--delta", 1e-5, "-q", 0.5, "--steps", 30, "--epochs", 15)
        found = answer("explain", *run, "--relation", relation)
        sure = found["epsilon_without_poisson"]
        assert "ADD_OR_REMOVE_ONE" not in sure
        assert sure["REPLACE_ONE"] == pytest.approx(7.32938, rel=1e-6)
        assert sure["REPLACE_SPECIAL"] == pytest.approx(3.26455, rel=1e-6)
        sampling = found["statement"].partition("\nSampling\n")[2].partition("\n\n")[0]
        assert "- Under ADD_OR_REMOVE_ONE, no epsilon is given: adding a record" in sampling
        assert "- Under REPLACE_ONE (one record's value changes), epsilon is 7.32938." in sampling
        assert "(a null record replaces one record), epsilon is 3.26455." in sampling

    def test_full_batches_state_that_every_record_participates(self):
        statement = answer("explain", "--noise-multiplier", 0.5, "--delta", 1e-5)["statement"]
        assert "every record participates in every step" in statement
        assert "verified with interval arithmetic" in statement
        # a batch of 256 of 257 records: one record more moves the sum by two clip norms
        moved = dp.account(dp.PoissonSampled(dp.Gaussian(0.25), sampling_probability=256 / 257))
        (shown,) = re.findall(r"Under REPLACE_ONE .* epsilon is ([\d.]+)\.\n", statement)
        assert float(shown) >= moved.epsilon(1e-5) > 23

    @pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
    def test_every_relation_has_a_description(self, relation):
        assert relation in answer("explain", *TARGET, "--relation", relation)["statement"]

    def test_more_epochs_than_steps(self):
        assert "epochs=3" in refusal("explain", *TARGET, "--steps", 2, "--epochs", 3)

    def test_all_missing_options_are_named_at_once(self):
        text = refusal("explain", "--epochs", 15)
        assert re.search("Pass --delta: .* Pass --steps: .* Pass one of --epsilon, --n", text)
        assert answer("explain", *TARGET, "--epochs", 1)["steps"] == 1


class TestTable:
    def test_states_relation_and_notion(self):
        rows = table("sigma", *TARGET)
        assert rows["relation"] == "ADD_OR_REMOVE_ONE"
        assert rows["notion"] == "gaussian"
        assert rows["certified"] == "yes"

    def test_the_requested_quantity_is_printed_first(self):
        assert next(iter(table("steps", *TARGET, "--sigma", 9))) == "steps"

    def test_has_no_escape_codes(self):
        assert ESCAPE not in call("sigma", *TARGET).output

    @given(
        st.floats(min_value=5e-324, allow_infinity=False),
        st.integers(min_value=1, max_value=17),
    )
    def test_rounding_never_passes_the_value(self, value, digits):
        up = output.rounded(value, digits=digits)
        down = output.rounded(value, up=False, digits=digits)
        assert float(down) <= value <= float(up)
        if 1e-290 < value < 1e290:
            assert float(up) - float(down) <= 1.01 * value * 10.0 ** (1 - digits)

    @pytest.mark.parametrize(
        ("value", "up", "down"),
        [
            (1.0, "1", "1"),
            (0.01, "0.01", "0.01"),
            (1.00000001, "1.00001", "1"),
            (0.99999999, "1", "0.999999"),
            (3.73063163, "3.73064", "3.73063"),
            (0.0, "0", "0"),
            (math.inf, "inf", "inf"),
        ],
    )
    def test_rounding(self, value, up, down):
        assert output.rounded(value) == up
        assert output.rounded(value, up=False) == down

    def test_a_guarantee_holds_for_the_printed_numbers(self):
        """At the sampling probability rounded up to .0105574, the epsilon of this delta is 9.39."""
        run = ("--sigma", 0.679217313, "--clip-norm", 7.726624347304682, "--steps", 2)
        shown = table("delta", "--epsilon", 0.062, "-q", 0.01055732601419964, *run)
        names = "epsilon", "delta", "sampling probability", "sigma", "clip norm"
        epsilon, delta, q, sigma, clip_norm = (float(shown[name]) for name in names)
        for noise in (float(shown["noise multiplier"]), sigma / clip_norm):
            step = dp.PoissonSampled(dp.Gaussian(noise), sampling_probability=q)
            assert dp.account(dp.repeat(step, 2)).delta(epsilon) <= delta

    @given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
    def test_units_are_rounded_conservatively(self, noise, clip_norm):
        sigma = rounding.product_up(noise, clip_norm)
        assert rounding.ratio_down(sigma, clip_norm) >= math.nextafter(noise, 0)
        ratio = rounding.ratio_down(noise, clip_norm)
        assert rounding.product_up(ratio, clip_norm) <= noise


class TestBadInput:
    @pytest.mark.parametrize(
        ("args", "name", "meant"),
        [
            (("-q", 1.5), "sampling_probability=1.5", "percentage, pass 0.015"),
            (("-q", 5), "sampling_probability=5", "percentage, pass 0.05"),
            (("-q", 256), "sampling_probability=256", "batch size / number of records"),
            (("-q", "1%"), "--sampling-probability", "For 1% pass 0.01"),
            (("-q", "60000/256"), "sampling_probability=234.375", "> 0 and <= 1"),
            (("-q", "1/0"), "--sampling-probability", "not a number"),
            (("-q", "1/2/3"), "--sampling-probability", "not a number"),
            (("-q", "1e-320"), "sampling_probability=1e-320", ">= 2.22507e-308"),
            (("-q", "1/1e320"), "sampling_probability=0.0", "between 0 and 1"),
            (("-q", 0), "sampling_probability=0", "between 0 and 1"),
            (("-q", "nan"), "sampling_probability=nan", "between 0 and 1"),
            (("-q", 1000, "--steps", 0.01), "sampling_probability=1000", "look swapped"),
            (("--steps", 0), "steps=0", "pass --steps 1."),
            (("--steps", 0.01), "steps=0.01", "pass -q 0.01"),
            (("--steps", 2.5), "steps=2.5", "whole number"),
            (("--steps", "1e400"), "steps=inf", "whole number"),
            (("--delta", 0), "delta=0", "small probability"),
            (("--delta", 1), "delta=1", "such as 1e-5"),
            (("--delta", 5), "delta=5", "pass 1e-5"),
            (("--delta", "1e-5x"), "--delta", "not a number"),
            (("--epsilon", 0), "epsilon=0", "Pass a larger epsilon"),
            (("--epsilon", -1), "epsilon=-1", "> 0"),
            (("--epsilon", "nan"), "epsilon=nan", "> 0"),
            (("--epsilon", "inf"), "epsilon=inf", "> 0"),
            (("--epsilon", "1,5"), "--epsilon", "decimal point: 1.5"),
            (("--epsilon", 1e-5, "--delta", 1), "epsilon=1e-05", "look swapped"),
            (("--epsilon", 1e-5, "--delta", 0.5), "delta=0.5", "look swapped"),
            (("--clip-norm", 0), "clip_norm=0", "norm bound"),
            (("--relation", "neighbor"), "relation='neighbor'", "replace-one"),
            (("--notion", "none"), "notion='none'", "tightest"),
            (("--notion", "approximate", "--steps", 3), "approximate", "Use --notion"),
            (("--unknown", 1), "--unknown", "No such option"),
        ],
    )
    def test_names_the_argument_and_what_was_meant(self, args, name, meant):
        text = refusal("sigma", *TARGET, *args)
        assert name in text
        assert meant in text

    def test_missing(self):
        assert "--delta" in refusal("sigma", "--epsilon", 1)
        text = refusal("sigma")
        assert re.search("Pass --epsilon: .* Pass --delta: ", text)
        assert "--delta" in refusal("convert", "--epsilon", 1)
        text = refusal("epsilon", "--delta", 1e-5)
        assert "Pass one of --noise-multiplier, --sigma." in text
        assert re.search("Pass --delta: .* Pass one of --noise-m", refusal("epsilon"))

    def test_a_fraction_is_a_number(self):
        found = answer("epsilon", "--sigma", 2, "--delta", "1/1e5", "-q", "256/60000")
        assert found["sampling_probability"] == 256 / 60000
        assert found["delta"] == 1e-5

    def test_noise_given_twice(self):
        text = refusal("epsilon", "--delta", 1e-5, "--sigma", 1, "--noise-multiplier", 1)
        assert "--noise-multiplier and --sigma" in text

    @pytest.mark.parametrize("value", [0, -1, "nan", "inf"])
    @pytest.mark.parametrize("name", ["rho", "mu", "noise-multiplier", "sigma"])
    def test_noise_and_loss_are_positive(self, name, value):
        assert name.replace("-", "_") in refusal("convert", f"--{name}", value)


class TestExitCodes:
    def test_target_not_met(self):
        text = refusal("steps", "--epsilon", 0.1, "--delta", 1e-5, "--sigma", 1, code=3)
        assert "the smallest epsilon is" in text
        refusal("epsilon", "--noise-multiplier", "1e-300", "--delta", 1e-5, code=3)

    def test_not_certified(self, monkeypatch):
        from privacy.certification import Unproven, _bounds

        def fail(*_, **__):
            raise Unproven("the reason")

        monkeypatch.setattr(_bounds, "at_most", fail)
        assert "the reason" in refusal("sigma", *TARGET, "--certify", code=4)
        assert answer("sigma", *TARGET)["certified"] is False
        found, code = batch("sigma", *TARGET, "--certify", lines=["{}", '{"certify": false}'])
        assert code == found[0]["exit_code"] == 4
        assert found[1]["certified"] is False

    def test_failed_arithmetic_is_reported(self, monkeypatch):
        def fail(**_):
            raise ZeroDivisionError("division by zero")

        monkeypatch.setattr(runs, "solved_noise", fail)
        assert "outside the computable range" in refusal("sigma", *TARGET)

    def test_unknown_command(self):
        assert "sigm" in refusal("sigm")


class TestBatch:
    def test_a_bad_line_in_the_middle_loses_nothing(self):
        lines = [
            '{"steps": 10}',
            '{"steps": 0}',
            "not json",
            "[1]",
            '{"step": 10}',
            '{"delta": NaN}',
            '{"delta": "1e-5"}',
            '{"steps": true}',
            "",
            '{"steps": 20, "sampling-probability": 0.5}',
        ]
        found, code = batch("sigma", *TARGET, lines=lines)
        assert code == 2
        assert [one.get("steps") for one in found] == [10, *[None] * 7, 20]
        assert [one.get("line") for one in found] == [None, 2, 3, 4, 5, 6, 7, 8, None]
        for one in found[1:-1]:
            assert list(one) == ["schema", "version", "line", "error", "exit_code"]
            assert one["schema"] == "dpcalib.error/1"
        assert "step" in found[4]["error"]
        assert found[0] == answer("sigma", *TARGET, "--steps", 10)
        assert found[-1]["sampling_probability"] == 0.5

    def test_a_batch_without_errors(self):
        found, code = batch("epsilon", lines=['{"sigma": 2, "delta": 1e-5}'] * 3)
        assert code == 0
        assert len(found) == 3

    def test_processes_print_the_same_lines_in_the_same_order(self):
        lines = [f'{{"sigma": 2, "delta": {delta}}}' for delta in (1e-5, 2, 1e-6)]
        assert batch("epsilon", "--jobs", 2, lines=lines) == batch("epsilon", lines=lines)

    @pytest.mark.parametrize("jobs", [0, -2])
    def test_a_bad_number_of_processes_is_refused(self, jobs):
        done = call("epsilon", "--batch", "--jobs", jobs, text="")
        assert done.exit_code == 2
        assert f"Expected jobs={jobs} to be >= 1, or -1. Pass" in done.stderr

    def test_processes_without_a_batch_are_refused(self):
        done = call("epsilon", "--sigma", 2, "--delta", 1e-5, "--jobs", 2)
        assert done.exit_code == 2
        assert "Expected jobs=2 to be 1 without --batch. Omit --jobs, or add" in done.stderr

    def test_the_highest_exit_code_wins(self):
        lines = ['{"sigma": -1}', '{"sigma": 0.1}', '{"sigma": 9}']
        found, code = batch("steps", *TARGET, lines=lines)
        assert code == 3
        assert [one.get("exit_code") for one in found] == [2, 3, None]

    def test_a_line_replaces_one_noise_by_the_other(self):
        found, code = batch(
            "epsilon", "--sigma", 2, "--delta", 1e-5, lines=['{"noise_multiplier": 3}', "{}"]
        )
        assert code == 0
        assert [one["sigma"] for one in found] == [3, 2]

    def test_bytes_that_are_no_text(self):
        done = CliRunner().invoke(main, ["sigma", *TARGET, "--batch"], input=b"\xff\xfe\xff\n{}\n")
        assert done.exit_code == 2
        bad, good = map(strict, done.stdout.splitlines())
        assert "Expected a JSON object. Write" in bad["error"]
        assert good["certified"] is True

    @pytest.mark.parametrize("shape", ["[]", '{"a":1}', '{"steps":[]}', '{"notion":[]}'])
    def test_a_deeply_nested_line_does_not_stop_the_batch(self, shape):
        depths = [*range(900, 1000, 3), 3000, 100_000]
        head, inner, tail = shape.partition("[]") if "[]" in shape else ('{"steps":', "{}", "}")
        opening, closing = ("[", "]") if inner == "[]" else ('{"a":', "}")
        lines = [
            head + opening * depth + ("" if inner == "[]" else "1") + closing * depth + tail
            for depth in depths
        ]
        found, code = batch("sigma", *TARGET, lines=[*lines, "{}"])
        assert code == 2
        assert [one.get("exit_code") for one in found] == [2] * len(lines) + [None]
        assert all(len(one["error"]) < 1000 for one in found[:-1])

    def test_empty(self):
        assert batch("sigma", *TARGET, lines=[]) == ([], 0)


class TestConfig:
    @pytest.fixture
    def config(self, tmp_path):
        def write(text):
            path = tmp_path / "run.toml"
            path.write_text(text, encoding="utf-8")
            return ("--config", path)

        return write

    def test_the_command_line_wins(self, config):
        file = config('epsilon = 1\ndelta = 1e-5\nsteps = 10\nrelation = "replace-one"\n')
        found = answer("sigma", *file)
        assert (found["steps"], found["relation"]) == (10, "REPLACE_ONE")
        assert found == answer("sigma", *TARGET, "--steps", 10, "--relation", "replace-one")
        assert answer("sigma", *file, "--steps", 20)["steps"] == 20

    def test_one_file_serves_several_commands(self, config):
        file = config("noise-multiplier = 2\ndelta = 1e-5\nsampling-probability = 0.1\n")
        assert answer("epsilon", *file)["sampling_probability"] == 0.1
        assert answer("sigma", "--epsilon", 1, *file)["sampling_probability"] == 0.1
        assert answer("epsilon", *file, "--sigma", 3)["sigma"] == 3

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("step = 10", "Unknown option step"),
            ("steps = ", "run.toml"),
            ("steps = 0", "steps=0"),
            ("steps = '10'", "steps='10'"),
            ("certify = 'yes'", "certify='yes'"),
            (".".join("a" * 3000) + " = 1", "to be flat"),
            ("[" + ".".join("a" * 3000) + "]", "to be flat"),
            ("steps = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ],
    )
    def test_mistakes(self, config, text, told):
        assert told in refusal("sigma", *TARGET, *config(text))

    def test_no_file(self):
        assert "does not exist" in refusal("sigma", *TARGET, "--config", "nowhere.toml")

    def test_batch_lines_win_over_both(self, config):
        file = config("epsilon = 1\ndelta = 1e-5\nsteps = 10\n")
        found, code = batch("sigma", *file, "--steps", 20, lines=["{}", '{"steps": 30}'])
        assert code == 0
        assert [one["steps"] for one in found] == [20, 30]


class TestGroup:
    @pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
    def test_help_lists_every_command(self, args):
        done = call(*args)
        assert done.exit_code == 0
        assert "\\" not in done.stdout
        listed = re.findall(r"^  ([a-z-]+)  +[A-Z]", done.stdout, re.MULTILINE)
        assert set(listed) >= set(COMMANDS)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_has_help(self, name):
        done = call(name, "--help")
        assert done.exit_code == 0
        assert f"Usage: main {name}" in done.stdout
        assert "\\" not in done.stdout

    def test_version(self):
        assert dp.__version__ in call("--version").stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion(self, shell):
        assert "_DPCALIB_COMPLETE" in call("completion", shell).stdout

    @pytest.fixture
    def metadata(self, monkeypatch):
        def replace(*entries):
            app.found.cache_clear()
            monkeypatch.setattr(app, "entry_points", lambda *, group: [*entries])

        yield replace
        app.found.cache_clear()

    def test_another_package_adds_a_command(self, metadata):
        metadata(
            EntryPoint("extra", "privacy.cli.runs:sigma", app.COMMANDS),
            EntryPoint("broken", "no_such_module:it [plot]", app.COMMANDS),
            EntryPoint("sigma", "privacy.cli.runs:sigma", app.COMMANDS),
            EntryPoint("sigma", "no_such_module:it", app.COMMANDS),
            EntryPoint("bandit", "bandits.cli:bandit", app.COMMANDS),
            EntryPoint("bandit", "no_such_module:it", app.COMMANDS),
        )
        assert answer("extra", *TARGET) == answer("sigma", *TARGET)
        assert call("bandit", "--help").exit_code == 0
        done = call("--help")
        assert done.exit_code == 0
        assert "broken" in done.stdout
        done = call("broken", "--anything", 3)
        assert done.exit_code == 1
        assert "no_such_module" in done.stderr
        assert "pip install '.[plot]'" in done.stderr

    def test_serve_names_its_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)
        pages.template.cache_clear()
        done = CliRunner().invoke(serve, ["--port", "0"])
        assert done.exit_code == 1
        assert "pip install '.[serve]'" in done.stderr

    def test_without_metadata(self, metadata):
        metadata()
        assert "pip install" in call("sigma", *TARGET).stderr


# -- what a newcomer types ------------------------------------------------------------------


def every_command(command=main, path=("dpcalib",)):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every_command(command.get_command(context, name), (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in every_command()], ids=" ".join)
def test_help_fits_on_a_terminal_of_80_columns(path):
    told = CliRunner().invoke(main, [*path[1:], "--help"], terminal_width=80, prog_name="dpcalib")
    usage = told.output.partition("\n\n")[0]
    assert max(map(len, told.output.splitlines())) <= 80
    assert "..." not in re.sub(r"(\[ARGS\]|PLAN)\.\.\.", "", told.output)
    for line in usage.splitlines():  # no line ends within a name or between option and value
        assert not line.rstrip().endswith("-")
        assert not re.search(r"--[a-z-]+$", line)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["epsilon", "--num-examples", "256"], "Pass --batch-size, --records and --epochs, and"),
        (["steps", "--epochs", "15"], "--sampler if batches are not Poisson samples"),
        (["epsilon", "--noise", "1"], "Pass --noise-multiplier (sigma / clip norm), or --sigma"),
        (["sigma", "--eps", "1"], "No such option '--eps'. Pass --epsilon."),
        (["sigma", "--sample-rate", "0.1"], "Pass -q."),
        (["sigma", "--max-grad-norm", "1"], "Pass --clip-norm."),
        (["sigma", "--stepz", "1"], "--steps"),
        (["noise"], "Did you mean 'sigma'?"),
        (["simulate", "--rounds", "3"], "Did you mean 'bandit simulate'?"),
        (["sigm"], "Did you mean 'sigma'?"),
    ],
)
def test_names_of_other_tools_get_a_suggestion(typed, told):
    answer = CliRunner().invoke(main, typed)
    assert answer.exit_code == 2
    assert told in answer.stderr


def test_an_option_of_the_command_gets_no_suggestion():
    assert CliRunner().invoke(main, ["explain", *TARGET, "--epochs", "1"]).exit_code == 0


def test_an_unknown_command_without_a_close_match_gets_no_suggestion():
    assert CliRunner().invoke(main, ["zzz"]).stderr.endswith("No such command 'zzz'.\n")


@pytest.mark.parametrize(
    ("target", "key"),
    [
        (("--advantage", "0.1"), "advantage"),
        (("--true-positive-rate", "0.1", "--false-positive-rate", "0.01"), "true_positive_rate"),
        (("--bayes-risk", "0.4", "--prior", "0.5"), "bayes_risk"),
    ],
)
def test_sigma_for_a_risk(target, key):
    done = CliRunner().invoke(main, ["sigma", *target, "-q", "0.01", "--steps", "100", "--json"])
    found = json.loads(done.stdout)
    wanted = {"target": found[f"target_{key}"], "found": found[key]}
    assert wanted["found"] == pytest.approx(wanted["target"], rel=1e-6)
    given = dict(
        zip((flag[2:].replace("-", "_") for flag in target[::2]), target[1::2], strict=True)
    )
    noise = dp.noise_multiplier(
        **{name: float(value) for name, value in given.items()},
        sampling_probability=0.01,
        steps=100,
    )
    assert found["noise_multiplier"] == pytest.approx(noise, rel=1e-6)


def test_one_target_for_sigma():
    done = CliRunner().invoke(main, ["sigma", "--advantage", "0.1", "--epsilon", "1"])
    assert done.exit_code == 2
    assert "Expected one kind of target" in done.stderr


def test_delta_at_epsilon_0_is_the_advantage():
    done = CliRunner().invoke(main, ["delta", "--epsilon", "0", "--sigma", "2", "--json"])
    assert json.loads(done.stdout)["delta"] == pytest.approx(2 * ndtr(0.25) - 1, rel=1e-12)
