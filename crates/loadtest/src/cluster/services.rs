//! The services of a cluster: PostgreSQL, S3, the servers and their load balancer. For each: its
//! configuration, the process that runs it, and a check that it is up.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::http_client::{HttpClient, Request};
use super::process::{ProcessSpec, Programs, UNPRIVILEGED_UID, User, command, is_root, stdout};
use super::state::State;
use super::tenants::Tenant;

/// The role that owns the schema.
pub(super) const OWNER_ROLE: &str = "memories_owner";
/// The role that servers use; it owns nothing.
pub(super) const SERVER_ROLE: &str = "memories";
pub(super) const DATABASE: &str = "memories";
const MAX_CONNECTIONS_PER_SERVER: usize = 8;

/// The bucket for results.
const BUCKET: &str = "results";
const ACCESS_KEY: &str = "cluster";
/// Not a secret: the bucket holds test data and listens on the loopback address.
const SECRET_KEY: &str = "secret-of-the-cluster";

/// Configuration files in the cluster's directory.
const SERVER_CONFIG: &str = "atlatl.toml";
const BALANCER_CONFIG: &str = "haproxy.cfg";

/// The data directory of PostgreSQL.
pub(super) fn postgres_data_dir(state: &State) -> PathBuf {
    state.postgres_dir.join("data")
}

/// Creates a directory that the user of PostgreSQL can reach. It gets a copy of the programs when
/// only root can read the originals.
pub(super) fn create_postgres_dir(dir: &Path, programs: &mut Programs) -> Result<PathBuf> {
    if !is_root()? {
        let created = dir.join("postgres");
        fs::create_dir(&created)?;
        return Ok(created);
    }
    let created = tempfile::Builder::new().prefix("atlatl-cluster.").tempdir()?.keep();
    chown(&created, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))
        .context("a directory for the user nobody")?;
    if let Some((package, bin_dir)) = programs.package() {
        let copy = created.join("package");
        // Hard links copy nothing when both are on one file system.
        let linked = stdout("cp", Command::new("cp").arg("-al").args([package, &copy]));
        if linked.is_err() {
            let _ = fs::remove_dir_all(&copy);
            stdout("cp", Command::new("cp").arg("-a").args([package, &copy]))?;
        }
        programs.postgres = copy.join(bin_dir);
    }
    Ok(created)
}

/// Runs `initdb`.
pub(super) fn init_postgres(state: &State) -> Result<()> {
    let mut words = User::Unprivileged.command_prefix()?;
    words.push(path_str(&state.programs.postgres.join("initdb"))?);
    words.extend(["-D".to_owned(), path_str(&postgres_data_dir(state))?]);
    let mut initdb = command(&words);
    initdb.args(["-U", "postgres", "-A", "trust", "--encoding=UTF8", "--locale=C"]);
    stdout("initdb", &mut initdb).map(drop)
}

pub(super) fn postgres_process(state: &State) -> Result<ProcessSpec> {
    let max_connections = (state.replicas.len() * MAX_CONNECTIONS_PER_SERVER + 20).max(100);
    let args = [
        "-D".to_owned(),
        path_str(&postgres_data_dir(state))?,
        "-p".to_owned(),
        state.postgres.port.to_string(),
        "-clisten_addresses=127.0.0.1".to_owned(),
        // No socket file: its path would exceed the limit of about 100 bytes.
        "-cunix_socket_directories=".to_owned(),
        "-cfsync=on".to_owned(),
        format!("-cmax_connections={max_connections}"),
    ];
    Ok(ProcessSpec {
        name: "postgres".to_owned(),
        program: state.programs.postgres.join("postgres"),
        args: args.into(),
        env: Vec::new(),
        // Fast shutdown: does not wait for clients to disconnect.
        stop_signal: "INT",
        user: User::Unprivileged,
    })
}

/// Whether PostgreSQL answers a query.
pub(super) fn is_postgres_up(state: &State) -> bool {
    psql(state, "postgres", "SELECT 1").is_ok()
}

/// Runs statements as the superuser and returns their output.
pub(super) fn psql(state: &State, database: &str, statements: &str) -> Result<String> {
    let mut psql = Command::new(state.programs.postgres.join("psql"));
    psql.env_clear().env("PGCONNECT_TIMEOUT", "2").current_dir("/");
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
    psql.args(["-U", "postgres", "-p", &state.postgres.port.to_string(), "-d", database]);
    for statement in statements.split(';') {
        psql.args(["-c", statement]);
    }
    stdout("psql", &mut psql)
}

/// The connection URL of a role.
pub(super) fn postgres_url(state: &State, role: &str) -> String {
    format!("postgres://{role}@127.0.0.1:{}/{DATABASE}", state.postgres.port)
}

/// A command of `program` with the configuration of the servers, in an empty environment. A
/// configuration file of the working directory would have to be trusted first.
pub(super) fn atlatl(state: &State, program: &Path, args: &[&str]) -> Command {
    let mut atlatl = Command::new(program);
    atlatl.args(args).arg("--config").arg(state.dir.join(SERVER_CONFIG));
    // Not --json: an upgrade begins with the earlier version.
    atlatl.args(["--output", "json"]);
    atlatl.env_clear().env("HOME", &state.dir).current_dir(&state.dir);
    atlatl
}

/// Runs `db migrate` of `program` with further arguments, as the owner of the schema.
pub(super) fn migrate(state: &State, program: &Path, args: &[&str]) -> Result<()> {
    let mut migrate = atlatl(state, program, &["db", "migrate"]);
    migrate.args(args).args(["--as", &postgres_url(state, OWNER_ROLE)]);
    stdout("atlatl db migrate", &mut migrate).map(drop)
}

/// Stores memories of a tenant by `atlatl memory import`, without vectors. Each line is a memory in
/// JSON.
pub(super) fn import(
    state: &State,
    tenant: &Tenant,
    lines: impl Iterator<Item = String>,
) -> Result<()> {
    let path = state.dir.join("memories.jsonl");
    let mut file = BufWriter::new(File::create(&path).context("a file of memories")?);
    for line in lines {
        writeln!(file, "{line}").context("a file of memories")?;
    }
    file.flush().context("a file of memories")?;
    let mut import = atlatl(state, &state.programs.atlatl, &["memory", "import"]);
    import.arg(&path).args(["--set", &format!("memory.tenant={}", tenant.name)]);
    import.args(["--set", "memory.embedder=none"]);
    stdout("atlatl memory import", &mut import).map(drop)
}

/// Creates the directory of the S3 server, with the bucket.
pub(super) fn init_s3(state: &State) -> Result<()> {
    fs::create_dir_all(state.dir.join("s3").join(BUCKET)).context("a bucket")
}

pub(super) fn s3_process(state: &State) -> Result<ProcessSpec> {
    let port = state.s3.port.to_string();
    let args = ["--host", "127.0.0.1", "--port", &port, "--access-key", ACCESS_KEY];
    let mut args: Vec<String> = args.map(str::to_owned).into();
    args.extend(["--secret-key".to_owned(), SECRET_KEY.to_owned()]);
    args.push(path_str(&state.dir.join("s3"))?);
    Ok(ProcessSpec {
        name: "s3".to_owned(),
        program: state.programs.s3.clone(),
        args,
        env: Vec::new(),
        stop_signal: "TERM",
        user: User::Current,
    })
}

/// Whether S3 responds at all; an authentication error is a response.
pub(super) fn is_s3_up(state: &State) -> bool {
    let client = HttpClient::new(state.s3.port, Duration::from_secs(2));
    client.send(&Request::get("/")).is_ok()
}

/// Writes the configuration that all servers share, and creates a home directory for each.
pub(super) fn init_servers(state: &State) -> Result<()> {
    fs::write(state.dir.join(SERVER_CONFIG), server_config(state)).context("the configuration")?;
    for number in 0..state.replicas.len() {
        fs::create_dir_all(server_home(state, number).join("tmp"))
            .context("a home for a server")?;
    }
    Ok(())
}

fn server_config(state: &State) -> String {
    let (store, public_url) = (postgres_url(state, SERVER_ROLE), public_url(state));
    let embedder = state.embedder.as_deref().unwrap_or("none");
    let (auth, log) = match &state.issuer {
        Some(issuer) => (format!("keys,oauth:{issuer}"), "\n[server.log]\nformat = \"json\"\n"),
        None => ("keys".to_owned(), ""),
    };
    format!(
        "[memory]\nstore = \"{store}\"\nembedder = \"{embedder}\"\n\n\
         [spool]\nurl = \"{}\"\n\n\
         [server]\nauth = \"{auth}\"\npublic_url = \"{public_url}\"\ndrain_seconds = 1\n{log}",
        bucket_url()
    )
}

/// Where servers store results.
pub(super) fn bucket_url() -> String {
    format!("s3://{BUCKET}/atlatl")
}

/// The environment variables for a client of the bucket.
pub(super) fn object_storage_env(state: &State) -> [(&'static str, String); 5] {
    [
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", state.s3.port)),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ]
}

/// The directory of the S3 server with the results of a tenant, whose name needs no encoding.
pub(super) fn results_dir(state: &State, tenant: &Tenant) -> PathBuf {
    state.dir.join("s3").join(BUCKET).join("atlatl").join(format!("t-{}", tenant.name))
}

pub(super) fn server_process(state: &State, number: usize) -> Result<ProcessSpec> {
    let port = state.replicas.get(number).context("no such replica")?.port;
    let home = server_home(state, number);
    let mut env = Vec::from(object_storage_env(state));
    env.extend([("HOME", path_str(&home)?), ("TMPDIR", path_str(&home.join("tmp"))?)]);
    let listen = format!("127.0.0.1:{port}");
    let config = path_str(&state.dir.join(SERVER_CONFIG))?;
    let args = ["serve", "--http", &listen, "--config", &config];
    let mut args = Vec::from(args.map(str::to_owned));
    if let Some(port) = state.admin_ports.get(number) {
        args.extend(["--set".to_owned(), format!("server.admin.listen=127.0.0.1:{port}")]);
    }
    Ok(ProcessSpec {
        name: server_name(number),
        program: state.programs.atlatl.clone(),
        args,
        env,
        stop_signal: "TERM",
        user: User::Current,
    })
}

/// Whether the server at `port` reports that it is ready.
pub(super) fn is_ready(port: u16, timeout: Duration) -> bool {
    let response = HttpClient::new(port, timeout).send(&Request::get("/readyz"));
    response.is_ok_and(|response| response.status == 200)
}

/// The base URL of the servers, which is that of the balancer.
pub(super) fn public_url(state: &State) -> String {
    format!("http://127.0.0.1:{}", state.balancer.port)
}

/// The log of a server.
pub(super) fn server_log(state: &State, number: usize) -> PathBuf {
    state.dir.join(format!("{}.log", server_name(number)))
}

/// The name of a server in logs and in the balancer's configuration.
pub(super) fn server_name(number: usize) -> String {
    format!("server-{}", number + 1)
}

fn server_home(state: &State, number: usize) -> PathBuf {
    state.dir.join(server_name(number))
}

/// How the balancer checks whether a server is ready. One success is enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct HealthCheck {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    /// After how many failures in a row the balancer stops sending requests.
    pub(super) failure_threshold: u32,
}

/// Stops sending requests to a server as soon as possible.
const FREQUENT_CHECK: HealthCheck = HealthCheck {
    interval: Duration::from_millis(200),
    timeout: Duration::from_secs(1),
    failure_threshold: 1,
};

/// A server behind the balancer.
#[derive(Debug, Clone)]
pub(super) struct BalancedServer {
    pub(super) name: String,
    pub(super) address: SocketAddrV4,
    /// The port of `/readyz` for the health check.
    pub(super) check_port: u16,
}

/// Writes the balancer's configuration with the servers of the cluster.
pub(super) fn init_balancer(state: &State) -> Result<()> {
    let servers = state.replicas.iter().enumerate().map(|(number, endpoint)| BalancedServer {
        name: server_name(number),
        address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, endpoint.port),
        check_port: endpoint.port,
    });
    configure_balancer(state, FREQUENT_CHECK, &servers.collect::<Vec<_>>())
}

/// Writes the balancer's configuration with these servers.
pub(super) fn configure_balancer(
    state: &State,
    check: HealthCheck,
    servers: &[BalancedServer],
) -> Result<()> {
    let text = balancer_config(state.balancer.port, check, servers);
    fs::write(state.dir.join(BALANCER_CONFIG), text).context("the balancer's configuration")
}

/// Round robin over the servers that are ready. No retries: a client must see every failed request,
/// failed writes above all.
fn balancer_config(port: u16, check: HealthCheck, servers: &[BalancedServer]) -> String {
    let HealthCheck { interval, timeout, failure_threshold } = check;
    let (interval, timeout) = (interval.as_millis(), timeout.as_millis());
    let mut text = format!(
        "global
    maxconn 4096

defaults
    mode http
    timeout connect 1s
    timeout client 20s
    timeout server 10s
    timeout queue 1s
    timeout check {timeout}ms
    timeout http-request 5s
    timeout http-keep-alive 20s
    retries 0
    no option redispatch

frontend clients
    bind 127.0.0.1:{port}
    default_backend servers

backend servers
    balance roundrobin
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host 127.0.0.1
    http-check expect status 200
    default-server check inter {interval}ms fastinter {interval}ms downinter {interval}ms fall \
         {failure_threshold} rise 1
"
    );
    for BalancedServer { name, address, check_port } in servers {
        let _ = writeln!(text, "    server {name} {address} port {check_port}");
    }
    text
}

pub(super) fn balancer_process(state: &State) -> Result<ProcessSpec> {
    let args = ["-db".to_owned(), "-f".to_owned(), path_str(&state.dir.join(BALANCER_CONFIG))?];
    Ok(ProcessSpec {
        name: "balancer".to_owned(),
        program: state.programs.balancer.clone(),
        args: args.into(),
        env: Vec::new(),
        stop_signal: "TERM",
        user: User::Current,
    })
}

/// A path as UTF-8 text, for an argument.
fn path_str(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_a_health_check_and_no_request_is_retried() {
        let server = |name: &str, address: &str, check_port| BalancedServer {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            check_port,
        };
        let servers = [
            server("server-1", "127.0.0.1:21003", 21_003),
            server("pod-2", "127.0.9.2:7171", 7190),
        ];
        let text = balancer_config(21_002, FREQUENT_CHECK, &servers);
        assert!(text.contains("\n    bind 127.0.0.1:21002\n"), "{text}");
        assert!(text.contains("\n    timeout check 1000ms\n"), "{text}");
        assert!(text.contains(" inter 200ms fastinter 200ms downinter 200ms fall 1 "), "{text}");
        assert!(text.ends_with(
            "rise 1\n    server server-1 127.0.0.1:21003 port 21003\n    \
             server pod-2 127.0.9.2:7171 port 7190\n"
        ));
        assert!(text.contains("\n    retries 0\n    no option redispatch\n"), "{text}");
    }
}
