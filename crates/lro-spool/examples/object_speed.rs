//! Compares a spool in object storage with the bare calls below it, on a real S3 server.
//!
//! `cargo run --release -p lro-spool --features object --example object_speed`

use std::error::Error;
use std::io::Write as _;
use std::time::{Duration, Instant};

use chrono::DateTime;
use lro_core::{Detail, OffloadHeader, Operation, ResultId, Tokens};
use lro_spool::{
    Bucket, Extension, NewResult, ObjectOptions, ObjectSpool, Quota, Spool, StoredForm,
};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};
use testkit::s3::Server;

const BYTES: usize = 100_000_000;
const CHUNK: usize = 256 << 10;
const PART: usize = 8 << 20;
const ROUNDS: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start();
    let bucket = server.bucket();
    let url = format!("s3://{bucket}/spool");
    let options = ObjectOptions::new(std::env::temp_dir());
    let spool =
        ObjectSpool::new(&Bucket::from_url(&url, server.settings(), options)?, "ann", Quota::NONE)?;
    let mut builder = AmazonS3Builder::new().with_url(&url);
    for (name, value) in server.settings() {
        builder = builder.with_config(name.to_ascii_lowercase().parse()?, value);
    }
    let bare = builder.build()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut random = testkit::SplitMix64::new(1);
    let payload: Vec<u8> = (0..=BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    let payload = &payload[..BYTES];

    let mut times: [Vec<Duration>; 5] = Default::default();
    for round in 0..ROUNDS {
        let id = ResultId::new(1_800_000_000_000, u128::from(round));
        let key = Path::from(format!("bare/{round}"));
        let steps: [&mut dyn FnMut() -> Result<(), Box<dyn Error>>; 5] = [
            &mut || runtime.block_on(bare_write(&bare, &key, payload)),
            &mut || write(&spool, id, payload),
            &mut || {
                let read = runtime.block_on(async { bare.get(&key).await?.bytes().await })?;
                if read.len() == BYTES { Ok(()) } else { Err("short".into()) }
            },
            &mut || {
                let reader = spool.open(&id.into(), now())?;
                let (mut buf, mut at) = (vec![0; CHUNK], 0);
                loop {
                    match reader.read_at(at, &mut buf)? {
                        0 => break,
                        read => at += read as u64,
                    }
                }
                if at == BYTES as u64 { Ok(()) } else { Err("short".into()) }
            },
            &mut || {
                let reader = spool.open(&id.into(), now())?;
                reader.as_file().map(drop).ok_or_else(|| "no file".into())
            },
        ];
        for (step, times) in steps.into_iter().zip(&mut times) {
            let begun = Instant::now();
            step()?;
            times.push(begun.elapsed());
        }
    }
    let names = ["bare write", "spool write", "bare read", "spool read", "spool as a file"];
    let mut out = std::io::stdout().lock();
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_unstable();
        let median = times[times.len() / 2];
        writeln!(out, "{name:16} {:6} ms (median of {ROUNDS})", median.as_millis())?;
    }
    Ok(())
}

fn now() -> DateTime<chrono::Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000).unwrap_or_default()
}

async fn bare_write(store: &AmazonS3, key: &Path, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let upload = store.put_multipart(key).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
    for chunk in bytes.chunks(CHUNK) {
        upload.wait_for_capacity(3).await?;
        upload.write(chunk);
    }
    upload.finish().await?;
    Ok(())
}

fn write(spool: &ObjectSpool, id: ResultId, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let operation = Operation::of_tool("export");
    let header = OffloadHeader::new(&operation, None, 0, Tokens(0), Detail::Light, now());
    let mut draft = spool.create(NewResult {
        id,
        operation,
        tool: "export".to_owned(),
        server: None,
        extension: Extension::Bin,
        header,
        created_at: now(),
        ttl: Duration::from_hours(1),
    })?;
    for chunk in bytes.chunks(CHUNK) {
        draft.write(chunk)?;
    }
    draft.commit(StoredForm::Binary, None)?;
    Ok(())
}
