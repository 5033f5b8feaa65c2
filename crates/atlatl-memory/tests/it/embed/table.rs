//! A real static model (wordllama), a small handmade one, and directories that are not models.

use std::fs;
use std::path::Path;

use atlatl_memory::embed::{EmbedError, Embedder as _, EmbedderChoice, StaticModel, open};
use testkit::static_model::{ROWS, tensors, write as make};
use testkit::tool::require_model;

use super::bert::refused;
use super::contract::apart;
use super::{contract, meaning};

#[test]
fn wordllama_keeps_the_contract_and_knows_what_sentences_mean() {
    let choice = EmbedderChoice::Local { directory: require_model("wordllama") };
    let table = open(&choice, None).unwrap().unwrap();
    assert_eq!(table.dimensions(), 256);
    contract::run(&*table);
    meaning::run(&*table);
    let knows = |word| table.knows_word(word);
    assert!(knows("coffee") && knows("right"));
    assert!(!knows("cofee") && !knows("rihgt") && !knows("ქართული"));
}

/// The expected numbers come from the same table in `NumPy`, as in the package's own code.
#[test]
fn wordllama_computes_what_another_implementation_does() {
    let table = StaticModel::open(&require_model("wordllama")).unwrap();
    let long = "x ".repeat(600);
    let expected: [(&str, [f32; 4], f32); 4] = [
        ("The cat sleeps on the sofa.", [0.049_012, -0.082_481, 0.095_337, 0.020_409], -0.123_596),
        (
            "Der Ausschuss tagt am Dienstag.",
            [-0.092_934, 0.024_192, 0.039_862, -0.040_821],
            -0.019_67,
        ),
        (&long, [0.044_41, -0.053_63, -0.097_781, -0.134_159], -0.062_133),
        ("東京の天気は晴れです", [-0.067_082, 0.100_338, -0.037_123, 0.026_606], -0.047_144),
    ];
    let vectors = table.embed(&expected.map(|(text, ..)| text)).unwrap();
    for (vector, (text, first, last)) in vectors.iter().zip(expected) {
        assert!(apart(&vector[..4], &first) < 1e-5, "{text}: {:?}", &vector[..4]);
        assert!((vector[255] - last).abs() < 1e-5, "{text}: {}", vector[255]);
    }
}

#[test]
fn special_and_unknown_tokens_do_not_count() {
    let there = tempfile::tempdir().unwrap();
    make(there.path(), &ROWS);
    let table = StaticModel::open(there.path()).unwrap();
    let vectors = table.embed(&["north", "north east", "north never-seen [CLS]"]).unwrap();
    let half = 0.5_f32.sqrt();
    assert_eq!(vectors[0], [0.0, 1.0]);
    assert!(apart(&vectors[1], &[half, half]) < 1e-6);
    assert_eq!(vectors[2], [0.0, 1.0]);
    // Unknown, special, and two rows that cancel each other.
    for nothing in ["never-seen", "[CLS]", "north south"] {
        let error = table.embed(&["east", nothing]).unwrap_err();
        assert!(matches!(error, EmbedError::Empty { index: 1 }), "{nothing}: {error}");
    }
}

#[test]
fn other_weights_or_another_tokenizer_are_another_model() {
    let there = tempfile::tempdir().unwrap();
    let directory = there.path().join("compass");
    fs::create_dir(&directory).unwrap();
    make(&directory, &ROWS);
    let name = |directory: &Path| StaticModel::open(directory).unwrap().model().to_owned();
    let before = name(&directory);
    assert!(before.starts_with("compass@"), "{before}");
    assert_eq!(before.len(), "compass@".len() + 12);
    assert_eq!(before, name(&directory.join("../compass/")));

    let mut rows = ROWS;
    rows[9] = 0.25;
    make(&directory, &rows);
    let other_weights = name(&directory);
    assert_ne!(before, other_weights);

    let tokenizer = fs::read_to_string(directory.join("tokenizer.json")).unwrap();
    fs::write(directory.join("tokenizer.json"), tokenizer + "\n").unwrap();
    assert_ne!(other_weights, name(&directory));
}

#[test]
fn what_is_no_table_is_refused() {
    let there = tempfile::tempdir().unwrap();
    let directory = there.path();
    refused(&directory.join("nowhere"), "nowhere", "cannot open it");
    refused(directory, "tokenizer.json", "cannot read it");
    make(directory, &ROWS);
    refused(&directory.join("tokenizer.json"), "tokenizer.json", "not a directory");

    let weights = directory.join("table.safetensors");
    make(directory, &ROWS[..8]);
    refused(directory, "tokenizer.json", "do not match the model");
    let mut rows = ROWS;
    rows[5] = f32::NAN;
    make(directory, &rows);
    refused(directory, "table.safetensors", "not finite");
    fs::write(&weights, tensors(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8))
        .unwrap();
    refused(directory, "table.safetensors", "not a table");
    let two = r#"{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}"#;
    fs::write(&weights, tensors(two, 8)).unwrap();
    refused(directory, "table.safetensors", "2 tensors");
    let cut = r#"{"a":{"dtype":"F32","shape":[9,9],"data_offsets":[0,324]}}"#;
    fs::write(&weights, tensors(cut, 8)).unwrap();
    refused(directory, "table.safetensors", "not a safetensors file");
    fs::write(&weights, [0xff; 64]).unwrap();
    refused(directory, "table.safetensors", "not a safetensors file");

    fs::copy(&weights, directory.join("more.safetensors")).unwrap();
    refused(directory, "", "2 safetensors files");
    fs::write(directory.join("tokenizer.json"), "{}").unwrap();
    refused(directory, "tokenizer.json", "not a tokenizer");
}
