//! Embedding: how many texts the servers of one database send to the embedding endpoint for a number
//! of memories, with and without kills.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use testkit::embeddings::EmbeddingsServer;
use xtask::output;

use super::database::{self, Contents};
use super::lifecycle::{self, ClusterSpec};
use super::report::ClusterReport;
use super::state::{Component, State};
use super::tenants::{self, CANARY_PREFIX, Tenants};
use super::{ReleaseArgs, workload};

const TENANTS: usize = 6;
const DIMENSIONS: usize = 384;
/// How long a request of the endpoint takes.
const REQUEST_DELAY: Duration = Duration::from_millis(20);
/// How long it takes in a run with kills, so that a killed server is waiting for vectors.
const REQUEST_DELAY_WITH_KILLS: Duration = Duration::from_secs(3);
const KILL_INTERVAL: Duration = Duration::from_millis(700);
/// Longer than two leases of the memories that a killed server claimed.
const VECTORS_TIMEOUT: Duration = Duration::from_mins(8);
/// How long texts are counted after every memory has its vector: longer than the interval at which
/// servers look for memories without one.
const EXTRA_DURATION: Duration = Duration::from_secs(6);
/// How many texts a server has claimed at most: 4 workers with 32 each.
const MAX_CLAIMED_TEXTS: u64 = 128;

/// How embedding is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct EmbeddingArgs {
    /// Number of memories
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    memories: u16,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    replicas: u16,
    /// Number of kills in a second run; 0 for no second run
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=20))]
    kills: u16,
    #[command(flatten)]
    pub(super) release: ReleaseArgs,
}

impl EmbeddingArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { memories, replicas, kills, .. } = self;
        format!(
            "cargo loadtest embedding --memories {memories} --replicas {replicas} --kills {kills}"
        )
    }
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct EmbeddingReport {
    replicas: u16,
    runs: Vec<EmbeddingRun>,
}

/// The texts of one run.
#[derive(Debug, Serialize)]
struct EmbeddingRun {
    #[serde(flatten)]
    contents: Contents,
    /// Texts that the endpoint was sent.
    texts: u64,
    /// How many of them differ.
    distinct_texts: u64,
    /// Kills while memories waited for vectors.
    kills: u16,
    kills_wanted: u16,
    /// From the first write until every memory had its vector.
    seconds: f64,
}

/// Measures a cluster without kills, and another one with kills if some are wanted.
pub(super) fn run(dir: &Path, atlatl: PathBuf, args: &EmbeddingArgs) -> Result<EmbeddingReport> {
    let mut spec = ClusterSpec {
        atlatl,
        replicas: args.replicas.into(),
        tenants: TENANTS,
        embedder: None,
        issuer: None,
    };
    let mut runs = Vec::new();
    for kills in [0, args.kills] {
        if kills == 0 && !runs.is_empty() {
            break;
        }
        let delay = if kills == 0 { REQUEST_DELAY } else { REQUEST_DELAY_WITH_KILLS };
        let endpoint = EmbeddingsServer::start(DIMENSIONS, CANARY_PREFIX, delay);
        spec.embedder = Some(endpoint.embedder());
        output::progress(format_args!("{} memories, {kills} kills", args.memories));
        runs.push(lifecycle::with_cluster(dir, &spec, |state| {
            embed(state, &endpoint, args.memories.into(), kills)
        })?);
    }
    Ok(EmbeddingReport { replicas: args.replicas, runs })
}

fn embed(
    state: &mut State,
    endpoint: &EmbeddingsServer,
    memories: usize,
    kills: u16,
) -> Result<EmbeddingRun> {
    let tenants = Tenants::new(tenants::load(&state.dir)?.0);
    let start = Instant::now();
    workload::fill(&tenants, state.balancer.port, memories.div_ceil(TENANTS), 1)?;
    let done = kill_servers(state, kills)?;
    output::progress("waiting for vectors");
    database::wait_for_vectors(state, VECTORS_TIMEOUT);
    let seconds = start.elapsed().as_secs_f64();
    thread::sleep(EXTRA_DURATION);
    let texts = endpoint.texts();
    Ok(EmbeddingRun {
        contents: database::contents(state)?,
        texts: texts.len() as u64,
        distinct_texts: texts.iter().collect::<BTreeSet<_>>().len() as u64,
        kills: done,
        kills_wanted: kills,
        seconds,
    })
}

/// Kills one server after another and restarts it, while memories wait for vectors. Returns the number
/// of kills.
fn kill_servers(state: &mut State, kills: u16) -> Result<u16> {
    for done in 0..kills {
        thread::sleep(KILL_INTERVAL);
        let Contents { memories, vectors } = database::contents(state)?;
        if vectors >= memories {
            return Ok(done);
        }
        let number = usize::from(done) % state.replicas.len();
        state.kill(Component::Replica(number))?;
        lifecycle::start_server(state, number)?;
    }
    Ok(kills)
}

impl EmbeddingRun {
    fn findings(&self) -> Vec<String> {
        let Self { contents: Contents { memories, vectors }, texts, distinct_texts, .. } = *self;
        let mut findings = Vec::new();
        let mut expect = |holds: bool, finding: String| {
            if !holds {
                findings.push(finding);
            }
        };
        let (kills, wanted) = (self.kills, self.kills_wanted);
        let run = format!("{wanted} kills");
        expect(vectors == memories, format!("{run}: {vectors} vectors for {memories} memories"));
        let most = memories + u64::from(kills) * MAX_CLAIMED_TEXTS;
        expect(
            (memories..=most).contains(&texts) && distinct_texts == memories,
            format!(
                "{run}: {texts} texts, {distinct_texts} of them different, for {memories} memories"
            ),
        );
        expect(kills == wanted, format!("{run}: the vectors were there after {kills} of them"));
        findings
    }
}

impl ClusterReport for EmbeddingReport {
    fn findings(&self) -> Vec<String> {
        self.runs.iter().flat_map(EmbeddingRun::findings).collect()
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| servers killed | memories | vectors | texts embedded | different texts | seconds |\n\
             |--:|--:|--:|--:|--:|--:|",
        );
        for run in &self.runs {
            let EmbeddingRun { contents, texts, distinct_texts, kills, seconds, .. } = run;
            let Contents { memories, vectors } = contents;
            let _ = write!(
                text,
                "\n| {kills} | {memories} | {vectors} | {texts} | {distinct_texts} | {seconds:.1} |"
            );
        }
        let _ = write!(
            text,
            "\n\n{} servers of one database. The review of version 0.1.0 (finding g45) counted 1,771 \
             texts for 600 memories of three servers without kills.",
            self.replicas
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kills: u16, texts: u64) -> EmbeddingRun {
        EmbeddingRun {
            contents: Contents { memories: 600, vectors: 600 },
            texts,
            distinct_texts: 600,
            kills,
            kills_wanted: kills,
            seconds: 9.0,
        }
    }

    #[test]
    fn a_text_may_be_sent_again_only_after_a_kill() {
        assert!(run(0, 600).findings().is_empty());
        assert!(run(2, 856).findings().is_empty());
        assert_eq!(run(0, 601).findings().len(), 1);
        assert_eq!(run(2, 857).findings().len(), 1);
        assert_eq!(run(2, 599).findings().len(), 1);
        let fewer =
            EmbeddingRun { contents: Contents { memories: 600, vectors: 599 }, ..run(0, 600) };
        assert_eq!(fewer.findings().len(), 1);
        let early = EmbeddingRun { kills_wanted: 3, ..run(2, 700) };
        assert_eq!(early.findings(), ["3 kills: the vectors were there after 2 of them"]);
        let report = EmbeddingReport { replicas: 3, runs: vec![run(0, 600), run(2, 700)] };
        assert!(report.findings().is_empty());
        assert!(report.table().contains("\n| 2 | 600 | 600 | 700 | 600 | 9.0 |\n"));
    }
}
