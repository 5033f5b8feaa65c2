//! Bearer: tokens from a file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A shorter one can be guessed.
const SHORTEST: usize = 32;

/// Tokens that open the door. They are kept as digests, so that they cannot be printed, and are
/// compared in constant time.
#[derive(Clone)]
pub struct BearerTokens {
    key: [u8; 32],
    /// Each with its line in the file, from 1.
    digests: Vec<(usize, Vec<u8>)>,
}

/// Why a file has no tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// It cannot be read.
    #[error("{path}: the tokens cannot be read")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others may read it.
    #[error("{path}: others may read this file; chmod 600 {path}")]
    OpenToOthers {
        /// The file.
        path: String,
    },
    /// A line is too short to be a token.
    #[error("{path}, line {line}: a token has at least {SHORTEST} characters and no white space")]
    TooShort {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// No line is a token.
    #[error("{path}: there is no token in it")]
    Empty {
        /// The file.
        path: String,
    },
    /// A directory or file for the token of this user belongs to another user, or others can change it.
    #[error("{path}: this is not owned by you, or other users can write to it")]
    NotOurs {
        /// The directory or file.
        path: String,
    },
    /// A token cannot be written.
    #[error("{path}: cannot create the token")]
    Create {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl BearerTokens {
    /// Reads a file with a token a line; empty lines and those that begin with `#` say nothing.
    /// `key` is any secret that stays in the process.
    pub fn read(file: &Path, key: [u8; 32]) -> Result<Self, AuthError> {
        let path = file.display().to_string();
        let unreadable = |source| AuthError::Unreadable { path: path.clone(), source };
        // The file that is read is the one that is checked.
        let mut opened = File::open(file).map_err(unreadable)?;
        if opened.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
            return Err(AuthError::OpenToOthers { path });
        }
        let mut text = String::new();
        opened.read_to_string(&mut text).map_err(unreadable)?;
        let mut digests = Vec::new();
        for (n, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < SHORTEST || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(AuthError::TooShort { path, line: n + 1 });
            }
            digests.push((n + 1, mac(&key, line).finalize().into_bytes().to_vec()));
        }
        if digests.is_empty() {
            return Err(AuthError::Empty { path });
        }
        Ok(Self { key, digests })
    }

    /// The line of the token in the value of an `Authorization` header; `None` where it is not one of
    /// these.
    pub fn verify(&self, authorization: Option<&str>) -> Option<usize> {
        let (scheme, token) = authorization?.split_once(' ')?;
        // Spaces may stand between the two, and nothing else; the ends are the transport's.
        let token = token.trim_start_matches(' ');
        // All are compared, so that the time says nothing of which.
        let line = self.digests.iter().fold(None, |found, (line, digest)| {
            let same = mac(&self.key, token).verify_slice(digest).is_ok();
            found.or(same.then_some(*line))
        });
        line.filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    }
}

impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BearerTokens({})", self.digests.len())
    }
}

fn mac(key: &[u8], token: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(token.as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";

    fn read(text: &str, mode: u32) -> Result<BearerTokens, AuthError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        BearerTokens::read(&path, [3; 32])
    }

    #[test]
    fn a_file_of_tokens_is_its_owners_alone() {
        for mode in [0o604, 0o640, 0o644, 0o660, 0o602, 0o601, 0o777] {
            let refused = read(TOKEN, mode);
            assert!(
                matches!(refused, Err(AuthError::OpenToOthers { .. })),
                "{mode:o}: {refused:?}"
            );
        }
        for mode in [0o600, 0o400] {
            assert!(read(TOKEN, mode).is_ok(), "{mode:o}");
        }
        let nowhere = BearerTokens::read(Path::new("/nowhere/tokens"), [0; 32]);
        assert!(matches!(nowhere, Err(AuthError::Unreadable { .. })));
    }

    #[test]
    fn what_is_no_token_is_named_by_its_line_and_never_shown() {
        let odd = [
            ("short\n", 1),
            ("# one\n\nx y\n", 3),
            (&format!("{TOKEN}\n{TOKEN} x"), 2),
            (&TOKEN[1..], 1),
            (&format!("{TOKEN}\u{e9}"), 1),
        ];
        for (text, line) in odd {
            let refused = read(text, 0o600).unwrap_err();
            assert!(
                matches!(refused, AuthError::TooShort { line: l, .. } if l == line),
                "{refused:?}"
            );
            assert!(!refused.to_string().contains(TOKEN), "{refused}");
        }
        for empty in ["", "\n\n", "# nothing\n"] {
            let refused = read(empty, 0o600);
            assert!(matches!(refused, Err(AuthError::Empty { .. })), "{refused:?}");
        }
    }

    #[test]
    fn each_token_of_a_file_opens_and_nothing_near_it() {
        let second = "A-second_token.of~the+same/file==00";
        let tokens = read(&format!("# ours\n{TOKEN}\n\n{second}\n"), 0o600).unwrap();
        assert_eq!(format!("{tokens:?}"), "BearerTokens(2)");
        for (line, right) in [(2, TOKEN), (4, second)] {
            for value in [format!("Bearer {right}"), format!("BEARER  {right}")] {
                assert_eq!(tokens.verify(Some(&value)), Some(line), "{value}");
            }
            for value in [
                right.to_owned(),
                format!("Basic {right}"),
                format!("Bearer {right}x"),
                format!("Bearer {}", &right[1..]),
                format!("Bearer \t{right}"),
            ] {
                assert_eq!(tokens.verify(Some(&value)), None, "{value}");
            }
        }
        assert_eq!((tokens.verify(None), tokens.verify(Some("Bearer "))), (None, None));
        let twice = read(&format!("{TOKEN}\n{TOKEN}\n"), 0o600).unwrap();
        assert_eq!(twice.verify(Some(&format!("Bearer {TOKEN}"))), Some(1));
    }
}
