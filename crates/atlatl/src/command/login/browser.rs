//! The person's browser.

use std::process::{Command, Stdio};

use url::Url;

/// The program that opens a URL in whatever the person prefers.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a page; whether there is a program to do it. The URL has passed the policy: it begins with
/// `http`, so it is no flag, and no shell ever reads it.
pub(super) fn open(url: &Url) -> bool {
    Command::new(OPENER)
        .arg(url.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}
