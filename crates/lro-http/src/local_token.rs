//! Local token: what a server requires that has no `server.auth`, in a file of its user.
//!
//! Every user of a machine reaches its loopback addresses, so a listener on one needs a secret. It is
//! created once and shared by every server of the user.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::bearer::AuthError;
use crate::unix::user_id;

/// The name of the file with the token of a user.
pub const LOCAL_TOKEN: &str = "token";

/// The file with the token of this user in `directory`, made from `random` where there is none yet. The
/// directory is created with mode 0700. A directory or file of another user, or one that others can write
/// to, is refused.
pub fn local_token(directory: &Path, random: [u8; 32]) -> Result<PathBuf, AuthError> {
    let path = directory.join(LOCAL_TOKEN);
    let failed = |source| AuthError::Create { path: path.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    ours(directory)?;
    if !fs::exists(&path).map_err(failed)? {
        create(directory, &path, random).map_err(failed)?;
    }
    let found = fs::symlink_metadata(&path).map_err(failed)?;
    if !found.is_file() {
        return Err(AuthError::NotOurs { path: path.display().to_string() });
    }
    ours(&path)?;
    Ok(path)
}

/// Fails where `path` belongs to another user, or others can write to it.
fn ours(path: &Path) -> Result<(), AuthError> {
    let shown = || path.display().to_string();
    let found =
        fs::metadata(path).map_err(|source| AuthError::Unreadable { path: shown(), source })?;
    if found.uid() != user_id() || found.mode() & 0o022 != 0 {
        return Err(AuthError::NotOurs { path: shown() });
    }
    Ok(())
}

/// Writes the file under another name and gives it its own when it is complete, unless another process
/// was faster.
fn create(directory: &Path, path: &Path, random: [u8; 32]) -> io::Result<()> {
    // The name must be its process's own; part of the secret would be readable as a name.
    let part = directory.join(format!("{LOCAL_TOKEN}.{}", std::process::id()));
    let mut file = match open_new(&part) {
        // What a killed process of the same number left.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&part)?;
            open_new(&part)?
        }
        opened => opened?,
    };
    let written = (|| {
        writeln!(file, "{}", URL_SAFE_NO_PAD.encode(random))?;
        file.sync_all()?;
        match fs::hard_link(&part, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    fs::remove_file(&part)?;
    written
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::bearer::BearerTokens;

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
        // Two of one process would share a name, which two processes do not.
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
            assert!(matches!(refused, Err(AuthError::NotOurs { .. })), "{refused:?}");
            mode(place, usual);
        }
        // A link could lead to a file that another user chose.
        let other = dir.path().join("other");
        fs::rename(&path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let refused = local_token(&state, [7; 32]);
        assert!(matches!(refused, Err(AuthError::NotOurs { .. })), "{refused:?}");
    }
}
