//! Reference: whatever text is said to mean a stored result.
//!
//! What is understood is written as it was given, and what is written is understood again.

#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro_core::{Reference, ResultId};
use lro_spool::{Address, FileName};

/// Text out of the words that addresses have, since no chance makes 26 characters of an identity.
#[derive(Debug, Arbitrary)]
enum Word<'a> {
    Id { unix_ms: u64, random: u128 },
    LowerId { random: u128 },
    Prefix,
    NamePrefix,
    Operation(&'a str),
    Dash,
    Slash,
    Up,
    Extension(u8),
    Other(&'a str),
}

impl Word<'_> {
    fn write(&self, text: &mut String) {
        const EXTENSIONS: &[&str] = &[".jsonl", ".json", ".txt", ".bin", ".meta.json", ".part-1"];
        match self {
            Self::Id { unix_ms, random } => {
                text.push_str(&ResultId::new(*unix_ms, *random).to_string());
            }
            Self::LowerId { random } => {
                text.push_str(&ResultId::new(7, *random).to_string().to_lowercase());
            }
            Self::Prefix => text.push_str("lro:"),
            Self::NamePrefix => text.push_str("atlatl-"),
            Self::Operation(name) => {
                text.extend(name.chars().filter(char::is_ascii_alphanumeric).take(45));
            }
            Self::Dash => text.push('-'),
            Self::Slash => text.push('/'),
            Self::Up => text.push_str(".."),
            Self::Extension(n) => text.push_str(EXTENSIONS[usize::from(*n) % EXTENSIONS.len()]),
            Self::Other(other) => text.push_str(other),
        }
    }
}

fuzz_target!(|words: Vec<Word<'_>>| {
    let mut text = String::new();
    words.iter().for_each(|word| word.write(&mut text));

    if let Ok(id) = text.parse::<ResultId>() {
        assert_eq!(id.to_string(), text, "one result has one name");
        assert_eq!(id, ResultId::new(id.unix_ms(), random(&text)), "and is its two parts");
    }
    if let Ok(reference) = text.parse::<Reference>() {
        let bare = text.strip_prefix("lro:").unwrap_or(&text);
        assert_eq!(reference.to_string(), format!("lro:{bare}"));
        assert_eq!(reference.to_string().parse(), Ok(reference));
    }
    if let Ok(name) = text.parse::<FileName>() {
        assert_eq!(name.to_string(), text);
        assert!(!text.contains('/') && text.len() <= 100);
    }
    let Ok(address) = text.parse::<Address>() else {
        assert!(text.parse::<Reference>().is_err() && text.parse::<FileName>().is_err());
        return;
    };
    let written = address.to_string();
    assert_eq!(written.parse().as_ref(), Ok(&address), "{text:?} is written {written:?}");
    assert!(text.contains(&address.id().to_string()));
    match &address {
        Address::Id(id) => assert_eq!(*id, text.parse::<Reference>().unwrap().0),
        Address::Path { folder, name } => {
            assert!(folder.is_absolute());
            assert!(folder.components().all(|part| part != Component::ParentDir));
            let path = Path::new(&text);
            assert_eq!(path.parent(), Some(folder.as_path()));
            assert_eq!(path.file_name(), Some(name.to_string().as_ref()));
            // Where there are more slashes before the name than one, one is left out.
            let doubled = text.strip_suffix(&format!("//{name}"));
            let expected = doubled.map_or_else(|| text.clone(), |rest| format!("{rest}/{name}"));
            assert_eq!(written, expected);
        }
        _ => assert_eq!(written, text),
    }
});

/// The lower 80 bits of an identity, read independently: 16 characters of five bits.
fn random(id: &str) -> u128 {
    const ALPHABET: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let value = |c| ALPHABET.find(c).expect("the alphabet of an identity") as u128;
    id.chars().skip(10).fold(0, |bits, c| bits << 5 | value(c))
}
