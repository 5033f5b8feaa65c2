//! A spool in memory, for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use lro_core::ResultId;

use crate::address::Address;
use crate::address::{Extension, FileName};
use crate::error::{Foreign, SpoolError, SpoolLimit};
use crate::sidecar::{FurtherPart, Layout, NewResult, PartNumber, PartRole, Sidecar};
use crate::spool::{
    Draft, PositionedRead, Quota, ResultInfo, Scratch, Spool, StoredResult, SweepReport, Usage,
};

/// A spool in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemorySpool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    quota: Quota,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stored: BTreeMap<ResultId, Arc<StoredFiles>>,
    tombstones: BTreeMap<ResultId, ResultInfo>,
    unreported: Vec<ResultInfo>,
}

/// The data, then the parts. Each reader holds a reference.
#[derive(Debug)]
struct StoredFiles {
    info: ResultInfo,
    files: Vec<Arc<Vec<u8>>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { quota: Quota::NONE, state: Mutex::default() }
    }
}

impl MemorySpool {
    /// Creates an empty spool with this quota.
    pub fn new(quota: Quota) -> Self {
        Self(Arc::new(Shared { quota, ..Shared::default() }))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, address: &Address) -> Result<&Arc<StoredFiles>, SpoolError> {
        if let Address::Path { folder, name } = address {
            let path = folder.join(name.to_string());
            return Err(SpoolError::NotOurs { path, why: Foreign::Elsewhere });
        }
        let id = address.id();
        let named = |name: &FileName| !matches!(address, Address::Name(asked) if asked != name);
        match (self.stored.get(&id), self.tombstones.get(&id)) {
            (Some(stored), _) if named(&stored.info.name) => Ok(stored),
            (_, Some(gone)) if named(&gone.name) => Err(gone.expired_error()),
            _ => Err(SpoolError::NotFound { asked: address.to_string() }),
        }
    }

    /// Deletes expired results without readers, oldest first, while `go_on` returns true.
    fn expire(
        &mut self,
        now: DateTime<Utc>,
        go_on: impl Fn(&Self) -> bool,
    ) -> (Vec<ResultInfo>, usize) {
        let mut expired: Vec<_> = self
            .stored
            .values()
            .filter(|s| s.info.sidecar.is_expired(s.info.id(), now))
            .map(|s| (s.info.sidecar.expires_at, s.info.id()))
            .collect();
        expired.sort_unstable();
        let (mut gone, mut in_use) = (Vec::new(), 0);
        for (_, id) in expired {
            if !go_on(self) {
                break;
            }
            if self.stored.get(&id).is_some_and(|s| Arc::strong_count(s) > 1) {
                in_use += 1;
            } else if let Some(stored) = self.stored.remove(&id) {
                self.tombstones.insert(id, stored.info.clone());
                gone.push(stored.info.clone());
            }
        }
        (gone, in_use)
    }

    fn broken(&self, quota: Quota, more: u64) -> Option<SpoolLimit> {
        let files = self.stored.values().flat_map(|stored| &stored.files);
        let bytes = files.map(|file| file.len() as u64).sum::<u64>() + more;
        quota.exceeded_by(Usage { bytes, files: self.stored.len() as u64 + 1, free: u64::MAX })
    }
}

impl Spool for MemorySpool {
    fn create(&self, new: NewResult) -> Result<Box<dyn Draft>, SpoolError> {
        let name = new.name();
        if self.0.state().stored.contains_key(&new.id) {
            return Err(SpoolError::Taken { name });
        }
        let mut data = Vec::new();
        if new.extension == Extension::Jsonl {
            serde_json::to_writer(&mut data, &new.header)
                .expect("a header has a JSON form, and memory takes it");
            data.push(b'\n');
        }
        let (files, roles) = (vec![data], Vec::new());
        Ok(Box::new(MemoryDraft { shared: Arc::clone(&self.0), new, name, files, roles }))
    }

    fn open(
        &self,
        address: &Address,
        now: DateTime<Utc>,
    ) -> Result<Box<dyn StoredResult>, SpoolError> {
        let state = self.0.state();
        let stored = state.find(address)?;
        if stored.info.sidecar.is_expired(stored.info.id(), now) {
            return Err(stored.info.expired_error());
        }
        Ok(Box::new(MemoryReader { stored: Arc::clone(stored), index: 0 }))
    }

    fn list(&self) -> Result<Vec<ResultInfo>, SpoolError> {
        Ok(self.0.state().stored.values().map(|stored| stored.info.clone()).collect())
    }

    fn remove(&self, address: &Address) -> Result<ResultInfo, SpoolError> {
        let mut state = self.0.state();
        let stored = state.find(address)?;
        let info = stored.info.clone();
        if Arc::strong_count(stored) > 1 {
            return Err(SpoolError::InUse { name: info.name });
        }
        state.stored.remove(&info.id());
        Ok(info)
    }

    fn sweep(&self, now: DateTime<Utc>) -> Result<SweepReport, SpoolError> {
        let mut state = self.0.state();
        let mut expired = std::mem::take(&mut state.unreported);
        let (mut gone, in_use) = state.expire(now, |_| true);
        expired.append(&mut gone);
        expired.sort_by_key(|gone| gone.sidecar.expires_at);
        Ok(SweepReport { expired, in_use, ..SweepReport::default() })
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>, SpoolError> {
        Ok(Box::new(MemoryScratch(Vec::new())))
    }
}

struct MemoryScratch(Vec<u8>);

impl Scratch for MemoryScratch {
    fn append(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl PositionedRead for MemoryScratch {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        Ok(copy_from(&self.0, offset, buf))
    }
}

struct MemoryDraft {
    shared: Arc<Shared>,
    new: NewResult,
    name: FileName,
    files: Vec<Vec<u8>>,
    roles: Vec<PartRole>,
}

impl Draft for MemoryDraft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.files[0].extend_from_slice(bytes);
        Ok(())
    }

    fn add_part(&mut self, role: PartRole) -> Result<PartNumber, SpoolError> {
        self.roles.push(role);
        self.files.push(Vec::new());
        let number = u16::try_from(self.roles.len());
        number.map(PartNumber).map_err(|_| SpoolError::Full { limit: SpoolLimit::Files })
    }

    fn write_part(&mut self, part: PartNumber, bytes: &[u8]) -> Result<(), SpoolError> {
        match self.files.get_mut(usize::from(part.0)) {
            Some(file) if part.0 > 0 => file.extend_from_slice(bytes),
            _ => return Err(SpoolError::NotFound { asked: format!("part {}", part.0) }),
        }
        Ok(())
    }

    fn commit(self: Box<Self>, layout: Layout) -> Result<ResultInfo, SpoolError> {
        let Self { shared, new, name, files, roles } = *self;
        let sizes = files[1..].iter().map(|file| file.len() as u64);
        let parts = roles.iter().zip(sizes).map(|(r, bytes)| FurtherPart::new(*r, bytes)).collect();
        let sidecar = Sidecar::new(&new, layout, files[0].len() as u64, parts);
        let info = ResultInfo::new(name, None, sidecar);
        let more = files.iter().map(|file| file.len() as u64).sum();
        let mut state = shared.state();
        if state.stored.contains_key(&new.id) {
            return Err(SpoolError::Taken { name: info.name });
        }
        let broken = |state: &State| state.broken(shared.quota, more);
        let (mut gone, _) = state.expire(new.created_at, |state| broken(state).is_some());
        state.unreported.append(&mut gone);
        if let Some(limit) = broken(&state) {
            return Err(SpoolError::Full { limit });
        }
        let files = files.into_iter().map(Arc::new).collect();
        state.stored.insert(new.id, Arc::new(StoredFiles { info: info.clone(), files }));
        Ok(info)
    }
}

struct MemoryReader {
    stored: Arc<StoredFiles>,
    index: usize,
}

impl PositionedRead for MemoryReader {
    fn len(&self) -> u64 {
        self.stored.files[self.index].len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        Ok(copy_from(&self.stored.files[self.index], offset, buf))
    }
}

fn copy_from(bytes: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let bytes = usize::try_from(offset).ok().and_then(|o| bytes.get(o..)).unwrap_or_default();
    let read = bytes.len().min(buf.len());
    buf[..read].copy_from_slice(&bytes[..read]);
    read
}

impl StoredResult for MemoryReader {
    fn listed(&self) -> &ResultInfo {
        &self.stored.info
    }

    fn part(&self, part: PartNumber) -> Result<Box<dyn PositionedRead>, SpoolError> {
        let index = usize::from(part.0);
        if index == 0 || index >= self.stored.files.len() {
            return Err(SpoolError::NotFound { asked: format!("part {}", part.0) });
        }
        Ok(Box::new(Self { stored: Arc::clone(&self.stored), index }))
    }
}
