//! A real sentence model at eight bits: its quality, its manifest, and files that are broken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atlatl_memory::embed::{
    Bert, EmbedError, Embedder as _, EmbedderChoice, FusionWeights, ModelDescription, ModelKind,
    ModelManifest, Scripts, open, open_lazily, quantize,
};
use testkit::tool::{derived_model, require_model};

use super::bert::refused;
use super::contract::dot;
use super::{contract, meaning};

fn description() -> ModelDescription {
    let mut fusion = FusionWeights::default();
    (fusion.vector, fusion.scripts) = (0.4, Scripts::Latin);
    ModelDescription {
        name: "all-MiniLM-L6-v2".to_owned(),
        license: "Apache-2.0".to_owned(),
        source: "sentence-transformers/all-MiniLM-L6-v2".to_owned(),
        fusion: Some(fusion),
    }
}

/// The directory of all-MiniLM-L6-v2 at eight bits.
fn minilm() -> PathBuf {
    derived_model(Path::new(env!("CARGO_TARGET_TMPDIR")), "minilm-q8", |to| {
        quantize(&require_model("minilm"), to, &description()).unwrap();
    })
}

/// A copy of the model whose files a test may change.
fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "model.json", "model.gguf"] {
        fs::copy(minilm().join(file), copy.path().join(file)).unwrap();
    }
    copy
}

#[test]
fn eight_bits_keep_the_contract_and_know_what_sentences_mean() {
    let choice = EmbedderChoice::Local { directory: minilm() };
    let bert = open(&choice, None).unwrap().unwrap();
    assert_eq!(bert.dimensions(), 384);
    contract::run(&*bert);
    meaning::run(&*bert);
    let lazy = open_lazily(&choice, None, Duration::from_mins(1)).unwrap().unwrap();
    assert_eq!((lazy.model(), lazy.dimensions()), (bert.model(), 384));
    assert_eq!(lazy.embed_query("a cat").unwrap(), bert.embed_query("a cat").unwrap());
}

#[test]
fn eight_bits_are_near_the_floats() {
    let floats = Bert::open(&require_model("minilm")).unwrap();
    let bits = Bert::open(&minilm()).unwrap();
    let memories = testkit::corpus::memories(60, 3);
    let texts: Vec<&str> = memories.iter().map(|memory| memory.content.as_str()).collect();
    let pairs = floats.embed(&texts).unwrap().into_iter().zip(bits.embed(&texts).unwrap());
    let cosines: Vec<f64> = pairs.map(|(a, b)| dot(&a, &b)).collect();
    let worst = cosines.iter().copied().fold(1.0, f64::min);
    let mean = cosines.iter().sum::<f64>() / 60.0;
    assert!(worst >= 0.995 && mean >= 0.999, "worst {worst:.5}, mean {mean:.5}");
}

#[test]
fn the_same_weights_give_the_same_files() {
    let again = tempfile::tempdir().unwrap();
    let manifest = quantize(&require_model("minilm"), again.path(), &description()).unwrap();
    assert_eq!(ModelManifest::read(&minilm()).unwrap().unwrap(), manifest);
    assert_eq!((manifest.kind, manifest.dimensions), (ModelKind::Bert, 384));
    assert!(manifest.bytes < 26_000_000, "{} bytes", manifest.bytes);
    manifest.verify(again.path()).unwrap();
    let bert = Bert::open(again.path()).unwrap();
    assert_eq!(bert.model(), manifest.model_name());
    assert_eq!(bert.fusion(), manifest.fusion);
}

#[test]
fn the_packaged_manifest_describes_what_a_conversion_makes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packages/model/model.json");
    let packaged = fs::read_to_string(path).unwrap();
    let mut fusion = FusionWeights::default();
    fusion.scripts = Scripts::Latin;
    let about = ModelDescription { fusion: Some(fusion), ..description() };
    let made = tempfile::tempdir().unwrap();
    let manifest = quantize(&require_model("minilm"), made.path(), &about).unwrap();
    // To renew it: .ci/model says where the new one is.
    assert_eq!(packaged, manifest.to_json());
}

#[test]
fn a_manifest_that_does_not_fit_is_refused() {
    let copy = copy();
    let path = copy.path();
    let manifest = fs::read_to_string(path.join("model.json")).unwrap();
    let other = |from: &str, to: &str| {
        assert!(manifest.contains(from), "{manifest}");
        fs::write(path.join("model.json"), manifest.replace(from, to)).unwrap();
    };
    other("\"dimensions\": 384", "\"dimensions\": 383");
    refused(path, "model.json", "`dimensions` is 383, but the model has 384");
    other("\"format\": 1", "\"format\": 2");
    refused(path, "model.json", "invalid content");
    other("model.gguf", "other.gguf");
    refused(path, "other.gguf", "cannot read it");
    fs::write(path.join("model.json"), &manifest).unwrap();

    // A changed byte is not noticed by loading, but by its digest.
    let mut weights = fs::read(path.join("model.gguf")).unwrap();
    *weights.last_mut().unwrap() ^= 1;
    fs::write(path.join("model.gguf"), weights).unwrap();
    let error = ModelManifest::read(path).unwrap().unwrap().verify(path).unwrap_err();
    assert!(error.to_string().ends_with("do not have the digest in model.json"), "{error}");
}

#[test]
fn a_broken_model_file_is_an_error_and_no_panic() {
    let copy = copy();
    let path = copy.path();
    let file = path.join("model.gguf");
    let good = fs::read(&file).unwrap();
    fs::write(&file, &good[..good.len() - 1]).unwrap();
    refused(path, "model.gguf", "bytes instead of");

    // Without a manifest, only the content says what is wrong.
    fs::remove_file(path.join("model.json")).unwrap();
    for length in [0, 1, 7, 24, 25, 1000, 5000, 1 << 20, good.len() / 2, good.len() - 64] {
        fs::write(&file, &good[..length]).unwrap();
        refused(path, "model.gguf", "the weights do not match the configuration");
    }
    let mut random = testkit::SplitMix64::new(5);
    for at in 0..48 {
        // The header of this file ends after about 8 kB.
        let mut broken = good.clone();
        let index = if at < 24 { at } else { random.below(8000) };
        broken[index] ^= 1 << random.below(8);
        fs::write(&file, broken).unwrap();
        let choice = EmbedderChoice::Local { directory: path.to_owned() };
        if let Err(error) = open(&choice, None) {
            assert!(matches!(error, EmbedError::Model { .. }), "{error}");
        }
    }
    // A file of another program: metadata that sets the alignment to 0.
    let mut foreign = b"GGUF\x03\0\0\0".to_vec();
    foreign.extend(0_u64.to_le_bytes());
    foreign.extend(1_u64.to_le_bytes());
    foreign.extend(17_u64.to_le_bytes());
    foreign.extend(b"general.alignment\x04\0\0\0\0\0\0\0");
    fs::write(&file, foreign).unwrap();
    refused(path, "model.gguf", "the weights do not match the configuration");

    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused(path, "model.gguf", "cannot read it");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, &good).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
    // Root reads it nevertheless.
    if fs::File::open(&file).is_err() {
        refused(path, "model.gguf", "cannot read it");
    }
}

#[test]
fn a_broken_model_is_opened_lazily_and_fails_when_it_is_used() {
    let copy = copy();
    fs::write(copy.path().join("model.gguf"), "GGUF").unwrap();
    let choice = EmbedderChoice::Local { directory: copy.path().to_owned() };
    let began = Instant::now();
    let lazy = open_lazily(&choice, None, Duration::from_mins(1)).unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let error = lazy.embed_query("x").unwrap_err();
    assert!(error.to_string().contains("model.gguf: it has 4 bytes instead of"), "{error}");
}
