//! Converts a BERT model in a directory to eight bits:
//! `cargo run --release --features local --example quantize -- FROM TO NAME LICENSE SOURCE [latin]`.
//!
//! FROM has `config.json`, `tokenizer.json` and `model.safetensors`. TO gets `model.gguf`, `model.json`
//! and copies of the other files. NAME, LICENSE (an SPDX identifier) and SOURCE go into the manifest;
//! `latin` is for models that know only this script.

use std::env;
use std::error::Error;
use std::path::Path;

use atlatl_memory::embed::{FusionWeights, ModelDescription, Scripts, quantize};

#[expect(clippy::print_stdout, reason = "this is its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let ([from, to, name, license, source], rest) =
        args.split_first_chunk().ok_or("expected FROM TO NAME LICENSE SOURCE [latin]")?;
    let mut fusion = FusionWeights::default();
    match rest {
        [] => {}
        [scripts] if scripts == "latin" => fusion.scripts = Scripts::Latin,
        _ => return Err("expected `latin` or nothing after SOURCE".into()),
    }
    let about = ModelDescription {
        name: name.clone(),
        license: license.clone(),
        source: source.clone(),
        fusion: Some(fusion),
    };
    let manifest = quantize(Path::new(from), Path::new(to), &about)?;
    print!("{}", manifest.to_json());
    Ok(())
}
