//! The transcripts of a run: a file that is appended to, and from which a run resumes.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::task::{CorpusId, Family};
use crate::transcript::{Ending, RunSettings, SampleId, Transcript};

/// The transcripts of a run.
#[derive(Debug)]
pub(super) struct Journal {
    file: Mutex<File>,
    contents: Contents,
}

/// What earlier runs have recorded.
#[derive(Debug, Default)]
struct Contents {
    finished: HashSet<SampleId>,
    settings: BTreeSet<RecordedSettings>,
}

/// The settings of some samples in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordedSettings {
    pub(super) agent: String,
    pub(super) family: Family,
    pub(super) corpus: CorpusId,
    pub(super) settings: RunSettings,
    /// Whether the samples failed, perhaps before the endpoint replied to any request.
    pub(super) is_failed: bool,
}

impl Journal {
    /// Opens or creates the file. A partial last line, which a killed run leaves, is discarded. Fails if
    /// another run has the file open.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let open = || -> Result<Self> {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent)?;
            }
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            if file.try_lock().is_err() {
                bail!("another run is writing to it");
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            if complete < bytes.len() {
                file.set_len(complete as u64)?;
                file.sync_data()?;
            }
            let contents = Contents::read(&bytes[..complete])?;
            Ok(Self { file: Mutex::new(file), contents })
        };
        open().with_context(|| format!("cannot use {}", path.display()))
    }

    /// Whether a sample has a transcript. Samples of a failed endpoint are repeated.
    pub(super) fn is_finished(&self, sample: &SampleId) -> bool {
        self.contents.finished.contains(sample)
    }

    /// The settings of the samples of an agent.
    pub(super) fn settings(&self, agent: &str) -> impl Iterator<Item = &RecordedSettings> {
        self.contents.settings.iter().filter(move |recorded| recorded.agent == agent)
    }

    /// Appends a transcript and makes it durable.
    pub(super) fn append(&self, transcript: &Transcript) -> Result<()> {
        let mut line = serde_json::to_vec(transcript)?;
        line.push(b'\n');
        // A line that another thread did not write completely ends the run.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).context("cannot write a transcript")?;
        file.sync_data().context("cannot write a transcript")
    }
}

impl Contents {
    /// Reads transcripts. A later one of a sample replaces the earlier ones.
    fn read(lines: &[u8]) -> Result<Self> {
        let mut contents = Self::default();
        for (index, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let transcript: Transcript = serde_json::from_slice(line)
                .with_context(|| format!("line {} is not a transcript", index + 1))?;
            let is_failed = transcript.ending == Ending::Failed;
            contents.settings.insert(RecordedSettings {
                agent: transcript.sample.agent.clone(),
                family: transcript.family,
                corpus: transcript.corpus,
                settings: transcript.settings,
                is_failed,
            });
            if is_failed {
                contents.finished.remove(&transcript.sample);
            } else {
                contents.finished.insert(transcript.sample);
            }
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::task::{Answer, CorpusKind};
    use crate::transcript::Usage;

    fn transcript(task: &str, ending: Ending) -> Transcript {
        Transcript {
            sample: SampleId {
                suite: "e1".to_owned(),
                condition: "s1-c1".to_owned(),
                agent: "pager".to_owned(),
                task: task.to_owned(),
                repeat: 0,
            },
            settings: RunSettings {
                program: "p".to_owned(),
                tasks: "t".to_owned(),
                window_tokens: 200_000,
                model: None,
            },
            family: Family::IdLookup,
            corpus: CorpusId { kind: CorpusKind::Memories, size: 50 },
            expected: Answer::Count(7),
            given: Some(Answer::Count(7)),
            ending,
            turns: 3,
            max_turns: 40,
            calls: Vec::new(),
            usage: Usage::default(),
            elapsed_millis: 5,
        }
    }

    #[test]
    fn a_run_resumes_after_its_last_complete_line() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("new/transcripts.jsonl");
        let (one, two, failed) = (
            transcript("one", Ending::Answered),
            transcript("two", Ending::Cap),
            transcript("failed", Ending::Failed),
        );
        let journal = Journal::open(&path).unwrap();
        for transcript in [&one, &failed] {
            journal.append(transcript).unwrap();
        }
        drop(journal);
        let complete = fs::read(&path).unwrap();
        let partial = serde_json::to_vec(&two).unwrap();
        fs::write(&path, [complete.as_slice(), &partial[..partial.len() / 2]].concat()).unwrap();

        let journal = Journal::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), complete, "the partial line is discarded");
        assert!(journal.is_finished(&one.sample));
        assert!(!journal.is_finished(&two.sample));
        assert!(!journal.is_finished(&failed.sample), "repeated");
        journal.append(&two).unwrap();
        drop(journal);
        assert!(Journal::open(&path).unwrap().is_finished(&two.sample));
    }

    #[test]
    fn the_last_transcript_of_a_sample_counts() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("transcripts.jsonl");
        let is_finished = |endings: &[Ending]| {
            // The first time there is none.
            let _ = fs::remove_file(&path);
            let journal = Journal::open(&path).unwrap();
            for ending in endings {
                journal.append(&transcript("one", *ending)).unwrap();
            }
            drop(journal);
            let sample = transcript("one", Ending::Answered).sample;
            Journal::open(&path).unwrap().is_finished(&sample)
        };
        assert!(is_finished(&[Ending::Failed, Ending::Failed, Ending::NoAnswer]));
        assert!(!is_finished(&[Ending::Answered, Ending::Failed]));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "the report counts those that failed");
    }

    #[test]
    fn the_settings_of_an_agent_are_read() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("transcripts.jsonl");
        let journal = Journal::open(&path).unwrap();
        let mut other = transcript("two", Ending::Answered);
        other.settings.program = "q".to_owned();
        for transcript in [transcript("one", Ending::Answered), other.clone(), other] {
            journal.append(&transcript).unwrap();
        }
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        let programs: Vec<&str> =
            journal.settings("pager").map(|recorded| recorded.settings.program.as_str()).collect();
        assert_eq!(programs, ["p", "q"]);
        assert_eq!(journal.settings("naive").count(), 0);
    }

    #[test]
    fn an_invalid_line_and_a_second_run_are_refused() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("transcripts.jsonl");
        let journal = Journal::open(&path).unwrap();
        let error = format!("{:#}", Journal::open(&path).unwrap_err());
        assert!(error.contains("another run is writing to it"), "{error}");
        drop(journal);
        fs::write(&path, "{}\n").unwrap();
        let error = format!("{:#}", Journal::open(&path).unwrap_err());
        assert!(error.contains("line 1 is not a transcript"), "{error}");
    }
}
