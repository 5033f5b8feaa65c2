//! Resource limits and sandboxing that the worker applies to itself before reading input.

use std::ffi::OsString;
use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::protocol::MAX_SOURCES;
use crate::engine::THREAD_STACK_LEN;

/// The resource limits of a worker, passed as arguments so that they apply before the job is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkerLimits {
    /// Memory for the engine in bytes.
    pub(super) memory: u64,
    /// Processor time, in case the parent's deadline fails.
    pub(super) cpu_seconds: u64,
    pub(super) threads: usize,
}

const MIB: u64 = 1 << 20;

/// Memory for the program, its libraries and the chunks in progress, in bytes.
const PROGRAM_MEMORY: u64 = 128 * MIB;

/// The address space that the allocator reserves per thread, in bytes. Most of it is never used.
const ALLOCATOR_ARENA_LEN: u64 = 64 * MIB;

/// The maximum number of open files: standard input, output and error, a copy of each, and the
/// sources.
const MAX_OPEN_FILES: u64 = 3 + 3 + MAX_SOURCES as u64;

impl WorkerLimits {
    /// The command line arguments of the worker.
    pub(super) fn arguments(self) -> [String; 3] {
        [self.memory.to_string(), self.cpu_seconds.to_string(), self.threads.to_string()]
    }

    pub(super) fn parse(arguments: &[OsString]) -> Option<Self> {
        let number = |i: usize| arguments.get(i)?.to_str()?.parse::<u64>().ok();
        let threads = usize::try_from(number(2)?).ok()?;
        Some(Self { memory: number(0)?, cpu_seconds: number(1)?, threads })
    }

    /// Applies all limits that are possible before threads are started.
    pub(super) fn apply(self) -> io::Result<()> {
        // Without Landlock, the other limits still apply, and no engine can open a file.
        let _ = block_files()?;
        let threads = self.threads as u64;
        let overhead = PROGRAM_MEMORY + threads * (THREAD_STACK_LEN as u64 + ALLOCATOR_ARENA_LEN);
        let resources = [
            (Resource::As, self.memory.saturating_add(overhead)),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Nofile, MAX_OPEN_FILES),
            (Resource::Fsize, 0),
            (Resource::Core, 0),
        ];
        for (resource, limit) in resources {
            lower(resource, limit)?;
        }
        Ok(())
    }

    /// Forbids new processes and threads, and all system calls that computing does not need. For
    /// root, only the system call filter is effective.
    pub(super) fn seal() -> io::Result<()> {
        lower(Resource::Nproc, 0)?;
        // If the kernel cannot filter, the other limits still apply.
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = super::system_calls::restrict()?;
        Ok(())
    }
}

/// Lowers the soft and the hard limit, so that nothing can raise it again. Never exceeds the inherited
/// limit.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let inherited = rustix::process::getrlimit(resource).maximum;
    let to = Some(inherited.map_or(to, |maximum| maximum.min(to)));
    Ok(setrlimit(resource, Rlimit { current: to, maximum: to })?)
}

/// Whether the kernel blocks access to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileAccess {
    Blocked,
    Unrestricted,
}

/// Whether the kernel has Landlock and so can block the access of workers to files. Without it, all
/// other limits apply, and no engine can open a file. This check restricts nothing.
#[cfg(target_os = "linux")]
pub fn landlock_available() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};

    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create)
        .is_ok()
}

/// Whether the kernel can block the access of workers to files: only Linux can.
#[cfg(not(target_os = "linux"))]
pub fn landlock_available() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn block_files() -> io::Result<FileAccess> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetStatus, Scope,
    };
    use rustix::process::{Signal, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_no_new_privs(true)?;
    // As much as the kernel supports: no files, no connections, no signals to other processes. A
    // ruleset without rules allows nothing.
    let newest = ABI::V6;
    let applied = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(newest)))
        .and_then(|rules| rules.scope(Scope::from_all(newest)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    match applied.map_err(io::Error::other)?.ruleset {
        RulesetStatus::NotEnforced => Ok(FileAccess::Unrestricted),
        _ => Ok(FileAccess::Blocked),
    }
}

#[cfg(not(target_os = "linux"))]
fn block_files() -> io::Result<FileAccess> {
    Ok(FileAccess::Unrestricted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f39_no_file_can_be_opened_where_the_kernel_has_landlock() {
        // Landlock restricts a thread and its children, so this runs in a thread of its own.
        let path = std::env::temp_dir().join(format!("atlatl-bounds-{}", std::process::id()));
        let tried = std::thread::spawn(move || {
            let files = block_files().unwrap();
            (files, std::fs::File::open("/proc/self/environ"), std::fs::write(path, "x"))
        });
        let (files, read, written) = tried.join().unwrap();
        assert_eq!(
            files == FileAccess::Blocked,
            landlock_available(),
            "the check agrees with the effect"
        );
        if files == FileAccess::Blocked {
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn bounds_survive_being_arguments() {
        let limits = WorkerLimits { memory: 1 << 30, cpu_seconds: 7, threads: 2 };
        let arguments: Vec<OsString> = limits.arguments().map(OsString::from).into();
        assert_eq!(WorkerLimits::parse(&arguments), Some(limits));
        assert_eq!(WorkerLimits::parse(&arguments[..2]), None);
        assert_eq!(WorkerLimits::parse(&["x".into(), "1".into(), "1".into()]), None);
    }
}
