//! Numbers in the tables of several benchmarks.

/// Returns milliseconds with three significant digits.
pub(super) fn milliseconds(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns a round number in thousands or millions.
pub(super) fn count(n: u64) -> String {
    match n {
        1_000_000.. if n.is_multiple_of(1_000_000) => format!("{} M", n / 1_000_000),
        1_000.. if n.is_multiple_of(1_000) => format!("{} k", n / 1_000),
        _ => n.to_string(),
    }
}
