"""The page `docs/calculator` in a browser: its numbers are those of Python, to the last digit."""

import itertools
import json
import re
from pathlib import Path

import mpmath
import pytest

import privacy as dp
from privacy import answers
from privacy.answers.batches import run_of
from privacy.cli import output
from privacy.numerics.display import rounded

DOCS = Path(__file__).resolve().parents[2] / "docs"
ONE_RELEASE = {"clip_norm": 1, "sampling_probability": 1, "steps": 1, "size": 1}
ONE_RELEASE |= {"relation": "add-or-remove-one"}
ADVANTAGE = "largest advantage of an attack"
RATE = "largest true positive rate at false positive rate 0.01"


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The forms alone, without the theme, from a file."""
    folder = tmp_path_factory.mktemp("site")
    text = (DOCS / "calculator.md").read_text(encoding="utf-8")
    (forms,) = re.findall("^```{raw} html\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (folder / "_static").mkdir()
    script = (DOCS / "_static" / "calculator.js").read_text(encoding="utf-8")
    (folder / "_static" / "calculator.js").write_text(script, encoding="utf-8")
    file = folder / "calculator.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{forms}", encoding="utf-8")
    opened = browser.new_page()
    problems, requests = [], []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(file.as_uri())
    assert requests == [file.as_uri(), (folder / "_static" / "calculator.js").as_uri()]
    yield opened
    opened.close()
    assert not problems


def computed(page, name, questions):
    """Return the rows of the answers to many questions, each a list of arguments."""
    script = f"(all) => all.map((one) => Object.fromEntries(dpcalib.{name}(...one).rows))"
    return page.evaluate(script, questions)


def test_normal_tail_has_full_accuracy(page):
    points = [k / 16 for k in range(-160, 601)]
    found = page.evaluate("(points) => points.map(dpcalib.tail)", points)
    with mpmath.workdps(40):
        for x, value in zip(points, found, strict=True):
            exact = mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            assert abs(value / exact - 1) < 1e-14, x


EPSILONS, DELTAS = (0.001, 0.25, 1, 7.5, 60), (1e-12, 1e-5, 0.003)
RUNS = [
    {"relation": "add-or-remove-one"},
    {"relation": "replace-one", "steps": 100, "clip_norm": 0.3},
    {"relation": "replace-special", "steps": 12345},
    {"sampling_probability": 0.004, "clip_norm": 2.5},
    {"sampling_probability": 0.7, "relation": "replace-special"},
]


def risks(run, noise, size=1):
    how = {"relation": run["relation"].upper().replace("-", "_")}
    curve = dp.account(run_of(run | {"noise_multiplier": noise}), **how).group(size)
    attacks = {ADVANTAGE: rounded(curve.advantage()), RATE: rounded(curve.true_positive_rate(0.01))}
    return curve, attacks


def shown(answer, *names):
    return {output.LABELS[name]: output.shown(name, answer[name]) for name in names}


@pytest.mark.parametrize("find", ["sigma", "epsilon", "delta"])
def test_runs_equal_python(page, find):
    noises = (1e-100, 0.06, 0.9, 4, 300)
    given = {
        "sigma": [{"epsilon": e, "delta": d} for e, d in itertools.product(EPSILONS, DELTAS)],
        "epsilon": [
            {"noise_multiplier": n, "delta": d} for n, d in itertools.product(noises, DELTAS)
        ],
        "delta": [
            {"noise_multiplier": n, "epsilon": e} for n, e in itertools.product(noises, EPSILONS)
        ],
    }
    questions = [ONE_RELEASE | run | asked for run, asked in itertools.product(RUNS, given[find])]
    found = computed(page, "release", [[question, find] for question in questions])
    names = ("sigma", "noise_multiplier", "clip_norm", "epsilon", "delta")
    for question, rows in zip(questions, found, strict=True):
        asked = {name: value for name, value in question.items() if name != "size"}
        answer = getattr(answers, find)(asked)
        _, attacks = risks(asked, answer["noise_multiplier"])
        assert rows == shown(answer, *names) | attacks, question


def test_groups_equal_python(page):
    questions = [
        ONE_RELEASE | {"noise_multiplier": noise, "delta": 1e-6, "size": size, "steps": steps}
        for noise, size, steps in itertools.product((0.5, 30, 700), (2, 40), (1, 9))
    ]
    found = computed(page, "release", [[question, "epsilon"] for question in questions])
    for question, rows in zip(questions, found, strict=True):
        curve, attacks = risks(question, question["noise_multiplier"], question["size"])
        expected = attacks | {"epsilon": rounded(curve.epsilon(1e-6))}
        assert rows == rows | expected, question


def test_printed_noise_is_the_smallest_that_meets_the_target(page):
    """Against an independent evaluation of Balle and Wang 2018, Theorem 8."""
    targets = list(itertools.product(EPSILONS[1:], DELTAS))
    questions = [[ONE_RELEASE | {"epsilon": e, "delta": d}, "sigma"] for e, d in targets]

    def delta(epsilon, noise):
        with mpmath.workdps(60):
            mu = 1 / mpmath.mpf(noise)
            a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
            return mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-b)

    for (epsilon, allowed), rows in zip(targets, computed(page, "release", questions), strict=True):
        noise = mpmath.mpf(rows["noise multiplier"])
        assert delta(epsilon, noise) <= allowed < delta(epsilon, noise * (1 - mpmath.mpf("1e-5")))


def test_conversions_equal_python(page):
    sources = {"epsilon": (0.01, 1, 30), "rho": (0.001, 0.125, 8), "mu": (0.3, 1), "sigma": (2, 9)}
    sources["noise_multiplier"] = (0.1, 2, 3)
    questions = [
        {given: value, "conversion": conversion, "relation": relation, "clip_norm": 0.7} | delta
        for given, values in sources.items()
        for value, conversion, relation, delta in itertools.product(
            values,
            ("optimal", "classic", "gaussian"),
            ("add-or-remove-one", "replace-one"),
            ({"delta": 1e-5}, {"delta": 1e-15}, {}),
        )
        if delta or given != "epsilon"
    ]
    tiny = {"epsilon": 1e-150, "delta": 1e-300, "relation": "add-or-remove-one", "clip_norm": 0.7}
    questions += [tiny | {"conversion": name} for name in ("optimal", "classic", "gaussian")]
    givens = [next(name for name in question if name in sources) for question in questions]
    found = computed(page, "convert", [list(pair) for pair in zip(questions, givens, strict=True)])
    names = ("noise_multiplier", "sigma", "clip_norm", "epsilon", "delta", "rho", "mu")
    for question, given, rows in zip(questions, givens, found, strict=True):
        answer = answers.convert(question)
        down = ("rho", "mu") if given in {"epsilon", "rho"} else ()
        expected = {
            output.LABELS[name]: output.shown(name, answer[name], up=name not in down)
            for name in names
            if answer[name] is not None
        }
        assert rows == expected, question


def test_claims_equal_python(page):
    questions = [
        {"epsilon": epsilon, "delta": delta, "size": size, "false_positive_rate": rate}
        for epsilon, delta, size, rate in itertools.product(
            (0.0625, 1, 5), (1e-10, 1e-5), (1, 2, 4), (0.001, 0.25)
        )
    ]
    # a true positive rate far below the rounding error of 1
    questions.append(questions[0] | {"epsilon": 1e-80, "delta": 1e-40})
    questions[-1]["false_positive_rate"] = 1e-200
    found = computed(page, "claim", [[question] for question in questions])
    for question, rows in zip(questions, found, strict=True):
        epsilon, delta, size = question["epsilon"], question["delta"], question["size"]
        curve = dp.account(dp.ApproximateDP(epsilon, delta)).group(size)
        assert rows == {
            "epsilon of the group": rounded(float(size * epsilon)),
            "delta of the group": rounded(delta if size == 1 else curve.delta(size * epsilon)),
            ADVANTAGE: rounded(curve.advantage()),
            "largest true positive rate": rounded(
                curve.true_positive_rate(question["false_positive_rate"])
            ),
        }, question


def test_drawn_curve_never_exceeds_the_tradeoff_function(page):
    values = ONE_RELEASE | {"noise_multiplier": 0.8, "delta": 1e-5, "sampling_probability": 0.3}
    script = '(values) => dpcalib.tradeoff(dpcalib.release(values, "epsilon").profile)'
    rates, misses = zip(*page.evaluate(script, values), strict=True)
    assert (rates[0], rates[-1], misses[-1]) == (0, 1, 0)
    curve, _ = risks(values, 0.8)
    low, high = curve.tradeoff_interval(list(rates))
    for miss, least, most in zip(misses, low, high, strict=True):
        assert least - 1e-6 <= miss <= most + 1e-15


def test_rounding_is_that_of_python(page):
    numbers = [
        5e-324,
        1e-5,
        1.0000001,
        999999.5,
        1e6,
        123456.7,
        0.1 + 0.2,
        1e22,
        1.7976931348623e308,
    ]
    for up in (True, False):
        script = "([numbers, up]) => numbers.map((x) => dpcalib.rounded(x, { up }))"
        assert page.evaluate(script, [numbers, up]) == [rounded(x, up=up) for x in numbers]


def message(page, prefix, name):
    return page.locator(f"#{prefix}-{name}-error").text_content()


def filled(page, prefix, choice, **texts):
    """Compute with the values of the fields; return the first bad field, or None."""
    page.evaluate("document.querySelectorAll('form').forEach((form) => form.reset())")
    page.select_option(f"#{prefix}-choice", choice)
    for name, text in texts.items():
        page.fill(f"#{prefix}-{name}", text)
    page.press(f"#{prefix}-{name}", "Enter")
    bad = page.locator(f"[id^={prefix}-][aria-invalid]")
    assert bad.count() == 0 or bad.first.evaluate("one => one === document.activeElement")
    return bad.first.get_attribute("name") if bad.count() else None


BAD = [
    ("sigma", {"epsilon": "-1"}),
    ("sigma", {"epsilon": "0"}),
    ("sigma", {"epsilon": "inf"}),
    ("sigma", {"epsilon": "nan"}),
    ("sigma", {"delta": "0"}),
    ("sigma", {"delta": "5"}),
    ("sigma", {"delta": "1.5"}),
    ("sigma", {"epsilon": "1e-5", "delta": "1"}),
    ("sigma", {"sampling_probability": "0"}),
    ("sigma", {"sampling_probability": "256"}),
    ("sigma", {"sampling_probability": "5"}),
    ("sigma", {"sampling_probability": "1.5"}),
    ("sigma", {"sampling_probability": "1e-310"}),
    ("sigma", {"steps": "0"}),
    ("sigma", {"steps": "0.25"}),
    ("sigma", {"steps": "1e400"}),
    ("sigma", {"clip_norm": "-1e-7"}),
    ("epsilon", {"noise_multiplier": "-3"}),
    ("epsilon", {"noise_multiplier": "1e-200"}),
    ("convert", {"rho": "0"}),
    ("convert", {"mu": "-2.5"}),
    ("convert", {"sigma": "0.0"}),
]


@pytest.mark.parametrize(("find", "texts"), BAD, ids=str)
def test_bad_input_has_the_message_of_python_beside_its_field(page, find, texts):
    prefix, (name, *_) = "convert" if find == "convert" else "release", texts
    assert filled(page, prefix, name if find == "convert" else find, **texts) == name
    rest = {} if find == "convert" else {"delta": 1e-5}
    rest |= {"sigma": {"epsilon": 1}, "epsilon": {"noise_multiplier": 4}}.get(find, {})
    values = {
        one: json.loads(text) if text.lstrip("-").isdigit() else float(text)
        for one, text in texts.items()
    }
    with pytest.raises(ValueError, match=r"\.") as refused:
        getattr(answers, find)(rest | values)
    assert message(page, prefix, name) == str(refused.value)
    assert (
        page.locator(f"#{prefix}-{name}").get_attribute("aria-describedby").split()[0]
        == f"{prefix}-{name}-error"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Missing delta. Well below 1 / (number of records), such as 1e-5."),
        ("small", "'small' is not a number."),
        ("0,001", "'0,001' is not a number. Use a decimal point: 0.001."),
        ("1%", "'1%' is not a number. For 1% pass 0.01."),
        ("0x1", "'0x1' is not a number."),
        ("1/0", "'1/0' is not a number."),
        ("<img src=x onerror=alert(1)>", "'<img src=x onerror=alert(1)>' is not a number."),
    ],
)
def test_text_that_is_no_number(page, text, told):
    assert filled(page, "release", "sigma", delta=text) == "delta"
    assert message(page, "release", "delta") == told
    assert filled(page, "release", "sigma", delta="1/100000") is None


@pytest.mark.parametrize(
    ("texts", "name"),
    [({"steps": "10"}, "steps"), ({"size": "2"}, "size"), ({"delta": "0.02"}, "delta")],
)
def test_sampled_runs_without_a_closed_form_are_refused(page, texts, name):
    assert filled(page, "release", "sigma", sampling_probability="0.01", **texts) == name
    assert message(page, "release", name).startswith(f"Expected {name}=")


def test_a_noise_multiplier_beyond_floats_is_refused(page):
    assert filled(page, "convert", "sigma", sigma="1e300", clip_norm="1e-300") == "sigma"
    assert message(page, "convert", "sigma") == "The inputs are outside the computable range."


def test_without_a_mouse(page, nameless):
    page.reload()
    assert page.evaluate(nameless) == []
    page.focus("#release-choice")
    page.keyboard.press("ArrowDown")
    order = ["noise_multiplier", "delta", "sampling_probability", "steps", "clip_norm", "size"]
    for name in order:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == name
        if name == "noise_multiplier":
            page.keyboard.type("2")  # Tab selects the text, which is replaced
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Compute"
    page.keyboard.press("Enter")
    asked = {"noise_multiplier": 2, "delta": 1e-5, "relation": "replace-one"}
    answer = rounded(answers.epsilon(asked)["epsilon"])
    status = page.get_by_role("status").first
    assert status.text_content() == f"epsilon: {answer}, sigma: 2."
    command = "dpcalib epsilon --noise-multiplier 2 --delta 1e-05 --relation replace-one"
    assert page.locator("code", has_text="dpcalib epsilon").text_content() == command
    assert "of an attack is about" in page.get_by_role("img").first.get_attribute("aria-label")
