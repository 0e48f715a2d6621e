// SPDX-License-Identifier: BSD-3-Clause
//! Compares the means of repeated measurements.

/// Two-sided 95 % quantiles of Student's t, for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// Two-sided 95 % quantile of the normal distribution, and the terms that are added for a number of
/// degrees of freedom and its square (Abramowitz and Stegun, 26.7.5).
const NORMAL_95: f64 = 1.96;
const TERMS: [f64; 2] = [2.372, 2.823];

/// Returns the mean of values, at least one.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the variance of the mean of values, at least two.
fn variance(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
}

/// Returns the two-sided 95 % quantile of Student's t.
fn quantile(freedom: f64) -> f64 {
    match freedom {
        ..31.0 => T_95[(freedom as usize).max(1) - 1],
        // Without any variance.
        _ if freedom.is_nan() => NORMAL_95,
        _ => NORMAL_95 + TERMS[0] / freedom + TERMS[1] / freedom.powi(2),
    }
}

/// Returns the 95 % confidence interval of a mean; `None` if there are too few values.
pub(crate) fn own_interval(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let half = quantile(values.len() as f64 - 1.0) * variance(values).sqrt();
    Some([mean(values) - half, mean(values) + half])
}

/// Returns the 95 % confidence interval of the difference of two means, in percent of the first
/// one, by Welch's t-test; `None` if there are too few values.
pub(crate) fn interval(a: &[f64], b: &[f64]) -> Option<[f64; 2]> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (of_a, of_b) = (variance(a), variance(b));
    let squares = |variance: f64, count: usize| variance.powi(2) / (count as f64 - 1.0);
    let freedom = (of_a + of_b).powi(2) / (squares(of_a, a.len()) + squares(of_b, b.len()));
    let (difference, half) = (mean(b) - mean(a), quantile(freedom) * (of_a + of_b).sqrt());
    Some([difference - half, difference + half].map(|end| 100.0 * end / mean(a)))
}
