//! Bearer tokens: the tokens that a server accepts, and the local token of a user.
//!
//! `server.auth` names a file of tokens. A server without it uses the local token: every user of a
//! machine can reach its loopback addresses, so a listener on one needs a secret. The local token is
//! created once and shared by all servers of the user.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::{fmt, fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::listen::user_id;

/// The file name of the local token.
pub const LOCAL_TOKEN: &str = "token";

/// The least number of characters of a token; shorter ones can be guessed.
const MIN_TOKEN_LEN: usize = 32;

/// A set of accepted bearer tokens. It stores digests, so that no token can be printed, and compares
/// them in constant time. Clones share the set, which can be replaced while the server runs.
#[derive(Clone)]
pub struct BearerTokens(Arc<RwLock<TokenSet>>);

#[derive(Clone)]
struct TokenSet {
    key: [u8; 32],
    /// Each digest with its line number in the file, from 1.
    digests: Vec<(usize, Vec<u8>)>,
}

/// Errors of reading or creating tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BearerError {
    /// The file cannot be read.
    #[error("{path}: cannot read the token file")]
    Unreadable {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users may read the file.
    #[error("{path}: other users can read this file; run chmod 600 {path}")]
    OpenToOthers {
        /// The file.
        path: String,
    },
    /// A line is too short to be a token.
    #[error(
        "{path}, line {line}: expected a token of at least {MIN_TOKEN_LEN} characters without \
         white space"
    )]
    TooShort {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// The file contains no token.
    #[error("{path}: the file contains no token")]
    Empty {
        /// The file.
        path: String,
    },
    /// The local token or its directory belongs to another user, or other users can write to it.
    #[error("{path}: not owned by you, or writable by other users")]
    NotOurs {
        /// The directory or file.
        path: String,
    },
    /// The local token cannot be created.
    #[error("{path}: cannot create the token")]
    Create {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl BearerTokens {
    /// Reads a file with one token per line; empty lines and lines that begin with `#` are ignored.
    /// `key` is any secret that stays in the process.
    pub fn read(file: &Path, key: [u8; 32]) -> Result<Self, BearerError> {
        let path = file.display().to_string();
        let unreadable = |source| BearerError::Unreadable { path: path.clone(), source };
        // Check the opened file, not the path: the path could change in between.
        let mut opened = File::open(file).map_err(unreadable)?;
        let metadata = opened.metadata().map_err(unreadable)?;
        // A file of root may be readable by its group, which is how container platforms mount secrets.
        let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
        if metadata.mode() & others != 0 {
            return Err(BearerError::OpenToOthers { path });
        }
        let mut text = String::new();
        opened.read_to_string(&mut text).map_err(unreadable)?;
        let mut digests = Vec::new();
        for (n, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < MIN_TOKEN_LEN || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(BearerError::TooShort { path, line: n + 1 });
            }
            digests.push((n + 1, mac(&key, line).finalize().into_bytes().to_vec()));
        }
        if digests.is_empty() {
            return Err(BearerError::Empty { path });
        }
        Ok(Self(Arc::new(RwLock::new(TokenSet { key, digests }))))
    }

    /// Accepts the tokens of `other` instead.
    pub fn replace(&self, other: &Self) {
        let other = other.set().clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = other;
    }

    fn set(&self) -> RwLockReadGuard<'_, TokenSet> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verifies the value of an `Authorization` header. Returns the line of its token in the file, or
    /// `None` if the token is not accepted.
    pub fn verify(&self, authorization: Option<&str>) -> Option<usize> {
        let (scheme, token) = authorization?.split_once(' ')?;
        // Only spaces may separate scheme and token.
        let token = token.trim_start_matches(' ');
        // Compare with every digest, so that the time does not reveal which one matches.
        let set = self.set();
        let line = set.digests.iter().fold(None, |matched, (line, digest)| {
            let same = mac(&set.key, token).verify_slice(digest).is_ok();
            matched.or(same.then_some(*line))
        });
        line.filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    }
}

impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BearerTokens({})", self.set().digests.len())
    }
}

fn mac(key: &[u8], token: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(token.as_bytes());
    mac
}

/// Returns the path of the local token in `directory`; creates the token from `random` if it does not
/// exist. The directory is created with mode 0700. Fails if the directory or the file belongs to another
/// user or other users can write to it.
pub fn local_token(directory: &Path, random: [u8; 32]) -> Result<PathBuf, BearerError> {
    let path = directory.join(LOCAL_TOKEN);
    let failed = |source| BearerError::Create { path: path.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    check_owner(directory)?;
    if !fs::exists(&path).map_err(failed)? {
        create(directory, &path, random).map_err(failed)?;
    }
    let metadata = fs::symlink_metadata(&path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(BearerError::NotOurs { path: path.display().to_string() });
    }
    check_owner(&path)?;
    Ok(path)
}

/// Fails if `path` belongs to another user or other users can write to it.
fn check_owner(path: &Path) -> Result<(), BearerError> {
    let display = || path.display().to_string();
    let metadata =
        fs::metadata(path).map_err(|source| BearerError::Unreadable { path: display(), source })?;
    if metadata.uid() != user_id() || metadata.mode() & 0o022 != 0 {
        return Err(BearerError::NotOurs { path: display() });
    }
    Ok(())
}

/// Writes a temporary file and links it to `path` when it is complete. If another process created
/// `path` first, its token stays.
fn create(directory: &Path, path: &Path, random: [u8; 32]) -> io::Result<()> {
    // A name per process; a name made from the secret would reveal part of it.
    let temporary = directory.join(format!("{LOCAL_TOKEN}.{}", std::process::id()));
    let mut file = match open_new(&temporary) {
        // A killed process with the same id left its file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&temporary)?;
            open_new(&temporary)?
        }
        opened => opened?,
    };
    let written = (|| {
        writeln!(file, "{}", URL_SAFE_NO_PAD.encode(random))?;
        file.sync_all()?;
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    fs::remove_file(&temporary)?;
    written
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const TOKEN: &str = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";

    fn read(text: &str, mode: u32) -> Result<BearerTokens, BearerError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        BearerTokens::read(&path, [3; 32])
    }

    #[test]
    fn a_file_of_tokens_is_its_owners_alone() {
        for mode in [0o604, 0o644, 0o660, 0o602, 0o601, 0o777] {
            let refused = read(TOKEN, mode);
            assert!(
                matches!(refused, Err(BearerError::OpenToOthers { .. })),
                "{mode:o}: {refused:?}"
            );
        }
        for mode in [0o600, 0o400] {
            assert!(read(TOKEN, mode).is_ok(), "{mode:o}");
        }
        let nowhere = BearerTokens::read(Path::new("/nowhere/tokens"), [0; 32]);
        assert!(matches!(nowhere, Err(BearerError::Unreadable { .. })));
    }

    /// Container platforms mount secrets as files of root with a group.
    #[test]
    fn g51_the_group_can_read_a_file_of_tokens_of_root_alone() {
        let is_root = user_id() == 0;
        for mode in [0o640, 0o440] {
            assert_eq!(read(TOKEN, mode).is_ok(), is_root, "{mode:o}");
        }
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
                matches!(refused, BearerError::TooShort { line: l, .. } if l == line),
                "{refused:?}"
            );
            assert!(!refused.to_string().contains(TOKEN), "{refused}");
        }
        for empty in ["", "\n\n", "# nothing\n"] {
            let refused = read(empty, 0o600);
            assert!(matches!(refused, Err(BearerError::Empty { .. })), "{refused:?}");
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

    #[test]
    fn a_token_is_created_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state/atlatl");
        let path = local_token(&state, [7; 32]).unwrap();
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let token = fs::read_to_string(&path).unwrap();
        assert_eq!(token.trim_end().len(), 43);
        assert_eq!(local_token(&state, [8; 32]).unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), token);
        let tokens = BearerTokens::read(&path, [1; 32]).unwrap();
        assert_eq!(tokens.verify(Some(&format!("Bearer {}", token.trim_end()))), Some(1));
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
    }

    #[test]
    fn many_processes_at_once_get_the_same_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCAL_TOKEN);
        // Not concurrently: two calls of one process would share the temporary name.
        create(dir.path(), &path, [1; 32]).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        create(dir.path(), &path, [2; 32]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
    }

    #[test]
    fn what_others_can_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("atlatl");
        let path = local_token(&state, [7; 32]).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for (place, changed, usual) in [(&state, 0o777, 0o700), (&path, 0o620, 0o600)] {
            mode(place, changed);
            let refused = local_token(&state, [7; 32]);
            assert!(matches!(refused, Err(BearerError::NotOurs { .. })), "{refused:?}");
            mode(place, usual);
        }
        // A link could lead to a file that another user chose.
        let other = dir.path().join("other");
        fs::rename(&path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let refused = local_token(&state, [7; 32]);
        assert!(matches!(refused, Err(BearerError::NotOurs { .. })), "{refused:?}");
    }
}
