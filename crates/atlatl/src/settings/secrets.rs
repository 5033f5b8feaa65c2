//! Secrets from files: for a variable `NAME` that is a secret, `NAME_FILE` names a file with it.
//!
//! Other processes can read the environment of this one more easily than a file, and container platforms mount
//! secrets as files. Which variables have such a file is a closed list, since some names that end in `_FILE` mean
//! something else; besides them, the variables in headers of the proxy have one.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The variables with the key of the administration API. They are no configuration keys: `config show`
/// and files never have it.
pub(crate) const ADMIN_KEY: [&str; 2] = ["ATLATL_ADMIN_KEY", "ATLATL_ADMIN_KEY_FILE"];

/// The maximum length of a secret, in bytes. Keys of service accounts have some thousand.
const MAX_LEN: u64 = 64 << 10;

/// The variable that `file_name` replaces.
pub(crate) fn replaced_by(file_name: &str) -> &str {
    file_name.strip_suffix("_FILE").unwrap_or(file_name)
}

/// A secret of the environment.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum Secret {
    /// The variable's value.
    Text(String),
    /// The file with it, as an absolute path.
    File(PathBuf),
}

/// Finds a secret: `names` are the variable and the one that names a file. An empty variable is none.
pub(crate) fn find(
    names: [&str; 2],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Secret>, Error> {
    let [text, file] = names.map(|name| variable(name).filter(|value| !value.is_empty()));
    let [name, file_name] = names;
    match (text, file) {
        (Some(_), Some(_)) => Err(Error::usage(format!("{name} and {file_name} are both set"))
            .with_hint("remove one of them")),
        (Some(text), None) => Ok(Some(Secret::Text(text))),
        (None, Some(path)) => std::path::absolute(path)
            .map(|path| Some(Secret::File(path)))
            .map_err(|error| Error::failure(format!("{file_name}: {error}"))),
        (None, None) => Ok(None),
    }
}

/// Finds a secret and reads its file.
pub(crate) fn read(
    names: [&str; 2],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, Error> {
    let [_, file_name] = names;
    match find(names, variable)? {
        Some(Secret::Text(text)) => Ok(Some(text)),
        Some(Secret::File(path)) => read_file(file_name, &path).map(Some),
        None => Ok(None),
    }
}

/// Reads the file that the variable `name` names, without its last line end. Other users must not be able to read
/// it; as for passwords of PostgreSQL, a file of root may be readable by its group.
pub(crate) fn read_file(name: &str, path: &Path) -> Result<String, Error> {
    let at = path.display();
    let failed = |error: io::Error| {
        Error::failure(format!("{name}: cannot read {at}: {error}"))
            .with_hint("check the path and the owner of the file")
    };
    // Check the opened file, not the path: the path could change in between.
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & others != 0 {
        return Err(Error::failure(format!("{name}: {at} is accessible to other users"))
            .with_hint(format!("chmod 600 {at}")));
    }
    let mut text = String::new();
    file.take(MAX_LEN + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_LEN {
        return Err(Error::failure(format!("{name}: {at} is longer than 64 KiB")));
    }
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let len = line.map_or(text.len(), str::len);
    text.truncate(len);
    if text.is_empty() {
        return Err(
            Error::failure(format!("{name}: {at} is empty")).with_hint("write the secret to it")
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NAMES: [&str; 2] = ["KEY", "KEY_FILE"];

    fn only<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name: &str| {
            set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn g51_a_secret_comes_from_its_variable_or_its_file_and_not_from_both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "s3cret\r\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let file = path.to_str().unwrap();
        let text = |set: &[(&str, &str)]| read(NAMES, only(set));
        assert_eq!(text(&[("KEY", "inline")]).unwrap().as_deref(), Some("inline"));
        assert_eq!(text(&[("KEY_FILE", file)]).unwrap().as_deref(), Some("s3cret"));
        assert_eq!(text(&[("KEY", ""), ("KEY_FILE", file)]).unwrap().as_deref(), Some("s3cret"));
        assert_eq!(text(&[("KEY", ""), ("KEY_FILE", "")]).unwrap(), None);
        let both = text(&[("KEY", "inline"), ("KEY_FILE", file)]).unwrap_err().message();
        assert_eq!(both, "KEY and KEY_FILE are both set");
        let found = find(NAMES, only(&[("KEY_FILE", file)])).unwrap();
        assert_eq!(found, Some(Secret::File(path)));
    }

    #[test]
    fn g51_a_file_that_others_can_read_is_refused_and_its_contents_are_never_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let refused = |contents: &[u8], mode: u32| {
            fs::write(&path, contents).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let said = read_file("KEY_FILE", &path).unwrap_err().message();
            assert!(said.starts_with("KEY_FILE: ") && !said.contains("s3cret"), "{said}");
            said
        };
        for mode in [0o644, 0o604, 0o602] {
            assert!(refused(b"s3cret", mode).contains("accessible to other users"), "{mode:o}");
        }
        assert!(refused(b"\n", 0o600).ends_with("is empty"));
        assert!(refused(b"s3cret\xff", 0o600).contains("UTF-8"));
        let long = b"s3cret".repeat(1 << 14);
        assert!(refused(&long, 0o600).ends_with("longer than 64 KiB"));
        let missing = read_file("KEY_FILE", &dir.path().join("none")).unwrap_err().message();
        assert!(missing.contains("cannot read"), "{missing}");
    }
}
