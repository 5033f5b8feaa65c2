//! Decodes the strings of a record to UTF-8. A lone surrogate becomes U+FFFD.

pub(super) use lro_json::{decode_lossy as decode, string_equals as is};
