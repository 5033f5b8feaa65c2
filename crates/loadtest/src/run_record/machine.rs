//! The machine a figure was measured on: without it a figure says nothing.

use std::fs;

use serde::Serialize;

/// What of the machine decides a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Machine {
    cpu: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
}

impl Machine {
    /// Reads the machine this runs on; what cannot be read says `unknown`.
    pub(super) fn read() -> Self {
        let proc = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
        Self {
            cpu: field(&proc("cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory_mib(&proc("meminfo")).unwrap_or_default(),
            kernel: match proc("sys/kernel/osrelease").trim() {
                "" => "unknown".to_owned(),
                release => release.to_owned(),
            },
        }
    }

    /// One line for the head of a table.
    pub(super) fn line(&self) -> String {
        let Self { cpu, cores, memory_mib, kernel } = self;
        format!("{cpu}, {cores} cores, {memory_mib} MiB, kernel {kernel}")
    }
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

fn memory_mib(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2:1\nprocessor\t: 1\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Some CPU @ 2:1"));
        assert_eq!(memory_mib("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), Some(24000));
        assert_eq!(memory_mib(""), None);
    }
}
