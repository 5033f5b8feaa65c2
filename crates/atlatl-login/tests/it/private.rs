//! Directories and files that others could read or have planted.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use atlatl_login::LoginError;
use testkit::authority::Authority;

use crate::person::Person;

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

async fn refused(person: &Person, authority: &Authority) -> String {
    let error = person.login(authority).bearer().await.unwrap_err();
    assert!(matches!(error, LoginError::NotPrivate { .. }), "{error}");
    assert!(person.logins.list().is_err());
    error.to_string()
}

#[tokio::test]
async fn a_folder_that_others_can_enter_is_refused_with_the_command_that_fixes_it() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    for mode in [0o750, 0o701, 0o777] {
        allow(&person.folder(), mode);
        let told = refused(&person, &authority).await;
        assert!(
            told.ends_with(&format!("run `chmod 700 {}`", person.folder().display())),
            "{told}"
        );
        assert!(person.log_in(&authority).await.is_err());
    }
    allow(&person.folder(), 0o700);
    assert!(person.login(&authority).bearer().await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_others_can_read_is_refused_with_the_command_that_fixes_it() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    for mode in [0o640, 0o604, 0o666] {
        allow(&person.file(), mode);
        let told = refused(&person, &authority).await;
        assert!(told.ends_with(&format!("run `chmod 600 {}`", person.file().display())), "{told}");
    }
}

#[tokio::test]
async fn links_are_not_followed() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let (file, aside) = (person.file(), person.folder().with_file_name("aside"));
    fs::rename(&file, &aside).unwrap();
    symlink(&aside, &file).unwrap();
    assert!(refused(&person, &authority).await.contains("is a link"));
    fs::remove_file(&file).unwrap();
    fs::rename(person.folder(), person.folder().with_file_name("real")).unwrap();
    symlink(person.folder().with_file_name("real"), person.folder()).unwrap();
    assert!(refused(&person, &authority).await.contains("is not a directory"));
}

#[tokio::test]
async fn what_is_no_login_is_reported_and_what_is_no_file_does_not_hang() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let file = person.file();
    fs::write(&file, "{\"access_token\":\"s3cret\"").unwrap();
    let error = person.login(&authority).bearer().await.unwrap_err();
    assert!(matches!(error, LoginError::Damaged { .. }), "{error}");
    assert!(!error.to_string().contains("s3cret"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    allow(&file, 0o700);
    assert!(refused(&person, &authority).await.contains("has an unexpected file type"));
}

#[tokio::test]
async fn what_a_killed_writer_left_is_neither_a_login_nor_in_the_way() {
    let authority = Authority::start();
    let person = Person::at(&authority).await;
    let name = person.file().file_name().unwrap().to_str().unwrap().to_owned();
    let (stem, _) = name.split_once('-').unwrap();
    let part = person.folder().join(format!(".part-{stem}"));
    fs::write(&part, "half of a tok").unwrap();
    assert_eq!(person.logins.list().unwrap().len(), 1);
    person.age(3600);
    person.login(&authority).bearer().await.unwrap().unwrap();
    assert!(!part.exists());
}
