//! OCI documents and layers, without a container engine: those put times and numbers of their own into what they
//! write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Files and directories by path, without a leading slash. All belong to root.
#[derive(Debug, Default)]
pub(super) struct FileTree(BTreeMap<String, TreeEntry>);

#[derive(Debug)]
enum TreeEntry {
    Dir { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
}

impl FileTree {
    /// Adds a file, and the directories above it.
    pub(super) fn insert(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.insert_parents(path);
        self.0.insert(path.to_owned(), TreeEntry::File { mode, bytes });
    }

    /// Adds a directory, and those above it.
    pub(super) fn insert_empty_dir(&mut self, path: &str, mode: u32) {
        self.insert_parents(path);
        self.0.insert(path.to_owned(), TreeEntry::Dir { mode });
    }

    /// Adds all files below `dir`, readable by everyone.
    pub(super) fn insert_dir(&mut self, path: &str, dir: &Path) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                bail!("{}: a name is not UTF-8", dir.display());
            };
            let path = format!("{path}/{name}");
            if entry.file_type()?.is_dir() {
                self.insert_dir(&path, &entry.path())?;
            } else {
                self.insert(&path, 0o644, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    fn insert_parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let parent = path[..at].to_owned();
            self.0.entry(parent).or_insert(TreeEntry::Dir { mode: 0o755 });
        }
    }

    /// The entries in order, without times, so that the same files are the same bytes.
    fn to_tar(&self) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            match entry {
                TreeEntry::Dir { mode } => {
                    let mut header = header(tar::EntryType::Directory, *mode, 0);
                    archive.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                TreeEntry::File { mode, bytes } => {
                    let mut header = header(tar::EntryType::Regular, *mode, bytes.len() as u64);
                    archive.append_data(&mut header, path, bytes.as_slice())?;
                }
            }
        }
        Ok(archive.into_inner()?)
    }
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// An image of one platform.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) layers: Vec<FileTree>,
    pub(super) architecture: &'static str,
    /// RFC 3339.
    pub(super) created: String,
    pub(super) tag: String,
    /// How the program runs, without labels.
    pub(super) config: Value,
    /// Labels of the configuration and annotations of the manifest.
    pub(super) labels: Value,
}

impl Image {
    /// The layout as an archive (`oci-archive:` of other tools).
    pub(super) fn to_archive(&self) -> Result<Vec<u8>> {
        let mut blobs = Vec::new();
        let (mut layers, mut diff_ids, mut history) = (Vec::new(), Vec::new(), Vec::new());
        for layer in &self.layers {
            let plain = layer.to_tar()?;
            diff_ids.push(digest(&plain));
            let blob = Blob::new(gzip(&plain)?);
            layers.push(blob.descriptor(LAYER_TYPE));
            history.push(json!({"created": self.created, "created_by": "cargo xtask package"}));
            blobs.push(blob);
        }
        let mut process = self.config.clone();
        process["Labels"] = self.labels.clone();
        let config = Blob::from_json(&json!({
            "created": self.created,
            "architecture": self.architecture,
            "os": "linux",
            "config": process,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }));
        let manifest = Blob::from_json(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config.descriptor(CONFIG_TYPE),
            "layers": layers,
            "annotations": self.labels,
        }));
        let mut entry = manifest.descriptor(MANIFEST_TYPE);
        entry["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": self.tag});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]});
        blobs.extend([config, manifest]);

        let mut files = FileTree::default();
        files.insert("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
        files.insert("index.json", 0o644, index.to_string().into_bytes());
        for blob in blobs {
            let path = format!("blobs/{}", blob.digest.replace(':', "/"));
            files.insert(&path, 0o644, blob.bytes);
        }
        files.to_tar()
    }
}

/// Bytes named by their digest.
#[derive(Debug)]
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { digest: digest(&bytes), bytes }
    }

    fn from_json(document: &Value) -> Self {
        Self::new(document.to_string().into_bytes())
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    push_hex(&mut text, &Sha256::digest(bytes));
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
}

/// Without a time in the header.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read as _;

    use super::*;

    pub(in super::super) fn digest_of(bytes: &[u8]) -> String {
        digest(bytes)
    }

    /// The files of an archive by path.
    pub(in super::super) fn unpack(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(path_of(&entry), bytes);
        }
        files
    }

    /// The modes of a layer's entries by path, and the layer without compression.
    pub(in super::super) fn entries_of(layer: &[u8]) -> (BTreeMap<String, u32>, Vec<u8>) {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(layer).read_to_end(&mut plain).unwrap();
        let mut archive = tar::Archive::new(plain.as_slice());
        let mut modes = BTreeMap::new();
        let mut before = String::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let owner = (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
            assert_eq!(owner, (0, 0, 0));
            let path = path_of(&entry);
            assert!(path > before && !path.starts_with('/'), "{path} after {before}");
            before.clone_from(&path);
            modes.insert(path, header.mode().unwrap());
        }
        (modes, plain)
    }

    fn path_of<R: io::Read>(entry: &tar::Entry<'_, R>) -> String {
        String::from_utf8(entry.path_bytes().into_owned()).unwrap()
    }

    #[test]
    fn g51_files_come_after_their_directories_whatever_their_order_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("models/small")).unwrap();
        for name in ["models/small/weights", "models/a", "z"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let mut tree = FileTree::default();
        tree.insert_dir("usr/share", dir.path()).unwrap();
        let (modes, _) = entries_of(&gzip(&tree.to_tar().unwrap()).unwrap());
        let paths: Vec<&str> = modes.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "usr/",
                "usr/share/",
                "usr/share/models/",
                "usr/share/models/a",
                "usr/share/models/small/",
                "usr/share/models/small/weights",
                "usr/share/z"
            ]
        );
        assert_eq!((modes["usr/"], modes["usr/share/z"]), (0o755, 0o644));
    }

    #[test]
    fn g51_digests_are_those_of_sha256sum() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(b""), empty);
    }
}
