//! The platform a binary is for, and what each kind of package calls it.

use anyhow::{Result, bail};

/// One of the platforms that packages are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Platform {
    /// The processor as compilers call it, which is how archives are named.
    pub(super) arch: &'static str,
    /// The processor as Node calls it.
    pub(super) node_arch: &'static str,
    /// The system as Node and bundles call it.
    pub(super) node_os: &'static str,
    /// The system as archives are named.
    pub(super) os: &'static str,
}

/// All of them. The npm package names each as an optional dependency.
pub(super) const ALL: [Platform; 4] = [
    Platform { arch: "x86_64", node_arch: "x64", node_os: "linux", os: "linux" },
    Platform { arch: "aarch64", node_arch: "arm64", node_os: "linux", os: "linux" },
    Platform { arch: "x86_64", node_arch: "x64", node_os: "darwin", os: "macos" },
    Platform { arch: "aarch64", node_arch: "arm64", node_os: "darwin", os: "macos" },
];

impl Platform {
    /// The platform of a target, as the compiler names it.
    pub(super) fn of_target(target: &str) -> Result<Self> {
        let (arch, rest) = target.split_once('-').unwrap_or((target, ""));
        let found = ALL.into_iter().find(|one| one.arch == arch && rest.contains(one.node_os));
        let Some(found) = found else {
            bail!("no packages are made for {target}; see crates/xtask/src/package/platform.rs");
        };
        Ok(found)
    }

    /// `x86_64-linux`, the end of a file's name.
    pub(super) fn name(self) -> String {
        format!("{}-{}", self.arch, self.os)
    }

    /// `linux-x64`, the end of an npm package's name.
    pub(super) fn node_name(self) -> String {
        format!("{}-{}", self.node_os, self.node_arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_their_platform_whatever_their_c_library() {
        for target in ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"] {
            let platform = Platform::of_target(target).unwrap();
            assert_eq!(platform.name(), "x86_64-linux");
            assert_eq!(platform.node_name(), "linux-x64");
        }
        let mac = Platform::of_target("aarch64-apple-darwin").unwrap();
        assert_eq!(
            (mac.name().as_str(), mac.node_name().as_str()),
            ("aarch64-macos", "darwin-arm64")
        );
    }

    #[test]
    fn a_target_without_packages_is_refused() {
        for target in ["x86_64-pc-windows-msvc", "riscv64gc-unknown-linux-gnu", "x86_64", ""] {
            assert!(Platform::of_target(target).is_err(), "{target}");
        }
    }
}
