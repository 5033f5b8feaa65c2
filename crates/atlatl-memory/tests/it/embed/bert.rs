//! A real sentence model (all-MiniLM-L6-v2), and directories that are not models.

use std::fs;
use std::path::Path;

use atlatl_memory::embed::{Bert, EmbedError, Embedder as _, EmbedderChoice, open};
use testkit::tool::require_model;

use super::contract::apart;
use super::{contract, meaning};

#[test]
fn minilm_keeps_the_contract_and_knows_what_sentences_mean() {
    let directory = require_model("minilm");
    let choice = EmbedderChoice::Local { directory };
    let bert = open(&choice, None).unwrap().unwrap();
    assert_eq!(bert.dimensions(), 384);
    contract::run(&*bert);
    meaning::run(&*bert);
    let knows = |word| bert.knows_word(word);
    assert!(knows("coffee") && knows("right"));
    assert!(!knows("cofee") && !knows("rihgt") && !knows("ქართული"));
}

/// The expected numbers come from the same weights in an independent implementation: `NumPy`, in
/// f64, text by text. The third text is truncated at 256 tokens, as `sentence_bert_config.json`
/// says.
#[test]
fn minilm_computes_what_another_implementation_does() {
    let bert = Bert::open(&require_model("minilm")).unwrap();
    let long = "x ".repeat(600);
    let expected: [(&str, [f32; 4], f32); 4] = [
        ("The cat sleeps on the sofa.", [0.162_574, -0.073_797, -0.029_864, 0.040_159], -0.011_839),
        (
            "Der Ausschuss tagt am Dienstag.",
            [0.010_324, 0.094_265, -0.050_122, -0.008_305],
            0.019_587,
        ),
        (&long, [-0.002_06, -0.037_469, -0.031_494, -0.042_564], 0.005_389),
        ("東京の天気は晴れです", [0.082_45, 0.114_373, 0.108_11, -0.013_661], 0.051_327),
    ];
    let vectors = bert.embed(&expected.map(|(text, ..)| text)).unwrap();
    for (vector, (text, first, last)) in vectors.iter().zip(expected) {
        assert!(apart(&vector[..4], &first) < 1e-5, "{text}: {:?}", &vector[..4]);
        assert!((vector[383] - last).abs() < 1e-5, "{text}: {}", vector[383]);
    }
}

#[test]
fn minilm_is_named_by_its_directory_and_a_digest() {
    let model = require_model("minilm");
    let bert = Bert::open(&model).unwrap();
    assert_eq!(bert.model(), "minilm@a89d5b0b99dc");
}

#[test]
fn a_model_that_is_not_as_configured_is_refused() {
    let there = tempfile::tempdir().unwrap();
    let directory = there.path();
    let model = require_model("minilm");
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(model.join(file), directory.join(file)).unwrap();
    }
    refused(directory, "model.safetensors", "cannot read it");
    fs::write(directory.join("model.safetensors"), "no weights").unwrap();
    refused(directory, "model.safetensors", "the weights do not match the configuration");

    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let other = |from: &str, to: &str| {
        assert!(config.contains(from));
        fs::write(directory.join("config.json"), config.replace(from, to)).unwrap();
    };
    other("\"num_attention_heads\": 12", "\"num_attention_heads\": 0");
    refused(directory, "config.json", "inconsistent");
    other("\"hidden_size\": 384", "\"hidden_size\": 0");
    refused(directory, "config.json", "inconsistent");
    other("\"max_position_embeddings\": 512", "\"max_position_embeddings\": 2");
    refused(directory, "config.json", "no room for text");
    other("\"vocab_size\": 30522", "\"vocab_size\": 1000");
    refused(directory, "tokenizer.json", "do not match the model");
    other("\"model_type\": \"bert\"", "\"model_type\": \"mpnet\"");
    refused(directory, "config.json", "`mpnet` models are not supported");
    other("{", "");
    refused(directory, "config.json", "invalid content");

    fs::write(directory.join("config.json"), config).unwrap();
    fs::create_dir(directory.join("1_Pooling")).unwrap();
    let cls = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
    fs::write(directory.join("1_Pooling/config.json"), cls).unwrap();
    refused(directory, "1_Pooling/config.json", "only mean pooling");
}

/// Opening must fail with an error about this file.
pub(crate) fn refused(directory: &Path, file: &str, expected: &str) {
    let choice = EmbedderChoice::Local { directory: directory.to_owned() };
    let error = open(&choice, None).err().expect("a broken model is refused");
    let EmbedError::Model { path, why, .. } = &error else { panic!("{error}") };
    assert!(path.ends_with(file), "{error}");
    assert!(why.contains(expected), "{error}");
}
