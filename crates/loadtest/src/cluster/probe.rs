//! Probe: whether one server answers, as a tenant of its own that nobody else asks for.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::api_client::{ApiClient, Said};
use super::classify::Form;
use super::http_client::Request;
use super::replica;
use super::state::{Part, State};
use super::tenants::Tenant;

/// As many memories as make a result that is stored.
const MEMORIES: usize = 40;
/// A server that has not recovered by then has not recovered.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// How long a server may take to say whether it is ready.
const READY: Duration = Duration::from_secs(10);

/// Gives the probing tenant something to list.
pub(super) fn prepare(state: &State, tenant: &Tenant) -> Result<()> {
    let mut asker = ApiClient::new(tenant, state.balancer.port);
    let begun = Instant::now();
    let mut kept = 0;
    while kept < MEMORIES {
        ensure!(begun.elapsed() < GIVEN_UP, "the cluster keeps no memories");
        let content =
            format!("{} {kept}. {}", tenant.canary, "The probe has many words. ".repeat(12));
        let body = json!({"content": content, "memory_type": "semantic"}).to_string();
        let request = Request::post("/v1/memories", body);
        let outcome = asker.ask("POST /v1/memories", request, Form::Json);
        kept += usize::from(matches!(outcome.said, Said::Given(_)));
    }
    Ok(())
}

/// How long after now each server works again, now that `engine` does; as long as it was waited for
/// where one did not.
pub(super) fn recovered(state: &State, tenant: &Tenant, engine: Part) -> Vec<Duration> {
    let since = Instant::now();
    thread::scope(|scope| {
        let waiting: Vec<_> = state
            .replicas
            .iter()
            .map(|member| {
                scope.spawn(move || {
                    let mut asker = ApiClient::new(tenant, member.port);
                    while since.elapsed() < GIVEN_UP {
                        if replica::is_ready(member.port, READY) && works(&mut asker, engine) {
                            break;
                        }
                        thread::sleep(Duration::from_millis(10));
                    }
                    since.elapsed()
                })
            })
            .collect();
        waiting.into_iter().map(|waited| waited.join().unwrap_or(GIVEN_UP)).collect()
    })
}

/// Whether a listing is answered: from the database, or with a result that object storage keeps.
fn works(asker: &mut ApiClient<'_>, engine: Part) -> bool {
    let arguments = match engine {
        Part::S3 => json!({"detail": "full"}),
        _ => json!({"limit": 5}),
    };
    match asker.tool("list_memories", &arguments).said {
        Said::Given(result) => {
            engine != Part::S3 || result["structuredContent"]["offloaded"] == true
        }
        _ => false,
    }
}
