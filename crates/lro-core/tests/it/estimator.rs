//! The estimate compared with the real count, for several scripts.

use lro_core::tokens::{Method, estimate};
use lro_core::{Measure, O200k, Tokenizer};

fn real(text: &str) -> u64 {
    O200k.count_till(text, u64::MAX).unwrap().unwrap().0
}

#[test]
fn t2_latin_text_is_estimated_and_other_scripts_are_counted() {
    for (name, text) in [
        ("English", testkit::text::english()),
        ("source code", testkit::text::source_code()),
        ("JSON lines", testkit::text::json_lines()),
        ("pretty JSON", testkit::text::json_pretty()),
    ] {
        let measure = Measure::from_bytes(text.as_bytes());
        let estimate = estimate(measure, &text, &O200k);
        assert_eq!(estimate.method, Method::CharactersByFour, "{name}");
        assert_eq!(estimate.tokens.0, (text.chars().count() as u64).div_ceil(4), "{name}");
        let ratio = estimate.tokens.0 as f64 / real(&text) as f64;
        assert!((0.5..1.6).contains(&ratio), "{name}: {ratio}");
    }
    for (name, text) in [
        ("Chinese", testkit::text::chinese()),
        ("Japanese", testkit::text::japanese()),
        ("Arabic", testkit::text::arabic()),
    ] {
        let estimate = estimate(Measure::from_bytes(text.as_bytes()), &text, &O200k);
        assert!(matches!(estimate.method, Method::Counted | Method::Sampled), "{name}");
        let ratio = estimate.tokens.0 as f64 / real(&text) as f64;
        assert!((0.98..1.02).contains(&ratio), "{name}: {ratio}");
    }
}
