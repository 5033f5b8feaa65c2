//! A load client: performs one action after another for a tenant, and remembers ids, cursors and
//! links for later actions.

use anyhow::Result;
use serde_json::{Value, json};

use super::action::{Action, ForeignAccess, Random, choose_action};
use super::api_client::{ApiClient, Outcome, Reply};
use super::classification::ExpectedBody;
use super::http_client::Request;
use super::services;
use super::state::State;
use super::tenants::{PageRequest, StoredMemory, Tenant, TenantState, Tenants};

/// A listing of this many memories is offloaded.
const OFFLOADED_LIST_LEN: u64 = 120;
/// The lifetime that a task request asks for.
const TASK_TTL_MS: u64 = 60_000;
/// How many places the memories name, so that a search for a place finds a few.
const BERTHS: usize = 200;

/// The number of the client that imported memories name, for the first tenant.
const FIRST_IMPORT: usize = 20_000;
/// When imported memories were created.
const IMPORT_TIME: &str = "2026-01-15T10:30:00Z";

/// Sentences that memories are made of.
const SUBJECTS: [&str; 8] = [
    "The harbour crane is inspected before the spring tide.",
    "Releases leave on Thursdays unless a holiday moves them.",
    "The ferry timetable follows the sun, not the clock.",
    "Invoices above nine thousand need a second signature.",
    "The lighthouse keeps its old lamp as a spare.",
    "Backups are read back every Monday, and the reading is noted.",
    "Customers in the islands are called before noon.",
    "The north pier is closed while the swallows nest.",
];
/// Searches that find many memories.
const BROAD_QUERIES: [&str; 6] =
    ["harbour crane", "release Thursday", "ferry", "second signature", "old lamp", "north pier"];

/// A load client.
#[derive(Debug)]
pub(super) struct Client<'a> {
    tenants: &'a Tenants,
    number: usize,
    serial: u64,
    random: Random,
    pub(super) api: ApiClient<'a>,
}

impl<'a> Client<'a> {
    /// Client `number`; clients take the tenants in turn.
    pub(super) fn new(tenants: &'a Tenants, number: usize, port: u16) -> Self {
        Self {
            tenants,
            number,
            serial: 0,
            random: Random::new(number as u64),
            api: ApiClient::new(&tenants.for_client(number).tenant, port),
        }
    }

    /// Performs one action. If its object does not exist yet, writes a memory instead.
    pub(super) fn step(&mut self) {
        let done = match choose_action(self.random.next_u64()) {
            Action::Capture => None,
            Action::CaptureByTool => {
                self.capture_by_tool();
                Some(())
            }
            Action::Read => self.read(),
            Action::Remove => self.remove(),
            Action::Recall => {
                let query = self.random_query();
                self.list_page("recall_memories", &json!({"query": query, "limit": 5}));
                Some(())
            }
            Action::List => {
                self.list_page("list_memories", &json!({"limit": 5}));
                Some(())
            }
            Action::NextPage => self.next_page(),
            Action::ListOffloaded => {
                self.list_offloaded();
                Some(())
            }
            Action::Extract => self.extract(),
            Action::Fetch => self.fetch(),
            Action::BeginTask => {
                self.begin_task();
                Some(())
            }
            Action::TaskResult => self.task_result(),
            Action::Foreign(what) => self.access_foreign(what),
        };
        if done.is_none() {
            self.capture();
        }
    }

    fn state(&self) -> &'a TenantState {
        self.tenants.for_client(self.number)
    }

    /// A memory that no other client writes.
    fn new_memory(&mut self) -> (String, Value) {
        self.serial += 1;
        generate_memory(self.api.tenant, self.number, self.serial, &mut self.random)
    }

    /// Finds a few memories, one time in eight half of them.
    fn random_query(&mut self) -> String {
        match self.random.below(8) {
            0 => BROAD_QUERIES[self.random.below(BROAD_QUERIES.len())].to_owned(),
            _ => format!("berth{}", self.random.below(BERTHS)),
        }
    }

    /// Writes a memory by the HTTP API.
    pub(super) fn capture(&mut self) {
        let (content, body) = self.new_memory();
        let request = Request::post("/v1/memories", body.to_string());
        let reply = self.api.send("POST /v1/memories", request, ExpectedBody::Json);
        self.record_write("POST /v1/memories", reply, content, |memory| memory);
    }

    fn capture_by_tool(&mut self) {
        let (content, body) = self.new_memory();
        let reply = self.api.call_tool("capture_memory", &body);
        self.record_write("capture_memory", reply, content, |result| {
            &result["structuredContent"]["memory"]
        });
    }

    /// Records a write in the ledger if the response has an id and the content that was sent.
    fn record_write(
        &mut self,
        what: &str,
        reply: Reply,
        content: String,
        memory: fn(&Value) -> &Value,
    ) {
        if matches!(reply.outcome, Outcome::Unknown) {
            self.state().lock().unknown_outcomes += 1;
        }
        let excerpt = reply.excerpt.clone();
        let Some(value) = self.api.expect_success(what, reply) else { return };
        let memory = memory(&value);
        match memory["id"].as_str() {
            Some(id) if memory["content"] == *content => {
                self.state().lock().ledger.push(StoredMemory { id: id.to_owned(), content });
            }
            _ => self.api.counters.record_error(what, "another memory came back", excerpt),
        }
    }

    fn read(&mut self) -> Option<()> {
        let stored = self.state().lock().random_memory(&mut self.random)?;
        let what = "GET /v1/memories/{id}";
        let request = Request::get(format!("/v1/memories/{}", stored.id));
        let reply = self.api.send(what, request, ExpectedBody::Json);
        if matches!(reply.outcome, Outcome::Denied(_)) && !self.state().lock().contains(&stored.id)
        {
            // Another client removed it in the meantime.
            return Some(());
        }
        let excerpt = reply.excerpt.clone();
        if let Some(memory) = self.api.expect_success(what, reply)
            && (memory["id"] != *stored.id || memory["content"] != *stored.content)
        {
            self.api.counters.record_error(what, "another memory came back", excerpt);
        }
        Some(())
    }

    /// Removes a memory; from now on no other client requests it.
    fn remove(&mut self) -> Option<()> {
        let stored = self.state().lock().take_for_removal(&mut self.random)?;
        let what = "DELETE /v1/memories/{id}";
        let request = Request::delete(format!("/v1/memories/{}", stored.id));
        let reply = self.api.send(what, request, ExpectedBody::Bytes);
        match reply.outcome {
            Outcome::Success(_) => {
                self.verify_removed(&stored);
                self.state().lock().removed.push(stored.id);
            }
            Outcome::Unavailable => self.state().lock().ledger.push(stored),
            Outcome::Unknown => self.state().lock().unknown_outcomes += 1,
            Outcome::Denied(_) | Outcome::Invalid(_) => {}
        }
        // A denial is an error: the memory was acknowledged, and no other client removes it.
        self.api.expect_success(what, reply);
        Some(())
    }

    /// Requests a removed memory, from any server.
    fn verify_removed(&mut self, removed: &StoredMemory) {
        let what = "GET /v1/memories/{id} after DELETE";
        let request = Request::get(format!("/v1/memories/{}", removed.id));
        let reply = self.api.send(what, request, ExpectedBody::Json);
        self.api.expect_denied(what, reply);
    }

    /// Requests a page, and remembers the request for the next one.
    fn list_page(&mut self, tool: &'static str, arguments: &Value) {
        let reply = self.api.call_tool(tool, arguments);
        let Some(mut result) = self.api.expect_success(tool, reply) else { return };
        let cursor = result["structuredContent"]["next_cursor"].take();
        if cursor.is_string() {
            let mut arguments = arguments.clone();
            arguments["cursor"] = cursor;
            self.state().lock().cursors.push(PageRequest { tool, arguments });
        }
    }

    fn next_page(&mut self) -> Option<()> {
        let PageRequest { tool, arguments } = self.state().lock().cursors.pick(&mut self.random)?;
        self.list_page(tool, &arguments);
        Some(())
    }

    fn list_offloaded(&mut self) {
        let reply = self
            .api
            .call_tool("list_memories", &json!({"limit": OFFLOADED_LIST_LEN, "detail": "full"}));
        let Some(result) = self.api.expect_success("list_memories", reply) else { return };
        let descriptor = &result["structuredContent"];
        if descriptor["offloaded"] != true {
            let received = descriptor["memories"].as_array().map_or(0, Vec::len) as u64;
            if descriptor["count"].as_u64().is_some_and(|count| received < count) {
                self.api.counters.truncated += 1;
            }
            return;
        }
        self.api.counters.offloaded += 1;
        let mut shared = self.state().lock();
        if let Some(reference) = descriptor["lro"]["ref"].as_str() {
            shared.references.push(reference.to_owned());
        }
        if let Some(path) = descriptor["file_path"].as_str().and_then(link_path) {
            shared.links.push(path.to_owned());
        }
    }

    fn extract(&mut self) -> Option<()> {
        let reference = self.state().lock().references.pick(&mut self.random)?;
        let arguments = match self.random.below(3) {
            0 => json!({"ref": reference, "sql": "SELECT count(*) AS n FROM results"}),
            1 => json!({"ref": reference, "recipe": 1}),
            // For the reference alone, the server returns a fresh link.
            _ => json!({"ref": reference}),
        };
        let reply = self.api.call_tool("lro_extract", &arguments);
        let result = self.api.expect_success("lro_extract", reply);
        let text = result.as_ref().and_then(|result| result["content"][0]["text"].as_str());
        if let Some(path) = text.and_then(|text| link_path(text.lines().last()?)) {
            self.state().lock().links.push(path.to_owned());
        }
        Some(())
    }

    fn fetch(&mut self) -> Option<()> {
        let path = self.state().lock().links.pick(&mut self.random)?;
        let what = "GET /v1/offloads/{id}/{link}";
        let mut request = Request::get(path);
        if self.random.below(2) == 0 {
            request = request.with("Range", "bytes=0-4095");
        }
        let reply = self.api.send(what, request, ExpectedBody::Bytes);
        self.api.expect_success(what, reply);
        Some(())
    }

    fn begin_task(&mut self) {
        let query = self.random_query();
        let params = json!({
            "name": "recall_memories",
            "arguments": {"query": query, "limit": 5},
            "task": {"ttl": TASK_TTL_MS},
        });
        let reply = self.api.send_message("tools/call", "recall_memories as a task", &params);
        let result = self.api.expect_success("recall_memories as a task", reply);
        if let Some(id) = result.as_ref().and_then(|result| result["task"]["taskId"].as_str()) {
            self.state().lock().tasks.push(id.to_owned());
        }
    }

    fn task_result(&mut self) -> Option<()> {
        let id = self.state().lock().tasks.pick(&mut self.random)?;
        let reply = self.api.send_message("tasks/result", "tasks/result", &json!({"taskId": id}));
        self.api.expect_success("tasks/result", reply);
        Some(())
    }

    /// Requests something of another tenant.
    fn access_foreign(&mut self, what: ForeignAccess) -> Option<()> {
        let (own, other) = (self.state(), self.tenants.other(self.number, &mut self.random));
        let random = &mut self.random;
        let (what, reply) = match what {
            ForeignAccess::Memory => {
                let id = other.lock().random_memory(random)?.id;
                let request = Request::get(format!("/v1/memories/{id}"));
                ("another's id", self.api.send("another's id", request, ExpectedBody::Json))
            }
            ForeignAccess::MemoryByTool => {
                let id = other.lock().random_memory(random)?.id;
                ("another's id by get_memory", self.api.call_tool("get_memory", &json!({"id": id})))
            }
            ForeignAccess::Search => {
                // Every response is searched for canaries. In capitals, the query finds the same
                // memories, and a hint that quotes it is not one.
                let query = other.tenant.canary.to_uppercase();
                let body = json!({"query": query, "limit": 5}).to_string();
                let request = Request::post("/v1/search", body);
                let reply = self.api.send("POST /v1/search", request, ExpectedBody::Json);
                self.api.counters.foreign_requests += 1;
                self.api.expect_success("POST /v1/search", reply);
                return Some(());
            }
            ForeignAccess::Cursor => {
                let PageRequest { tool, arguments } = other.lock().cursors.pick(random)?;
                ("another's cursor", self.api.call_tool(tool, &arguments))
            }
            ForeignAccess::Reference => {
                let reference = other.lock().references.pick(random)?;
                let arguments = json!({"ref": reference, "recipe": 1});
                ("another's reference", self.api.call_tool("lro_extract", &arguments))
            }
            ForeignAccess::Offload => {
                let path = other.lock().links.pick(random)?;
                let request = Request::get(path.rsplit_once('/')?.0);
                (
                    "another's result",
                    self.api.send("another's result", request, ExpectedBody::Bytes),
                )
            }
            ForeignAccess::Link => {
                // A complete link works for anyone. This one has the client's own tenant in it, for
                // which it was not signed.
                let own = own.lock().links.pick(random)?;
                let request =
                    Request::get(with_tenant_of(&other.lock().links.pick(random)?, &own)?);
                ("another's link", self.api.send("another's link", request, ExpectedBody::Bytes))
            }
            ForeignAccess::Task => {
                let id = other.lock().tasks.pick(random)?;
                let params = json!({"taskId": id});
                let what = "another's task";
                (what, self.api.send_message("tasks/result", what, &params))
            }
        };
        self.api.expect_foreign_denied(what, reply);
        Some(())
    }
}

/// The content and the fields of a memory, long enough that a listing of a hundred is offloaded. The
/// numbers of client and memory make it unique.
fn generate_memory(
    tenant: &Tenant,
    client: usize,
    serial: u64,
    random: &mut Random,
) -> (String, Value) {
    let (canary, berth) = (&tenant.canary, random.below(BERTHS));
    let subjects: Vec<&str> = (0..4).map(|_| SUBJECTS[random.below(SUBJECTS.len())]).collect();
    let content =
        format!("{canary} berth{berth}, {serial} of client {client}. {}", subjects.join(" "));
    let body = json!({
        "content": content,
        "memory_type": "semantic",
        "title": format!("{canary} {client}/{serial}"),
        "tags": [canary],
    });
    (content, body)
}

/// Imports memories as clients write them for every tenant, and records them as acknowledged.
pub(super) fn import_memories(state: &State, tenants: &Tenants, count: u64) -> Result<()> {
    for (number, tenant) in tenants.iter().enumerate() {
        let (client, mut lines, mut stored) = (FIRST_IMPORT + number, Vec::new(), Vec::new());
        let mut random = Random::new(client as u64);
        for serial in 1..=count {
            let (content, mut memory) =
                generate_memory(&tenant.tenant, client, serial, &mut random);
            // No other tenant has the id: a request for it by another tenant must be denied.
            let id = format!("00000000-0000-7000-8{number:03}-{serial:012}");
            memory["id"] = json!(id);
            memory["created"] = json!(IMPORT_TIME);
            lines.push(memory.to_string());
            stored.push(StoredMemory { id, content });
        }
        services::import(state, &tenant.tenant, lines.into_iter())?;
        tenant.lock().ledger.extend(stored);
    }
    Ok(())
}

/// The path of a link to an offloaded result.
fn link_path(link: &str) -> Option<&str> {
    let (_, rest) = link.split_once("://")?;
    rest.find("/v1/offloads/").map(|at| &rest[at..])
}

/// The path of a link with the tenant of `own` in it: `…/{tenant}.{until}.{signature}`.
fn with_tenant_of(link: &str, own: &str) -> Option<String> {
    let (result, signature) = link.rsplit_once('/')?;
    let (_, signed) = signature.split_once('.')?;
    let (tenant, _) = own.rsplit_once('/')?.1.split_once('.')?;
    Some(format!("{result}/{tenant}.{signed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_path_and_the_name_in_it_can_be_another() {
        let link = "http://127.0.0.1:1/v1/offloads/01A/YW5u.99.sig";
        assert_eq!(link_path(link), Some("/v1/offloads/01A/YW5u.99.sig"));
        assert_eq!(link_path("http://127.0.0.1:1/v1/memories"), None);
        assert_eq!(link_path("lro:01A"), None);
        let replaced = |link, own| with_tenant_of(link, own);
        assert_eq!(
            replaced("/v1/offloads/01A/YW5u.99.sig", "/v1/offloads/01B/Ym9i.77.other").as_deref(),
            Some("/v1/offloads/01A/Ym9i.99.sig")
        );
        assert_eq!(replaced("/v1/offloads/01A/odd", "/v1/offloads/01B/Ym9i.77.other"), None);
    }
}
