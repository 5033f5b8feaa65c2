//! Permissions of directories and files, independent of the umask.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lro_spool::{DirOptions, DirSpool, Foreign, Quota, Scope, Sharing, SpoolError};

use crate::fixture::{ROWS, flat, id, is_root, put};

const CHILD: &str = "ATLATL_TEST_UMASK_DIR";

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn scoped(path: &Path, sharing: Sharing) -> DirSpool {
    let scope = Scope::from_fields([b"1000".as_slice()]);
    let options = DirOptions::private().scope(scope).quota(Quota::NONE).sharing(sharing);
    DirSpool::open(path, options).unwrap()
}

/// The modes of everything under a directory, itself included.
fn modes(path: &Path, dirs: &mut Vec<u32>, files: &mut Vec<u32>) {
    dirs.push(mode(path));
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { modes(&path, dirs, files) } else { files.push(mode(&path)) }
    }
}

#[test]
fn f25_files_are_private_whatever_the_umask() {
    if let Some(home) = std::env::var_os(CHILD) {
        let home = Path::new(&home);
        put(&scoped(&home.join("root"), Sharing::Owner), id(1), ROWS).unwrap();
        put(&flat(&home.join("flat")), id(2), ROWS).unwrap();
        return;
    }
    // The umask belongs to the process, so a child of its own takes it.
    for umask in ["000", "022", "0277"] {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("flat")).unwrap();
        let test = "private::f25_files_are_private_whatever_the_umask";
        let script = format!("umask {umask}; exec \"$0\" --exact {test}");
        let status = Command::new("sh")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, home.path())
            .output()
            .unwrap();
        assert!(status.status.success(), "umask {umask}: {status:?}");
        let (mut dirs, mut files) = (Vec::new(), Vec::new());
        modes(&home.path().join("root"), &mut dirs, &mut files);
        modes(&home.path().join("flat"), &mut Vec::new(), &mut files);
        assert_eq!(dirs, [0o700; 2], "umask {umask}");
        assert_eq!(files, [0o600; 8], "umask {umask}: data, sidecar and two parts, twice");
    }
}

#[test]
fn f07_files_are_group_readable_where_configured() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    put(&scoped(&root, Sharing::Group), id(1), ROWS).unwrap();
    let (mut dirs, mut files) = (Vec::new(), Vec::new());
    modes(&root, &mut dirs, &mut files);
    assert_eq!((dirs, files), (vec![0o750; 2], vec![0o640; 4]));
    // Without that setting the same directory is closed again.
    drop(scoped(&root, Sharing::Owner));
    let (mut dirs, mut files) = (Vec::new(), Vec::new());
    modes(&root, &mut dirs, &mut files);
    assert_eq!(dirs, vec![0o700; 2]);
    // And one that was private so far is opened to the group.
    let before = home.path().join("before");
    drop(scoped(&before, Sharing::Owner));
    drop(scoped(&before, Sharing::Group));
    assert_eq!(mode(&before), 0o750);
}

#[test]
fn f25_a_directory_others_can_enter_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    for mode in [0o701, 0o710, 0o770, 0o777, 0o1777] {
        fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
        for (sharing, allowed) in [(Sharing::Owner, 0), (Sharing::Group, 0o050)] {
            let opened = DirSpool::open(&open, DirOptions::private().sharing(sharing));
            let fits = mode & 0o077 & !allowed == 0;
            let refused =
                matches!(opened, Err(SpoolError::NotOurs { why: Foreign::OpenToOthers, .. }));
            assert_eq!(refused, !fits, "{mode:o} {sharing:?}");
            fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
        }
    }
}

#[test]
fn f25_another_users_directory_is_refused_and_ours_is_closed_to_them() {
    if !is_root("f25_another_users_directory_is_refused_and_ours_is_closed_to_them") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o1777)).unwrap();
    let planted = home.path().join("atlatl-0");
    let run = |script: &str, path: &Path| {
        let args = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script];
        Command::new("setpriv").args(args).arg(path).output().unwrap().status.success()
    };
    assert!(run("mkdir -m 0700 \"$0\"", &planted));
    let refused = DirSpool::open(&planted, DirOptions::private());
    assert!(matches!(refused, Err(SpoolError::NotOurs { why: Foreign::OtherOwner, .. })));
    assert!(home.path().join("atlatl-0").read_dir().unwrap().next().is_none());

    let stored = put(&flat(home.path()), id(1), b"secret").unwrap().path.unwrap();
    assert!(stored.exists());
    assert!(!run("cat \"$0\"", &stored), "another user cannot read it");
    assert!(!run("rm -f \"$0\" && ! test -e \"$0\"", &stored), "nor remove it");
    let ours = home.path().join("ours");
    put(&scoped(&ours, Sharing::Owner), id(1), b"secret").unwrap();
    assert!(!run("ls \"$0\"", &ours), "nor list our directory");
}
