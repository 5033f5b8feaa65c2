//! Where the password of a connection comes from, and files that only their owner may read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::blocking;
use crate::store::{ConnectError, StoreError};

/// How long a command may take to print a password.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of a password or a key, in bytes. The tokens of cloud providers have some
/// thousand.
const MAX_SECRET_LEN: u64 = 64 << 10;

/// The source of the password for a URL that has none.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PasswordSource {
    /// There is no password.
    #[default]
    None,
    /// This one.
    Text(String),
    /// The contents of a file without its last line end. It is read for each connection, so that a
    /// password can be replaced while the program runs.
    File(PathBuf),
    /// What a program with these arguments prints, without the last line end. It is run for each
    /// connection, not by a shell.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl fmt::Debug for PasswordSource {
    /// Omits the password, and the arguments of a command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "None"),
            Self::Text(_) => write!(f, "Text"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Command { program, .. } => write!(f, "Command({program})"),
        }
    }
}

impl PasswordSource {
    /// Returns whether the password may be another one the next time.
    pub(super) fn is_dynamic(&self) -> bool {
        matches!(self, Self::File(_) | Self::Command { .. })
    }

    /// Reads the password for a connection to `place`.
    pub(super) async fn read(&self, place: &str) -> Result<Option<String>, StoreError> {
        match self {
            Self::None => Ok(None),
            Self::Text(password) => Ok(Some(password.clone())),
            Self::File(path) => {
                let file = path.clone();
                let read = blocking::run(move || read_private("password file", &file)).await;
                let bytes = read
                    .map_err(|error| StoreError::Engine(error.into()))?
                    .map_err(|error| StoreError::Connect(error.at(place)))?;
                let name = format!("password file {}", path.display());
                // A file that is being rewritten may be empty for a moment.
                let password = to_password(bytes, &name, "write the password to it");
                password.map(Some).map_err(|error| StoreError::Unavailable(error.at(place).into()))
            }
            Self::Command { program, arguments } => {
                let running = timeout(COMMAND_TIMEOUT, run(program, arguments)).await;
                let name = format!("password command {program}");
                let hint = "run it yourself: it must print the password and exit with status 0";
                let failed = |why: String| {
                    let error = CredentialError::new(format!("{name}: {why}"), hint);
                    StoreError::Unavailable(error.at(place).into())
                };
                match running {
                    Err(_) => Err(failed(format!("no password in {COMMAND_TIMEOUT:?}"))),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                        let why = format!("{name}: there is no such program");
                        let error = CredentialError::new(why, "check memory.password_command");
                        Err(StoreError::Connect(error.at(place)))
                    }
                    Ok(Err(error)) => Err(failed(error.to_string())),
                    Ok(Ok(bytes)) => {
                        let password = to_password(bytes, &name, hint);
                        password
                            .map(Some)
                            .map_err(|error| StoreError::Unavailable(error.at(place).into()))
                    }
                }
            }
        }
    }
}

/// Runs a program and returns its output. Its error output is that of this process.
async fn run(program: &str, arguments: &[String]) -> io::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // At a timeout.
        .kill_on_drop(true)
        .spawn()?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_SECRET_LEN + 1).read_to_end(&mut output).await?;
    }
    if output.len() as u64 > MAX_SECRET_LEN {
        // It is refused for its length, and dropping the child kills it.
        return Ok(output);
    }
    let status = child.wait().await?;
    if !status.success() {
        return Err(io::Error::other(status.to_string()));
    }
    Ok(output)
}

/// Returns the password in `bytes`, without the last line end.
fn to_password(bytes: Vec<u8>, name: &str, hint: &'static str) -> Result<String, CredentialError> {
    let wrong = |why: &str| CredentialError::new(format!("{name}: {why}"), hint);
    if bytes.len() as u64 > MAX_SECRET_LEN {
        return Err(wrong("longer than 64 KiB"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))?;
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    text.truncate(line.map_or(text.len(), str::len));
    if text.is_empty() { Err(wrong("empty")) } else { Ok(text) }
}

/// Why a credential cannot be used, and what helps.
#[derive(Debug)]
pub(super) struct CredentialError {
    why: String,
    hint: String,
}

impl CredentialError {
    pub(super) fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: hint.into() }
    }

    /// Adds the database that it is for.
    pub(super) fn at(self, place: &str) -> ConnectError {
        ConnectError { place: place.to_owned(), why: self.why, hint: self.hint }
    }
}

/// Reads a file that other users cannot read. As for libpq, a file of root may be readable by its
/// group, which is how container platforms mount secrets.
pub(super) fn read_private(name: &'static str, path: &Path) -> Result<Vec<u8>, CredentialError> {
    let failed = |error: io::Error| unreadable(name, path, &error);
    // Check the opened file, not the path: the path could change in between.
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & others != 0 {
        let path = path.display();
        let why = format!("{name} {path} is accessible to other users");
        return Err(CredentialError::new(why, format!("chmod 600 {path}")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SECRET_LEN + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The error of a file that cannot be read.
pub(super) fn unreadable(name: &str, path: &Path, error: &io::Error) -> CredentialError {
    let why = format!("cannot read {name} {}: {error}", path.display());
    CredentialError::new(why, format!("check the path and the owner of the {name}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn command(line: &str) -> PasswordSource {
        let arguments = vec!["-c".to_owned(), line.to_owned()];
        PasswordSource::Command { program: "sh".to_owned(), arguments }
    }

    async fn refusal(source: &PasswordSource) -> (StoreError, String) {
        let refused = source.read("db").await.unwrap_err();
        let text = format!("{refused:?}");
        (refused, text)
    }

    #[tokio::test]
    async fn g40_a_password_comes_from_a_file_or_a_program_without_its_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let file = PasswordSource::File(path.clone());
        for (text, password) in [("a b", "a b"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n")] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert_eq!(file.read("db").await.unwrap().as_deref(), Some(password));
            let printed = command(&format!("printf '{}'", text.escape_default()));
            assert_eq!(printed.read("db").await.unwrap().as_deref(), Some(password));
        }
        assert_eq!(PasswordSource::None.read("db").await.unwrap(), None);
        let text = PasswordSource::Text("s3cret".to_owned());
        assert_eq!(text.read("db").await.unwrap().as_deref(), Some("s3cret"));
        assert!(!format!("{text:?} {:?}", command("echo s3cret")).contains("s3cret"));
    }

    #[tokio::test]
    async fn g40_an_unusable_password_source_says_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let file = PasswordSource::File(path.clone());
        let (missing, text) = refusal(&file).await;
        assert!(
            matches!(missing, StoreError::Connect(_)) && text.contains("cannot read"),
            "{text}"
        );
        fs::write(&path, "s3cret\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let (open, text) = refusal(&file).await;
        assert!(matches!(open, StoreError::Connect(_)) && text.contains("chmod 600"), "{text}");
        fs::write(&path, "\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let (empty, text) = refusal(&file).await;
        assert!(matches!(empty, StoreError::Unavailable(_)) && text.contains("empty"), "{text}");
        let endless = "while :; do echo 0123456789abcdef; done";
        for (line, why) in [
            ("echo s3cret; exit 3", "exit status: 3"),
            ("exit 0", "empty"),
            (endless, "longer than 64 KiB"),
        ] {
            let (failed, text) = refusal(&command(line)).await;
            assert!(matches!(failed, StoreError::Unavailable(_)), "{text}");
            assert!(text.contains(why) && !text.contains("s3cret"), "{text}");
        }
        let program = "/no/such/program".to_owned();
        let source = PasswordSource::Command { program, arguments: Vec::new() };
        let (missing, _) = refusal(&source).await;
        assert!(matches!(missing, StoreError::Connect(_)), "{missing:?}");
    }
}
