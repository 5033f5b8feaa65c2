//! Verify: whether everything that was acknowledged is there, and nothing that nobody wrote or that was
//! removed.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::Value;

use super::api_client::{ApiClient, Said};
use super::classify::Form;
use super::counters::Counters;
use super::http_client::Request;
use super::tenant_state::{Crew, Kept, Tenants};
use xtask::output;

/// Everything runs: who does not answer for so long does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// As many of the lost as are shown, and of those that should be gone.
const SHOWN: usize = 5;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Found {
    pub(super) verified: u64,
    pub(super) lost: u64,
    /// Those that are there though their removal was acknowledged.
    pub(super) returned: u64,
    /// How many memories there are.
    pub(super) there: u64,
    /// Those beyond what was acknowledged and what may be there or not.
    pub(super) unexplained: u64,
}

/// Reads back every ledger through the balancer at `port`.
pub(super) fn run(fleet: &Tenants, port: u16, tally: &mut Counters) -> Result<Found> {
    let checked = thread::scope(|scope| {
        let crews: Vec<_> =
            fleet.crews.iter().map(|crew| scope.spawn(move || check(crew, port))).collect();
        let joined = crews.into_iter().map(thread::ScopedJoinHandle::join);
        joined.collect::<Result<Vec<Result<(Found, Counters)>>, _>>()
    });
    let mut whole = Found::default();
    for checked in checked.map_err(|_| anyhow!("a reader panicked"))? {
        let (found, read) = checked?;
        whole.verified += found.verified;
        whole.lost += found.lost;
        whole.returned += found.returned;
        whole.there += found.there;
        whole.unexplained += found.unexplained;
        // It is another's bytes that count in these, too.
        tally.foreign_seen += read.foreign_seen;
    }
    Ok(whole)
}

fn check(crew: &Crew, port: u16) -> Result<(Found, Counters)> {
    let mut asker = ApiClient::new(&crew.tenant, port);
    let mut found = Found::default();
    let (ledger, removed, unsure) = {
        let held = crew.held();
        (held.ledger.clone(), held.removed.clone(), held.unsure)
    };
    for (shown, kept) in lost(&mut asker, &ledger, &mut found)?.into_iter().enumerate() {
        if shown < SHOWN {
            let (name, Kept { id, content }) = (&crew.tenant.name, kept);
            output::line(format_args!("LOST: {name}: {id}: {content}"));
        }
    }
    for id in removed {
        if asked(&mut asker, &format!("/v1/memories/{id}"))?.is_some() {
            found.returned += 1;
            if found.returned <= SHOWN as u64 {
                output::line(format_args!("REMOVED, AND THERE: {}: {id}", crew.tenant.name));
            }
        }
    }
    let listed = asked(&mut asker, "/v1/memories?limit=1")?.map(|listed| listed["total"].as_u64());
    found.there = listed.flatten().context("a listing without a total")?;
    found.unexplained = found.there.saturating_sub(ledger.len() as u64 + unsure);
    Ok((found, asker.tally))
}

/// Those that are not there, or say something else.
fn lost<'a>(
    asker: &mut ApiClient<'_>,
    ledger: &'a [Kept],
    found: &mut Found,
) -> Result<Vec<&'a Kept>> {
    let mut lost = Vec::new();
    for kept in ledger {
        let memory = asked(asker, &format!("/v1/memories/{}", kept.id))?.unwrap_or_default();
        if memory["id"] == *kept.id && memory["content"] == *kept.content {
            found.verified += 1;
        } else {
            found.lost += 1;
            lost.push(kept);
        }
    }
    Ok(lost)
}

/// What is there, if it is; asked until somebody answers.
fn asked(asker: &mut ApiClient<'_>, path: &str) -> Result<Option<Value>> {
    let begun = Instant::now();
    while begun.elapsed() < ANSWER_TIMEOUT {
        match asker.ask("reading back", Request::get(path), Form::Json).said {
            Said::Given(value) => return Ok(Some(value)),
            Said::Denied(_) => return Ok(None),
            Said::NotNow | Said::Unsure | Said::Wrong(_) => {}
        }
    }
    bail!("{path} is not answered")
}
