//! Sweep: what has expired, what dead writers left, and room for what comes.

use std::collections::HashSet;
use std::os::fd::AsFd;

use chrono::{DateTime, Utc};

use super::account::Pending;
use super::checked_dir::{Folder, Found, Locked};
use super::{Shared, results};
use crate::address::{Entry, FileName, Piece, Scope};
use crate::error::SpoolError;
use crate::fs::os::{Kind, Lock, again};
use crate::spool::{Listed, Swept, Usage};

impl Shared {
    pub(super) fn sweep(&self, now: DateTime<Utc>) -> Swept {
        let mut swept = Swept { expired: self.gone.take_untold(), ..Swept::default() };
        let account = self.account.as_ref().filter(|account| account.exists());
        let began = account.map(|account| (account, account.begin_sweep()));
        self.each_folder(|_, folder| {
            folder.clear_leftovers(&mut swept);
            let mut failures = Vec::new();
            let next = self.each_expired(folder, now, &mut failures, |found| {
                let unlink = || Ok(folder.unlink_result(&found)?.is_some());
                match self.expire(folder, &found, unlink) {
                    Ok(Outcome::Removed) => swept.expired.push(found.listed),
                    Ok(Outcome::InUse) => swept.in_use += 1,
                    Ok(Outcome::GoneBefore) => {}
                    Err(error) => swept.failures.push(error),
                }
            });
            swept.next_expiry = swept.next_expiry.into_iter().chain(next).min();
            swept.failures.append(&mut failures);
        });
        swept.expired.sort_by_key(|gone| gone.sidecar.expires_at);
        // A folder by itself says nothing of the others.
        if self.covers_all() {
            // Where it cannot be counted nothing is relied upon later.
            let _ = self.count(swept.next_expiry, now);
        }
        if let Some((account, began)) = began {
            account.end(&began);
        }
        swept
    }

    /// Whether the folders that are visited are all that the account is about.
    fn covers_all(&self) -> bool {
        self.root.is_some() || self.options.scope.is_none()
    }

    /// Visits the results of a folder whose time is up; one file is open at a time. Says when the
    /// next of the others expires, as far as they were looked at.
    fn each_expired(
        &self,
        folder: &Folder,
        now: DateTime<Utc>,
        failures: &mut Vec<SpoolError>,
        mut visit: impl FnMut(Found),
    ) -> Option<DateTime<Utc>> {
        let names = match folder.results() {
            Ok(names) => names,
            Err(error) => {
                failures.push(error);
                return None;
            }
        };
        let mut next = None;
        for name in names.iter().filter(|name| made_before(name, now)) {
            match folder.examine(name, self.options.ttl) {
                Ok(found) if found.listed.sidecar.is_expired(name.id(), now) => visit(found),
                Ok(found) => {
                    next = next.into_iter().chain([found.listed.sidecar.expires_at]).min();
                }
                Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => failures.push(error),
            }
        }
        next
    }

    /// Removes a result of `scope` that is locked. False where someone else did.
    pub(super) fn unlink_result(
        &self,
        scope: Option<Scope>,
        folder: &Folder,
        found: &Found,
    ) -> Result<bool, SpoolError> {
        let Some(account) = &self.account else {
            return Ok(folder.unlink_result(found)?.is_some());
        };
        let result = Pending::new(&found.listed.name, scope.or(self.options.scope));
        account.begin_removal(&result);
        let removed = folder.unlink_result(found)?;
        account.removed(&result.id, removed.unwrap_or(0), u64::from(removed.is_some()));
        Ok(removed.is_some())
    }

    fn expire(
        &self,
        folder: &Folder,
        found: &Found,
        unlink: impl FnOnce() -> Result<bool, SpoolError>,
    ) -> Result<Outcome, SpoolError> {
        match folder.lock(found, Lock::ExclusiveNow)? {
            Locked::ByUs => {}
            Locked::ByOthers => return Ok(Outcome::InUse),
            Locked::Gone => return Ok(Outcome::GoneBefore),
        }
        if !unlink()? {
            return Ok(Outcome::GoneBefore);
        }
        self.gone.remember(&found.listed);
        Ok(Outcome::Removed)
    }

    /// What all folders hold, drafts included.
    fn usage(&self) -> Result<Usage, SpoolError> {
        let free = self.free()?;
        let mut usage = Usage { free, ..Usage::default() };
        let mut failure = None;
        self.each_folder(|_, folder| match folder.usage() {
            Ok((bytes, files)) => {
                usage.bytes += bytes;
                usage.files += files;
            }
            Err(error) => failure = Some(error),
        });
        failure.map_or(Ok(usage), Err)
    }

    pub(super) fn free(&self) -> Result<u64, SpoolError> {
        again(|| self.options.os.free_bytes(self.folder.fd.as_fd()))
            .map_err(|error| SpoolError::io("measure", &self.folder.path, error))
    }

    /// Counts what all folders hold, and writes it down for those who store something later.
    pub(super) fn count(
        &self,
        next_expiry: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<Usage, SpoolError> {
        let Some(account) = &self.account else { return self.usage() };
        if !account.exists() {
            // Where nothing was stored, nothing is left.
            let usage = self.usage()?;
            if usage.bytes == 0 {
                return Ok(usage);
            }
        }
        let count = account.begin_count();
        let usage = self.usage()?;
        account.end_count(&count, (usage.bytes, usage.files), next_expiry, now);
        Ok(usage)
    }

    /// What all folders hold, by the account where it can be relied upon.
    fn kept_usage(&self, now: DateTime<Utc>) -> Result<Option<Usage>, SpoolError> {
        let free = self.free()?;
        if !self.options.quota.counts() {
            return Ok(Some(Usage { free, ..Usage::default() }));
        }
        let balance = self.account.as_ref().and_then(|account| account.balance(now));
        Ok(balance.map(|balance| Usage { bytes: balance.bytes, files: balance.files, free }))
    }

    /// Makes room where a quota is broken: what has expired goes, oldest first, as far as needed.
    pub(super) fn make_room(&self, now: DateTime<Utc>) -> Result<(), SpoolError> {
        if let Some(usage) = self.kept_usage(now)?
            && self.options.quota.broken_by(usage).is_none()
        {
            return Ok(());
        }
        // Nothing is refused before everything was counted.
        let mut usage = self.count(None, now)?;
        if self.options.quota.broken_by(usage).is_none() {
            return Ok(());
        }
        let mut candidates: Vec<(DateTime<Utc>, Option<Scope>, FileName)> = Vec::new();
        self.each_folder(|scope, folder| {
            // What cannot be looked at is no candidate.
            self.each_expired(folder, now, &mut Vec::new(), |found| {
                candidates.push((found.listed.sidecar.expires_at, scope, found.listed.name));
            });
        });
        candidates.sort_by_key(|(expires_at, ..)| *expires_at);
        for (_, scope, name) in candidates {
            if let Ok(Some(gone)) = self.expire_in(scope, &name) {
                let parts = gone.sidecar.parts.iter().map(|part| part.bytes);
                usage.bytes = usage.bytes.saturating_sub(parts.sum::<u64>() + gone.sidecar.bytes);
                usage.files = usage.files.saturating_sub(1);
                usage.free = self.free()?;
                self.gone.tell_later(gone);
                if self.options.quota.broken_by(usage).is_none() {
                    return Ok(());
                }
            }
        }
        match self.options.quota.broken_by(usage) {
            Some(limit) => Err(SpoolError::Full { limit }),
            None => Ok(()),
        }
    }

    fn expire_in(
        &self,
        scope: Option<Scope>,
        name: &FileName,
    ) -> Result<Option<Listed>, SpoolError> {
        let other = match (&self.root, scope) {
            (Some(root), Some(scope)) => {
                Some(root.existing_within(&scope.to_string(), &self.options)?)
            }
            _ => None,
        };
        let folder = other.as_ref().unwrap_or(&self.folder);
        let found = folder.examine(name, self.options.ttl)?;
        let outcome = self.expire(folder, &found, || self.unlink_result(scope, folder, &found))?;
        Ok(matches!(outcome, Outcome::Removed).then_some(found.listed))
    }
}

enum Outcome {
    Removed,
    InUse,
    GoneBefore,
}

impl Folder {
    /// Removes drafts whose writer is dead, and sidecars without data.
    pub(super) fn clear_leftovers(&self, swept: &mut Swept) {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return swept.failures.push(error),
        };
        let whole: HashSet<FileName> = results(&names).into_iter().collect();
        for text in &names {
            let cleared = match Entry::parse(text) {
                Some(Entry { draft: true, .. }) => self.clear_draft(text),
                Some(Entry { name, piece: Piece::Sidecar, .. }) if !whole.contains(&name) => {
                    self.clear_orphan(&name)
                }
                _ => continue,
            };
            match cleared {
                Ok(cleared) => swept.leftovers += usize::from(cleared),
                Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => swept.failures.push(error),
            }
        }
    }

    fn clear_draft(&self, name: &str) -> Result<bool, SpoolError> {
        let (file, stat) = self.open_ours(name)?;
        // A writer locks its draft as soon as it has made it, and looks afterwards whether it is
        // still there.
        let locked = self.lock_file(&file, name, Lock::ExclusiveNow)?;
        Ok(locked == Locked::ByUs && self.unlink_same(name, &stat)?)
    }

    /// Removes a sidecar and the parts it lists, unless its writer is just about to show the data.
    fn clear_orphan(&self, name: &FileName) -> Result<bool, SpoolError> {
        let beside = Piece::Sidecar.of(name);
        let (file, _) = self.open_ours(&beside)?;
        if self.lock_file(&file, &beside, Lock::ExclusiveNow)? != Locked::ByUs {
            return Ok(false);
        }
        let sidecar = self.sidecar(name)?;
        let data = Piece::Data.of(name);
        match again(|| self.os.stat_at(self.fd.as_fd(), &data)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(SpoolError::io("look at", self.at(&data), error)),
        }
        self.unlink_beside(name, &sidecar)?;
        Ok(true)
    }

    /// The bytes of our files, and the number of results: those with a sidecar, whose data may be
    /// about to come, and files of records that lost theirs.
    ///
    /// Others rename while we look. What has its final name stays under it; data that is just being
    /// renamed may be in the list under neither name, and is asked for by both.
    fn usage(&self) -> Result<(u64, u64), SpoolError> {
        let entries: Vec<Entry> =
            self.names()?.iter().filter_map(|name| Entry::parse(name)).collect();
        let claims = entries.iter().filter(|e| !e.draft && !matches!(e.piece, Piece::Part(_)));
        let claimed: HashSet<&FileName> = claims.map(|e| &e.name).collect();
        let (mut bytes, mut files) = (0, 0);
        for name in &claimed {
            let (whole, draft) = (Piece::Data.of(name), Piece::Data.draft_of(name));
            let mut data = None;
            for name in [&whole, &draft, &whole] {
                data = data.or(self.bytes_of_ours(name)?);
            }
            bytes += data.unwrap_or(0);
            files += u64::from(data.is_some());
        }
        for Entry { name, piece, draft } in &entries {
            if *piece == Piece::Data && claimed.contains(name) {
                continue;
            }
            let name = if *draft { piece.draft_of(name) } else { piece.of(name) };
            bytes += self.bytes_of_ours(&name)?.unwrap_or(0);
        }
        Ok((bytes, files))
    }

    /// The size of an entry, if it is a file of ours.
    fn bytes_of_ours(&self, name: &str) -> Result<Option<u64>, SpoolError> {
        match again(|| self.os.stat_at(self.fd.as_fd(), name)) {
            Ok(stat) if stat.kind == Kind::File && stat.owner == self.os.user() => {
                Ok(Some(stat.bytes))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SpoolError::io("look at", self.at(name), error)),
        }
    }
}

/// Whether a name is older than now; if not, its file need not be opened.
fn made_before(name: &FileName, now: DateTime<Utc>) -> bool {
    i64::try_from(name.id().unix_ms()).is_ok_and(|made| made <= now.timestamp_millis())
}
