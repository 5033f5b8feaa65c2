//! The file in which a host saves an output that it truncates.
//!
//! The path comes from the hook's input, which untrusted output can imitate: a server could print
//! "Saved to: ~/.`ssh/id_ed25519`". So only regular files of this user in the host's own directories are
//! read, without following links.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::Host;

/// The longest path that is read from a text, in bytes.
const MAX_PATH_LEN: usize = 4096;
/// The bytes at the end of an output that are compared with the end of the file.
const TAIL_LEN: usize = 256;

/// The path of a file with a whole output: untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpillPath {
    /// The path.
    pub(crate) path: PathBuf,
    /// The size that the host reports, in bytes or characters.
    pub(crate) len: Option<u64>,
    /// What the file contains.
    pub(crate) content: SpillContent,
}

/// The contents of a file with a whole output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpillContent {
    /// The output as it is.
    Output,
    /// The content blocks of an MCP result, as JSON.
    Blocks,
}

impl SpillPath {
    /// The path after `label` in a line, up to the next space.
    pub(super) fn in_line(line: &str, label: &str) -> Option<Self> {
        let rest = &line[line.find(label)? + label.len()..];
        let word = rest.split(char::is_whitespace).next()?.trim_end_matches(['.', ',', ')', '"']);
        let is_path = word.starts_with('/') && word.len() <= MAX_PATH_LEN;
        is_path.then(|| Self { path: word.into(), len: None, content: SpillContent::Output })
    }
}

/// A directory in which a host saves outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpillDir {
    dir: PathBuf,
    rule: NameRule,
}

/// Which files in a directory are saved outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameRule {
    /// Files at any depth, in a directory with this name.
    InDirNamed(&'static str),
    /// Files directly in the directory.
    Direct,
    /// Files directly in the directory with this text in their name. For directories that other
    /// programs and users share.
    DirectWith(&'static str),
}

/// The directories of the user that the directories of hosts are in.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserDirs {
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
    /// The directory for data of programs.
    pub(crate) data: Option<PathBuf>,
    /// The directory for temporary files.
    pub(crate) temp: PathBuf,
    /// The configuration directory of Claude Code, if it is not `~/.claude`.
    pub(crate) claude: Option<PathBuf>,
}

impl Host {
    /// The directories in which this host saves outputs.
    pub(crate) fn spill_dirs(self, user: &UserDirs) -> Vec<SpillDir> {
        let dir = |dir: Option<PathBuf>, rule| dir.map(|dir| SpillDir { dir, rule });
        let home = |path: &str| user.home.as_ref().map(|home| home.join(path));
        let dirs = match self {
            Self::ClaudeCode => {
                let config = user.claude.clone().or_else(|| home(".claude"));
                let projects = config.map(|dir| dir.join("projects"));
                vec![dir(projects, NameRule::InDirNamed("tool-results"))]
            }
            Self::Copilot => vec![
                dir(Some(user.temp.clone()), NameRule::DirectWith("copilot-tool-output-")),
                dir(home(".copilot"), NameRule::InDirNamed("tool-output")),
            ],
            Self::Opencode => {
                let data = user.data.as_ref().map(|dir| dir.join("opencode/tool-output"));
                vec![dir(data, NameRule::Direct)]
            }
            Self::Codex | Self::Gemini => Vec::new(),
        };
        dirs.into_iter().flatten().collect()
    }
}

impl SpillDir {
    /// Whether a file is a saved output in this directory. `parent` has no symbolic links.
    fn contains(&self, parent: &Path, name: &str) -> bool {
        let Ok(dir) = fs::canonicalize(&self.dir) else { return false };
        match self.rule {
            NameRule::InDirNamed(last) => parent.starts_with(dir) && parent.ends_with(last),
            NameRule::Direct => parent == dir,
            NameRule::DirectWith(text) => parent == dir && name.contains(text),
        }
    }
}

/// Opens a saved output. `None` if it is not a regular file of the user `uid` with one hard link, in one
/// of `dirs`.
pub(crate) fn open(spill: &SpillPath, dirs: &[SpillDir], uid: u32) -> Option<File> {
    let name = spill.path.file_name()?;
    // Links among the parents are resolved, and then compared; a link in place of the file is refused.
    let parent = fs::canonicalize(spill.path.parent()?).ok()?;
    dirs.iter().find(|dir| dir.contains(&parent, &name.to_string_lossy()))?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(parent.join(name)).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.uid() == uid && metadata.nlink() == 1).then_some(file)
}

/// Whether the file has the whole output already. A host may still be writing it while its hook runs.
/// `shown` is a truncated output that has the end of the whole one.
pub(crate) fn is_complete(file: &mut File, spill: &SpillPath, shown: Option<&str>) -> bool {
    let Ok(len) = file.metadata().map(|metadata| metadata.len()) else { return false };
    // Characters are at least as long as a byte, so a file is never shorter than this.
    if spill.len.is_some_and(|expected| len < expected) {
        return false;
    }
    let tail = shown.and_then(|shown| shown_tail(shown, &spill.path));
    let Some(tail) = tail else { return true };
    let mut end = Vec::new();
    // White space at the end may differ.
    let from = len.saturating_sub(2 * TAIL_LEN as u64);
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut end));
    let rewound = file.rewind();
    read.is_ok() && rewound.is_ok() && end.trim_ascii_end().ends_with(tail.as_bytes())
}

/// The end of the output in a text that has the path of its file first. `None` if the text has the
/// beginning of the output instead.
fn shown_tail<'a>(shown: &'a str, path: &Path) -> Option<&'a str> {
    let path = path.to_str()?;
    let after = &shown[shown.find(path)? + path.len()..];
    let markers = ["<bash_metadata>", "<shell_metadata>"];
    let end = markers.iter().filter_map(|marker| after.rfind(marker)).min();
    let tail = after[..end.unwrap_or(after.len())].trim_ascii_end();
    if tail.len() < TAIL_LEN {
        return None;
    }
    let mut from = tail.len() - TAIL_LEN;
    while !tail.is_char_boundary(from) {
        from += 1;
    }
    Some(&tail[from..])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn spill(path: impl Into<PathBuf>) -> SpillPath {
        SpillPath { path: path.into(), len: None, content: SpillContent::Output }
    }

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn paths_end_with_the_word_and_are_absolute() {
        let path = |text: &str| SpillPath::in_line(text, "Saved to: ").map(|spill| spill.path);
        assert_eq!(path("x Saved to: /tmp/a.txt\nmore"), Some("/tmp/a.txt".into()));
        assert_eq!(path("Saved to: /tmp/a.txt."), Some("/tmp/a.txt".into()));
        for text in ["", "Saved to: ", "Saved to: a.txt", "Saved to: \n/x", "saved to: /x"] {
            assert_eq!(path(text), None, "{text}");
        }
        assert_eq!(path(&format!("Saved to: /{}", "a".repeat(MAX_PATH_LEN))), None);
    }

    #[test]
    fn only_regular_files_of_the_user_in_the_hosts_directories_are_opened() {
        let home = tempfile::tempdir().unwrap();
        let results = home.path().join(".claude/projects/p/s/tool-results");
        fs::create_dir_all(&results).unwrap();
        let secret = home.path().join("secret");
        fs::write(&secret, "key").unwrap();
        fs::write(results.join("a.txt"), "output").unwrap();
        fs::write(results.join("../../notes.txt"), "mine").unwrap();
        symlink(&secret, results.join("link.txt")).unwrap();
        symlink(home.path(), results.join("dir")).unwrap();
        fs::hard_link(&secret, results.join("hard.txt")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            results.join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let user = UserDirs { home: Some(home.path().into()), ..UserDirs::default() };
        let dirs = Host::ClaudeCode.spill_dirs(&user);
        let opens = |path: PathBuf| open(&spill(path), &dirs, uid()).is_some();
        assert!(opens(results.join("a.txt")));
        assert!(opens(results.join("../tool-results/a.txt")));
        for path in
            ["link.txt", "hard.txt", "fifo", "dir/secret", "missing", "..", "../../notes.txt"]
        {
            assert!(!opens(results.join(path)), "{path}");
        }
        assert!(!opens(secret.clone()) && !opens("/etc/passwd".into()) && !opens("/".into()));
        assert!(open(&spill(results.join("a.txt")), &dirs, uid() + 1).is_none());
    }

    #[test]
    fn a_shared_directory_needs_the_hosts_name_in_the_files() {
        let temp = tempfile::tempdir().unwrap();
        let user = UserDirs { temp: temp.path().into(), ..UserDirs::default() };
        let dirs = Host::Copilot.spill_dirs(&user);
        for (name, expected) in [("17-copilot-tool-output-x.txt", true), ("other.txt", false)] {
            fs::write(temp.path().join(name), "x").unwrap();
            assert_eq!(open(&spill(temp.path().join(name)), &dirs, uid()).is_some(), expected);
        }
        let below = temp.path().join("sub");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("copilot-tool-output-x"), "x").unwrap();
        assert!(open(&spill(below.join("copilot-tool-output-x")), &dirs, uid()).is_none());
        assert!(Host::Codex.spill_dirs(&user).is_empty());
    }

    #[test]
    fn a_file_is_complete_when_it_ends_as_the_shown_output_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tool_1");
        let lines: Vec<String> = (0..9000).map(|line| line.to_string()).collect();
        let whole = lines.join("\n");
        let text =
            format!("...\n\nFull output saved to: {}\n\n{}", path.display(), &whole[40_000..]);
        let check = |content: &str, len| {
            fs::write(&path, content).unwrap();
            let mut file = File::open(&path).unwrap();
            is_complete(&mut file, &SpillPath { len, ..spill(&path) }, Some(&text))
        };
        assert!(check(&format!("{whole}\n"), None));
        assert!(check(&whole, Some(whole.len() as u64)));
        assert!(!check(&whole[..16_384], None));
        assert!(!check(&whole, Some(whole.len() as u64 + 1)));
        // Text with the beginning of the output says nothing about its end.
        let text = format!("0\n1\n\nsaved to: {}\nUse grep", path.display());
        fs::write(&path, "0\n1\n2").unwrap();
        assert!(is_complete(&mut File::open(&path).unwrap(), &spill(&path), Some(&text)));
    }
}
