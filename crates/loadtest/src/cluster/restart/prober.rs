//! The probes of the kubelet: each pod by its address, with the periods and thresholds of the manifest.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::counters::Percentiles;
use super::super::http_client::{HttpClient, Request};
use super::manifest::{PodSettings, ProbeSettings};
use super::pod::ADMIN_PORT;

/// How soon a prober notices that its pod was started or that the run ends.
const TICK: Duration = Duration::from_millis(20);

/// What a pod is doing, which decides what a failed probe means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Down,
    Starting,
    /// Once it was ready, until it is stopped.
    Running,
    Stopping,
}

/// A pod's address with what its probes found.
#[derive(Debug)]
pub(super) struct ProbedPod {
    pub(super) address: Ipv4Addr,
    state: Mutex<ProbeState>,
}

#[derive(Debug)]
struct ProbeState {
    phase: Phase,
    /// The number of starts.
    generation: u32,
    ready: bool,
    results: ProbeResults,
}

/// The results of the probes of pods that run.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeResults {
    times_ms: Vec<f64>,
    failures: u64,
    unready: u64,
    liveness_failures: u64,
}

/// The results of all pods for the report.
#[derive(Debug, Default, Serialize)]
pub(super) struct ProbeSummary {
    pub(super) latency: Percentiles,
    pub(super) max_ms: f64,
    /// Probes that failed while their pod ran.
    pub(super) failures: u64,
    /// How often a pod that ran was taken out of service.
    pub(super) unready: u64,
    /// How often the kubelet would have restarted a pod.
    pub(super) liveness_failures: u64,
}

/// The outcome of consecutive probes: it changes after one success or `threshold` failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Streak {
    threshold: u32,
    failures: u32,
}

impl Streak {
    fn new(threshold: u32) -> Self {
        Self { threshold, failures: 0 }
    }

    /// Adds a probe. Returns the outcome if it may have changed.
    fn add(&mut self, success: bool) -> Option<bool> {
        self.failures = if success { 0 } else { self.failures + 1 };
        match self.failures {
            0 => Some(true),
            failures => (failures == self.threshold).then_some(false),
        }
    }
}

impl ProbedPod {
    pub(super) fn new(address: Ipv4Addr) -> Self {
        let state = ProbeState {
            phase: Phase::Down,
            generation: 0,
            ready: false,
            results: ProbeResults::default(),
        };
        Self { address, state: Mutex::new(state) }
    }

    /// Whether the pod gets requests.
    pub(super) fn is_ready(&self) -> bool {
        self.lock().ready
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        let mut state = self.lock();
        if phase == Phase::Starting {
            state.generation += 1;
            state.ready = false;
        }
        state.phase = phase;
    }

    pub(super) fn results(&self) -> ProbeResults {
        self.lock().results.clone()
    }

    /// Sends the startup probe until it succeeds after each start, and then the readiness probe.
    pub(super) fn probe_readiness(&self, settings: &PodSettings, stop: &AtomicBool) {
        let (mut generation, mut started) = (0, false);
        let mut readiness = Streak::new(settings.readiness.failure_threshold);
        while !stop.load(Ordering::Relaxed) {
            let before = self.current();
            if before.0 == Phase::Down {
                thread::sleep(TICK);
                continue;
            }
            if before.1 != generation {
                (generation, started) = (before.1, false);
                readiness = Streak::new(settings.readiness.failure_threshold);
            }
            let probe = if started { &settings.readiness } else { &settings.startup };
            let start = Instant::now();
            let success = self.send(probe);
            self.record(before, start.elapsed(), success);
            if !started && success {
                // Readiness follows at once.
                started = true;
                continue;
            }
            if started && let Some(ready) = readiness.add(success) {
                self.set_ready(before, ready);
            }
            self.wait(start, probe.period(), generation, stop);
        }
    }

    /// Sends the liveness probe while the pod runs.
    pub(super) fn probe_liveness(&self, settings: &PodSettings, stop: &AtomicBool) {
        let probe = &settings.liveness;
        let mut liveness = Streak::new(probe.failure_threshold);
        while !stop.load(Ordering::Relaxed) {
            let before = self.current();
            if before.0 != Phase::Running {
                liveness = Streak::new(probe.failure_threshold);
                thread::sleep(TICK);
                continue;
            }
            let start = Instant::now();
            let success = self.send(probe);
            self.record(before, start.elapsed(), success);
            if liveness.add(success) == Some(false) && self.current() == before {
                self.lock().results.liveness_failures += 1;
            }
            self.wait(start, probe.period(), before.1, stop);
        }
    }

    /// Each probe has a connection of its own, and the pod's address in `Host`, as those of the kubelet.
    fn send(&self, probe: &ProbeSettings) -> bool {
        let address = SocketAddrV4::new(self.address, ADMIN_PORT);
        let client = HttpClient::with_address(address, probe.timeout());
        let response = client.send(&Request::get(&*probe.path));
        response.is_ok_and(|response| (200..400).contains(&response.status))
    }

    fn current(&self) -> (Phase, u32) {
        let state = self.lock();
        (state.phase, state.generation)
    }

    /// Counts a probe if the pod ran all the time.
    fn record(&self, before: (Phase, u32), time: Duration, success: bool) {
        let mut state = self.lock();
        if before.0 == Phase::Running && (state.phase, state.generation) == before {
            state.results.times_ms.push(time.as_secs_f64() * 1000.0);
            state.results.failures += u64::from(!success);
        }
    }

    /// Changes the readiness unless the pod was started again since.
    fn set_ready(&self, before: (Phase, u32), ready: bool) {
        let mut state = self.lock();
        if state.generation != before.1 {
            return;
        }
        if state.ready && !ready && state.phase == Phase::Running {
            state.results.unready += 1;
        }
        state.ready = ready;
    }

    /// Waits for the next probe, or until the pod is started again.
    fn wait(&self, start: Instant, period: Duration, generation: u32, stop: &AtomicBool) {
        while start.elapsed() < period
            && self.current().1 == generation
            && !stop.load(Ordering::Relaxed)
        {
            thread::sleep(TICK.min(period.saturating_sub(start.elapsed())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProbeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProbeSummary {
    pub(super) fn new(results: impl Iterator<Item = ProbeResults>) -> Self {
        let (mut summary, mut times_ms) = (Self::default(), Vec::new());
        for one in results {
            times_ms.extend(one.times_ms);
            summary.failures += one.failures;
            summary.unready += one.unready;
            summary.liveness_failures += one.liveness_failures;
        }
        summary.max_ms = times_ms.iter().copied().fold(0.0, f64::max);
        summary.latency = Percentiles::from_times(times_ms);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_ends_with_one_success_and_begins_after_the_threshold() {
        let mut streak = Streak::new(2);
        let outcomes = [false, true, false, false, false, true].map(|success| streak.add(success));
        assert_eq!(outcomes, [None, Some(true), None, Some(false), None, Some(true)]);
    }

    #[test]
    fn a_probe_counts_only_while_its_pod_runs() {
        let pod = ProbedPod::new(Ipv4Addr::LOCALHOST);
        pod.set_phase(Phase::Starting);
        let starting = pod.current();
        pod.record(starting, Duration::from_millis(5), false);
        pod.set_ready(starting, true);
        pod.set_phase(Phase::Running);
        let running = pod.current();
        pod.record(running, Duration::from_millis(3), true);
        pod.record(running, Duration::from_millis(9), false);
        pod.set_ready(running, false);
        pod.set_ready(running, true);
        pod.set_phase(Phase::Stopping);
        pod.record(running, Duration::from_millis(7), false);
        pod.set_ready(pod.current(), false);
        assert!(!pod.is_ready());
        pod.set_phase(Phase::Starting);
        pod.set_ready(running, true);
        assert!(!pod.is_ready(), "a probe of the pod before");
        let summary = ProbeSummary::new([pod.results(), ProbeResults::default()].into_iter());
        assert_eq!((summary.failures, summary.unready, summary.liveness_failures), (1, 1, 0));
        assert_eq!(summary.latency.requests, 2);
        assert!((summary.max_ms - 9.0).abs() < 1e-6);
    }
}
