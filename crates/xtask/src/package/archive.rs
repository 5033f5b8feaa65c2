//! The archive: the program with its manual pages, completions and licences.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Result;
use flate2::{Compression, GzBuilder};

use super::copy_from;
use super::release::{LICENSE_FILES, Release};
use crate::repository::Repository;

/// The shells, with the file that each looks for.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "atlatl.bash"), ("zsh", "_atlatl"), ("fish", "atlatl.fish")];

/// Makes `atlatl-VERSION-PLATFORM.tar.gz`, all of it below one directory.
pub(super) fn make(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    let name = release.file_stem();
    fs::copy(&release.program, stage.join("atlatl"))?;
    for file in LICENSE_FILES.into_iter().chain(["README.md", "CHANGELOG.md"]) {
        copy_from(repository, file, stage)?;
    }
    let man = stage.join("man");
    release.atlatl.stdout(&["man", &man.display().to_string()])?;
    let completions = stage.join("completions");
    fs::create_dir(&completions)?;
    for (shell, file) in COMPLETIONS {
        fs::write(completions.join(file), release.atlatl.stdout(&["completions", shell])?)?;
    }
    write(stage, &name, &out.join(format!("{name}.tar.gz")))
}

/// Writes a directory as an archive whose bytes depend on the files alone: no owner, no time, and
/// names in order.
fn write(dir: &Path, name: &str, file: &Path) -> Result<()> {
    // A time in the header of gzip would be another one at every build.
    let gzip = GzBuilder::new().mtime(0).write(File::create(file)?, Compression::best());
    let mut archive = tar::Builder::new(gzip);
    archive.mode(tar::HeaderMode::Deterministic);
    append(&mut archive, dir, Path::new(name))?;
    archive.into_inner()?.finish()?;
    Ok(())
}

fn append<W: std::io::Write>(archive: &mut tar::Builder<W>, dir: &Path, name: &Path) -> Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = name.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            append(archive, &entry.path(), &name)?;
        } else {
            archive.append_path_with_name(entry.path(), name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive_and_stay_programs() {
        let dir = tempfile::tempdir().unwrap();
        let stage = dir.path().join("stage");
        fs::create_dir_all(stage.join("man")).unwrap();
        fs::write(stage.join("man/atlatl.1"), "page").unwrap();
        fs::write(stage.join("atlatl"), "program").unwrap();
        let program = File::open(stage.join("atlatl")).unwrap();
        program.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
        let made = |file: &str| {
            write(&stage, "atlatl-1", &dir.path().join(file)).unwrap();
            fs::read(dir.path().join(file)).unwrap()
        };
        let one = made("one.tar.gz");
        program.set_modified(SystemTime::now() - Duration::from_secs(1000)).unwrap();
        assert_eq!(one, made("two.tar.gz"));

        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(one.as_slice()));
        let entries: Vec<(String, u32, u64)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.uid().unwrap())
            })
            .collect();
        let expected = [("atlatl-1/atlatl", 0o755, 0), ("atlatl-1/man/atlatl.1", 0o644, 0)];
        assert_eq!(entries, expected.map(|(path, mode, uid)| (path.to_owned(), mode, uid)));
    }
}
