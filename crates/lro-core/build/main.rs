//! Writes the tables of the tokenizer: the o200k vocabulary as a double-array trie, the split of
//! each token into the two it is merged from, and the classes of characters.
//!
//! The vocabulary comes from `bpe-openai`, the classes from `regex-syntax`, whose tables `bpe-openai`
//! uses to split text. The program uses the tables in place.

#![expect(clippy::print_stdout, reason = "cargo reads what a build script prints")]

#[cfg(feature = "tokenizer")]
mod tables;

fn main() {
    println!("cargo::rerun-if-changed=build");
    #[cfg(feature = "tokenizer")]
    write_tables();
}

#[cfg(feature = "tokenizer")]
fn write_tables() {
    let directory = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, content: Vec<u8>| {
        let path = std::path::Path::new(&directory).join(name);
        std::fs::write(&path, content).expect("OUT_DIR can be written");
    };
    let bpe = &bpe_openai::o200k_base().bpe;
    let count = u32::try_from(bpe.num_tokens()).expect("200,000 tokens");
    let tokens: Vec<&[u8]> = (0..count).map(|rank| bpe.token_bytes(rank)).collect();
    write("o200k.trie", tables::double_array(&tokens));
    write("o200k.splits", tables::splits(&tokens));
    let (index, blocks) = tables::character_classes();
    write("classes.index", index);
    write("classes.blocks", blocks);
}
