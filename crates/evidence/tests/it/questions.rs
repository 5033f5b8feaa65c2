//! The questions of `bench/questions/`, asked through the proxy of the built program.

use std::path::PathBuf;

use evidence::agents::endpoint::{Api, CallForm, EndpointArgs};
use evidence::prices::PriceTable;
use evidence::questions::{ChosenQuestion, DIRECTORY, QuestionWorld, RightBy};
use evidence::transcript::Ending;
use serde_json::json;
use tempfile::TempDir;
use testkit::http::{HttpServer, reply_json};
use testkit::questions::{Battery, Session};
use xtask::repository::Repository;

use crate::fixture::program;

fn questions_server() -> PathBuf {
    testkit::tool::built_program("questions-server", "testkit")
}

fn batteries() -> Vec<Battery> {
    let repository = Repository::open().unwrap();
    Battery::read_all(&repository.path(DIRECTORY)).unwrap()
}

/// The reference in a prompt.
fn reference(prompt: &str) -> Option<&str> {
    prompt.split("\"ref\":\"").nth(1)?.split('"').next()
}

/// The whole way: a real proxy, a real server, and an endpoint that calls what a script says.
#[test]
fn a_model_is_asked_through_the_proxy() {
    let directory = TempDir::new().unwrap();
    let (program, batteries) = (program(), batteries());
    let mut world =
        QuestionWorld::start(&program, &questions_server(), directory.path(), &batteries).unwrap();
    let names: Vec<&str> = world.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&"lro_extract") && !names.contains(&"list_issues"), "{names:?}");
    let server = HttpServer::start(|request, stream| {
        let messages = request.json()["messages"].clone();
        let prompt = messages[1]["content"].as_str().unwrap_or_default();
        let last = messages.as_array().and_then(|messages| messages.last());
        let is_replied = last.is_some_and(|last| last["role"] == "tool");
        let (message, reason) = if is_replied && prompt.contains("closed?") {
            let text = "It was closed at 2026-09-09T08:53:04Z.";
            (json!({"role": "assistant", "content": text}), "stop")
        } else {
            let sql = "SELECT closed_at FROM results WHERE number = 3977";
            let arguments = json!({"ref": reference(prompt), "sql": sql}).to_string();
            let function = json!({"name": "lro_extract", "arguments": arguments});
            let call = json!({"id": "c", "type": "function", "function": function});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        };
        let choice = json!({"message": message, "finish_reason": reason});
        reply_json(stream, "200 OK", &json!({"choices": [choice]}))
    });
    let endpoint = EndpointArgs {
        endpoint: server.url("/v1"),
        api: Api::Openai,
        model: "m".to_owned(),
        calls: CallForm::Native,
        stream: false,
        max_usd: None,
        max_tokens: None,
        max_output_tokens: 100,
        timeout: 10,
    };
    let factory = endpoint.factory(None, &PriceTable::default()).unwrap();
    let issues = batteries.iter().find(|battery| battery.kind == "issues").unwrap();
    let ask = |world: &mut QuestionWorld, id: &str| {
        let question = issues.questions.iter().find(|question| question.id == id).unwrap();
        world.ask(&ChosenQuestion { battery: issues, question }, &factory, 3).unwrap()
    };
    let right = ask(&mut world, "closed_at");
    assert_eq!((right.by, right.stated), (Some(RightBy::Reply), true), "{right:?}");
    assert_eq!(right.calls.len(), 1, "{right:?}");
    let wrong = ask(&mut world, "top_reporters");
    assert_eq!((wrong.by, wrong.calls.len()), (None, 3), "{wrong:?}");
    assert_eq!(wrong.ending, Ending::Cap);
}

/// A model that looks at the first records has no answer yet.
#[test]
fn the_first_records_answer_no_question() {
    let directory = TempDir::new().unwrap();
    let mut session = Session::start(&program(), &questions_server(), directory.path()).unwrap();
    for battery in batteries() {
        let called = session.call(&battery.tool, &json!({})).unwrap();
        let descriptor = called["content"][0]["text"].as_str().unwrap();
        let reference = reference(descriptor).unwrap();
        for limit in [1, 2, 3, 5, 10, 20, 25, 50, 100] {
            let sql = format!("SELECT * FROM results LIMIT {limit}");
            let arguments = json!({"ref": reference, "sql": sql});
            let result = session.call("lro_extract", &arguments).unwrap();
            for question in &battery.questions {
                let at = format!("{}, {}, LIMIT {limit}", battery.kind, question.id);
                assert!(!question.is_answered_by(&result), "{at}: {result}");
            }
        }
    }
}
