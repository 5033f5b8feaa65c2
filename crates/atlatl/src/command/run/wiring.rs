//! Where the output of the command goes: into pipes, or into a pseudo-terminal.
//!
//! A program may behave differently if its output is a terminal, so the command has a terminal exactly if
//! this process has one.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::process::{Command, Stdio};

use lro_spool::{OutputLog, OutputStream};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    OptionalActions, OutputModes, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use super::sink::Sinks;

/// The size that is requested for pipes: the most that the system grants to every user.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

/// Where the output of the command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wiring {
    /// Into a pseudo-terminal, because standard output is a terminal. Standard error goes there too if
    /// it is the same terminal.
    Terminal { with_stderr: bool },
    /// Into one pipe, because both streams of this process are the same file: the command then has one
    /// file as well, and the order of what it writes is exact.
    Merged,
    /// Into one pipe per stream. A stream without a reader, or that is a terminal, is not read.
    Separate { stdout: bool, stderr: bool },
}

/// When the output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// While the command runs.
    Live,
    /// When the command has ended.
    AtEnd,
}

/// The readable end of the output of the command.
pub(super) struct Source {
    pub(super) stream: OutputStream,
    pub(super) file: File,
}

impl Wiring {
    /// Chooses by the streams of this process. `None` if there is nothing to read.
    pub(super) fn choose() -> Option<Self> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let same = is_same_file(stdout.as_fd(), stderr.as_fd());
        if stdout.is_terminal() {
            return Some(Self::Terminal { with_stderr: same && stderr.is_terminal() });
        }
        let null = open_null();
        // The null device has no reader.
        let is_read =
            |stream: &dyn AsFd| null.as_ref().is_none_or(|null| !is_same_file(stream, null));
        match (is_read(&stdout), is_read(&stderr) && !stderr.is_terminal()) {
            (false, false) => None,
            (true, true) if same => Some(Self::Merged),
            (stdout, stderr) => Some(Self::Separate { stdout, stderr }),
        }
    }

    /// When the output is shown.
    pub(super) fn shown(self) -> Shown {
        match self {
            Self::Terminal { .. } => Shown::Live,
            Self::Merged | Self::Separate { .. } => Shown::AtEnd,
        }
    }

    /// The stream that the descriptor of `log` is printed to: one with a reader who expects output.
    pub(super) fn descriptor_stream(self, log: &OutputLog, sinks: &Sinks) -> OutputStream {
        let has_output = |stream| log.stream_len(stream) > 0;
        let is_usable = has_output(OutputStream::Stdout) && !sinks.is_closed(OutputStream::Stdout);
        match self {
            Self::Separate { stdout: false, .. } => OutputStream::Stderr,
            _ if !is_usable && has_output(OutputStream::Stderr) => OutputStream::Stderr,
            _ => OutputStream::Stdout,
        }
    }

    /// Connects the output of `command`, and returns the readable ends.
    pub(super) fn connect(self, command: &mut Command) -> io::Result<Vec<Source>> {
        match self {
            Self::Terminal { with_stderr } => {
                let (file, terminal) = open_terminal()?;
                if with_stderr {
                    command.stderr(Stdio::from(terminal.try_clone()?));
                }
                command.stdout(Stdio::from(terminal));
                Ok(vec![Source::new(OutputStream::Stdout, file)?])
            }
            Self::Merged => {
                let (read, write) = pipe()?;
                command.stderr(Stdio::from(write.try_clone()?)).stdout(Stdio::from(write));
                Ok(vec![Source::new(OutputStream::Stdout, read)?])
            }
            Self::Separate { stdout, stderr } => {
                let mut sources = Vec::new();
                if stdout {
                    let (read, write) = pipe()?;
                    command.stdout(Stdio::from(write));
                    sources.push(Source::new(OutputStream::Stdout, read)?);
                }
                if stderr {
                    let (read, write) = pipe()?;
                    command.stderr(Stdio::from(write));
                    sources.push(Source::new(OutputStream::Stderr, read)?);
                }
                Ok(sources)
            }
        }
    }
}

impl Source {
    /// A source that does not wait for output.
    fn new(stream: OutputStream, file: impl Into<OwnedFd>) -> io::Result<Self> {
        let file = File::from(file.into());
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
        Ok(Self { stream, file })
    }

    /// The file for another program, which waits for output.
    pub(super) fn into_blocking(self) -> io::Result<File> {
        fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::NONBLOCK)?;
        Ok(self.file)
    }

    /// Gives a pseudo-terminal the size of the terminal. Pipes have none.
    pub(super) fn update_size(&self) {
        if let Ok(size) = tcgetwinsize(io::stdout()) {
            let _ = tcsetwinsize(&self.file, size);
        }
    }
}

/// A pipe that is large, if the system permits: fewer switches between the command and its reader.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    let (read, write) = (OwnedFd::from(read), OwnedFd::from(write));
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE_BYTES);
    Ok((read, write))
}

/// Opens a pseudo-terminal like the terminal of standard output: our end and the command's.
fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    // Not a flag of the call, which macOS does not have. Nothing is started in between.
    fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let name = name.to_str().map_err(io::Error::other)?;
    // Not as the controlling terminal of this process, which may have none.
    let flags = i32::try_from(OFlags::NOCTTY.bits()).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true), flags);
    let theirs = options.open(name)?;
    let mut modes = tcgetattr(io::stdout())?;
    // The terminal itself converts line ends. Doing it twice would change what is stored.
    modes.output_modes -= OutputModes::OPOST;
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    if let Ok(size) = tcgetwinsize(io::stdout()) {
        tcsetwinsize(&theirs, size)?;
    }
    Ok((ours, theirs.into()))
}

/// Whether two descriptors are of the same file, and write to the same place in it.
fn is_same_file(one: impl AsFd, other: impl AsFd) -> bool {
    let (Ok(a), Ok(b)) = (fstat(&one), fstat(&other)) else { return false };
    if (a.st_dev, a.st_ino, a.st_rdev) != (b.st_dev, b.st_ino, b.st_rdev) {
        return false;
    }
    if FileType::from_raw_mode(a.st_mode) != FileType::RegularFile {
        return true;
    }
    // Two descriptors that were opened separately (`>f 2>f`) overwrite each other, unless they append.
    let position = |file: &dyn AsFd| rustix::fs::tell(file.as_fd()).ok();
    let appends =
        |file: &dyn AsFd| fcntl_getfl(file.as_fd()).is_ok_and(|f| f.contains(OFlags::APPEND));
    appends(&one) == appends(&other) && position(&one) == position(&other)
}

/// The null device, if it is one.
fn open_null() -> Option<File> {
    let null = File::options().write(true).open("/dev/null").ok()?;
    null.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device()).then_some(null)
}
