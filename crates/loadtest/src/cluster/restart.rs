//! A rolling restart under load: replicas of a container image run as Kubernetes runs them and are
//! replaced one by one while clients run.
//!
//! This stands for a cluster of Kubernetes: the sandbox for the container, a loopback address for the
//! address of a pod, our probes for those of the kubelet, and a load balancer with the period and
//! threshold of the readiness probe for the Service.

mod confinement;
mod image;
mod manifest;
mod pod;
mod prober;
mod report;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask::output;
use xtask::repository::Repository;

use self::confinement::Confinement;
use self::manifest::PodSettings;
use self::pod::{ADMIN_PORT, HTTP_PORT, Pod, PodTemplate};
use self::prober::{Phase, ProbeSummary, ProbedPod};
use self::report::{Restart, RestartReport, Shutdown};
use super::goodput::{GoodputMeter, spawn_clients};
use super::lifecycle::{self, ClusterSpec};
use super::process::wait_until;
use super::report::{ClusterReport, Report};
use super::services::{self, BalancedServer, HealthCheck};
use super::state::State;
use super::tenants::{self, Tenants};
use super::{file_name, workload};

const CLIENTS: usize = 64;
/// The network of the pods; the last byte is the number of the pod.
const POD_NETWORK: [u8; 3] = [127, 0, 9];

/// What is restarted, and for how long clients run.
#[derive(Debug, clap::Args)]
pub(crate) struct RestartArgs {
    /// Container image, which `cargo xtask package` writes (.oci.tar)
    #[arg(long, value_name = "ARCHIVE")]
    image: PathBuf,
    /// Duration of the load in seconds, in addition to the time that the restarts take
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(4..=600))]
    seconds: u64,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=5))]
    replicas: u8,
    /// How often each server is restarted
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=5))]
    rounds: u32,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=999))]
    tenants: u16,
    /// Embedder of the servers, as in memory.embedder; `auto` is the model of the image
    #[arg(long, value_name = "EMBEDDER", default_value = "none")]
    embedder: String,
}

impl RestartArgs {
    /// The command that repeats a run.
    pub(super) fn command_line(&self) -> String {
        let Self { image, seconds, replicas, rounds, tenants, embedder } = self;
        let image = file_name(image);
        format!(
            "cargo loadtest restart --image {image} --seconds {seconds} --replicas {replicas} --rounds \
             {rounds} --tenants {tenants} --embedder {embedder}"
        )
    }
}

/// The load and the restarts.
struct LoadResult {
    report: Report,
    restarts: Vec<Restart>,
    longest_gap_ms: u128,
}

/// Starts servers of the image, restarts them under load and reads everything back.
pub(super) fn run(
    repository: &Repository,
    dir: &Path,
    args: &RestartArgs,
) -> Result<RestartReport> {
    let settings = PodSettings::read(repository)?;
    output::progress("unpacking the image");
    let template = PodTemplate::unpack(&args.image)?;
    let atlatl = template.program()?;
    let tenants = args.tenants.into();
    // The servers run in pods, which the cluster does not know.
    let spec = ClusterSpec { atlatl, replicas: 0, tenants, embedder: None, issuer: None };
    lifecycle::with_cluster(dir, &spec, |state| {
        let report = measure(state, &template, &settings, args)?;
        if !report.findings().is_empty() {
            let logs = lifecycle::save_logs(&state.dir)?;
            output::progress(format_args!("the logs are kept in {}", logs.display()));
        }
        Ok(report)
    })
}

fn measure(
    state: &mut State,
    template: &PodTemplate,
    settings: &PodSettings,
    args: &RestartArgs,
) -> Result<RestartReport> {
    template.write_mounts(state, settings)?;
    let [a, b, c] = POD_NETWORK;
    let pods: Vec<ProbedPod> =
        (1..=args.replicas).map(|number| ProbedPod::new(Ipv4Addr::new(a, b, c, number))).collect();
    let servers = pods.iter().enumerate().map(|(number, pod)| BalancedServer {
        name: pod_name(number),
        address: SocketAddrV4::new(pod.address, HTTP_PORT),
        check_port: ADMIN_PORT,
    });
    let check = HealthCheck {
        interval: settings.readiness.period(),
        timeout: settings.readiness.timeout(),
        failure_threshold: settings.readiness.failure_threshold,
    };
    services::configure_balancer(state, check, &servers.collect::<Vec<_>>())?;
    for pod in &pods {
        pod::ensure_free(pod.address)?;
    }
    let stop = AtomicBool::new(false);
    let (loaded, confinement) = thread::scope(|scope| {
        for pod in &pods {
            let stop = &stop;
            scope.spawn(move || pod.probe_readiness(settings, stop));
            scope.spawn(move || pod.probe_liveness(settings, stop));
        }
        let mut replicas = Replicas {
            template,
            settings,
            probed: &pods,
            embedder: &args.embedder,
            running: Vec::new(),
            confinement: Vec::new(),
        };
        let loaded = start_and_load(state, &mut replicas, args);
        stop.store(true, Ordering::Relaxed);
        (loaded, replicas.confinement)
    });
    let LoadResult { report, restarts, longest_gap_ms } = loaded?;
    Ok(RestartReport {
        image: template.image.facts.clone(),
        settings: settings.clone(),
        report,
        probes: ProbeSummary::new(pods.iter().map(ProbedPod::results)),
        restarts,
        confinement,
        uid: template.image.uid,
        longest_gap_ms,
    })
}

/// Starts the servers and the balancer, runs clients while the servers are restarted, and reads
/// everything back.
fn start_and_load(
    state: &mut State,
    replicas: &mut Replicas<'_>,
    args: &RestartArgs,
) -> Result<LoadResult> {
    output::progress(format_args!("starting {} servers and a balancer", args.replicas));
    for number in 0..replicas.probed.len() {
        replicas.start(state, number)?;
    }
    lifecycle::start_balancer(state)?;
    let tenants = Tenants::new(tenants::load(&state.dir)?.0);
    let port = state.balancer.port;
    let (meter, stop) = (GoodputMeter::new(), AtomicBool::new(false));
    let (counters, restarts, end) = thread::scope(|scope| {
        let clients = spawn_clients(scope, &tenants, port, 0..CLIENTS, &meter, &stop);
        let restarts = replicas.restart_all(state, &meter, args);
        let end = meter.elapsed();
        stop.store(true, Ordering::Relaxed);
        (workload::join_clients(clients), restarts, end)
    });
    let (mut counters, restarts) = (counters?, restarts?);
    let writes = tenants.write_counts();
    output::progress(format_args!("reading back {} memories", writes.acknowledged));
    let verification = workload::verify(&tenants, port, &mut counters)?;
    Ok(LoadResult {
        report: Report {
            seconds: end.as_secs(),
            writes,
            load: Some(counters),
            kills: None,
            verification: Some(verification),
        },
        restarts,
        longest_gap_ms: meter.longest_gap(end).as_millis(),
    })
}

/// The servers in their pods.
struct Replicas<'a> {
    template: &'a PodTemplate,
    settings: &'a PodSettings,
    probed: &'a [ProbedPod],
    embedder: &'a str,
    /// In the order of `probed`.
    running: Vec<Pod>,
    /// Of each start.
    confinement: Vec<Confinement>,
}

impl Replicas<'_> {
    /// Restarts all servers one after the other in each round, with load before, between and after the
    /// rounds.
    fn restart_all(
        &mut self,
        state: &State,
        meter: &GoodputMeter,
        args: &RestartArgs,
    ) -> Result<Vec<Restart>> {
        let phase = Duration::from_secs(args.seconds) / (args.rounds + 1);
        let mut restarts = Vec::new();
        thread::sleep(phase);
        for _ in 0..args.rounds {
            for number in 0..self.probed.len() {
                let pod = pod_name(number);
                output::progress(format_args!("restarting {pod}"));
                let at_ms = meter.elapsed().as_millis();
                let shutdown = self.stop(number)?;
                let ready_ms = self.start(state, number)?.as_millis();
                restarts.push(Restart { pod, at_ms, shutdown, ready_ms });
            }
            thread::sleep(phase);
        }
        Ok(restarts)
    }

    /// Starts a server and waits until it is ready. Returns how long that took.
    fn start(&mut self, state: &State, number: usize) -> Result<Duration> {
        let (name, probed) = (pod_name(number), &self.probed[number]);
        let log = state.dir.join(format!("{name}.log"));
        let begin = Instant::now();
        let mut pod = self.template.start(state, &name, probed.address, self.embedder, &log)?;
        probed.set_phase(Phase::Starting);
        let mut ended = Ok(None);
        wait_until(self.settings.start_timeout(), || {
            ended = pod.try_wait();
            probed.is_ready() || !matches!(ended, Ok(None))
        });
        if ended?.is_some() || !probed.is_ready() {
            bail!("{name} does not get ready: {}", lifecycle::log_tail(&log));
        }
        probed.set_phase(Phase::Running);
        let took = begin.elapsed();
        self.confinement.push(Confinement::read(&name, &pod)?);
        if number < self.running.len() {
            self.running[number] = pod;
        } else {
            self.running.push(pod);
        }
        Ok(took)
    }

    /// Stops a server by SIGTERM, and by SIGKILL when its time is over.
    fn stop(&mut self, number: usize) -> Result<Shutdown> {
        let probed = &self.probed[number];
        let pod = self.running.get_mut(number).context("no such pod")?;
        probed.set_phase(Phase::Stopping);
        let begin = Instant::now();
        pod.terminate()?;
        let (mut unready_ms, mut ended) = (None, Ok(None));
        wait_until(self.settings.termination_grace(), || {
            if unready_ms.is_none() && !probed.is_ready() {
                unready_ms = Some(begin.elapsed().as_millis());
            }
            ended = pod.try_wait();
            !matches!(ended, Ok(None))
        });
        let exit_ms = begin.elapsed().as_millis();
        let ended = ended?;
        if ended.is_none() {
            pod.kill()?;
        }
        let exit_code = ended.and_then(|status| status.code());
        probed.set_phase(Phase::Down);
        Ok(Shutdown { unready_ms, exit_ms, exit_code })
    }
}

fn pod_name(number: usize) -> String {
    format!("pod-{}", number + 1)
}
