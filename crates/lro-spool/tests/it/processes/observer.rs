//! An observer that measures a spool repeatedly and checks its quota.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use lro_spool::{FileName, Quota};

/// The most it ever saw.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) looks: usize,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

pub(super) struct Observer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Observed>,
}

impl Observer {
    pub(super) fn start(path: PathBuf, quota: Quota) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut most = Observed::default();
            while !stopped.load(Ordering::SeqCst) {
                let (files, bytes) = committed(&path);
                assert!(files <= quota.max_files, "{files} results of {quota:?}");
                assert!(bytes <= quota.max_bytes, "{bytes} bytes of {quota:?}");
                most.files = most.files.max(files);
                most.bytes = most.bytes.max(bytes);
                most.looks += 1;
            }
            most
        });
        Self { stop, thread }
    }

    pub(super) fn stop(self) -> Observed {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

/// The number of results, and the bytes of their data, sidecars and parts.
///
/// Results come and go during a look. Names are never used twice, so what was there when one look
/// ended and still is when the next begins was there, all of it, at the moment between the two.
fn committed(path: &Path) -> (u64, u64) {
    let Ok(entries) = fs::read_dir(path) else { return (0, 0) };
    let names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let sizes = |of: &mut dyn Iterator<Item = &String>| -> BTreeMap<String, u64> {
        let size = |name: &String| Some((name.clone(), fs::metadata(path.join(name)).ok()?.len()));
        of.filter_map(size).collect()
    };
    let data = || names.iter().filter(|name| name.parse::<FileName>().is_ok());
    let beside =
        || names.iter().filter(|name| !name.starts_with('.') && name.parse::<FileName>().is_err());
    let before = (sizes(&mut data()), sizes(&mut beside()));
    let after = (sizes(&mut data()), sizes(&mut beside()));
    let stayed: Vec<&String> = before.0.keys().filter(|name| after.0.contains_key(*name)).collect();
    let data_bytes: u64 = stayed.iter().map(|name| before.0[*name]).sum();
    let of_stayed = |name: &str| stayed.iter().any(|data| name.starts_with(data.as_str()));
    let stayed_beside = before.1.iter().filter(|(name, _)| after.1.contains_key(*name));
    let beside_bytes: u64 =
        stayed_beside.filter(|(name, _)| of_stayed(name)).map(|(_, bytes)| bytes).sum();
    (stayed.len() as u64, data_bytes + beside_bytes)
}
