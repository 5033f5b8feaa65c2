//! Files that a second user plants in a shared directory under our names.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lro_spool::{Address, DirOptions, DirSpool, FileName, Foreign, Quota, Spool, SpoolError};

use crate::fixture::{ROWS, at, entries, flat, id, is_root, put, whole};
use crate::step_os::{Side, StepOs};

fn as_nobody(dir: &Path, script: &str) {
    let args = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", script];
    let run = Command::new("setpriv").args(args).current_dir(dir).output().unwrap();
    assert!(run.status.success(), "{script}: {run:?}");
}

/// A directory like `/tmp`, with a result of ours whose sidecar serves as a model.
fn shared() -> (tempfile::TempDir, DirSpool, FileName) {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o1777)).unwrap();
    let spool = flat(home.path());
    let name = put(&spool, id(1), ROWS).unwrap().name;
    (home, spool, name)
}

#[test]
fn f25_planted_files_links_and_directories_are_neither_followed_read_nor_deleted() {
    if !is_root("f25_planted_files_links_and_directories_are_neither_followed_read_nor_deleted") {
        return;
    }
    let (home, spool, ours) = shared();
    // A perfect copy, as if the second user had written it with a spool of their own.
    let copy = home.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for end in ["", ".meta.json", ".part-1"] {
        let name = format!("{ours}{end}");
        fs::copy(home.path().join(&name), copy.join(&name)).unwrap();
        fs::set_permissions(copy.join(&name), Permissions::from_mode(0o644)).unwrap();
    }
    let (u, one) = (|n: u64| id(n).to_string(), id(1).to_string());
    let plant = [
        format!(
            "for e in '' .meta.json .part-1; do cp copy/{ours}$e atlatl-list-{one}.jsonl$e; done"
        ),
        format!(
            "for e in '' .meta.json .part-1; do cp copy/{ours}$e atlatl-list-{}.jsonl$e; done",
            u(2)
        ),
        format!("ln -s {ours} atlatl-list-{}.jsonl", u(3)),
        format!(
            "ln -s /etc/passwd atlatl-list-{}.txt; ln -s copy/{ours}.meta.json atlatl-list-{}.txt.meta.json",
            u(4),
            u(4)
        ),
        format!("mkdir atlatl-list-{}.jsonl", u(5)),
        format!("mkfifo atlatl-list-{}.jsonl", u(6)),
        format!("cp copy/{ours} .part-atlatl-list-{}.jsonl", u(7)),
        format!("cp copy/{ours}.meta.json atlatl-list-{}.jsonl.meta.json", u(8)),
        format!("ln -s /nowhere .part-atlatl-list_issues-{}.jsonl", u(9)),
        format!("echo x > atlatl-list_issues-{}.jsonl.meta.json", u(10)),
    ];
    as_nobody(home.path(), &plant.join("\n"));
    let before = entries(home.path());

    for n in 2..=8 {
        let refused = spool.open(&id(n).into(), at(0)).map(drop);
        assert!(
            matches!(refused, Err(SpoolError::NotFound { .. } | SpoolError::NotOurs { .. })),
            "{n}: {refused:?}"
        );
    }
    assert_eq!(whole(&spool, id(1)), ROWS, "ours is found beside theirs");
    assert_eq!(spool.list().unwrap().len(), 1);
    for n in [9, 10] {
        let taken = put(&spool, id(n), ROWS);
        assert!(
            matches!(&taken, Err(lro_spool::EncodeError::Spool(SpoolError::Taken { .. }))),
            "{taken:?}"
        );
    }
    let swept = spool.sweep(at(i64::from(i32::MAX))).unwrap();
    assert_eq!(swept.expired.len(), 1);
    assert_eq!(swept.leftovers, 0);
    drop(flat(home.path()));
    let gone: Vec<_> = before.difference(&entries(home.path())).cloned().collect();
    assert_eq!(gone.len(), 4, "{gone:?}");
    assert!(gone.iter().all(|name| name.starts_with(&ours.to_string())), "{gone:?}");
    assert!(!Path::new("/nowhere").exists());
}

#[test]
fn f25_a_second_name_of_a_file_makes_it_foreign() {
    let (home, spool, ours) = shared();
    // A hard link: ours by owner, and under a name someone else chose.
    let victim = home.path().join("precious");
    fs::hard_link(home.path().join(ours.to_string()), &victim).unwrap();
    let refused = spool.open(&Address::from(ours), at(0)).map(drop);
    assert!(
        matches!(refused, Err(SpoolError::NotOurs { why: Foreign::MoreLinks, .. })),
        "{refused:?}"
    );
    assert!(spool.sweep(at(i64::from(i32::MAX))).unwrap().expired.is_empty());
    assert!(victim.exists());
}

#[test]
fn f25_leftovers_that_are_links_or_directories_stay() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("target");
    fs::write(&target, "precious").unwrap();
    let name = |n: u64| home.path().join(format!(".part-atlatl-list-{}.jsonl", id(n)));
    std::os::unix::fs::symlink(&target, name(1)).unwrap();
    fs::create_dir(name(2)).unwrap();
    fs::hard_link(&target, name(3)).unwrap();
    fs::write(name(4), "half").unwrap();
    let spool = flat(home.path());
    assert!(!name(4).exists(), "the only leftover");
    assert_eq!(spool.sweep(at(0)).unwrap().leftovers, 0);
    assert!(name(1).is_symlink() && name(2).is_dir() && name(3).exists());
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

/// How many files a sweep has looked at by name before it removes each: data, both parts, sidecar.
fn looks_before_removals() -> Vec<usize> {
    let (home, _, _) = shared();
    let looks = Arc::new(AtomicUsize::new(0));
    let removals = Arc::new(Mutex::new(Vec::new()));
    let watch = {
        let (looks, removals) = (Arc::clone(&looks), Arc::clone(&removals));
        move |step: &str, side: Side| {
            match (step, side) {
                ("stat_at", Side::Before) => drop(looks.fetch_add(1, Ordering::SeqCst)),
                ("unlink", Side::Before) => {
                    removals.lock().unwrap().push(looks.load(Ordering::SeqCst));
                }
                _ => {}
            }
            Ok(())
        }
    };
    let options = DirOptions::flat().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
    let spool = DirSpool::open(home.path(), options).unwrap();
    spool.sweep(at(i64::from(i32::MAX))).unwrap();
    removals.lock().unwrap().clone()
}

#[test]
fn f25_what_took_our_files_place_before_it_is_removed_stays() {
    let expected = looks_before_removals();
    for (end, removal) in [("", 0), (".part-1", 1), (".meta.json", 3)] {
        let expected = expected[removal];
        let (home, _, ours) = shared();
        let file = home.path().join(format!("{ours}{end}"));
        let kept = home.path().join("kept");
        // Ours was looked at and is about to be unlinked: someone puts another in its place.
        let watch = {
            let (name, file, kept) = (format!("{ours}{end}"), file.clone(), kept.clone());
            let looks = AtomicUsize::new(0);
            move |step: &str, side: Side| {
                let look = step == "stat_at" && side == Side::Before;
                if look && looks.fetch_add(1, Ordering::SeqCst) + 1 == expected {
                    fs::rename(&file, &kept).unwrap();
                    fs::write(&file, format!("precious {name}")).unwrap();
                }
                Ok(())
            }
        };
        let options = DirOptions::flat().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
        let spool = DirSpool::open(home.path(), options).unwrap();
        spool.sweep(at(i64::from(i32::MAX))).unwrap();
        assert!(kept.exists(), "{end}: exchanged");
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("precious {ours}{end}"));
    }
}

#[test]
fn f25_a_hard_link_that_is_removed_while_it_is_examined_is_not_read() {
    let (home, _, ours) = shared();
    let sidecar = home.path().join(format!("{ours}.meta.json"));
    let text = fs::read_to_string(&sidecar).unwrap();
    assert!(text.contains("list_issues"));
    fs::remove_file(&sidecar).unwrap();
    let outside = tempfile::tempdir_in(home.path()).unwrap();
    let foreign = outside.path().join("precious");
    fs::write(&foreign, text.replace("list_issues", "foreign")).unwrap();
    fs::hard_link(&foreign, &sidecar).unwrap();
    let watch = {
        // The data file is examined first, then the sidecar.
        let looks = AtomicUsize::new(0);
        let sidecar = sidecar.clone();
        move |step: &str, side: Side| {
            let look = step == "stat" && side == Side::Before && sidecar.exists();
            if look && looks.fetch_add(1, Ordering::SeqCst) > 0 {
                fs::remove_file(&sidecar).unwrap();
            }
            Ok(())
        }
    };
    let options = DirOptions::flat().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
    let spool = DirSpool::open(home.path(), options).unwrap();
    let mut tools = Vec::new();
    for _ in 0..4 {
        tools.extend(spool.list().unwrap().into_iter().map(|info| info.sidecar.tool));
    }
    assert!(!sidecar.exists(), "removed while it was examined");
    assert!(!tools.contains(&"foreign".to_owned()), "{tools:?}");
}
