/* The page "Calculator": closed forms of dpcalib, computed in the browser.
 *
 * The formulas and their rounding are those of privacy/numerics/normal.py, privacy/losses/profiles.py
 * and privacy/notions/zcdp.py; tests/browser compares the numbers. A privacy profile is a function
 * from epsilon >= 0 to an upper bound on log delta.
 */
"use strict";

const dpcalib = (() => {
  const U = 2 ** -53;
  const LOG_SQRT_2PI = 0.5 * Math.log(2 * Math.PI);
  const { abs, exp, expm1, log, log1p, max, min, sqrt } = Math;

  // ---- floats: neighbors, and exact comparisons of products ----

  const view = new DataView(new ArrayBuffer(8));

  function bits(x) {
    view.setFloat64(0, x);
    return view.getBigUint64(0);
  }

  function ofBits(n) {
    view.setBigUint64(0, n);
    return view.getFloat64(0);
  }

  /** Return the next larger float of x >= 0. */
  const above = (x) => (x === Infinity ? x : ofBits(bits(x) + 1n));
  /** Return the next smaller float of x > 0. */
  const below = (x) => ofBits(bits(x) - 1n);
  const roundUp = (x, relative) => above(x * (1 + relative));

  /** Return [m, e] with x1 x2 ... = m 2^e, for finite floats > 0. */
  function product(factors) {
    let mantissa = 1n;
    let exponent = 0;
    for (const x of factors) {
      const n = bits(x);
      const biased = Number(n >> 52n);
      mantissa *= (n & 0xfffffffffffffn) | (biased ? 1n << 52n : 0n);
      exponent += max(biased, 1) - 1075;
    }
    return [mantissa, exponent];
  }

  /** Return whether the product of `left` is at least that of `right`, exactly. */
  function atLeast(left, right) {
    let [a, p] = product(left);
    let [b, q] = product(right);
    if (p > q) a <<= BigInt(p - q);
    else b <<= BigInt(q - p);
    return a >= b;
  }

  /** Return the smallest float that satisfies a monotone exact inequality, starting at `guess`. */
  function least(guess, holds) {
    let x = max(guess, 5e-324);
    if (x === Infinity) return x;
    while (below(x) > 0 && holds(below(x))) x = below(x);
    while (x < Infinity && !holds(x)) x = above(x);
    return x;
  }

  const ratioUp = (a, b) => least(a / b, (x) => atLeast([x, b], [a]));

  // ---- the normal distribution ----

  /** Return r_n = m_n(x) / m_{n-1}(x) for n = 1 .. count, x >= 1 (r_n = n / (x + r_{n+1})). */
  function momentRatios(x, count) {
    const start = count + 12 + Math.trunc(330 / (x * x));
    const ratios = [];
    let ratio = 0.5 * (sqrt(x * x + 4 * start) - x);
    for (let n = start; n > 0; n--) {
      ratio = n / (x + ratio);
      if (n <= count) ratios[n - 1] = ratio;
    }
    return ratios;
  }

  /** Return (1 - Phi(x)) / phi(x) for x >= 0. */
  function mills(x) {
    if (x >= 1) return 1 / (x + momentRatios(x, 1)[0]);
    // (Phi(x) - 1/2) / phi(x) = x + x^3 / 3 + x^5 / (3 5) + ...
    let term = x;
    let series = x;
    for (let n = 3; term > 1e-18 * series; n += 2) {
      term *= (x * x) / n;
      series += term;
    }
    return sqrt(Math.PI / 2) * exp(0.5 * x * x) - series;
  }

  /** Return the normal density; x^2 is split so that exp has an exact argument. */
  function density(x) {
    if (x > 40) return 0;
    const head = Math.fround(x);
    const rest = exp(-0.5 * (x - head) * (x + head));
    return (exp(-0.5 * head * head) * rest) / sqrt(2 * Math.PI);
  }

  /** Return 1 - Phi(x). */
  const tail = (x) => (x < 0 ? 1 - tail(-x) : density(x) * mills(x));

  /** Return m_n(x) / n! for n = 1, 3, .., 25, x >= 0, with m_n = int y^n exp(-x y - y^2 / 2). */
  function oddMoments(x) {
    const moments = [mills(x)];
    if (x < 1) {
      moments.push(1 - x * moments[0]);
      for (let n = 1; n < 25; n++) moments.push(max(0, n * moments[n - 1] - x * moments[n]));
    } else {
      for (const ratio of momentRatios(x, 25)) moments.push(moments.at(-1) * ratio);
    }
    const odd = [];
    let factorial = 1;
    for (let n = 1; n < 26; n++) {
      factorial *= n;
      if (n % 2) odd.push(moments[n] / factorial);
    }
    return odd;
  }

  /** Return an upper bound on log delta of mu-GDP (Balle and Wang 2018, Theorem 8). */
  function logGaussianDelta(epsilon, mu) {
    if (mu > 1e150) return 0;
    const middle = epsilon / mu;
    const half = 0.5 * mu;
    const a = middle - half;
    const b = middle + half;
    if (a > 1e100) return -Infinity;
    const logDensity = -0.5 * a * a - LOG_SQRT_2PI;
    const error = U * (4 + 4 * (abs(a) + 1) * b);
    if (error > 0.1 && a > 0) return -0.5 * max(0, a - 8 * U * b) ** 2;
    if (mu < 1) {
      let series = 0;
      for (const coefficient of oddMoments(middle).reverse()) {
        series = series * half * half + coefficient;
      }
      const rest = log(max(mu * series, 1e-300));
      return min(0, logDensity + rest + error + U * (16 + 1.5 * abs(rest)));
    }
    if (a < 0) {
      const hit = tail(a);
      const delta = hit - exp(logDensity) * mills(b);
      return min(0, log(delta) + error + (U * 12 * hit) / delta);
    }
    const upper = mills(a);
    const difference = upper - mills(b);
    return min(0, logDensity + log(difference) + error + (U * 16 * upper) / difference);
  }

  // ---- privacy profiles ----

  /** Return the profile of Gaussian noise: mu^2 = steps (size distance / noise)^2. */
  function gaussianProfile(noise, { steps = 1, size = 1, distance = 1 } = {}) {
    const mu = roundUp((sqrt(steps) * size * distance) / noise, 8 * U);
    return (epsilon) => logGaussianDelta(epsilon, mu);
  }

  function addLog(value, weight) {
    if (value === -Infinity) return value;
    return min(0, value + weight + 4 * U * (1 + abs(value) + abs(weight)));
  }

  /** Return the profile of a Poisson sample: the worse of removing and adding the record. */
  function sampledProfile(inner, q) {
    function removing(epsilon) {
      const deep =
        epsilon < 1
          ? log1p(expm1(epsilon) / q)
          : epsilon - log(q) + log1p(-(1 - q) * exp(-epsilon));
      return addLog(inner(deep * (1 - 8 * U)), log(q));
    }
    function adding(epsilon) {
      if (epsilon > 40) return -Infinity;
      const rest = (1 - q) * expm1(epsilon);
      const weight = q - rest + 8 * U * (q + rest);
      if (weight <= 0) return -Infinity;
      const deep = log1p(max(0, (q * exp(epsilon) - weight) / weight));
      return addLog(inner(deep * (1 - 8 * U)), log(weight));
    }
    return (epsilon) => max(removing(epsilon), adding(epsilon));
  }

  /** Return the profile that (epsilon, delta)-DP implies: randomized response that fails by delta. */
  function claimProfile(claim, delta) {
    const profile = (epsilon) => {
      if (epsilon >= claim) return log(delta);
      const rest = (-expm1(epsilon - claim) + U * claim) / (1 + exp(-claim));
      return min(0, log(delta + (1 - delta) * rest) + 16 * U);
    };
    return Object.assign(profile, { kinks: [claim] });
  }

  /** Return the profile of a group, by Lemma 2.2 of Vadhan 2017. */
  function groupProfile(one, size) {
    if (size === 1) return one;
    const bound = (each) => {
      const last = each > 0 ? log(-expm1(-each)) : 0;
      const gain = each > 0 ? (size - 1) * each + log(-expm1(-size * each)) - last : log(size);
      return one(each) + gain + 1e-15 * (4 + abs(gain) + size * each + abs(last));
    };
    const shares = [1, 0.75, 0.5, 0.25];
    const profile = (epsilon) => {
      const even = epsilon / size;
      const each = even > 0 && !atLeast([epsilon], [size, even]) ? below(even) : even;
      return min(0, bound(0), ...shares.map((share) => bound(share * each)));
    };
    const kinks = shares.map((share) => roundUp((size * one.kinks[0]) / share, 4 * U));
    return Object.assign(profile, { kinks });
  }

  // ---- questions to a profile ----

  /** Return neighbors in [0, Infinity], of which the second alone satisfies a monotone condition. */
  function ends(holds) {
    let [low, high] = [0n, bits(Infinity)]; // the bits of floats >= 0 are in the order of the floats
    while (high - low > 1n) {
      const middle = (low + high) >> 1n;
      if (holds(ofBits(middle))) high = middle;
      else low = middle;
    }
    return [ofBits(low), ofBits(high)];
  }

  /** Return the smallest x > 0 that satisfies a monotone condition; Infinity if none does. */
  const smallest = (holds) => ends(holds)[1];

  function deltaAt(profile, epsilon) {
    const value = profile(epsilon);
    if (value === -Infinity) return 5e-324;
    return min(1, roundUp(exp(value), 8 * U * (1 + abs(value))));
  }

  function epsilonAt(profile, delta) {
    const target = log(delta);
    return profile(0) <= target ? 0 : smallest((epsilon) => profile(epsilon) <= target);
  }

  function noiseAt(make, epsilon, delta) {
    return smallest((noise) => make(noise)(epsilon) <= log(delta));
  }

  /** Return an approximate minimizer of a unimodal function on [0, end], by golden section. */
  function golden(f, end, steps) {
    const share = (sqrt(5) - 1) / 2;
    let [low, high] = [0, end];
    let [left, right] = [high - share * (high - low), low + share * (high - low)];
    let [atLeft, atRight] = [f(left), f(right)];
    for (let n = 0; n < steps; n++) {
      if (atLeft <= atRight) {
        [high, right, atRight] = [right, left, atLeft];
        left = high - share * (high - low);
        atLeft = f(left);
      } else {
        [low, left, atLeft] = [left, right, atRight];
        right = low + share * (high - low);
        atRight = f(right);
      }
    }
    return min(atLeft, atRight, f(0), f(end));
  }

  /** Return an epsilon beyond which no bound on a rate gets smaller. */
  function reach(profile) {
    let end = 1;
    const last = profile(700);
    while (end < 700 && exp(profile(end)) > exp(last) + 1e-17) end *= 2;
    return min(end, 700);
  }

  /** Return the largest true positive rate of an attack at a false positive rate.
   *
   * Both bounds of Dong, Roth and Su 2022, Prop. 2.5 are convex in e^epsilon or e^-epsilon; every
   * epsilon gives a valid one.
   */
  function truePositiveRate(profile, rate, { end = reach(profile), steps = 60 } = {}) {
    if (rate >= 1) return 1;
    const up = (s) => deltaAt(profile, s) + exp(s) * rate;
    // 1 - e^-s (1 - delta - rate), without cancellation
    const down = (s) => -expm1(-s) + exp(-s) * (deltaAt(profile, s) + rate);
    const at = [up, down].map((bound) => golden(bound, end, steps));
    const kinks = (profile.kinks ?? []).flatMap((s) => [up(s), down(s)]);
    return max(rate, min(1, roundUp(min(...at, ...kinks), 8 * U)));
  }

  /** Return points [false positive rate, least false negative rate], at most the exact curve. */
  function tradeoff(profile, count = 80) {
    const end = reach(profile);
    return Array.from({ length: count + 1 }, (_, n) => {
      const rate = Math.sin((0.5 * Math.PI * n) / count) ** 2;
      return [rate, 1 - truePositiveRate(profile, rate, { end, steps: 40 })];
    });
  }

  // ---- zCDP ----

  function bestOrder(rho, inverse) {
    let x = min(sqrt(inverse / rho), expm1(min(inverse, 700)));
    for (let n = 0; n < 60; n++) {
      const step = (rho * x * x + log1p(x) - inverse) / (2 * rho * x + 1 / (1 + x));
      x = max(x - step, x / 16);
      if (abs(step) <= 1e-9 * x) break;
    }
    return x;
  }

  /** Return epsilon of rho-zCDP (Canonne, Kamath and Steinke 2020, Proposition 12). */
  function optimalEpsilon(rho, delta) {
    const x = bestOrder(rho, -log(delta));
    const loss = (1 + x) * rho;
    const gain = -log1p(1 / x);
    const mass = -(log1p(x) + log(delta)) / x;
    const rounding = U * (8 * (loss - gain + abs(mass)) + (4 * abs(log(delta))) / x);
    return loss + gain + mass + rounding;
  }

  const muOfRho = (rho) => roundUp(sqrt(2 * rho), 4 * U);

  const EPSILONS = {
    optimal: (rho, delta) => {
      const found = optimalEpsilon(rho, delta);
      return found > 0 ? above(found) : 0;
    },
    classic: (rho, delta) => roundUp(rho + 2 * sqrt(rho * -log(delta)), 8 * U),
    gaussian: (rho, delta) => epsilonAt((epsilon) => logGaussianDelta(epsilon, muOfRho(rho)), delta),
  };

  function rhoFromEpsilon(epsilon, delta, conversion) {
    const inverse = -log(delta);
    const root = epsilon / (sqrt(epsilon + inverse) + sqrt(inverse));
    const classic = below(root * root * (1 - 16 * U));
    if (conversion === "classic" || !(classic > 0)) return max(classic, 0);
    return ends((rho) => !(EPSILONS[conversion](rho, delta) <= epsilon))[0];
  }

  const bounded = (ratio, value) =>
    ratio > 1e-150 && ratio < 1e154 ? value() : ratio > 1 ? Infinity : 5e-324;

  const rhoFromNoise = (noise) => {
    const ratio = ratioUp(1, noise);
    const holds = (rho) => atLeast([2, rho, noise, noise], [1]);
    return bounded(ratio, () => least(0.5 * ratio * ratio, holds));
  };
  const rhoFromMu = (mu) =>
    bounded(mu, () => least(0.5 * mu * mu, (rho) => atLeast([2, rho], [mu, mu])));
  const noiseFromRho = (rho) =>
    least(sqrt(0.5) / sqrt(rho), (noise) => atLeast([2, rho, noise, noise], [1]));
  const muFromRho = (rho) => {
    const guess = sqrt(2) * sqrt(rho);
    const over = least(guess, (mu) => atLeast([mu, mu], [2, rho]));
    return atLeast([2, rho], [over, over]) ? over : below(over);
  };
  const sigmaOf = (noise, clip) => least(noise * clip, (sigma) => atLeast([sigma], [noise, clip]));
  const noiseOf = (sigma, clip) => {
    const noise = sigma / clip;
    if (!(noise > 0 && noise < Infinity)) throw new Refusal("sigma", OUT_OF_RANGE);
    return atLeast([sigma], [noise, clip]) ? noise : below(noise);
  };

  // ---- numbers as text ----

  const OUT_OF_RANGE = "The inputs are outside the computable range.";

  /** Return a float >= 0 with six digits, rounded up or down, as Python's "%.6g". */
  function rounded(x, { up = true } = {}) {
    if (Number.isNaN(x)) throw new Refusal("", OUT_OF_RANGE);
    if (x === Infinity || x === 0) return general(x);
    const [mantissa, power] = x.toExponential().split("e");
    const all = mantissa.replace(".", "");
    const digits = Number(all.slice(0, 6).padEnd(6, "0"));
    return general(Number(`${digits + (up && all.length > 6 ? 1 : 0)}e${Number(power) - 5}`));
  }

  /** Return 0.d1 d2 ... with its exponent in Python's style: scientific from 10^most on. */
  function written(digits, exponent, most) {
    const kept = digits.replace(/0+$/, "") || "0";
    if (exponent < -4 || exponent >= most) {
      const rest = kept.length > 1 ? `.${kept.slice(1)}` : "";
      const sign = exponent < 0 ? "-" : "+";
      return `${kept[0]}${rest}e${sign}${String(abs(exponent)).padStart(2, "0")}`;
    }
    if (exponent < 0) return `0.${"0".repeat(-exponent - 1)}${kept}`;
    const whole = kept.slice(0, exponent + 1).padEnd(exponent + 1, "0");
    const rest = kept.slice(exponent + 1);
    return rest ? `${whole}.${rest}` : whole;
  }

  /** Return a number as Python's repr (`most` 16) or "%g" (`most` 6) writes it. */
  function general(x, most = 6) {
    if (Number.isNaN(x)) return "nan";
    if (x < 0) return `-${general(-x, most)}`;
    if (x === Infinity) return "inf";
    if (x === 0) return "0";
    const [mantissa, power] = (most === 6 ? x.toExponential(5) : x.toExponential()).split("e");
    return written(mantissa.replace(".", ""), Number(power), most);
  }

  /** Return a decimal number, and NaN for other text. */
  const decimal = (text) => (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN);

  /** Return the value of a field and the text that an error shows for it. */
  function parsed(text) {
    const typed = text.trim();
    const whole = /^[+-]?\d+$/.test(typed);
    if (whole) return { value: Number(typed), shown: String(BigInt(typed.replace("+", ""))) };
    const word = /^([+-]?)(inf|infinity|nan)$/i.exec(typed);
    const [top, bottom = 1, ...more] = typed.split("/").map((part) => decimal(part.trim()));
    let value = more.length ? NaN : top / bottom;
    if (word) value = word[2].toLowerCase() === "nan" ? NaN : word[1] === "-" ? -Infinity : Infinity;
    else if (Number.isNaN(value) || bottom === 0) {
      return { problem: `'${typed}' is not a number.${likely(typed)}` };
    }
    const shown = general(value, 16);
    return { value, shown: Number.isInteger(value) && abs(value) < 1e16 ? `${shown}.0` : shown };
  }

  function likely(typed) {
    const [percent, comma] = [decimal(typed.replace(/%$/, "")), decimal(typed.replace(",", "."))];
    if (typed.endsWith("%")) {
      return Number.isNaN(percent) ? "" : ` For ${typed} pass ${general(percent / 100)}.`;
    }
    return Number.isNaN(comma) ? "" : ` Use a decimal point: ${general(comma)}.`;
  }

  // ---- fields: labels, hints, domains ----

  const expected = (name, shown, rule, remedy) =>
    `Expected ${name}=${shown} to be ${rule}. ${remedy}`;

  const PASS_EPSILON = "Pass the privacy loss bound, such as epsilon=1.";
  const PASS_DELTA =
    "Pass a small probability, such as delta=1e-5, well below 1 / (number of records).";

  /** Return a rule for a number > 0, and < `end` if there is one. */
  const positive = (remedy, end = Infinity) => (name, { value, shown }) =>
    value > 0 && value < end
      ? ""
      : expected(name, shown, end < Infinity ? `> 0 and < ${end}` : "> 0", remedy);

  function countRule(name, { value, shown }, remedy) {
    if (!(value >= 1 && Number.isInteger(value))) {
      return expected(name, shown, "a whole number >= 1", remedy);
    }
    return value > 2 ** 1000
      ? expected(name, shown, "a whole number >= 1 and <= 2**1000", remedy)
      : "";
  }

  function epsilonRule(name, given) {
    if (given.value !== 0) return positive(PASS_EPSILON)(name, given);
    return expected(name, "0", "> 0", "Pass a larger epsilon, such as 1.");
  }

  function deltaRule(name, given) {
    const { value, shown } = given;
    if (!(value >= 1)) return positive(PASS_DELTA, 1)(name, given);
    let remedy = "Pass a probability well below 1 / (number of records), such as 1e-5.";
    if (value > 1 && value <= 40 && Number.isInteger(value)) {
      const power = general(value);
      remedy += ` If you meant 10 to the power of -${power}, pass 1e-${power}.`;
    }
    return expected(name, shown, "> 0 and < 1", remedy);
  }

  const SMALLEST = 2 ** -1022;

  function probabilityRule(name, given) {
    const { value, shown } = given;
    if (value > 1 && Number.isInteger(value)) {
      let remedy = `If ${general(value)} is the batch size, pass batch size / number of records`;
      remedy += value <= 100 ? `; if it is a percentage, pass ${general(value / 100)}.` : ".";
      return expected(name, shown, "> 0 and <= 1", remedy);
    }
    let remedy = "Pass a fraction between 0 and 1: expected batch size / number of records.";
    if (value > 0 && value < SMALLEST) {
      const told = "Smaller floats lose precision. Pass a larger probability.";
      return expected(name, shown, `>= ${general(SMALLEST)}`, told);
    }
    if (!(value > 1) || value === Infinity) return positive(remedy)(name, given);
    if (value <= 100) remedy += ` If ${shown} was a percentage, pass ${general(value / 100)}.`;
    return expected(name, shown, "> 0 and <= 1", remedy);
  }

  function stepsRule(name, given) {
    let remedy = "Pass the number of noisy releases; for a single release, pass steps=1.";
    if (given.value > 0 && given.value < 1) {
      const q = general(given.value);
      remedy += ` If ${q} is the sampling probability, pass -q ${q}.`;
    }
    return countRule(name, given, remedy);
  }

  const RELATIONS = {
    "add-or-remove-one": "record added or removed",
    "replace-one": "record replaced",
    "replace-special": "record set to zero",
  };
  const CONVERSIONS = {
    optimal: "optimal",
    classic: "classic",
    gaussian: "exact, Gaussian noise only",
  };

  /** Label, hint and rule of each field; those with `words` are choices. */
  const FIELDS = {
    epsilon: ["epsilon", "The privacy loss bound, such as 1.", epsilonRule],
    delta: ["delta", "Well below 1 / (number of records), such as 1e-5.", deltaRule],
    rho: ["rho", "Of rho-zCDP.", positive("Pass the rho of zCDP, such as rho=0.1.")],
    mu: ["mu", "Of mu-GDP.", positive("Pass the mu of Gaussian DP, such as mu=1.")],
    sigma: ["sigma", "Noise standard deviation.", positive("Pass the standard deviation of the noise.")],
    noise_multiplier: [
      "noise multiplier",
      "Noise standard deviation / clip norm.",
      positive("Pass the standard deviation of the noise divided by the clip norm."),
    ],
    clip_norm: [
      "clip norm",
      "Bound on the L2 norm of one record's contribution.",
      positive("Pass the L2 norm bound of one record's contribution."),
    ],
    sampling_probability: [
      "sampling probability",
      "Of each record, by Poisson sampling; 1 without sampling.",
      probabilityRule,
    ],
    steps: ["steps", "Number of noisy releases of the same records.", stepsRule],
    size: [
      "group size",
      "Number of records that change together.",
      (name, given) => countRule(name, given, "Pass the number of records in the group."),
    ],
    false_positive_rate: [
      "false positive rate",
      "Of an attack that decides whether a record is present.",
      positive("Pass a probability, such as 0.1.", 1),
    ],
    relation: ["neighboring data sets", "How they differ.", RELATIONS],
    conversion: ["conversion", "Between rho and epsilon.", CONVERSIONS],
  };

  /** An error that belongs beside one field. */
  class Refusal extends Error {
    constructor(field, message) {
      super(message);
      this.field = field;
    }
  }

  /** Return [name, message] of every bad field, and the values of the others. */
  function checked(texts, optional = []) {
    const values = {};
    const problems = [];
    for (const [name, text] of Object.entries(texts)) {
      const [label, hint, rule] = FIELDS[name];
      if (typeof rule !== "function") {
        values[name] = text;
        continue;
      }
      if (!text.trim()) {
        if (!optional.includes(name)) problems.push([name, `Missing ${label}. ${hint}`]);
        continue;
      }
      const given = parsed(text);
      const problem = given.problem ?? rule(name, given);
      if (problem) problems.push([name, problem]);
      else values[name] = given.value;
    }
    const [epsilon, delta] = [texts.epsilon, texts.delta].map((text) => parsed(text ?? "").value);
    if (epsilon > 0 && epsilon < 1e-3 && delta >= 0.01) {
      const [e, d] = [general(epsilon), general(delta)];
      const told = `epsilon=${e} and delta=${d} look swapped. Pass --epsilon ${d} --delta ${e}.`;
      return { values, problems: [["epsilon", told]] };
    }
    return { values, problems };
  }

  // ---- the three questions: from values to rows [label, text], a profile and a command ----

  function flags(values) {
    const defaults = { clip_norm: 1, sampling_probability: 1, steps: 1, conversion: "optimal" };
    const given = Object.entries({ ...values, size: undefined }).filter(
      ([name, value]) =>
        value !== undefined && defaults[name] !== value && value !== "add-or-remove-one",
    );
    return given
      .map(([name, value]) => `--${name.replaceAll("_", "-")} ${typeof value === "number" ? general(value, 16) : value}`)
      .join(" ");
  }

  const LIMIT = "Run dpcalib serve for other runs.";

  /** Gaussian noise in one Poisson-sampled release, or in several unsampled ones. */
  function release(values, find) {
    const { epsilon, delta, clip_norm, sampling_probability: q, steps, size, relation } = values;
    const refuse = (name, shown, rule, remedy) => {
      throw new Refusal(name, expected(name, shown, rule, remedy));
    };
    if (q < 1) {
      const one = `1 if sampling_probability=${general(q)} < 1`;
      if (steps > 1) refuse("steps", general(steps, 16), one, LIMIT);
      if (size > 1) refuse("size", general(size, 16), one, "Account for it in Python.");
      if (relation === "replace-one") {
        refuse("relation", relation, "another relation if sampling_probability < 1", LIMIT);
      }
      if (find === "sigma" && delta >= q) {
        const rule = `< sampling_probability=${general(q)}`;
        refuse("delta", general(delta, 16), rule, "Any noise gives this delta.");
      }
    }
    const distance = relation === "replace-one" ? 2 : 1;
    const make = (noise) => {
      const profile = gaussianProfile(noise, { steps, size, distance });
      return q < 1 ? sampledProfile(profile, q) : profile;
    };
    const noise = find === "sigma" ? noiseAt(make, epsilon, delta) : values.noise_multiplier;
    if (noise === Infinity) throw new Refusal("epsilon", "No float is large enough a noise. Pass a larger epsilon.");
    const profile = make(noise);
    const found = find === "delta" ? epsilon : epsilonAt(profile, delta);
    if (found === Infinity) {
      const told = `No finite epsilon holds at delta=${general(delta)}. Increase the noise.`;
      throw new Refusal("noise_multiplier", told);
    }
    const rows = [
      ["sigma", rounded(sigmaOf(noise, clip_norm))],
      ["noise multiplier", rounded(noise)],
      ["clip norm", rounded(clip_norm)],
      ["epsilon", rounded(find === "sigma" ? min(found, epsilon) : found)],
      ["delta", rounded(find === "delta" ? deltaAt(profile, epsilon) : delta)],
      ["largest advantage of an attack", rounded(deltaAt(profile, 0))],
      ["largest true positive rate at false positive rate 0.01", rounded(truePositiveRate(profile, 0.01))],
    ];
    const command = size > 1 ? "" : `dpcalib ${find} ${flags(values)}`;
    return { rows: first(rows, find), profile, command };
  }

  const first = (rows, label) => [
    ...rows.filter(([name]) => name === label),
    ...rows.filter(([name]) => name !== label),
  ];

  /** Convert between epsilon, rho, mu and noise of one release, as `dpcalib convert`. */
  function convert(values, given) {
    const { delta, conversion, clip_norm, relation } = values;
    const moves = relation === "replace-one" ? 2 : 1;
    let { epsilon, rho, mu, noise_multiplier: noise, sigma } = values;
    if (given === "sigma") noise = noiseOf(sigma, clip_norm);
    if (given === "epsilon") rho = rhoFromEpsilon(epsilon, delta, conversion);
    if (given === "epsilon" || given === "rho") {
      if (!(rho > 0)) throw new Refusal("epsilon", OUT_OF_RANGE);
      mu = muFromRho(rho);
      noise = moves * noiseFromRho(rho);
    } else if (given === "mu") {
      rho = rhoFromMu(mu);
      noise = moves * ratioUp(1, mu);
    } else {
      rho = rhoFromNoise(noise / moves);
      mu = ratioUp(1, noise / moves);
    }
    if (given !== "epsilon" && delta !== undefined) {
      epsilon = rho < Infinity ? EPSILONS[conversion](rho, delta) : Infinity;
    }
    const up = given !== "epsilon" && given !== "rho";
    const rows = [
      ["noise multiplier", rounded(noise)],
      ["sigma", rounded(given === "sigma" ? sigma : sigmaOf(noise, clip_norm))],
      ["clip norm", rounded(clip_norm)],
      ["epsilon", epsilon],
      ["delta", delta],
      ["rho (zCDP)", rounded(rho, { up })],
      ["mu (Gaussian DP)", rounded(mu, { up })],
    ];
    const told = rows.filter(([, value]) => value !== undefined);
    const text = told.map(([name, value]) => [name, typeof value === "number" ? rounded(value) : value]);
    const asked = given !== "epsilon" && delta !== undefined ? "epsilon" : "noise multiplier";
    const own = delta === undefined ? { ...values, conversion: undefined } : values;
    return { rows: first(text, asked), command: `dpcalib convert ${flags(own)}` };
  }

  /** What an (epsilon, delta) guarantee of any mechanism implies for groups and attacks. */
  function claim(values) {
    const { epsilon, delta, size, false_positive_rate: rate } = values;
    const profile = groupProfile(claimProfile(epsilon, delta), size);
    const group = least(size * epsilon, (x) => atLeast([x], [size, epsilon]));
    const rows = [
      ["epsilon of the group", rounded(group)],
      ["delta of the group", rounded(size === 1 ? delta : deltaAt(profile, group))],
      ["largest advantage of an attack", rounded(deltaAt(profile, 0))],
      ["largest true positive rate", rounded(truePositiveRate(profile, rate))],
    ];
    return { rows, profile, command: "" };
  }

  return { checked, claim, convert, FIELDS, Refusal, release, rounded, tail, tradeoff };
})();

// ---- the page ----

(() => {
  const { checked, claim, convert, FIELDS, Refusal, release, rounded, tradeoff } = dpcalib;
  const SVG = "http://www.w3.org/2000/svg";

  /** Return an element; attributes with the value false are left out. */
  function element(name, attributes = {}, ...children) {
    const drawn = ["svg", "path", "line", "text", "g", "title", "desc"].includes(name);
    const made = drawn ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== false) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  function field(prefix, name, value) {
    const [label, hint, rule] = FIELDS[name];
    const id = `${prefix}-${name}`;
    const shared = { id, name, autocomplete: "off", "aria-describedby": `${id}-error ${id}-hint` };
    let control;
    if (typeof rule === "function") {
      control = element("input", { ...shared, type: "text", inputmode: "decimal", value });
    } else {
      const words = Object.entries(rule);
      control = element("select", shared, ...words.map(([word, text]) => element("option", { value: word }, text)));
    }
    return element(
      "div",
      { class: "field" },
      element("label", { for: id }, label),
      control,
      element("p", { id: `${id}-error`, class: "error" }),
      element("p", { id: `${id}-hint`, class: "hint" }, hint),
    );
  }

  function table(rows, caption) {
    const lines = rows.map(([label, value]) =>
      element("tr", {}, element("th", { scope: "row" }, label), element("td", {}, value)),
    );
    return element("table", {}, element("caption", {}, caption), element("tbody", {}, ...lines));
  }

  /** Draw the least false negative rate against the false positive rate. */
  function picture(profile) {
    const [size, left, top] = [240, 50, 10];
    const at = ([x, y]) => [left + size * x, top + size * (1 - y)];
    const points = tradeoff(profile);
    const line = (places) => `M${places.map((place) => at(place).map((z) => z.toFixed(2)).join(" ")).join("L")}`;
    const drawing = element("g", { "aria-hidden": "true" });
    for (const tick of [0, 0.5, 1]) {
      const [x, y] = at([tick, tick]);
      drawing.append(
        element("line", { class: "grid", x1: x, x2: x, y1: top, y2: top + size }),
        element("line", { class: "grid", x1: left, x2: left + size, y1: y, y2: y }),
        element("text", { x, y: top + size + 16, "text-anchor": "middle" }, String(tick)),
        element("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, String(tick)),
      );
    }
    const [x, y] = [left + size / 2, top + size / 2];
    drawing.append(
      element("path", { class: "none", d: line([[0, 1], [1, 0]]) }),
      element("path", { class: "curve", d: line(points) }),
      element("text", { x, y: top + size + 36, "text-anchor": "middle" }, "false positive rate"),
      element("text", { "text-anchor": "middle", transform: `translate(14 ${y}) rotate(-90)` }, "least false negative rate"),
    );
    const some = [0.01, 0.1, 0.5].map((rate) => {
      const miss = points.reduce((a, b) => (Math.abs(b[0] - rate) < Math.abs(a[0] - rate) ? b : a));
      return `${miss[1].toFixed(2)} at a false positive rate of ${miss[0].toFixed(2)}`;
    });
    const described = `The least false negative rate of an attack is about ${some.join(", ")}. The dashed line is that of an attack without the output.`;
    return element(
      "svg",
      { viewBox: "0 0 300 292", role: "img", "aria-label": `Trade-off curve. ${described}` },
      drawing,
    );
  }

  /** Build one form; `shown` returns the names of its fields, given the choice of its select. */
  function form(prefix, title, intro, choice, shown, values, optional, compute) {
    const heading = `${prefix}-title`;
    const body = element("form", { novalidate: "", "aria-labelledby": heading });
    const [words, label] = [Object.entries(choice.words), choice.label];
    const select = element(
      "select",
      { id: `${prefix}-choice`, autocomplete: "off" },
      ...words.map(([word, text]) => element("option", { value: word }, text)),
    );
    const chosen = element("div", { class: "field" }, element("label", { for: select.id }, label), select);
    if (words.length > 1) body.append(chosen);
    const names = new Set([...Object.keys(values), ...shown(select.value)]);
    const fields = Object.fromEntries([...names].map((name) => [name, field(prefix, name, values[name] ?? "")]));
    body.append(...Object.values(fields), element("button", { type: "submit" }, "Compute"));
    const status = element("p", { role: "status", class: "status" });
    const answer = element("div", { class: "answer" });

    const control = (name) => body.elements[name];

    function show() {
      for (const [name, one] of Object.entries(fields)) one.hidden = !shown(select.value).includes(name);
    }

    function tell(problems) {
      for (const name of names) {
        const told = problems.find(([other]) => other === name);
        document.getElementById(`${prefix}-${name}-error`).textContent = told ? told[1] : "";
        if (told) control(name).setAttribute("aria-invalid", "true");
        else control(name).removeAttribute("aria-invalid");
      }
    }

    function answered() {
      const texts = Object.fromEntries(shown(select.value).map((name) => [name, control(name).value]));
      const { values: given, problems } = checked(texts, optional(select.value));
      if (problems.length) return { problems };
      try {
        return compute(given, select.value);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        const beside = error.field in texts ? error.field : Object.keys(texts)[0];
        return { problems: [[beside, error.message]] };
      }
    }

    function run() {
      const { problems = [], rows, profile, command } = answered();
      tell(problems);
      answer.replaceChildren();
      if (problems.length) {
        status.textContent = "";
        return control(problems[0][0]);
      }
      const figures = [table(rows, `Answer: ${title}`)];
      if (profile) figures.push(picture(profile));
      answer.append(element("div", { class: "figures" }, ...figures));
      if (command) answer.append(element("p", {}, "The same in a shell: ", element("code", {}, command)));
      status.textContent = `${rows[0].join(": ")}, ${rows[1].join(": ")}.`;
      return null;
    }

    body.addEventListener("submit", (event) => {
      event.preventDefault();
      run()?.focus();
    });
    select.addEventListener("change", show);
    document.getElementById("closed-forms").append(
      element("section", { "aria-labelledby": heading }, element("h2", { id: heading }, title), element("p", {}, intro), body, status, answer),
    );
    show();
    run();
  }

  function start() {
    document.getElementById("closed-forms").replaceChildren();
    form(
      "release",
      "Gaussian noise",
      "Noisy sums of the same records without sampling, or one sum of a Poisson sample.",
      { label: "find", words: { sigma: "the smallest noise", epsilon: "epsilon", delta: "delta" } },
      (find) => {
        const asked = { sigma: ["epsilon", "delta"], epsilon: ["noise_multiplier", "delta"], delta: ["noise_multiplier", "epsilon"] };
        return [...asked[find], "sampling_probability", "steps", "clip_norm", "size", "relation"];
      },
      { noise_multiplier: "4", epsilon: "1", delta: "1e-5", sampling_probability: "1", steps: "1", clip_norm: "1", size: "1" },
      () => [],
      release,
    );
    form(
      "convert",
      "zCDP and Gaussian DP",
      "The epsilon, rho, mu and noise of one release.",
      { label: "from", words: { epsilon: "epsilon", rho: "rho of zCDP", mu: "mu of Gaussian DP", sigma: "sigma", noise_multiplier: "the noise multiplier" } },
      (given) => [given, "delta", "conversion", "clip_norm", "relation"],
      { epsilon: "1", rho: "0.1", mu: "0.5", sigma: "2", noise_multiplier: "2", delta: "1e-5", clip_norm: "1" },
      (given) => (given === "epsilon" ? [] : ["delta"]),
      convert,
    );
    form(
      "claim",
      "Groups and attacks",
      "What (epsilon, delta)-DP of any mechanism implies.",
      { label: "", words: { epsilon: "" } },
      () => ["epsilon", "delta", "size", "false_positive_rate"],
      { epsilon: "1", delta: "1e-5", size: "1", false_positive_rate: "0.01" },
      () => [],
      claim,
    );
  }

  if (typeof document !== "undefined" && document.getElementById("closed-forms")) start();
})();
