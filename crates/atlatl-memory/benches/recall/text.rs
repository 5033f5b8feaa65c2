//! Real text: the documentation of the packages that this workspace depends on, as Cargo.lock pins
//! them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use atlatl_memory::contract::index_words;
use serde_json::Value;

/// The maximum length of a token in bytes. Longer ones are encoded data.
const MAX_TOKEN_LEN: usize = 40;
/// The lengths of words that are used in queries.
const QUERY_WORD_LENGTHS: std::ops::RangeInclusive<usize> = 3..=20;

/// Text between white space.
struct Token {
    text: String,
    /// The numbers of its words.
    words: Vec<u32>,
}

/// A long text, and its words in the form of the full-text index.
pub(crate) struct Text {
    /// The distinct tokens.
    tokens: Vec<Token>,
    /// The text, as indexes of tokens.
    stream: Vec<u32>,
    vocabulary: Vec<String>,
    numbers: HashMap<String, u32>,
    /// A plain token of each word, if there is one.
    plain: Vec<Option<u32>>,
}

impl Text {
    /// Reads the documentation: comments in Rust files, and Markdown files.
    pub(crate) fn read() -> Self {
        let mut text = Self {
            tokens: Vec::new(),
            stream: Vec::new(),
            vocabulary: Vec::new(),
            numbers: HashMap::new(),
            plain: Vec::new(),
        };
        let mut known: HashMap<String, Option<u32>> = HashMap::new();
        for directory in packages() {
            for file in files(&directory) {
                let is_rust = file.extension().is_some_and(|extension| extension == "rs");
                let bytes = fs::read(&file).expect("a file of a package");
                for line in String::from_utf8_lossy(&bytes).lines() {
                    let line = line.trim_start();
                    let line = if is_rust { comment(line) } else { Some(line) };
                    for token in line.unwrap_or_default().split_whitespace() {
                        let place = known.get(token).copied().unwrap_or_else(|| {
                            let place = text.add_token(token);
                            known.insert(token.to_owned(), place);
                            place
                        });
                        text.stream.extend(place);
                    }
                }
            }
        }
        assert!(text.stream.len() > 1_000_000, "the packages have too little documentation");
        text
    }

    /// Adds a token, and returns its index. Returns `None` if it has no words.
    fn add_token(&mut self, token: &str) -> Option<u32> {
        if token.len() > MAX_TOKEN_LEN || token.contains('\0') {
            return None;
        }
        let words: Vec<u32> =
            index_words(token).into_iter().map(|word| self.intern(word)).collect();
        let place = index(self.tokens.len());
        match words.as_slice() {
            [] => return None,
            [word] if is_plain(token) => {
                let plain = &mut self.plain[*word as usize];
                *plain = plain.or(Some(place));
            }
            _ => {}
        }
        self.tokens.push(Token { text: token.to_owned(), words });
        Some(place)
    }

    /// Returns the number of a word, which is added if it is new.
    pub(crate) fn intern(&mut self, word: String) -> u32 {
        if let Some(number) = self.numbers.get(&word) {
            return *number;
        }
        let number = index(self.vocabulary.len());
        self.vocabulary.push(word.clone());
        self.plain.push(None);
        self.numbers.insert(word, number);
        number
    }

    /// Returns the number of a word of the index.
    pub(crate) fn number(&self, word: &str) -> Option<u32> {
        self.numbers.get(word).copied()
    }

    /// Returns a word of the index.
    pub(crate) fn word(&self, number: u32) -> &str {
        &self.vocabulary[number as usize]
    }

    /// Returns a token of lowercase letters with this word alone.
    pub(crate) fn plain(&self, word: u32) -> Option<&str> {
        let token = self.plain[word as usize]?;
        Some(&self.tokens[token as usize].text)
    }

    /// The number of tokens of the text.
    pub(crate) fn len(&self) -> usize {
        self.stream.len()
    }

    /// The number of different words.
    pub(crate) fn vocabulary_len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns the tokens of a part of the text, separated by spaces.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> String {
        let tokens: Vec<&str> = self.tokens(range).map(|token| token.text.as_str()).collect();
        tokens.join(" ")
    }

    /// Returns the words of a part of the text.
    pub(crate) fn words(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = u32> {
        self.tokens(range).flat_map(|token| token.words.iter().copied())
    }

    fn tokens(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = &Token> {
        self.stream[range].iter().map(|&token| &self.tokens[token as usize])
    }

    /// Returns a digest of the text, so that two runs can be compared.
    pub(crate) fn digest(&self) -> String {
        let bytes = self.tokens(0..self.len()).flat_map(|token| token.text.bytes().chain([b' ']));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("fewer words than a u32 counts")
}

fn is_plain(token: &str) -> bool {
    QUERY_WORD_LENGTHS.contains(&token.len()) && token.bytes().all(|c| c.is_ascii_lowercase())
}

/// Returns the text of a documentation comment.
fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
}

/// Returns the directories of the packages that are not of this workspace, one version of each, in
/// the order of their names.
fn packages() -> Vec<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        // The same packages on every machine.
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo starts");
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "cargo metadata failed: {error}");
    let metadata: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut packages: Vec<(&str, &str, &Path)> = packages
        .iter()
        .filter(|package| package["source"].is_string())
        .filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            Some((package["name"].as_str()?, package["version"].as_str()?, manifest.parent()?))
        })
        .collect();
    packages.sort_unstable();
    // Two versions of a package have almost the same documentation.
    packages.dedup_by_key(|(name, ..)| *name);
    packages.into_iter().map(|(_, _, directory)| directory.to_owned()).collect()
}

/// Returns the Rust and Markdown files below a directory, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .expect("a directory of a package")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort_unstable();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            found.push(path);
        }
    }
    found
}
