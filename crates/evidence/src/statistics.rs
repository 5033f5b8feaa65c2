//! Intervals and tests. The unit is a task: repeats are averaged within it before they come here.
//!
//! Everything is deterministic: random numbers come from [`SplitMix64`] with a fixed seed.

use testkit::SplitMix64;

/// The quantile of the standard normal distribution for intervals of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;
/// The quantile for a power of 80 %.
const Z_POWER: f64 = 0.841_621_233_572_914_3;
/// The number of bootstrap samples, and of random sign changes.
const RESAMPLES: usize = 10_000;
const SEED: u64 = 42;
/// The number of values up to which all sign changes are enumerated.
const MAX_ENUMERATED: usize = 14;
/// Sums of the same values in another order differ by less.
const TOLERANCE: f64 = 1e-12;

/// A confidence interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The alternative hypothesis of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// The mean is greater than zero.
    Greater,
    /// The mean is not zero.
    TwoSided,
}

/// A number as a floating-point one.
#[expect(clippy::cast_precision_loss, reason = "counts and tokens are far below 2^53")]
pub fn real(number: u64) -> f64 {
    number as f64
}

/// A length as a floating-point number.
pub fn real_len(length: usize) -> f64 {
    real(length as u64)
}

/// 1 if true, 0 if not: the mean of such values is a share.
pub fn real_bool(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

/// The mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / real_len(values.len()))
}

/// The quantile by linear interpolation between the two nearest values; `None` if there are no values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_quantile(&sorted, share)
}

fn sorted_quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * real_len(last);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position between 0 and the length"
    )]
    let index = (position.floor() as usize).min(last);
    let next = sorted[(index + 1).min(last)];
    Some(sorted[index] + (next - sorted[index]) * (position - real_len(index)))
}

/// Wilson's interval of a share of `units` tasks. The share may be the mean of shares within tasks.
pub fn wilson(share: f64, units: usize) -> Interval {
    if units == 0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let n = real_len(units);
    let square = Z_95 * Z_95;
    let centre = (share + square / (2.0 * n)) / (1.0 + square / n);
    let spread = (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    let half = Z_95 / (1.0 + square / n) * spread;
    Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

/// The one-sided p-value of "the share is at least `least`": the score test, of which [`wilson`] is
/// the inversion.
pub fn score_test(share: f64, units: usize, least: f64) -> f64 {
    let deviation = (least * (1.0 - least) / real_len(units.max(1))).sqrt();
    1.0 - normal_cdf((share - least) / deviation)
}

/// The bias-corrected and accelerated (`BCa`) bootstrap interval of the mean of paired differences, one
/// for each task. `None` if there are no differences, or without variation: resampling equal values
/// says nothing about others.
pub fn bootstrap_mean(differences: &[f64]) -> Option<Interval> {
    let centre = mean(differences)?;
    let power = |exponent: i32| -> f64 {
        differences.iter().map(|value| (value - centre).powi(exponent)).sum()
    };
    let (squares, cubes) = (power(2), power(3));
    if squares <= TOLERANCE {
        return None;
    }
    let mut random = SplitMix64::new(SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let draws = (0..differences.len()).map(|_| *random.pick(differences));
            draws.sum::<f64>() / real_len(differences.len())
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let below = means.iter().filter(|value| **value < centre - TOLERANCE).count();
    let equal = means.iter().filter(|value| (**value - centre).abs() <= TOLERANCE).count();
    let share = (real_len(below) + 0.5 * real_len(equal)) / real_len(RESAMPLES);
    let bias = normal_quantile(share);
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    let end = |z: f64| {
        let shifted = bias + z;
        let share = normal_cdf(bias + shifted / (1.0 - acceleration * shifted));
        sorted_quantile(&means, share)
    };
    Some(Interval { low: end(-Z_95)?, high: end(Z_95)? })
}

/// Paired differences of scores from 0 to 1, for Tango's inference about their mean (T. Tango,
/// "Equivalence test and confidence interval for the difference in proportions for the
/// paired-sample design", Statistics in Medicine 17, 1998, 891–908).
///
/// With `b` wins and `c` losses in `n` tasks, the score statistic of a mean difference δ is
///
/// (b − c − nδ) / √(n (2q + δ (1 − δ)))
///
/// where q, the most likely probability of a loss if the mean is δ, is the larger root of
///
/// 2n q² + ((2n − b + c) δ − b − c) q − c δ (1 − δ) = 0.
///
/// The interval contains every δ whose statistic is between the quantiles of the normal
/// distribution. Ties are no evidence by themselves: if all tasks are tied, the statistic of −m is
/// √(n m / (1 − m)), so that few tasks exclude no small loss.
///
/// A score that is the mean of repeats contributes a part of a win or of a loss. No difference is
/// larger than 1, so its square is at most its absolute value, and the variance of such differences
/// is at most that of whole wins and losses with the same sums: the interval is too wide rather
/// than too narrow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedDifferences {
    tasks: usize,
    wins: f64,
    losses: f64,
}

impl PairedDifferences {
    /// The differences of all tasks; `None` if there are no tasks.
    pub fn new(differences: &[f64]) -> Option<Self> {
        let sum = |sign: f64| -> f64 {
            differences.iter().map(|difference| (sign * difference).max(0.0)).sum()
        };
        let pairs = Self { tasks: differences.len(), wins: sum(1.0), losses: sum(-1.0) };
        (pairs.tasks > 0).then_some(pairs)
    }

    /// The number of tasks.
    pub fn tasks(self) -> usize {
        self.tasks
    }

    /// The mean difference.
    pub fn mean(self) -> f64 {
        (self.wins - self.losses) / real_len(self.tasks)
    }

    /// The interval of the mean difference.
    pub fn interval(self) -> Interval {
        let reversed = Self { wins: self.losses, losses: self.wins, ..self };
        Interval { low: self.lower_bound(), high: -reversed.lower_bound() }
    }

    /// The p-value of "the mean difference is greater than −`margin`". It is below 5 % if the lower
    /// end of [`interval`](Self::interval) is above −`margin`: twice the one-sided value, as is
    /// usual for tests of non-inferiority.
    pub fn not_worse_test(self, margin: f64) -> f64 {
        (2.0 * (1.0 - normal_cdf(self.statistic(-margin)))).min(1.0)
    }

    /// The score statistic of a mean difference. It falls as the difference grows.
    fn statistic(self, difference: f64) -> f64 {
        let n = real_len(self.tasks);
        let linear = (2.0 * n - self.wins + self.losses) * difference - self.wins - self.losses;
        let constant = -self.losses * difference * (1.0 - difference);
        let root = (linear * linear - 8.0 * n * constant).max(0.0).sqrt();
        let loss_probability = (root - linear) / (4.0 * n);
        let variance = n * (2.0 * loss_probability + difference * (1.0 - difference));
        let distance = self.wins - self.losses - n * difference;
        if variance > 0.0 { distance / variance.sqrt() } else { f64::INFINITY.copysign(distance) }
    }

    /// The lower end of the interval, by bisection.
    fn lower_bound(self) -> f64 {
        let (mut low, mut high) = (-1.0, self.mean());
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if self.statistic(middle) > Z_95 {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }
}

/// The least number of tasks with which [`PairedDifferences`] exclude a loss of `margin` if all
/// tasks are tied: the first above z² (1 − m) / m. With a margin of 3 points it is 125.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of tasks"
)]
pub fn tied_tasks_needed(margin: f64) -> usize {
    (Z_95 * Z_95 * (1.0 - margin) / margin).floor() as usize + 1
}

/// The p-value of paired differences under random changes of sign: exact for few values, else from
/// 10,000 draws of which the observed signs are one more.
pub fn sign_flip_test(differences: &[f64], alternative: Alternative) -> Option<f64> {
    if differences.is_empty() {
        return None;
    }
    let observed: f64 = differences.iter().sum();
    // Many sums are equal but for the order of their terms.
    let slack = 1e-9 * differences.iter().map(|value| value.abs()).sum::<f64>().max(1.0);
    let as_extreme = |sum: f64| match alternative {
        Alternative::Greater => sum >= observed - slack,
        Alternative::TwoSided => sum.abs() >= observed.abs() - slack,
    };
    if differences.len() <= MAX_ENUMERATED {
        let all = 1_u64 << differences.len();
        let extreme = (0..all).filter(|signs| as_extreme(signed_sum(differences, *signs))).count();
        return Some(real_len(extreme) / real(all));
    }
    let mut random = SplitMix64::new(SEED);
    let mut extreme = 0;
    for _ in 0..RESAMPLES {
        let blocks = differences.chunks(64);
        let sum: f64 = blocks.map(|block| signed_sum(block, random.next_u64())).sum();
        extreme += usize::from(as_extreme(sum));
    }
    Some(real_len(extreme + 1) / real_len(RESAMPLES + 1))
}

/// The sum of at most 64 values; a value whose bit is 0 is subtracted.
fn signed_sum(values: &[f64], signs: u64) -> f64 {
    let sign = |bit: usize| if (signs >> bit) & 1 == 1 { 1.0 } else { -1.0 };
    values.iter().enumerate().map(|(bit, value)| sign(bit) * value).sum()
}

/// The two-sided p-value of Fisher's exact test. A row is an arm: right and wrong samples.
pub fn fisher_exact(table: [[u64; 2]; 2]) -> f64 {
    let [[first_right, first_wrong], [second_right, second_wrong]] = table;
    let (first, second) = (first_right + first_wrong, second_right + second_wrong);
    let right = first_right + second_right;
    let logs = log_factorials(first + second);
    let log_choose = |n: u64, k: u64| log_at(&logs, n) - log_at(&logs, k) - log_at(&logs, n - k);
    let probability = |x: u64| {
        let log = log_choose(first, x) + log_choose(second, right - x);
        (log - log_choose(first + second, right)).exp()
    };
    let observed = probability(first_right);
    (right.saturating_sub(second)..=right.min(first))
        .map(probability)
        .filter(|p| *p <= observed * (1.0 + 1e-7))
        .sum::<f64>()
        .min(1.0)
}

/// The natural logarithms of 0! to n!.
fn log_factorials(n: u64) -> Vec<f64> {
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain((1..=n).map(|factor| {
            sum += real(factor).ln();
            sum
        }))
        .collect()
}

fn log_at(logs: &[f64], n: u64) -> f64 {
    usize::try_from(n).ok().and_then(|n| logs.get(n)).copied().unwrap_or_default()
}

/// The p-values after Holm's correction, in the same order.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((real_len(p_values.len() - rank) * p_values[index]).min(1.0));
        corrected[index] = least;
    }
    corrected
}

/// The independent samples of each of two arms that tell two shares apart with a power of 80 % at 5 %.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of samples"
)]
pub fn samples_needed(one: f64, other: f64) -> u64 {
    let middle = f64::midpoint(one, other);
    let variance = |share: f64| share * (1.0 - share);
    let null = Z_95 * (2.0 * variance(middle)).sqrt();
    let alternative = Z_POWER * (variance(one) + variance(other)).sqrt();
    ((null + alternative) / (one - other)).powi(2).ceil() as u64
}

/// The cumulative distribution function of the standard normal distribution.
fn normal_cdf(x: f64) -> f64 {
    let half_tail = 0.5 * erfc(x.abs() / std::f64::consts::SQRT_2);
    if x < 0.0 { half_tail } else { 1.0 - half_tail }
}

/// The inverse of [`normal_cdf`] by bisection.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if normal_cdf(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The complementary error function of a number that is not negative.
fn erfc(x: f64) -> f64 {
    let root = std::f64::consts::PI.sqrt();
    if x < 3.0 {
        // erf(x) = 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!, in which no terms cancel.
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= 2.0 * x * x / odd;
            sum += term;
        }
        return 1.0 - 2.0 / root * (-x * x).exp() * sum;
    }
    // The continued fraction, from its end.
    let mut fraction = 0.0;
    for step in (1..=60).rev() {
        fraction = f64::from(step) / 2.0 / (x + fraction);
    }
    (-x * x).exp() / root / (x + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    fn ends(interval: Interval, low: f64, high: f64) {
        close(interval.low, low);
        close(interval.high, high);
    }

    // The numbers are computed with Python's `math` and `statistics.NormalDist`.

    #[test]
    fn wilson_intervals() {
        ends(wilson(0.0, 15), 0.0, 0.203_883_301_035_848_54);
        ends(wilson(14.0 / 15.0, 15), 0.701_834_701_262_199_7, 0.988_133_104_506_731_4);
        ends(wilson(1.0, 15), 0.796_116_698_964_151_4, 1.0);
        ends(wilson(230.0 / 270.0, 270), 0.804_552_107_523_166_7, 0.889_280_012_778_267_2);
        ends(wilson(0.625, 4), 0.219_426_520_065_362_9, 0.908_100_770_820_987_8);
        ends(wilson(0.0, 0), 0.0, 1.0);
    }

    #[test]
    fn the_normal_distribution() {
        close(normal_cdf(-1.0), 0.158_655_253_931_457_07);
        close(normal_cdf(0.5), 0.691_462_461_274_013_1);
        close(normal_cdf(1.96), 0.975_002_104_851_779_6);
        close(normal_cdf(4.0), 0.999_968_328_758_166_9);
        assert!((normal_cdf(-8.0) / 6.220_960_574_271_819e-16 - 1.0).abs() < 1e-9);
        close(normal_quantile(0.975), Z_95);
        close(normal_quantile(0.8), Z_POWER);
        close(normal_quantile(0.5), 0.0);
    }

    #[test]
    fn score_tests() {
        close(score_test(0.95, 40, 0.9), 0.145_920_272_571_894_55);
        close(score_test(1.0, 120, 0.9), 0.000_130_364_816_427_697_15);
    }

    #[test]
    fn bootstrap_intervals() {
        let third = 1.0 / 3.0;
        let values = [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, third, -1.0, 0.0, 2.0 * third, 1.0];
        ends(bootstrap_mean(&values).unwrap(), 0.027_777_777_777_777_75, 0.722_222_222_222_222_2);
        ends(bootstrap_mean(&[1.0, 2.0, 3.0, 4.0, 30.0]).unwrap(), 2.0, 24.6);
        let mut one = [0.0; 10];
        one[0] = 1.0;
        ends(bootstrap_mean(&one).unwrap(), 0.0, 0.456_037_516_831_202_1);
        assert_eq!(bootstrap_mean(&[1.0; 40]), None, "no variation");
        assert_eq!(bootstrap_mean(&[]), None);
    }

    fn pairs(wins: f64, losses: f64, tasks: usize) -> PairedDifferences {
        PairedDifferences { tasks, wins, losses }
    }

    #[test]
    fn differences_are_wins_and_losses() {
        let counted = PairedDifferences::new(&[1.0, 0.0, -0.5, 0.25, -1.0]);
        assert_eq!(counted, Some(pairs(1.25, 1.5, 5)));
        close(pairs(1.25, 1.5, 5).mean(), -0.05);
        assert_eq!(PairedDifferences::new(&[]), None);
    }

    // Computed in Python, where a search for the largest likelihood gives the same statistics. The
    // first two are the examples of Fagerland, Lydersen and Laake, "Recommended tests and
    // confidence intervals for paired binomial proportions", Statistics in Medicine 33, 2014.
    #[test]
    fn tangos_intervals() {
        let interval = |wins, losses, tasks| pairs(wins, losses, tasks).interval();
        ends(interval(1.0, 7.0, 21), -0.517_232_276_421_377_5, -0.026_003_032_480_868_57);
        ends(interval(6.0, 16.0, 161), -0.124_023_432_464_068_16, -0.005_433_395_731_677_086);
        ends(interval(40.0, 20.0, 160), 0.030_864_533_133_086_715, 0.218_064_244_166_824_8);
        ends(interval(5.5, 2.25, 40), -0.064_935_001_614_374_43, 0.233_855_019_142_853_9);
        ends(interval(0.0, 0.0, 7), -0.354_330_435_066_687_4, 0.354_330_435_066_687_4);
        ends(interval(0.0, 7.0, 7), -1.0, -0.291_339_129_866_625_14);
        ends(interval(7.0, 0.0, 7), 0.291_339_129_866_625_14, 1.0);
    }

    #[test]
    fn ties_alone_are_no_evidence_of_a_small_loss() {
        let test = |wins, losses, tasks| pairs(wins, losses, tasks).not_worse_test(0.03);
        close(test(0.0, 0.0, 7), 0.641_723_747_899_146);
        close(test(0.0, 0.0, 124), 0.050_191_447_745_931_54);
        close(test(0.0, 0.0, 125), 0.049_274_427_779_899_765);
        close(test(3.0, 3.0, 240), 0.026_288_855_202_747_152);
        close(test(5.0, 2.0, 240), 0.003_767_726_425_391_249);
        assert_eq!(tied_tasks_needed(0.03), 125);
        assert!(pairs(0.0, 0.0, 125).interval().low > -0.03);
        assert!(pairs(0.0, 0.0, 124).interval().low < -0.03);
    }

    #[test]
    fn a_lower_end_above_the_margin_is_a_small_p_value() {
        for losses in 0..12 {
            let pairs = pairs(2.0, f64::from(losses), 240);
            let excludes_margin = pairs.interval().low > -0.03;
            assert_eq!(pairs.not_worse_test(0.03) < 0.05, excludes_margin, "{losses}");
        }
    }

    #[test]
    fn sign_flips() {
        let test = |values: &[f64], alternative| sign_flip_test(values, alternative).unwrap();
        close(test(&[1.0; 3], Alternative::Greater), 0.125);
        close(test(&[1.0; 3], Alternative::TwoSided), 0.25);
        close(test(&[0.5, 0.2, -0.1, 0.4, 0.3], Alternative::Greater), 0.0625);
        close(test(&[0.5, 0.2, -0.1, 0.4, 0.3], Alternative::TwoSided), 0.125);
        let many = [
            1.0, 1.0, 0.0, 1.0, -1.0, 1.0, 0.0, 1.0, 1.0, -1.0, 0.0, 1.0, 1.0, 0.0, 1.0, -1.0, 1.0,
            0.0, 0.0, 1.0,
        ];
        // The exact value is 0.028687.
        close(test(&many, Alternative::Greater), 0.027_097_290_270_972_903);
        assert_eq!(sign_flip_test(&[], Alternative::Greater), None);
    }

    #[test]
    fn fishers_exact_test() {
        close(fisher_exact([[3, 1], [1, 3]]), 0.485_714_285_714_285_7);
        close(fisher_exact([[8, 2], [1, 5]]), 0.034_965_034_965_034_96);
        close(fisher_exact([[0, 5], [0, 5]]), 1.0);
    }

    #[test]
    fn holms_correction() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005, 1.0]);
        for (value, expected) in corrected.into_iter().zip([0.04, 0.09, 0.09, 0.025, 1.0]) {
            close(value, expected);
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn sizes_of_samples() {
        // 140.1 and 685.6.
        assert_eq!(samples_needed(0.85, 0.95), 141);
        assert_eq!(samples_needed(0.85, 0.90), 686);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0, 4.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[7.0], 0.95), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(mean(&[]), None);
    }
}
