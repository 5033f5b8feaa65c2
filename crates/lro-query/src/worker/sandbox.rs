//! Resource limits and sandboxing that the worker applies to itself before reading input.

use std::ffi::OsString;
use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::protocol::AT_MOST;

/// The bounds of one worker; they come as arguments, so that they hold before the order is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Bytes for the engine.
    pub(super) memory: u64,
    /// Seconds of processor time: a second net under the parent's clock.
    pub(super) cpu_seconds: u64,
    pub(super) threads: usize,
}

const MIB: u64 = 1 << 20;

/// The program itself, its libraries, and the chunks under way.
const PROGRAM: u64 = 128 * MIB;

/// The stack of a thread. Filters recurse in it.
pub(super) const STACK: usize = 32 << 20;

/// What the allocator sets apart for a thread, most of which is never used.
const ARENA: u64 = 64 * MIB;

/// Standard input, output and error, a copy of each, and the sources.
const FILES: u64 = 3 + 3 + AT_MOST as u64;

impl Bounds {
    pub(super) fn arguments(self) -> [String; 3] {
        [self.memory.to_string(), self.cpu_seconds.to_string(), self.threads.to_string()]
    }

    pub(super) fn parse(arguments: &[OsString]) -> Option<Self> {
        let number = |i: usize| arguments.get(i)?.to_str()?.parse::<u64>().ok();
        let threads = usize::try_from(number(2)?).ok()?;
        Some(Self { memory: number(0)?, cpu_seconds: number(1)?, threads })
    }

    /// Takes everything away that can be before threads are started.
    pub(super) fn impose(self) -> io::Result<()> {
        // Without it the other bounds still hold, and no engine has a function that opens a file.
        let _ = protect()?;
        let threads = self.threads as u64;
        let room = PROGRAM + threads * (STACK as u64 + ARENA);
        let limits = [
            (Resource::As, self.memory.saturating_add(room)),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Nofile, FILES),
            (Resource::Fsize, 0),
            (Resource::Core, 0),
        ];
        for (resource, limit) in limits {
            lower(resource, limit)?;
        }
        Ok(())
    }

    /// No process and no thread beyond those there are, and no system call that computing does not
    /// need. Root is bound by the second only.
    pub(super) fn seal() -> io::Result<()> {
        lower(Resource::Nproc, 0)?;
        // Where the kernel cannot filter, the other limits hold.
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = super::system_calls::restrict()?;
        Ok(())
    }
}

/// Both limits, so that nothing can raise it again; never above what was inherited.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let inherited = rustix::process::getrlimit(resource).maximum;
    let to = Some(inherited.map_or(to, |maximum| maximum.min(to)));
    Ok(setrlimit(resource, Rlimit { current: to, maximum: to })?)
}

/// Whether the system keeps files from the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Closed,
    Open,
}

/// Whether this system can keep files from workers: it has Landlock. Where it has not, they are
/// bounded in all else, and no engine has a function that opens a file. Asking binds nobody.
#[cfg(target_os = "linux")]
pub fn files_can_be_closed() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};

    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create)
        .is_ok()
}

/// Whether this system can keep files from workers: as far as we know, only Linux can.
#[cfg(not(target_os = "linux"))]
pub fn files_can_be_closed() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn protect() -> io::Result<Files> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetStatus, Scope,
    };
    use rustix::process::{Signal, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_no_new_privs(true)?;
    // As much of it as the kernel has: no file, no connection, no signal to others. A ruleset
    // without rules allows nothing.
    let newest = ABI::V6;
    let imposed = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(newest)))
        .and_then(|rules| rules.scope(Scope::from_all(newest)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    match imposed.map_err(io::Error::other)?.ruleset {
        RulesetStatus::NotEnforced => Ok(Files::Open),
        _ => Ok(Files::Closed),
    }
}

#[cfg(not(target_os = "linux"))]
fn protect() -> io::Result<Files> {
    Ok(Files::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f39_no_file_can_be_opened_where_the_kernel_has_landlock() {
        // It binds a thread and those it starts: this one is not needed any more.
        let path = std::env::temp_dir().join(format!("atlatl-bounds-{}", std::process::id()));
        let tried = std::thread::spawn(move || {
            let files = protect().unwrap();
            (files, std::fs::File::open("/proc/self/environ"), std::fs::write(path, "x"))
        });
        let (files, read, written) = tried.join().unwrap();
        assert_eq!(files == Files::Closed, files_can_be_closed(), "what is said is what is done");
        if files == Files::Closed {
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn bounds_survive_being_arguments() {
        let bounds = Bounds { memory: 1 << 30, cpu_seconds: 7, threads: 2 };
        let arguments: Vec<OsString> = bounds.arguments().map(OsString::from).into();
        assert_eq!(Bounds::parse(&arguments), Some(bounds));
        assert_eq!(Bounds::parse(&arguments[..2]), None);
        assert_eq!(Bounds::parse(&["x".into(), "1".into(), "1".into()]), None);
    }
}
