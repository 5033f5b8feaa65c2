//! A spool in object storage compared with the bare calls below it, on a real local S3 server.
//!
//! `cargo xtask bench server` runs it and keeps the results. Prints one JSON object. Each round does
//! the bare work and ours in turn, with the same bytes. The figures are medians.

#![expect(clippy::print_stdout, reason = "its output is its result")]

use std::error::Error;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use chrono::DateTime;
use lro_core::{Detail, OffloadHeader, Operation, ResultId, Tokens};
use lro_query::search::{Case, Search};
use lro_query::{Bytes, Rest};
use lro_spool::{
    Bucket, Extension, NewResult, ObjectOptions, ObjectSpool, Quota, Spool, StoredForm,
};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, WriteMultipart};
use serde_json::{Value, json};
use testkit::s3::S3Server;

type Outcome = Result<(), Box<dyn Error>>;

const BYTES: usize = 100_000_000;
const CHUNK: usize = 256 << 10;
const PART: usize = 8 << 20;
const ROUNDS: u64 = 7;
const GOAL: f64 = 1.3;
/// The size of a read by a model in bytes.
const RANGE: u64 = 24_000;

fn main() -> Outcome {
    let server = S3Server::start();
    let url = format!("s3://{}/spool", server.bucket());
    let options = ObjectOptions::new(std::env::temp_dir());
    let bucket = Bucket::from_url(&url, server.settings(), options)?;
    let spool = ObjectSpool::new(&bucket, "ann", Quota::NONE)?;
    let bare = Bare::new(&url, &server)?;
    let payload = lines();

    let names =
        ["write", "search, all of it", "read all of it, 256 KiB at a time", "copy to a file"];
    let mut rows = vec![Row::new("a range of 24 kB in the middle", None)];
    rows.extend(names.map(|name| Row::new(name, Some(GOAL))));
    for round in 0..ROUNDS {
        let id = ResultId::new(1_800_000_000_000, u128::from(round));
        let key = Path::from(format!("bare/{round}"));
        let [range, write, search, read, copy] = &mut rows[..] else { unreachable!("five rows") };
        write.take(|| bare.write(&key, &payload), || store(&spool, id, &payload))?;
        let reader = || spool.open(&id.into(), now());
        search.take(|| run_search(&Bytes(&bare.whole(&key)?)), || run_search(&*reader()?))?;
        read.take(
            || drop_all(&bare.whole(&key)?),
            || {
                let (stored, mut buf, mut at) = (reader()?, vec![0; CHUNK], 0);
                loop {
                    match stored.read_at(at, &mut buf)? {
                        0 => return whole(at),
                        read => at += read as u64,
                    }
                }
            },
        )?;
        copy.take(
            || {
                let mut file = tempfile::tempfile()?;
                std::io::Write::write_all(&mut file, &bare.whole(&key)?)?;
                Ok(())
            },
            || reader()?.as_file().map(drop).ok_or_else(|| "no file".into()),
        )?;
        let middle = BYTES as u64 / 2;
        range.take(
            || bare.range(&key, middle),
            || {
                let mut buf = vec![0; usize::try_from(RANGE)?];
                let read = reader()?.read_at(middle, &mut buf)?;
                if read > 0 { Ok(()) } else { Err("nothing".into()) }
            },
        )?;
    }
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    println!("{:#}", json!({"goal": GOAL, "bytes": BYTES, "rounds": ROUNDS, "rows": rows}));
    Ok(())
}

/// One operation, both ways.
struct Row {
    name: &'static str,
    goal: Option<f64>,
    bare: Vec<Duration>,
    ours: Vec<Duration>,
}

impl Row {
    fn new(name: &'static str, goal: Option<f64>) -> Self {
        Self { name, goal, bare: Vec::new(), ours: Vec::new() }
    }

    fn take(&mut self, bare: impl FnOnce() -> Outcome, ours: impl FnOnce() -> Outcome) -> Outcome {
        let timed = |work: &mut dyn FnMut() -> Outcome, times: &mut Vec<Duration>| {
            let begun = Instant::now();
            work()?;
            times.push(begun.elapsed());
            Ok::<_, Box<dyn Error>>(())
        };
        let (mut bare, mut ours) = (Some(bare), Some(ours));
        timed(&mut || bare.take().map_or(Ok(()), |work| work()), &mut self.bare)?;
        timed(&mut || ours.take().map_or(Ok(()), |work| work()), &mut self.ours)
    }

    fn json(&self) -> Value {
        let (bare, ours) = (median(&self.bare), median(&self.ours));
        json!({
            "operation": self.name,
            "bare_ms": bare,
            "ours_ms": ours,
            "ratio": ours / bare,
            "goal": self.goal,
        })
    }
}

fn median(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// The object store calls below a spool.
struct Bare {
    store: AmazonS3,
    runtime: tokio::runtime::Runtime,
}

impl Bare {
    fn new(url: &str, server: &S3Server) -> Result<Self, Box<dyn Error>> {
        let mut builder = AmazonS3Builder::new().with_url(url);
        for (name, value) in server.settings() {
            builder = builder.with_config(name.to_ascii_lowercase().parse()?, value);
        }
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { store: builder.build()?, runtime: threads })
    }

    fn write(&self, key: &Path, bytes: &[u8]) -> Outcome {
        self.runtime.block_on(async {
            let upload = self.store.put_multipart(key).await?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
            for chunk in bytes.chunks(CHUNK) {
                upload.wait_for_capacity(3).await?;
                upload.write(chunk);
            }
            upload.finish().await?;
            Ok(())
        })
    }

    fn whole(&self, key: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
        let bytes = self.runtime.block_on(async { self.store.get(key).await?.bytes().await })?;
        Ok(bytes.into())
    }

    fn range(&self, key: &Path, from: u64) -> Outcome {
        let range = Some(GetRange::Bounded(from..from + RANGE));
        let options = GetOptions { range, ..GetOptions::default() };
        let got = self
            .runtime
            .block_on(async { self.store.get_opts(key, options).await?.bytes().await })?;
        if got.len() as u64 == RANGE { Ok(()) } else { Err("short".into()) }
    }
}

fn store(spool: &ObjectSpool, id: ResultId, bytes: &[u8]) -> Outcome {
    let operation = Operation::from_tool("export");
    let header = OffloadHeader::new(&operation, None, 0, Tokens(0), Detail::Light, now());
    let mut draft = spool.create(NewResult {
        id,
        operation,
        tool: "export".to_owned(),
        server: None,
        arguments: None,
        extension: Extension::Txt,
        header,
        created_at: now(),
        ttl: Duration::from_hours(1),
    })?;
    for chunk in bytes.chunks(CHUNK) {
        draft.write(chunk)?;
    }
    draft.commit(StoredForm::Text.into())?;
    Ok(())
}

/// Lines of numbers, one in 65,536 of which matches.
fn lines() -> Vec<u8> {
    let mut random = testkit::SplitMix64::new(1);
    let mut text = String::with_capacity(BYTES + 64);
    while text.len() < BYTES {
        let n = random.next_u64();
        let name = n >> 48;
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "{{\"id\":{n},\"name\":\"number {name:04x}\",\"of\":\"the harbour\"}}");
    }
    text.truncate(BYTES);
    text.into_bytes()
}

fn run_search(source: &dyn lro_spool::PositionedRead) -> Outcome {
    let search = Search::new("number 00ff", Case::Sensitive)?.most_results(20, Rest::Count);
    let found = search.run(source, 0)?;
    if found.matches.is_empty() { Err("nothing found".into()) } else { Ok(()) }
}

fn drop_all(bytes: &[u8]) -> Outcome {
    whole(bytes.len() as u64)
}

fn whole(read: u64) -> Outcome {
    if read == BYTES as u64 { Ok(()) } else { Err(format!("{read} bytes").into()) }
}

fn now() -> DateTime<chrono::Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000).unwrap_or_default()
}
