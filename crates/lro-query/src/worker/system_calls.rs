//! The seccomp filter that a worker installs before it reads input.
//!
//! Landlock blocks files and connections only on kernels that have it. The filter allows the calls
//! that computing needs (memory, existing threads, the clock, reading and writing open descriptors);
//! every other call fails with `EPERM`. So a worker cannot open, execute, start, connect to, trace or
//! mount anything, and most of the kernel is unreachable.
//!
//! The filter is an allowlist, because a denylist is outdated with the next kernel. Denied calls fail
//! instead of ending the process, so that a C library that tries an unknown call can fall back or
//! report an error.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, apply_filter_all_threads,
};

/// Whether the kernel filters the calls of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filtering {
    Active,
    /// The kernel has no seccomp, or a container forbids it. All other limits apply.
    Unavailable,
}

/// The system calls that are allowed with any arguments.
const ALLOWED: &[c_long] = &[
    // Open descriptors.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_dup,
    libc::SYS_close,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // The threads that exist, and the end of each.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // The clock and random numbers.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // Facts about this process and the machine.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Installs the filter for all threads of this process, irrevocably.
pub(super) fn restrict() -> io::Result<Filtering> {
    let program = program().map_err(io::Error::other)?;
    match apply_filter_all_threads(&program) {
        Ok(()) => Ok(Filtering::Active),
        Err(Error::Prctl(_) | Error::Seccomp(_)) => Ok(Filtering::Unavailable),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn program() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // Executable memory is forbidden.
    let not_executable = Argument(2).has_none_of(libc::PROT_EXEC)?;
    rules.insert(libc::SYS_mmap, vec![rule(not_executable.clone())?]);
    rules.insert(libc::SYS_mprotect, vec![rule(not_executable)?]);
    // Reading the metadata of an open descriptor.
    let of_descriptor = |flags: Argument| rule(flags.has_all_of(libc::AT_EMPTY_PATH)?);
    rules.insert(libc::SYS_newfstatat, vec![of_descriptor(Argument(3))?]);
    rules.insert(libc::SYS_statx, vec![of_descriptor(Argument(2))?]);
    // Duplicating a descriptor and reading its flags.
    let commands = [libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];
    let commands = commands.into_iter().map(|command| rule(Argument(1).is(command)?));
    rules.insert(libc::SYS_fcntl, commands.collect::<Result<_, _>>()?);
    // Reading a limit of this process; not setting one, and no other process.
    let no_value = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    let own_limits = SeccompRule::new(vec![Argument(0).is(0)?, no_value])?;
    rules.insert(libc::SYS_prlimit64, vec![own_limits]);
    // Aborting sends a signal to the own process.
    let process = libc::c_int::try_from(std::process::id()).unwrap_or(libc::c_int::MAX);
    rules.insert(libc::SYS_tgkill, vec![rule(Argument(0).is(process)?)?]);

    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()
}

fn rule(condition: SeccompCondition) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition])
}

/// The position of a system call argument that is an `int`.
#[derive(Clone, Copy)]
struct Argument(u8);

impl Argument {
    fn is(self, value: libc::c_int) -> Result<SeccompCondition, BackendError> {
        self.compare(SeccompCmpOp::Eq, value.unsigned_abs())
    }

    fn has_none_of(self, flags: libc::c_int) -> Result<SeccompCondition, BackendError> {
        self.compare(SeccompCmpOp::MaskedEq(flags.unsigned_abs().into()), 0)
    }

    fn has_all_of(self, flags: libc::c_int) -> Result<SeccompCondition, BackendError> {
        let flags = flags.unsigned_abs();
        self.compare(SeccompCmpOp::MaskedEq(flags.into()), flags)
    }

    fn compare(self, with: SeccompCmpOp, value: u32) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(self.0, SeccompCmpArgLen::Dword, with, value.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};

    use super::*;

    /// Runs `attempts` under the filter, in a thread of its own that ends with it.
    fn filtered<T: Send + 'static>(attempts: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            seccompiler::apply_filter(&program().unwrap()).expect("this kernel has seccomp");
            attempts()
        });
        thread.join().expect("a refused call ends neither the thread nor the process")
    }

    fn refused<T>(what: &str, result: Result<T, impl Into<io::Error>>) {
        let error = result.err().unwrap_or_else(|| panic!("{what}: allowed")).into();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{what}: {error}");
    }

    #[test]
    fn g08_worker_cannot_open_create_or_remove_a_file() {
        let dir = std::env::temp_dir();
        let path = dir.join(format!("atlatl-filtered-{}", std::process::id()));
        let (created, read, removed, listed, linked, renamed, unnamed) = filtered(move || {
            (
                std::fs::write(&path, "x"),
                File::open("/proc/self/environ"),
                std::fs::remove_file(&path),
                std::fs::read_dir("/"),
                std::os::unix::fs::symlink("/", &path),
                std::fs::rename(&path, &dir),
                rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::empty()),
            )
        });
        refused("create", created);
        refused("open", read);
        refused("unlink", removed);
        refused("list", listed);
        refused("symlink", linked);
        refused("rename", renamed);
        refused("memfd_create", unnamed);
    }

    #[test]
    fn g08_worker_cannot_connect_or_listen() {
        let (tcp, listener, udp, unix, unix_listener, pair) = filtered(|| {
            (
                TcpStream::connect("127.0.0.1:9"),
                TcpListener::bind("127.0.0.1:0"),
                UdpSocket::bind("127.0.0.1:0"),
                UnixStream::connect("/run/nothing"),
                UnixListener::bind("/tmp/nothing"),
                UnixStream::pair(),
            )
        });
        refused("connect", tcp);
        refused("listen", listener);
        refused("datagram", udp);
        refused("connect to a socket file", unix);
        refused("listen on a socket file", unix_listener);
        refused("socket pair", pair);
    }

    #[test]
    fn g08_worker_cannot_start_signal_or_change_a_process() {
        let parent = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        let (thread, process, signal, handle, limit, root, directory) = filtered(move || {
            let limit = Rlimit { current: Some(64), maximum: Some(64) };
            (
                std::thread::Builder::new().spawn(|| ()),
                Command::new("/bin/true").spawn(),
                rustix::process::kill_process(parent, Signal::CONT),
                rustix::process::pidfd_open(parent, PidfdFlags::empty()),
                rustix::process::setrlimit(Resource::Nofile, limit),
                rustix::process::chroot("/"),
                std::env::set_current_dir("/"),
            )
        });
        refused("thread", thread);
        refused("process", process);
        refused("kill", signal);
        refused("pidfd", handle);
        refused("limit", limit);
        refused("chroot", root);
        refused("chdir", directory);
    }

    #[test]
    fn what_computing_needs_is_allowed() {
        let file = tempfile::tempfile().unwrap();
        let metadata = filtered(move || {
            let copy = file.try_clone().unwrap();
            let large: Vec<u64> = (0..4_000_000).collect();
            std::thread::sleep(std::time::Duration::from_micros(10));
            assert_eq!(large.iter().sum::<u64>(), 7_999_998_000_000);
            copy.metadata()
        });
        assert_eq!(metadata.unwrap().len(), 0);
    }
}
