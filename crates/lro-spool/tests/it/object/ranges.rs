//! Reads fetch only the blocks they need, and a full copy if a file is requested.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use lro_spool::{ObjectSpool, Spool, SpoolError, SpoolLimit, StoredResult};

use super::store::{Faulty, Op};
use super::{all, on, options, text};
use crate::fixture::{at, fast, id, put};

const MIB: usize = 1 << 20;

fn stored(store: &Arc<Faulty>, bytes: &[u8]) -> (ObjectSpool, Box<dyn StoredResult>) {
    let spool = on(Arc::clone(store) as _, options());
    put(&spool, id(1), bytes).unwrap();
    let reader = spool.open(&id(1).into(), at(0)).unwrap();
    store.log();
    (spool, reader)
}

/// How many requests for data there were, and for how many bytes.
fn fetched(store: &Faulty) -> (usize, u64) {
    let log = store.log();
    assert!(log.iter().all(|(op, key, _)| *op == Op::Get && key.contains("/data/")), "{log:?}");
    (log.len(), log.iter().map(|(.., bytes)| bytes).sum())
}

#[test]
fn a_range_fetches_only_the_blocks_it_needs() {
    let (store, bytes) = (Faulty::new(), text(40 * MIB));
    let (_spool, reader) = stored(&store, &bytes);
    let mut buf = [0; 100];
    assert_eq!(reader.read_at(20 * MIB as u64 + 7, &mut buf).unwrap(), 100);
    assert_eq!(buf[..], bytes[20 * MIB + 7..][..100]);
    assert_eq!(fetched(&store), (1, MIB as u64));
    reader.read_at(20 * MIB as u64 + 5000, &mut buf).unwrap();
    assert_eq!(fetched(&store), (0, 0), "the block is kept");
    // Over the border of two blocks.
    let mut buf = vec![0; 2 * MIB];
    let at = 30 * MIB - 5;
    assert_eq!(reader.read_at(at as u64, &mut buf).unwrap(), buf.len());
    assert_eq!(buf[..], bytes[at..][..2 * MIB]);
    assert_eq!(fetched(&store), (1, 3 * MIB as u64));
}

#[test]
fn a_scan_fetches_each_block_once_and_ahead() {
    let (store, bytes) = (Faulty::new(), text(40 * MIB + 1234));
    let (_spool, reader) = stored(&store, &bytes);
    assert!(all(&*reader, 70_000).unwrap() == bytes);
    let (requests, fetched) = fetched(&store);
    assert_eq!(fetched, bytes.len() as u64);
    assert!(requests <= 13, "{requests} requests");
}

#[test]
fn a_scan_that_ends_early_fetches_little_more() {
    let (store, bytes) = (Faulty::new(), text(40 * MIB));
    let (_spool, reader) = stored(&store, &bytes);
    let mut buf = [0; 1000];
    for n in 0..2000 {
        reader.read_at(n * 1000, &mut buf).unwrap();
    }
    let (_, fetched) = fetched(&store);
    assert!(fetched <= 8 * MIB as u64, "{fetched} bytes for 2 MB");
}

#[test]
fn a_file_is_fetched_once_and_kept_for_the_next_reader() {
    let (store, bytes) = (Faulty::new(), text(20 * MIB + 17));
    let (spool, reader) = stored(&store, &bytes);
    let file = File::from(reader.as_file().unwrap().try_clone_to_owned().unwrap());
    let mut whole = vec![0; bytes.len()];
    file.read_exact_at(&mut whole, 0).unwrap();
    assert!(whole == bytes);
    assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
    assert_eq!(fetched(&store), (3, bytes.len() as u64));
    // A process that receives it can only read it, and it has no name.
    assert!(file.write_all_at(b"x", 0).is_err());
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&file.metadata().unwrap()), 0);
    drop((reader, file));
    let again = spool.open(&id(1).into(), at(0)).unwrap();
    store.log();
    assert!(again.as_file().is_some());
    assert!(all(&*again, 999_999).unwrap() == bytes);
    assert_eq!(fetched(&store), (0, 0));
}

#[test]
fn without_room_there_is_no_file_and_the_bytes_come_all_the_same() {
    let (store, bytes) = (Faulty::new(), text(3 * MIB));
    let spool = on(Arc::clone(&store) as _, options().local(4 * MIB as u64, 0));
    for n in [1, 2] {
        put(&spool, id(n), &bytes).unwrap();
    }
    let one = spool.open(&id(1).into(), at(0)).unwrap();
    let two = spool.open(&id(2).into(), at(0)).unwrap();
    assert!(one.as_file().is_some());
    assert!(two.as_file().is_none(), "the other copy is in use");
    assert!(all(&*two, MIB).unwrap() == bytes);
    drop((one, two));
    let two = spool.open(&id(2).into(), at(0)).unwrap();
    assert!(two.as_file().is_some(), "an unused copy makes room");
    let mut scratch = spool.scratch().unwrap();
    scratch.append(&bytes[..MIB / 2]).unwrap();
    let full = scratch.append(&bytes);
    assert!(matches!(full, Err(SpoolError::Full { limit: SpoolLimit::Device })), "{full:?}");
    assert_eq!(scratch.len(), MIB as u64 / 2);
    drop((scratch, two));
    let mut scratch = spool.scratch().unwrap();
    scratch.append(&bytes).expect("what was given back can be had again");
}

#[test]
fn free_space_is_kept_where_copies_and_scratch_lie() {
    let store = Faulty::new();
    let spool = on(Arc::clone(&store) as _, options().local(u64::MAX, u64::MAX));
    put(&spool, id(1), b"[1]").unwrap();
    let full = spool.scratch().map(drop);
    assert!(matches!(full, Err(SpoolError::Full { limit: SpoolLimit::FreeSpace })), "{full:?}");
    assert!(spool.open(&id(1).into(), at(0)).unwrap().as_file().is_none());
}

#[test]
fn a_listing_reads_each_entry_once() {
    let store = Faulty::new();
    let spool = on(Arc::clone(&store) as _, options());
    for n in 1..=5 {
        put(&spool, id(n), b"[1,2]").unwrap();
    }
    let gets = || store.log().iter().filter(|(op, ..)| *op == Op::Get).count();
    gets();
    assert_eq!(spool.list().unwrap().len(), 5);
    assert_eq!(gets(), 5);
    assert_eq!(spool.list().unwrap().len(), 5);
    spool.sweep(at(0)).unwrap();
    assert_eq!(gets(), 0);
}

#[test]
fn a_write_asks_for_no_list() {
    let store = Faulty::new();
    let bucket = lro_spool::Bucket::new(Arc::clone(&store) as _, "", options()).unwrap();
    let quota = lro_spool::Quota { max_bytes: 1 << 30, max_files: 100, min_free_bytes: 0 };
    let spool = ObjectSpool::new(&bucket, "ann", quota).unwrap();
    let lists = || store.log().iter().filter(|(op, ..)| *op == Op::List).count();
    put(&spool, id(1), b"[1]").unwrap();
    assert_eq!(lists(), 1, "what is there is not known yet");
    for n in 2..=20 {
        put(&spool, id(n), b"[1]").unwrap();
    }
    assert_eq!(lists(), 0);
}

#[test]
fn no_name_is_left_in_the_local_directory() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let store = Faulty::new();
    let local = lro_spool::ObjectOptions::new(home.path());
    let spool = on(Arc::clone(&store) as _, local);
    put(&spool, id(1), &text(MIB)).unwrap();
    let reader = spool.open(&id(1).into(), at(0)).unwrap();
    let mut scratch = spool.scratch().unwrap();
    scratch.append(b"aside").unwrap();
    let mut file = File::from(reader.as_file().unwrap().try_clone_to_owned().unwrap());
    let mut first = [0; 1];
    file.read_exact(&mut first).unwrap();
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
