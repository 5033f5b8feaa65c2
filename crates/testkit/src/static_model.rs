//! A small static embedding model, made by hand: `[UNK]`, `[CLS]`, north, east, south.

use std::fs;
use std::path::Path;

/// The rows of the tokens, with two columns.
pub const ROWS: [f32; 10] = [9.0, 9.0, 9.0, -9.0, 0.0, 1.0, 1.0, 0.0, 0.0, -1.0];

/// Writes `tokenizer.json` and `table.safetensors` with these rows into a directory.
///
/// # Panics
///
/// Panics if the files cannot be written.
pub fn write(directory: &Path, rows: &[f32]) {
    // The unknown token is not in the list of special tokens, as in some real tokenizers.
    let tokenizer = r#"{
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [{"id": 1, "content": "[CLS]", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "[UNK]",
            "vocab": {"[UNK]": 0, "[CLS]": 1, "north": 2, "east": 3, "south": 4}}
    }"#;
    fs::write(directory.join("tokenizer.json"), tokenizer).expect("a file of the model");
    let (tokens, bytes) = (rows.len() / 2, rows.len() * 4);
    let header =
        format!(r#"{{"t":{{"dtype":"F32","shape":[{tokens},2],"data_offsets":[0,{bytes}]}}}}"#);
    let mut file = tensors(&header, 0);
    file.extend(rows.iter().flat_map(|x| x.to_le_bytes()));
    fs::write(directory.join("table.safetensors"), file).expect("a file of the model");
}

/// A safetensors file with this header and this many zeros.
pub fn tensors(header: &str, zeros: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(vec![0; zeros]);
    file
}
