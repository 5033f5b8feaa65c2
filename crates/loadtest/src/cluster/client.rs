//! Client: does one thing after another in the name of a tenant, and remembers what it was given.

use serde_json::{Value, json};

use super::api_client::{ApiClient, Outcome, Said};
use super::classify::Form;
use super::http_client::Request;
use super::mix::{Action, Foreign, Random, choose};
use super::tenant_state::{Crew, Kept, Tenants, Walk};

/// As many memories as make a result too large to be sent.
const MANY: u64 = 120;
/// How long a task is asked to be kept.
const TASK_MS: u64 = 60_000;

/// What memories are about.
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
/// How many places memories are about, each in a few of them.
const BERTHS: usize = 200;
/// What is asked for beside a place.
const QUESTIONS: [&str; 6] =
    ["harbour crane", "release Thursday", "ferry", "second signature", "old lamp", "north pier"];

/// One client.
#[derive(Debug)]
pub(super) struct Client<'a> {
    fleet: &'a Tenants,
    /// Whose it is, among the fleet's.
    index: usize,
    number: usize,
    serial: u64,
    random: Random,
    pub(super) asker: ApiClient<'a>,
}

impl<'a> Client<'a> {
    /// Client `number`, of the tenant whose turn it is.
    pub(super) fn new(fleet: &'a Tenants, number: usize, port: u16) -> Self {
        let index = number % fleet.crews.len();
        Self {
            fleet,
            index,
            number,
            serial: 0,
            random: Random::new(number as u64),
            asker: ApiClient::new(&fleet.crews[index].tenant, port),
        }
    }

    /// Does one thing. What needs something that there is not yet is a write instead.
    pub(super) fn step(&mut self) {
        let done = match choose(self.random.draw()) {
            Action::Capture => None,
            Action::CaptureByTool => {
                self.capture_by_tool();
                Some(())
            }
            Action::Read => self.read(),
            Action::Remove => self.remove(),
            Action::Recall => {
                let query = self.question();
                self.walk("recall_memories", &json!({"query": query, "limit": 5}));
                Some(())
            }
            Action::List => {
                self.walk("list_memories", &json!({"limit": 5}));
                Some(())
            }
            Action::NextPage => self.next_page(),
            Action::Whole => {
                self.whole();
                Some(())
            }
            Action::Extract => self.extract(),
            Action::Fetch => self.fetch(),
            Action::BeginTask => {
                self.begin_task();
                Some(())
            }
            Action::TaskResult => self.task_result(),
            Action::Foreign(what) => self.foreign(what),
        };
        if done.is_none() {
            self.capture();
        }
    }

    fn crew(&self) -> &'a Crew {
        &self.fleet.crews[self.index]
    }

    /// A memory that no other client writes, long enough for a hundred of them to be stored.
    fn memory(&mut self) -> (String, Value) {
        self.serial += 1;
        let tenant = self.asker.tenant;
        let (canary, number, serial) = (&tenant.canary, self.number, self.serial);
        let berth = self.random.below(BERTHS);
        let subjects: Vec<&str> =
            (0..4).map(|_| SUBJECTS[self.random.below(SUBJECTS.len())]).collect();
        let content =
            format!("{canary} berth{berth}, {serial} of client {number}. {}", subjects.join(" "));
        let body = json!({
            "content": content,
            "memory_type": "semantic",
            "title": format!("{canary} {number}/{serial}"),
            "tags": [canary],
        });
        (content, body)
    }

    /// Mostly for a few memories, now and then for half of them.
    fn question(&mut self) -> String {
        match self.random.below(8) {
            0 => QUESTIONS[self.random.below(QUESTIONS.len())].to_owned(),
            _ => format!("berth{}", self.random.below(BERTHS)),
        }
    }

    /// Keeps a memory.
    pub(super) fn capture(&mut self) {
        let (content, body) = self.memory();
        let request = Request::post("/v1/memories", body.to_string());
        let outcome = self.asker.ask("POST /v1/memories", request, Form::Json);
        self.wrote("POST /v1/memories", outcome, content, |memory| memory);
    }

    fn capture_by_tool(&mut self) {
        let (content, body) = self.memory();
        let outcome = self.asker.tool("capture_memory", &body);
        self.wrote(
            "capture_memory",
            outcome,
            content,
            |result| &result["structuredContent"]["memory"],
        );
    }

    /// Notes what became of a write. Only what names an id and says what was sent is acknowledged.
    fn wrote(
        &mut self,
        what: &str,
        outcome: Outcome,
        content: String,
        memory: fn(&Value) -> &Value,
    ) {
        if matches!(outcome.said, Said::Unsure) {
            self.crew().held().unsure += 1;
        }
        let shown = outcome.shown.clone();
        let Some(value) = self.asker.own(what, outcome) else { return };
        let memory = memory(&value);
        match memory["id"].as_str() {
            Some(id) if memory["content"] == *content => {
                self.crew().held().ledger.push(Kept { id: id.to_owned(), content });
            }
            _ => self.asker.tally.error(what, "another memory came back", shown),
        }
    }

    fn read(&mut self) -> Option<()> {
        let kept = self.crew().held().kept(&mut self.random)?;
        let what = "GET /v1/memories/{id}";
        let request = Request::get(format!("/v1/memories/{}", kept.id));
        let outcome = self.asker.ask(what, request, Form::Json);
        if matches!(outcome.said, Said::Denied(_)) && !self.crew().held().has(&kept.id) {
            // Another client has removed it meanwhile.
            return Some(());
        }
        let shown = outcome.shown.clone();
        if let Some(memory) = self.asker.own(what, outcome)
            && (memory["id"] != *kept.id || memory["content"] != *kept.content)
        {
            self.asker.tally.error(what, "another memory came back", shown);
        }
        Some(())
    }

    /// Removes a memory, which from then on nobody else asks for.
    fn remove(&mut self) -> Option<()> {
        let kept = self.crew().held().take(&mut self.random)?;
        let what = "DELETE /v1/memories/{id}";
        let request = Request::delete(format!("/v1/memories/{}", kept.id));
        let outcome = self.asker.ask(what, request, Form::Bytes);
        match outcome.said {
            Said::Given(_) => {
                self.look_for(&kept);
                self.crew().held().removed.push(kept.id);
            }
            Said::NotNow => self.crew().held().ledger.push(kept),
            Said::Unsure => self.crew().held().unsure += 1,
            Said::Denied(_) | Said::Wrong(_) => {}
        }
        // That it was not there is an error: it was acknowledged, and nobody else removes it.
        self.asker.own(what, outcome);
        Some(())
    }

    /// Asks for a memory that was removed, of whichever server answers.
    fn look_for(&mut self, removed: &Kept) {
        let what = "GET /v1/memories/{id} after DELETE";
        let request = Request::get(format!("/v1/memories/{}", removed.id));
        let outcome = self.asker.ask(what, request, Form::Json);
        self.asker.missing(what, outcome);
    }

    /// Asks for a page, and keeps where it goes on.
    fn walk(&mut self, tool: &'static str, arguments: &Value) {
        let outcome = self.asker.tool(tool, arguments);
        let Some(mut result) = self.asker.own(tool, outcome) else { return };
        let cursor = result["structuredContent"]["next_cursor"].take();
        if cursor.is_string() {
            let mut arguments = arguments.clone();
            arguments["cursor"] = cursor;
            self.crew().held().cursors.push(Walk { tool, arguments });
        }
    }

    fn next_page(&mut self) -> Option<()> {
        let Walk { tool, arguments } = self.crew().held().cursors.pick(&mut self.random)?;
        self.walk(tool, &arguments);
        Some(())
    }

    fn whole(&mut self) {
        let outcome = self.asker.tool("list_memories", &json!({"limit": MANY, "detail": "full"}));
        let Some(result) = self.asker.own("list_memories", outcome) else { return };
        let descriptor = &result["structuredContent"];
        if descriptor["offloaded"] != true {
            let here = descriptor["memories"].as_array().map_or(0, Vec::len) as u64;
            if descriptor["count"].as_u64().is_some_and(|count| here < count) {
                self.asker.tally.truncated += 1;
            }
            return;
        }
        self.asker.tally.stored += 1;
        let mut held = self.crew().held();
        if let Some(reference) = descriptor["lro"]["ref"].as_str() {
            held.references.push(reference.to_owned());
        }
        if let Some(path) = descriptor["file_path"].as_str().and_then(path_of) {
            held.links.push(path.to_owned());
        }
    }

    fn extract(&mut self) -> Option<()> {
        let reference = self.crew().held().references.pick(&mut self.random)?;
        let question = match self.random.below(3) {
            0 => json!({"ref": reference, "sql": "SELECT count(*) AS n FROM results"}),
            1 => json!({"ref": reference, "recipe": 1}),
            // The reference alone is answered with a fresh link.
            _ => json!({"ref": reference}),
        };
        let outcome = self.asker.tool("lro_extract", &question);
        let result = self.asker.own("lro_extract", outcome);
        let text = result.as_ref().and_then(|result| result["content"][0]["text"].as_str());
        if let Some(path) = text.and_then(|text| path_of(text.lines().last()?)) {
            self.crew().held().links.push(path.to_owned());
        }
        Some(())
    }

    fn fetch(&mut self) -> Option<()> {
        let path = self.crew().held().links.pick(&mut self.random)?;
        let what = "GET /v1/offloads/{id}/{link}";
        let mut request = Request::get(path);
        if self.random.below(2) == 0 {
            request = request.with("Range", "bytes=0-4095");
        }
        let outcome = self.asker.ask(what, request, Form::Bytes);
        self.asker.own(what, outcome);
        Some(())
    }

    fn begin_task(&mut self) {
        let query = self.question();
        let params = json!({
            "name": "recall_memories",
            "arguments": {"query": query, "limit": 5},
            "task": {"ttl": TASK_MS},
        });
        let outcome = self.asker.message("tools/call", "recall_memories as a task", &params);
        let result = self.asker.own("recall_memories as a task", outcome);
        if let Some(id) = result.as_ref().and_then(|result| result["task"]["taskId"].as_str()) {
            self.crew().held().tasks.push(id.to_owned());
        }
    }

    fn task_result(&mut self) -> Option<()> {
        let id = self.crew().held().tasks.pick(&mut self.random)?;
        let outcome = self.asker.message("tasks/result", "tasks/result", &json!({"taskId": id}));
        self.asker.own("tasks/result", outcome);
        Some(())
    }

    /// Brings something that was given to another tenant.
    fn foreign(&mut self, what: Foreign) -> Option<()> {
        let (own, other) = (self.crew(), self.fleet.other(self.index, &mut self.random));
        let random = &mut self.random;
        let (what, outcome) = match what {
            Foreign::Memory => {
                let id = other.held().kept(random)?.id;
                let request = Request::get(format!("/v1/memories/{id}"));
                ("another's id", self.asker.ask("another's id", request, Form::Json))
            }
            Foreign::MemoryByTool => {
                let id = other.held().kept(random)?.id;
                ("another's id by get_memory", self.asker.tool("get_memory", &json!({"id": id})))
            }
            Foreign::Words => {
                // There is an answer, in which nothing of the other's may stand.
                let body = json!({"query": other.tenant.canary, "limit": 5}).to_string();
                let request = Request::post("/v1/search", body);
                let outcome = self.asker.ask("POST /v1/search", request, Form::Json);
                self.asker.tally.foreign_asked += 1;
                self.asker.own("POST /v1/search", outcome);
                return Some(());
            }
            Foreign::Cursor => {
                let Walk { tool, arguments } = other.held().cursors.pick(random)?;
                ("another's cursor", self.asker.tool(tool, &arguments))
            }
            Foreign::Reference => {
                let reference = other.held().references.pick(random)?;
                let question = json!({"ref": reference, "recipe": 1});
                ("another's reference", self.asker.tool("lro_extract", &question))
            }
            Foreign::Offload => {
                let path = other.held().links.pick(random)?;
                let request = Request::get(path.rsplit_once('/')?.0);
                ("another's result", self.asker.ask("another's result", request, Form::Bytes))
            }
            Foreign::Link => {
                // Whoever has a whole link may use it: that is what a link is for. So the name in it
                // becomes one's own, which it was not signed for.
                let own = own.held().links.pick(random)?;
                let request = Request::get(renamed(&other.held().links.pick(random)?, &own)?);
                ("another's link", self.asker.ask("another's link", request, Form::Bytes))
            }
            Foreign::Task => {
                let id = other.held().tasks.pick(random)?;
                let params = json!({"taskId": id});
                let what = "another's task";
                (what, self.asker.message("tasks/result", what, &params))
            }
        };
        self.asker.foreign(what, outcome);
        Some(())
    }
}

/// The path of a link.
fn path_of(link: &str) -> Option<&str> {
    let (_, rest) = link.split_once("://")?;
    rest.find("/v1/offloads/").map(|at| &rest[at..])
}

/// The path of a link with the tenant of `own` in it: `…/{tenant}.{until}.{signature}`.
fn renamed(link: &str, own: &str) -> Option<String> {
    let (result, part) = link.rsplit_once('/')?;
    let (_, signed) = part.split_once('.')?;
    let (tenant, _) = own.rsplit_once('/')?.1.split_once('.')?;
    Some(format!("{result}/{tenant}.{signed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_path_and_the_name_in_it_can_be_another() {
        let link = "http://127.0.0.1:1/v1/offloads/01A/YW5u.99.sig";
        assert_eq!(path_of(link), Some("/v1/offloads/01A/YW5u.99.sig"));
        assert_eq!(path_of("http://127.0.0.1:1/v1/memories"), None);
        assert_eq!(path_of("lro:01A"), None);
        let renamed = |link, own| renamed(link, own);
        assert_eq!(
            renamed("/v1/offloads/01A/YW5u.99.sig", "/v1/offloads/01B/Ym9i.77.other").as_deref(),
            Some("/v1/offloads/01A/Ym9i.99.sig")
        );
        assert_eq!(renamed("/v1/offloads/01A/odd", "/v1/offloads/01B/Ym9i.77.other"), None);
    }
}
