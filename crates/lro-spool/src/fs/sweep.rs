//! Sweeps of a directory: expired results, leftovers of dead writers, and room for new results.

use std::collections::HashSet;
use std::os::fd::AsFd;

use chrono::{DateTime, Utc};

use super::checked_dir::{CheckedDir, LockOutcome, OpenedResult};
use super::usage_log::PendingOp;
use super::{Shared, results};
use crate::address::{DirEntryName, FileName, ResultFile, Scope};
use crate::error::SpoolError;
use crate::fs::os::{FileKind, Lock, retry_interrupted};
use crate::spool::{ResultInfo, SweepReport, Usage};

impl Shared {
    pub(super) fn sweep(&self, now: DateTime<Utc>) -> SweepReport {
        let mut swept =
            SweepReport { expired: self.tombstones.take_unreported(), ..SweepReport::default() };
        let usage_log = self.usage_log.as_ref().filter(|usage_log| usage_log.exists());
        let began = usage_log.map(|usage_log| (usage_log, usage_log.begin_sweep()));
        self.each_folder(|_, folder| {
            folder.clear_leftovers(&mut swept);
            folder.clear_expired_logs(self.options.ttl, now, &mut swept);
            let mut failures = Vec::new();
            let next = self.each_expired(folder, now, &mut failures, |opened| {
                let unlink = || Ok(folder.unlink_result(&opened)?.is_some());
                match self.expire(folder, &opened, unlink) {
                    Ok(Outcome::Removed) => swept.expired.push(opened.info),
                    Ok(Outcome::InUse) => swept.in_use += 1,
                    Ok(Outcome::AlreadyGone) => {}
                    Err(error) => swept.failures.push(error),
                }
            });
            swept.next_expiry = swept.next_expiry.into_iter().chain(next).min();
            swept.failures.append(&mut failures);
        });
        swept.expired.sort_by_key(|gone| gone.sidecar.expires_at);
        // One directory alone says nothing about the other scopes.
        if self.covers_all() {
            // On failure the log has no total, and the next writer counts.
            let _ = self.count(swept.next_expiry, now);
        }
        if let Some((usage_log, began)) = began {
            usage_log.end(&began);
        }
        swept
    }

    /// Whether this spool visits all directories that the usage log covers.
    fn covers_all(&self) -> bool {
        self.root.is_some() || self.options.scope.is_none()
    }

    /// Visits the expired results of a directory, with one file open at a time. Returns the next
    /// expiry of the other results that it examined.
    fn each_expired(
        &self,
        folder: &CheckedDir,
        now: DateTime<Utc>,
        failures: &mut Vec<SpoolError>,
        mut visit: impl FnMut(OpenedResult),
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
                Ok(opened) if opened.info.sidecar.is_expired(name.id(), now) => visit(opened),
                Ok(opened) => {
                    next = next.into_iter().chain([opened.info.sidecar.expires_at]).min();
                }
                Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => failures.push(error),
            }
        }
        next
    }

    /// Deletes a locked result of `scope`. Returns false if another process did.
    pub(super) fn unlink_result(
        &self,
        scope: Option<Scope>,
        folder: &CheckedDir,
        opened: &OpenedResult,
    ) -> Result<bool, SpoolError> {
        let Some(usage_log) = &self.usage_log else {
            return Ok(folder.unlink_result(opened)?.is_some());
        };
        let result = PendingOp::new(&opened.info.name, scope.or(self.options.scope));
        usage_log.begin_removal(&result);
        let removed = folder.unlink_result(opened)?;
        usage_log.end_removal(&result.id, removed.unwrap_or(0), u64::from(removed.is_some()));
        Ok(removed.is_some())
    }

    fn expire(
        &self,
        folder: &CheckedDir,
        opened: &OpenedResult,
        unlink: impl FnOnce() -> Result<bool, SpoolError>,
    ) -> Result<Outcome, SpoolError> {
        match folder.lock(opened, Lock::ExclusiveNow)? {
            LockOutcome::Acquired => {}
            LockOutcome::Contended => return Ok(Outcome::InUse),
            LockOutcome::Removed => return Ok(Outcome::AlreadyGone),
        }
        let info = &opened.info;
        // Its owner keeps it longer since it was examined.
        if folder.sidecar(&info.name).is_ok_and(|now| now.expires_at > info.sidecar.expires_at) {
            return Ok(Outcome::InUse);
        }
        if !unlink()? {
            return Ok(Outcome::AlreadyGone);
        }
        self.tombstones.remember(&opened.info);
        Ok(Outcome::Removed)
    }

    /// Counts the usage of all scopes, including drafts.
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
        retry_interrupted(|| self.options.os.free_bytes(self.folder.fd.as_fd()))
            .map_err(|error| SpoolError::io("measure", &self.folder.path, error))
    }

    /// Counts the usage of all scopes and records the total in the usage log.
    pub(super) fn count(
        &self,
        next_expiry: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<Usage, SpoolError> {
        let Some(usage_log) = &self.usage_log else { return self.usage() };
        if !usage_log.exists() {
            // An empty directory needs no log.
            let usage = self.usage()?;
            if usage.bytes == 0 {
                return Ok(usage);
            }
        }
        let count = usage_log.begin_count();
        let usage = self.usage()?;
        usage_log.end_count(&count, (usage.bytes, usage.files), next_expiry, now);
        Ok(usage)
    }

    /// The usage of all scopes according to the usage log, if it is valid.
    fn logged_usage(&self, now: DateTime<Utc>) -> Result<Option<Usage>, SpoolError> {
        let free = self.free()?;
        if !self.options.quota.is_limited() {
            return Ok(Some(Usage { free, ..Usage::default() }));
        }
        let balance = self.usage_log.as_ref().and_then(|usage_log| usage_log.usage(now));
        Ok(balance.map(|balance| Usage { bytes: balance.bytes, files: balance.files, free }))
    }

    /// Deletes expired results, oldest first, until the quota holds.
    pub(super) fn make_room(&self, now: DateTime<Utc>) -> Result<(), SpoolError> {
        if let Some(usage) = self.logged_usage(now)?
            && self.options.quota.exceeded_by(usage).is_none()
        {
            return Ok(());
        }
        // Nothing is refused before everything was counted.
        let mut usage = self.count(None, now)?;
        if self.options.quota.exceeded_by(usage).is_none() {
            return Ok(());
        }
        let mut candidates: Vec<(DateTime<Utc>, Option<Scope>, FileName)> = Vec::new();
        self.each_folder(|scope, folder| {
            // A result that cannot be examined is no candidate.
            self.each_expired(folder, now, &mut Vec::new(), |opened| {
                candidates.push((opened.info.sidecar.expires_at, scope, opened.info.name));
            });
        });
        candidates.sort_by_key(|(expires_at, ..)| *expires_at);
        for (_, scope, name) in candidates {
            if let Ok(Some(gone)) = self.expire_in(scope, &name) {
                let parts = gone.sidecar.parts.iter().map(|part| part.bytes);
                usage.bytes = usage.bytes.saturating_sub(parts.sum::<u64>() + gone.sidecar.bytes);
                usage.files = usage.files.saturating_sub(1);
                usage.free = self.free()?;
                self.tombstones.report_later(gone);
                if self.options.quota.exceeded_by(usage).is_none() {
                    return Ok(());
                }
            }
        }
        match self.options.quota.exceeded_by(usage) {
            Some(limit) => Err(SpoolError::Full { limit }),
            None => Ok(()),
        }
    }

    fn expire_in(
        &self,
        scope: Option<Scope>,
        name: &FileName,
    ) -> Result<Option<ResultInfo>, SpoolError> {
        let other = match (&self.root, scope) {
            (Some(root), Some(scope)) => {
                Some(root.existing_within(&scope.to_string(), &self.options)?)
            }
            _ => None,
        };
        let folder = other.as_ref().unwrap_or(&self.folder);
        let opened = folder.examine(name, self.options.ttl)?;
        let outcome =
            self.expire(folder, &opened, || self.unlink_result(scope, folder, &opened))?;
        Ok(matches!(outcome, Outcome::Removed).then_some(opened.info))
    }
}

enum Outcome {
    Removed,
    InUse,
    AlreadyGone,
}

impl CheckedDir {
    /// Deletes drafts of dead writers, and sidecars without data, unless the result can be completed.
    pub(super) fn clear_leftovers(&self, swept: &mut SweepReport) {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return swept.failures.push(error),
        };
        self.complete_results(&names, swept);
        let whole: HashSet<FileName> = results(&names).into_iter().collect();
        for text in &names {
            let cleared = match DirEntryName::parse(text) {
                Some(DirEntryName { draft: true, .. }) => self.clear_draft(text),
                Some(DirEntryName { name, piece: ResultFile::Sidecar, .. })
                    if !whole.contains(&name) =>
                {
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

    /// Completes the results whose writers died between the last two renames. A part that has its final
    /// name and an empty draft as well was the log of a command, and has no other name any more. All
    /// files were synced, and their sizes claimed, before it was renamed.
    fn complete_results(&self, names: &[String], swept: &mut SweepReport) {
        for text in names {
            let Some(DirEntryName { name, piece: piece @ ResultFile::Part(_), draft: true }) =
                DirEntryName::parse(text)
            else {
                continue;
            };
            if !names.contains(&piece.file_name(&name)) {
                continue;
            }
            match self.complete_result(&name) {
                Ok(()) | Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. }) => {}
                Err(error) => swept.failures.push(error),
            }
        }
    }

    /// Gives the data of a dead writer its final name, if all files of the result are whole.
    fn complete_result(&self, name: &FileName) -> Result<(), SpoolError> {
        let beside = ResultFile::Sidecar.file_name(name);
        let draft = ResultFile::Data.draft_name(name);
        let (sidecar_file, _) = self.open_own(&beside)?;
        let (data_file, stat) = self.open_own(&draft)?;
        // Both locks are held until the data is renamed: another process would delete the orphan.
        for (file, name) in [(&sidecar_file, &beside), (&data_file, &draft)] {
            if self.lock_file(file, name, Lock::ExclusiveNow)? != LockOutcome::Acquired {
                return Ok(());
            }
        }
        let sidecar = self.sidecar(name)?;
        let mut is_whole = stat.bytes == sidecar.bytes;
        for (number, part) in (1..).zip(&sidecar.parts) {
            let length = self.own_file_len(&ResultFile::Part(number).file_name(name))?;
            is_whole &= length == Some(part.bytes);
        }
        if !is_whole {
            return Ok(());
        }
        let to = ResultFile::Data.file_name(name);
        retry_interrupted(|| self.os.rename(self.fd.as_fd(), &draft, &to))
            .map_err(|error| SpoolError::io("rename", self.at(&draft), error))?;
        retry_interrupted(|| self.os.sync_dir(self.fd.as_fd()))
            .map_err(|error| SpoolError::io("sync", &self.path, error))
    }

    pub(super) fn clear_draft(&self, name: &str) -> Result<bool, SpoolError> {
        let (file, stat) = self.open_own(name)?;
        // A writer locks its draft immediately after creating it, and then checks that it still
        // exists.
        let locked = self.lock_file(&file, name, Lock::ExclusiveNow)?;
        Ok(locked == LockOutcome::Acquired && self.unlink_same(name, &stat)?)
    }

    /// Deletes a sidecar and its parts, unless its writer is about to rename the data.
    fn clear_orphan(&self, name: &FileName) -> Result<bool, SpoolError> {
        let beside = ResultFile::Sidecar.file_name(name);
        let (file, _) = self.open_own(&beside)?;
        if self.lock_file(&file, &beside, Lock::ExclusiveNow)? != LockOutcome::Acquired {
            return Ok(false);
        }
        let sidecar = self.sidecar(name)?;
        let data = ResultFile::Data.file_name(name);
        match retry_interrupted(|| self.os.stat_at(self.fd.as_fd(), &data)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(SpoolError::io("look at", self.at(&data), error)),
        }
        self.unlink_sidecar_and_parts(name, &sidecar)?;
        Ok(true)
    }

    /// The size of all files in bytes, and the number of results: those with a sidecar, whose data
    /// may be about to be renamed, and record files without one.
    ///
    /// Other processes rename files meanwhile. A final name never changes; data that is just being
    /// renamed may be listed under neither name, and is looked up under both.
    fn usage(&self) -> Result<(u64, u64), SpoolError> {
        let entries: Vec<DirEntryName> =
            self.names()?.iter().filter_map(|name| DirEntryName::parse(name)).collect();
        let claims = entries.iter().filter(|e| !e.draft && !matches!(e.piece, ResultFile::Part(_)));
        let claimed: HashSet<&FileName> = claims.map(|e| &e.name).collect();
        let (mut bytes, mut files) = (0, 0);
        for name in &claimed {
            let (whole, draft) =
                (ResultFile::Data.file_name(name), ResultFile::Data.draft_name(name));
            let mut data = None;
            for name in [&whole, &draft, &whole] {
                data = data.or(self.own_file_len(name)?);
            }
            if data == Some(0) {
                data = Some(self.declared_len(name, ResultFile::Data));
            }
            bytes += data.unwrap_or(0);
            files += u64::from(data.is_some());
        }
        for DirEntryName { name, piece, draft } in &entries {
            if *piece == ResultFile::Data && claimed.contains(name) {
                continue;
            }
            let file = if *draft { piece.draft_name(name) } else { piece.file_name(name) };
            let length = self.own_file_len(&file)?.unwrap_or(0);
            let published = || DirEntryName { name: name.clone(), piece: *piece, draft: false };
            let is_adopted =
                *draft && length == 0 && claimed.contains(name) && !entries.contains(&published());
            bytes += if is_adopted { self.declared_len(name, *piece) } else { length };
        }
        Ok((bytes, files))
    }

    /// The size of a file according to the sidecar, for an empty draft: the log of a command has a name
    /// of its own until it is renamed.
    fn declared_len(&self, name: &FileName, piece: ResultFile) -> u64 {
        let Ok(sidecar) = self.sidecar(name) else { return 0 };
        match piece {
            ResultFile::Data => sidecar.bytes,
            ResultFile::Part(number) => {
                let part = usize::from(number).checked_sub(1).and_then(|i| sidecar.parts.get(i));
                part.map_or(0, |part| part.bytes)
            }
            ResultFile::Sidecar => 0,
        }
    }

    /// The size of an entry, if it is a regular file of this user.
    fn own_file_len(&self, name: &str) -> Result<Option<u64>, SpoolError> {
        match retry_interrupted(|| self.os.stat_at(self.fd.as_fd(), name)) {
            Ok(stat) if stat.kind == FileKind::File && stat.owner == self.os.user() => {
                Ok(Some(stat.bytes))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SpoolError::io("look at", self.at(name), error)),
        }
    }
}

/// Whether the time in a name is before `now`; otherwise its file need not be opened.
fn made_before(name: &FileName, now: DateTime<Utc>) -> bool {
    i64::try_from(name.id().unix_ms()).is_ok_and(|made| made <= now.timestamp_millis())
}
