//! Normalizes vectors to length 1.

/// The vector with length 1, or `None` if it has no direction: empty, all zeros, or not finite.
pub(crate) fn normalize(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    // In f64, where the square of no f32 overflows.
    let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let length = squares.sqrt();
    if !length.is_finite() || length == 0.0 {
        return None;
    }
    for x in &mut vector {
        #[expect(clippy::cast_possible_truncation, reason = "a number between -1 and 1")]
        {
            *x = (f64::from(*x) / length) as f32;
        }
    }
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::normalize;

    #[test]
    fn brings_small_and_huge_vectors_to_length_1() {
        assert_eq!(normalize(vec![3.0, 4.0]), Some(vec![0.6, 0.8]));
        assert_eq!(normalize(vec![0.0, 3.0e38, 0.0]), Some(vec![0.0, 1.0, 0.0]));
        assert_eq!(normalize(vec![1.0e-45]), Some(vec![1.0]));
    }

    #[test]
    fn gives_no_direction_to_what_has_none() {
        for none in [vec![], vec![0.0, -0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY]] {
            assert_eq!(normalize(none), None);
        }
    }
}
