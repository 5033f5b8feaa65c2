//! The identifier of a memory.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use crate::{
    error::{MemoryFormat, MifError, quoted},
    fields::{FieldValue, LocatedNode},
    value::Value,
};

const URN: &str = "urn:mif:";
/// The number of hexadecimal digits of an identifier.
const DIGITS: usize = 32;
const EXPECTED: &str = "a UUID such as 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b";

/// The identifier of a memory: a UUID that keeps its spelling. Two spellings that differ only in
/// case are equal.
#[derive(Debug, Clone)]
pub struct MemoryId {
    text: String,
    value: u128,
}

impl MemoryId {
    /// Makes a version 7 UUID from a time and 74 random bits (the rest of `random` is unused).
    ///
    /// Both are arguments: this crate has no access to the clock or to randomness.
    pub fn v7(unix_milliseconds: u64, random: [u8; 10]) -> Self {
        let mut tail = [0; 16];
        tail[6..].copy_from_slice(&random);
        let time = u128::from(unix_milliseconds & 0xffff_ffff_ffff) << 80;
        let random = u128::from_be_bytes(tail) & 0x0fff_3fff_ffff_ffff_ffff;
        Self::from_u128(time | random | 0x7000_8000_0000_0000_0000)
    }

    /// Makes an identifier from the 128 bits of a UUID.
    pub fn from_u128(value: u128) -> Self {
        // A search creates thousands of ids, and formatting would take most of that time.
        let digit = |place: u32| {
            let four = (value >> (4 * (31 - place))) & 0xf;
            u32::try_from(four).ok().and_then(|four| char::from_digit(four, 16)).unwrap_or('0')
        };
        let mut text = String::with_capacity(36);
        for place in 0..32 {
            if matches!(place, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(digit(place));
        }
        Self { text, value }
    }

    /// Returns the first and the last identifier with this prefix of hexadecimal digits, with or
    /// without hyphens; `None` if the prefix is invalid.
    pub fn beginning_with(digits: &str) -> Option<(Self, Self)> {
        let digits = digits.replace('-', "");
        let rest = DIGITS.checked_sub(digits.len())?;
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let with = |digit: &str| {
            let all = format!("{digits}{}", digit.repeat(rest));
            u128::from_str_radix(&all, 16).ok().map(Self::from_u128)
        };
        Some((with("0")?, with("f")?))
    }

    /// Returns the 128 bits.
    pub fn as_u128(&self) -> u128 {
        self.value
    }

    /// Returns the text as received.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the URN used by JSON-LD and by references, `urn:mif:<id>`.
    pub fn urn(&self) -> String {
        format!("{URN}{}", self.text)
    }
}

impl FromStr for MemoryId {
    type Err = MifError;

    /// Accepts the hyphenated form, with or without `urn:mif:`.
    fn from_str(text: &str) -> Result<Self, MifError> {
        let bare = text.strip_prefix(URN).unwrap_or(text);
        parse(bare)
            .map(|value| Self { text: bare.to_owned(), value })
            .ok_or_else(|| MifError::field("id", EXPECTED, quoted(text)))
    }
}

fn parse(text: &str) -> Option<u128> {
    let hyphens = [8, 13, 18, 23];
    let well_formed = text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if hyphens.contains(&i) { b == b'-' } else { b.is_ascii_hexdigit() });
    if !well_formed {
        return None;
    }
    let digits = text.chars().filter_map(|c| c.to_digit(16));
    Some(digits.fold(0, |value, digit| value << 4 | u128::from(digit)))
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for MemoryId {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for MemoryId {}

impl PartialOrd for MemoryId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MemoryId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl Hash for MemoryId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl FieldValue for MemoryId {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        text.parse().map_err(|_| source.error(EXPECTED, quoted(text)))
    }

    fn write(&self, form: MemoryFormat) -> Value {
        Value::String(match form {
            MemoryFormat::JsonLd => self.urn(),
            MemoryFormat::Json | MemoryFormat::Markdown => self.text.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_v7_carries_time_version_and_variant() {
        let id = MemoryId::v7(0x0123_4567_89ab, [0xff; 10]);
        assert_eq!(id.as_str(), "01234567-89ab-7fff-bfff-ffffffffffff");
        let id = MemoryId::v7(0x0123_4567_89ab, [0; 10]);
        assert_eq!(id.as_str(), "01234567-89ab-7000-8000-000000000000");
    }

    #[test]
    fn case_is_kept_but_does_not_distinguish() {
        let upper: MemoryId = "018F4E2A-7C1D-7B3E-9A5F-2C6D8E0F1A2B".parse().unwrap();
        let lower: MemoryId = "urn:mif:018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b".parse().unwrap();
        assert_eq!(upper, lower);
        assert_eq!(upper.as_str(), "018F4E2A-7C1D-7B3E-9A5F-2C6D8E0F1A2B");
        assert_eq!(lower.urn(), "urn:mif:018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b");
    }

    #[test]
    fn refuses_other_texts() {
        for text in
            ["", "018f4e2a7c1d7b3e9a5f2c6d8e0f1a2b", "urn:mif:memory:cats", "é".repeat(18).as_str()]
        {
            assert!(text.parse::<MemoryId>().is_err(), "{text}");
        }
    }
}
