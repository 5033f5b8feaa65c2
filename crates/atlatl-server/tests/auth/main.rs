//! Authentication: accepted credentials, and above all rejected ones.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod any_text;
mod api_keys;
mod authority;
mod key_sets;
mod limits;
mod providers;
mod tokens;
