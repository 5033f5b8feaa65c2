//! A client's secret, from a file that only its owner can read. Not from the command line, which
//! everyone on the machine sees, and not from a variable, which every child inherits.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

use atlatl_login::Secret;

use crate::error::Error;

/// A secret is no longer.
const LARGEST: u64 = 4096;

/// Reads it, without the line end.
pub(super) fn read(path: &Path) -> Result<Secret, Error> {
    let failed = |error| Error::failure(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        let open = format!("{} is open to other users", path.display());
        return Err(Error::failure(open).with_hint(format!("chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(failed)?;
    match text.trim() {
        "" => Err(Error::failure(format!("{} is empty", path.display()))),
        secret => Ok(Secret::new(secret)),
    }
}
