//! The contract of `Embedder`, for any implementation.

use atlatl_memory::embed::{EmbedError, Embedder};

const TEXTS: [&str; 7] = [
    "The deployment failed because the disk was full.",
    "a",
    "Der Ausschuss tagt am Dienstag um zehn Uhr.",
    "東京の天気は晴れです",
    "🦀",
    "line one\nline two\ttabbed \u{0} \"quoted\" \\ end",
    "The deployment failed because the disk was full.",
];

/// Runs the parts of the contract that need no knowledge of the model.
pub(crate) fn run(embedder: &dyn Embedder) {
    assert!(!embedder.model().is_empty());
    assert!(embedder.dimensions() > 0);
    assert!(embedder.embed(&[]).unwrap().is_empty());

    let long = "word ".repeat(5000);
    let mut texts = TEXTS.to_vec();
    texts.push(&long);
    let together = embedder.embed(&texts).unwrap();
    assert_eq!(together.len(), texts.len());
    for (vector, text) in together.iter().zip(&texts) {
        assert_eq!(vector.len(), embedder.dimensions());
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5, "length of {text:?}");
        let alone = embedder.embed(&[text]).unwrap();
        assert_eq!(alone.len(), 1);
        assert!(apart(vector, &alone[0]) < 1e-4, "{text:?} alone is another vector");
        assert_eq!(alone, embedder.embed(&[text]).unwrap(), "{text:?} twice");
    }
    assert!(apart(&together[0], &together[6]) < 1e-4);
    assert!(apart(&together[0], &together[2]) > 1e-2);

    for blank in ["", " ", "\n\t\u{2003}"] {
        let error = embedder.embed(&["text", blank]).unwrap_err();
        assert!(matches!(error, EmbedError::Empty { index: 1 }), "{error}");
    }
}

/// The cosine similarity in f64.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// The largest difference between two vectors.
pub(crate) fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
