//! A draft: a memory as Markdown in a file of its own, and the editor that a person changes it with.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    process::Command,
};

use mif::Memory;
use tempfile::NamedTempFile;

use crate::{error::Error, settings::Surroundings};

/// A file that only its owner may read; it is gone when this is dropped.
pub(super) struct Draft {
    file: NamedTempFile,
    /// As it was before the person began.
    text: String,
}

impl Draft {
    /// Writes the memory down and lets a person change it.
    pub(super) fn write(memory: &Memory, surroundings: &Surroundings) -> Result<Self, Error> {
        let editor = surroundings.editor.as_deref().ok_or_else(|| {
            Error::usage("no editor is known: neither VISUAL nor EDITOR is set")
                .with_hint("say what to change: --title, --content, --tag, --status …")
        })?;
        let unwritable = |error| Error::failure(format!("cannot write the text to edit: {error}"));
        let mut file = tempfile::Builder::new()
            .prefix("atlatl-")
            .suffix(".memory.md")
            .tempfile_in(&surroundings.temp_dir)
            .map_err(unwritable)?;
        let text = memory.to_markdown();
        file.write_all(text.as_bytes()).map_err(unwritable)?;
        file.flush().map_err(unwritable)?;
        let draft = Self { file, text };
        match run(editor, draft.file.path().as_os_str()) {
            Ok(()) => Ok(draft),
            Err(why) => Err(draft.kept(&why)),
        }
    }

    /// The memory that the text is now, or what is wrong with it.
    pub(super) fn read(&self) -> Result<Memory, String> {
        // By its name: many editors put a new file in the place of the old one.
        let text = fs::read_to_string(self.file.path()).map_err(|error| error.to_string())?;
        Memory::from_markdown(&text).map_err(|error| error.to_string())
    }

    /// Leaves the text where it is, and says where; unless nobody changed it.
    pub(super) fn kept(self, why: &str) -> Error {
        let Self { file, text } = self;
        if fs::read(file.path()).is_ok_and(|now| now == text.as_bytes()) {
            return Error::failure(why);
        }
        let path = file.path().display().to_string();
        match file.keep() {
            Ok(_) => Error::failure(format!("{why}; your text is in {path}"))
                .with_hint(format!("fix it, then: atlatl memory import --replace {path}")),
            Err(error) => Error::failure(format!("{why}; your text is lost: {error}")),
        }
    }
}

/// Runs the editor and waits for it. Never through a shell: words between white space are the
/// program and its arguments, whatever else stands in them.
fn run(editor: &OsStr, file: &OsStr) -> Result<(), String> {
    let mut words = editor
        .as_bytes()
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| OsString::from_vec(word.to_vec()));
    let program = words.next().unwrap_or_default();
    let name = program.display().to_string();
    let status = Command::new(program).args(words).arg(file).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("cannot run {name}: {error}")),
    }
}
