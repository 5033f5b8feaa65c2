//! What the kernel says of a process in a pod: its user, its capabilities and where it can write.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::pod::{Pod, field, refuses_writes};

/// Where a program would write that kept something, or an attacker.
const READ_ONLY_DIRS: [&str; 6] = ["", "etc", "etc/atlatl", "run/secrets", "usr/bin", "usr/share"];
/// What every container can write to besides `/tmp`.
const KERNEL_MOUNTS: [&str; 2] = ["/dev", "/proc"];

/// The confinement of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Confinement {
    pub(super) pod: String,
    /// The effective user on this machine, and in the pod.
    pub(super) host_uid: u32,
    pub(super) uid: u32,
    /// The effective capabilities, as a hexadecimal number.
    pub(super) capabilities: String,
    pub(super) no_new_privileges: bool,
    pub(super) read_only_root: bool,
    /// Mount points that are not read-only, besides those of the kernel.
    pub(super) writable_mounts: Vec<String>,
    /// Directories in which a file could be created, of those that must refuse it.
    pub(super) writable_dirs: Vec<String>,
}

impl Confinement {
    /// Reads the confinement of a pod's program, and tries to write.
    pub(super) fn read(name: &str, pod: &Pod) -> Result<Self> {
        let pid = pod.program()?;
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).context(path)
        };
        let mut writable_dirs = Vec::new();
        for dir in READ_ONLY_DIRS {
            // The path leads through the mounts of the process.
            if !refuses_writes(&Path::new("/proc").join(pid.to_string()).join("root").join(dir))? {
                writable_dirs.push(format!("/{dir}"));
            }
        }
        let parsed = Self::parse(name, &read("status")?, &read("uid_map")?, &read("mountinfo")?);
        Ok(Self { writable_dirs, ..parsed.context("/proc")? })
    }

    fn parse(pod: &str, status: &str, uid_map: &str, mountinfo: &str) -> Option<Self> {
        let host_uid = field(status, "Uid")?.split_whitespace().nth(1)?.parse().ok()?;
        let mounts: Vec<(&str, bool)> = mountinfo.lines().filter_map(parse_mount).collect();
        // A later mount covers an earlier one.
        let (_, read_only_root) = *mounts.iter().rev().find(|(at, _)| *at == "/")?;
        let is_kernels =
            |at: &str| KERNEL_MOUNTS.iter().any(|mount| Path::new(at).starts_with(mount));
        let writable = mounts.iter().filter(|(at, read_only)| !read_only && !is_kernels(at));
        Some(Self {
            pod: pod.to_owned(),
            host_uid,
            uid: uid_in_pod(uid_map, host_uid)?,
            capabilities: field(status, "CapEff")?.to_owned(),
            no_new_privileges: field(status, "NoNewPrivs")? == "1",
            read_only_root,
            writable_mounts: writable.map(|(at, _)| (*at).to_owned()).collect(),
            writable_dirs: Vec::new(),
        })
    }

    /// What Kubernetes' restricted standard and a read-only root would not allow.
    pub(super) fn findings(&self, expected_uid: u32) -> Vec<String> {
        let Self { pod, host_uid, uid, capabilities, .. } = self;
        let mut findings = Vec::new();
        if *uid != expected_uid || *host_uid == 0 {
            findings.push(format!("{pod} runs as user {uid} ({host_uid} on this machine)"));
        }
        if !capabilities.trim_start_matches('0').is_empty() {
            findings.push(format!("{pod} has the capabilities {capabilities}"));
        }
        if !self.no_new_privileges {
            findings.push(format!("{pod} can get new privileges"));
        }
        if !self.read_only_root {
            findings.push(format!("the root of {pod} is not read-only"));
        }
        let mounts = self.writable_mounts.iter().filter(|at| *at != "/" && *at != "/tmp");
        findings.extend(mounts.map(|at| format!("{at} of {pod} is not read-only")));
        let dirs = self.writable_dirs.iter();
        findings.extend(dirs.map(|dir| format!("{pod}: a file can be created in {dir}")));
        findings
    }
}

/// The mount point of a line of `/proc/PID/mountinfo`, and whether it is read-only.
fn parse_mount(line: &str) -> Option<(&str, bool)> {
    let mut fields = line.split(' ').skip(4);
    let (at, options) = (fields.next()?, fields.next()?);
    Some((at, options.split(',').any(|option| option == "ro")))
}

/// The number that a user of this machine has in the pod.
fn uid_in_pod(uid_map: &str, host_uid: u32) -> Option<u32> {
    uid_map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        let (inside, outside, count) = (next()?, next()?, next()?);
        let offset = host_uid.checked_sub(outside).filter(|offset| *offset < count)?;
        inside.checked_add(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tatlatl\nUid:\t65534\t65534\t65534\t65534\n\
                          CapEff:\t0000000000000000\nNoNewPrivs:\t1\n";
    const UID_MAP: &str = "     65532      65534          1\n";
    const MOUNTS: &str = "\
65 42 254:0 /tmp/x/rootfs / ro,nosuid,nodev,relatime - ext4 /dev/vda rw,discard
66 65 0:50 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
67 65 0:51 / /dev rw,nosuid,nodev,relatime - tmpfs tmpfs rw
68 67 0:6 /null /dev/null rw,nosuid,relatime - devtmpfs devtmpfs rw
69 65 0:52 / /tmp rw,nosuid,nodev,relatime - tmpfs tmpfs rw
70 65 254:0 /tmp/x/etc /etc/atlatl ro,nosuid,nodev,relatime - ext4 /dev/vda rw
";

    #[test]
    fn a_pod_as_the_chart_runs_it_has_no_findings() {
        let pod = Confinement::parse("pod-1", STATUS, UID_MAP, MOUNTS).unwrap();
        assert_eq!((pod.host_uid, pod.uid), (65_534, 65_532));
        assert_eq!(pod.writable_mounts, ["/tmp"]);
        assert!(pod.findings(65_532).is_empty(), "{:?}", pod.findings(65_532));
    }

    #[test]
    fn each_privilege_is_a_finding() {
        let findings = |status: &str, map: &str, mounts: &str| {
            Confinement::parse("pod-1", status, map, mounts).unwrap().findings(65_532)
        };
        let root = findings(&STATUS.replace("65534", "0"), "0 0 4294967295\n", MOUNTS);
        assert_eq!(root, ["pod-1 runs as user 0 (0 on this machine)"]);
        let capable =
            findings(&STATUS.replace("CapEff:\t00000000", "CapEff:\t00000020"), UID_MAP, MOUNTS);
        assert_eq!(capable, ["pod-1 has the capabilities 0000002000000000"]);
        let privileged = findings(&STATUS.replace("Privs:\t1", "Privs:\t0"), UID_MAP, MOUNTS);
        assert_eq!(privileged, ["pod-1 can get new privileges"]);
        let writable = findings(STATUS, UID_MAP, &MOUNTS.replace(" / ro", " / rw"));
        assert_eq!(writable, ["the root of pod-1 is not read-only"]);
        let writable = findings(STATUS, UID_MAP, &MOUNTS.replace("atlatl ro", "atlatl rw"));
        assert_eq!(writable, ["/etc/atlatl of pod-1 is not read-only"]);
        let mut pod = Confinement::parse("pod-1", STATUS, UID_MAP, MOUNTS).unwrap();
        pod.writable_dirs = vec!["/usr/bin".to_owned()];
        assert_eq!(pod.findings(65_532), ["pod-1: a file can be created in /usr/bin"]);
    }

    #[test]
    fn a_user_that_is_not_mapped_has_no_number() {
        assert_eq!(uid_in_pod("0 1000 1\n1 100000 65536\n", 1000), Some(0));
        assert_eq!(uid_in_pod("0 1000 1\n1 100000 65536\n", 100_010), Some(11));
        assert_eq!(uid_in_pod("0 1000 1\n", 1001), None);
    }
}
