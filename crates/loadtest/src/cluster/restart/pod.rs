//! A replica that runs as a pod does: the files of the image as its read-only root, another user without
//! capabilities, no home directory, and nothing of this machine but the network.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::super::process::{UNPRIVILEGED_UID, User, command, is_root, wait_until};
use super::super::services::{self, SERVER_ROLE};
use super::super::state::State;
use super::image::UnpackedImage;
use super::manifest::PodSettings;

/// The ports of every pod, as in the chart.
pub(super) const HTTP_PORT: u16 = 7171;
pub(super) const ADMIN_PORT: u16 = 7190;
/// How long the sandbox may take to start the program.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(10);
/// The value of the database's password, which a server on this machine does not look at.
const PASSWORD: &str = "unused\n";

/// An unpacked image, with the files that Kubernetes mounts into each of its pods.
#[derive(Debug)]
pub(super) struct PodTemplate {
    /// A directory that the user of the pods can reach.
    dir: TempDir,
    pub(super) image: UnpackedImage,
}

impl PodTemplate {
    pub(super) fn unpack(archive: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("atlatl-image.").tempdir()?;
        let image = UnpackedImage::unpack(archive, &dir.path().join("rootfs"));
        let image = image.with_context(|| archive.display().to_string())?;
        give_to_user(dir.path())?;
        Ok(Self { dir, image })
    }

    fn rootfs(&self) -> PathBuf {
        self.dir.path().join("rootfs")
    }

    /// The program, for commands outside of a pod.
    pub(super) fn program(&self) -> Result<PathBuf> {
        let entrypoint = self.image.process.entrypoint.first().context("no entrypoint")?;
        Ok(self.rootfs().join(entrypoint.trim_start_matches('/')))
    }

    /// Writes the configuration of the chart, and the secrets, as files that the pods' user owns. In
    /// Kubernetes root owns them and the group of the pod reads them, but root has no number in a pod
    /// of an unprivileged user.
    pub(super) fn write_mounts(&self, state: &State, settings: &PodSettings) -> Result<()> {
        let write = |path: PathBuf, mode: u32, text: &str| {
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
            give_to_user(&path)
        };
        for dir in ["etc", "secrets", "secrets/database", "secrets/bucket"] {
            let dir = self.dir.path().join(dir);
            DirBuilder::new().mode(0o755).create(&dir).context("a directory to mount")?;
            give_to_user(&dir)?;
        }
        write(self.dir.path().join("etc/config.toml"), 0o644, &settings.config)?;
        let secrets = self.dir.path().join("secrets");
        write(secrets.join("database/password"), 0o400, PASSWORD)?;
        for (name, value) in services::object_storage_env(state) {
            if is_secret(name) {
                write(secrets.join("bucket").join(name), 0o400, &value)?;
            }
        }
        Ok(())
    }

    /// The environment: that of the image, and what differs from the default values of the chart, as
    /// its values `settings` and `bucket.settings` set it.
    fn env(&self, state: &State, address: Ipv4Addr, embedder: &str) -> Vec<(String, String)> {
        let mut env: Vec<(String, String)> = Vec::new();
        let image = self.image.process.env.iter().filter_map(|one| one.split_once('='));
        env.extend(image.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let own = [
            ("ATLATL_MEMORY__STORE", services::postgres_url(state, SERVER_ROLE)),
            ("ATLATL_MEMORY__EMBEDDER", embedder.to_owned()),
            ("ATLATL_SPOOL__URL", services::bucket_url()),
            ("ATLATL_SERVER__PUBLIC_URL", services::public_url(state)),
            ("ATLATL_SERVER__LISTEN", SocketAddrV4::new(address, HTTP_PORT).to_string()),
            ("ATLATL_SERVER__ADMIN__LISTEN", SocketAddrV4::new(address, ADMIN_PORT).to_string()),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        env.extend(services::object_storage_env(state).map(|(name, value)| {
            if is_secret(name) {
                (format!("{name}_FILE"), format!("/run/secrets/bucket/{name}"))
            } else {
                (name.to_owned(), value)
            }
        }));
        env
    }

    /// Starts a pod whose output is added to `log`. The pod ends with the thread that starts it.
    pub(super) fn start(
        &self,
        state: &State,
        name: &str,
        address: Ipv4Addr,
        embedder: &str,
        log: &Path,
    ) -> Result<Pod> {
        let UnpackedImage { process, uid, gid, .. } = &self.image;
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut sandbox = User::Unprivileged.command_prefix()?;
        sandbox.extend(words("bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts"));
        sandbox.extend(words("--as-pid-1 --die-with-parent --cap-drop ALL --clearenv --hostname"));
        sandbox.extend([name.to_owned(), "--uid".to_owned(), uid.to_string()]);
        sandbox.extend(["--gid".to_owned(), gid.to_string()]);
        for (name, value) in self.env(state, address, embedder) {
            sandbox.extend(["--setenv".to_owned(), name, value]);
        }
        let mounts = [("rootfs", "/"), ("etc", "/etc/atlatl"), ("secrets", "/run/secrets")];
        for (number, (source, target)) in mounts.into_iter().enumerate() {
            let source = self.dir.path().join(source);
            let source = source.to_str().context("a temporary directory that is not UTF-8")?;
            sandbox.extend(["--ro-bind".to_owned(), source.to_owned(), target.to_owned()]);
            if number == 0 {
                sandbox.extend(words("--proc /proc --dev /dev --tmpfs /tmp"));
            }
        }
        let dir = Some(&process.working_dir).filter(|dir| !dir.is_empty());
        sandbox.extend(["--chdir".to_owned(), dir.map_or("/", String::as_str).to_owned()]);
        sandbox.push("--".to_owned());
        sandbox.extend(process.entrypoint.iter().cloned());
        sandbox.push("serve".to_owned());
        let log = File::options().create(true).append(true).open(log).context("a log")?;
        let mut sandbox = command(&sandbox);
        sandbox.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let sandbox = sandbox.spawn().context("starting bwrap (apt-get install bubblewrap)")?;
        Ok(Pod { sandbox })
    }
}

fn is_secret(name: &str) -> bool {
    matches!(name, "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY")
}

/// Gives a file to the user of the pods, which is another one only if this process runs as root.
fn give_to_user(path: &Path) -> Result<()> {
    if is_root()? {
        chown(path, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))
            .with_context(|| format!("giving {} to the user nobody", path.display()))?;
    }
    Ok(())
}

/// A pod that runs. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Pod {
    sandbox: Child,
}

impl Pod {
    /// The exit status of the program, once it has ended.
    pub(super) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.sandbox.try_wait().context("waiting for a pod")
    }

    /// Sends SIGTERM to the program, as the kubelet does.
    pub(super) fn terminate(&self) -> Result<()> {
        let pid = i32::try_from(self.program()?).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, Signal::TERM).context("stopping a pod")
    }

    /// Kills the program and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<ExitStatus> {
        // The program follows its sandbox.
        self.sandbox.kill().context("killing a pod")?;
        self.sandbox.wait().context("waiting for a pod")
    }

    /// The id of the program's process on this machine.
    pub(super) fn program(&self) -> Result<u32> {
        let sandbox = self.sandbox.id();
        let mut found = None;
        wait_until(SANDBOX_TIMEOUT, || {
            found = child_of(sandbox);
            found.is_some()
        });
        found.context("the sandbox runs no program")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // Neither can fail for a process that runs, and one that ended needs nothing.
        let _ = self.sandbox.kill();
        let _ = self.sandbox.wait();
    }
}

/// The only child of a process.
fn child_of(parent: u32) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = parent.to_string();
    pids.find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        field(&status, "PPid") == Some(&*parent)
    })
}

/// The value of a line `NAME:\tVALUE` of `/proc/PID/status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Whether a file cannot be created in a directory because its file system is read-only.
pub(super) fn refuses_writes(dir: &Path) -> Result<bool> {
    let path = dir.join("atlatl-write-check");
    match File::create_new(&path) {
        Ok(_) => {
            fs::remove_file(&path)?;
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(true),
        Err(error) => Err(error).with_context(|| dir.display().to_string()),
    }
}

/// Fails if the port of a pod is in use.
pub(super) fn ensure_free(address: Ipv4Addr) -> Result<()> {
    for port in [HTTP_PORT, ADMIN_PORT] {
        let address = SocketAddrV4::new(address, port);
        let free = std::net::TcpListener::bind(address).is_ok();
        ensure!(free, "{address} is in use, or is no address of this machine");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_status_is_found_by_its_whole_name() {
        let status = "Name:\tatlatl\nPPid:\t12\nUid:\t65534\t65534\t65534\t65534\n";
        assert_eq!(field(status, "PPid"), Some("12"));
        assert_eq!(field(status, "Uid"), Some("65534\t65534\t65534\t65534"));
        assert_eq!(field(status, "Pid"), None);
        assert_eq!(field(status, "U"), None);
    }

    #[test]
    fn a_child_is_found_and_a_writable_directory_does_not_refuse() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let parent = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        assert_eq!(field(&parent, "PPid"), Some(&*std::process::id().to_string()));
        assert_eq!(child_of(child.id()), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!refuses_writes(tempfile::tempdir().unwrap().path()).unwrap());
    }
}
