//! Conversations with a fake endpoint on the loopback interface: both APIs, streamed or not, calls in
//! the form of the API or in text, and faults.

mod fake_endpoint;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::HttpServer;

use self::fake_endpoint::{Answer, USAGE, endpoint, overloaded, status, text};
use super::*;

const KEY: &str = "sk-secret-key";
const SYSTEM: &str = "You answer questions about stored results.";

const POLICY: RetryPolicy = RetryPolicy {
    retries: 3,
    first_delay: Duration::from_millis(1),
    longest_delay: Duration::from_millis(200),
    timeout: Duration::from_secs(10),
};

const APIS: [Api; 2] = [Api::Openai, Api::Anthropic];

fn arguments(server: &HttpServer, api: Api, stream: bool) -> EndpointArgs {
    EndpointArgs {
        endpoint: server.url("/v1"),
        api,
        model: "m".to_owned(),
        calls: CallForm::Native,
        stream,
        max_usd: None,
        max_tokens: None,
        max_output_tokens: 100,
        timeout: 10,
    }
}

fn factory(arguments: &EndpointArgs) -> EndpointFactory {
    arguments.factory_with(Some(KEY.to_owned()), &PriceTable::default(), POLICY).unwrap()
}

fn tools() -> Vec<ToolDefinition> {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        input_schema: json!({"type": "object", "properties": {"x": {"type": "integer"}}}),
    };
    vec![tool("one"), tool("two")]
}

fn tool_reply(text: &str, is_error: bool) -> ToolReply {
    ToolReply { text: text.to_owned(), is_error, records_given: 0, write_micros: None }
}

fn calls_of(step: Step) -> Vec<(String, Value)> {
    match step {
        Step::Calls(calls) => calls.into_iter().map(|call| (call.name, call.arguments)).collect(),
        Step::End => Vec::new(),
    }
}

/// Asks once; returns the error of the endpoint and the number of requests.
fn failure(api: Api, stream: bool, answers: Vec<Answer>) -> (EndpointError, usize) {
    let server = endpoint(api, answers);
    let mut agent = factory(&arguments(&server, api, stream)).converse(SYSTEM, &tools(), "q");
    let error = agent.step(&[]).expect_err("an error");
    let error = error.downcast::<EndpointError>().expect("a typed error");
    let asked = server.asked().len();
    (error, asked)
}

#[test]
fn parallel_calls_and_their_replies_go_through_in_every_form() {
    let expected =
        [("one".to_owned(), json!({"x": 1})), ("two".to_owned(), json!({"y": "a \"b\""}))];
    let native = Answer::Message {
        text: "Two calls.".to_owned(),
        calls: vec![("one", expected[0].1.clone()), ("two", expected[1].1.clone())],
    };
    let call = |n: usize| json!({"name": expected[n].0, "arguments": expected[n].1});
    let fenced = text(&format!("```json\n{}\n{}\n```", call(0), call(1)));
    let tagged = text(&format!(
        "<tool_call>\n{}\n</tool_call>\n<tool_call>\n{}\n</tool_call>",
        call(0),
        call(1)
    ));
    for api in APIS {
        for stream in [false, true] {
            for (form, first) in [("native", &native), ("fenced", &fenced), ("tagged", &tagged)] {
                let at = format!("{api:?}, stream {stream}, {form}");
                let server = endpoint(api, vec![first.clone(), text("Done.")]);
                let factory = factory(&arguments(&server, api, stream));
                let mut agent = factory.converse(SYSTEM, &tools(), "q");
                assert_eq!(calls_of(agent.step(&[]).unwrap()), expected, "{at}");
                let replies = [tool_reply("reply one", false), tool_reply("reply two", true)];
                assert!(matches!(agent.step(&replies).unwrap(), Step::End), "{at}");
                assert_eq!(agent.last_text(), "Done.", "{at}");
                assert_eq!(agent.usage(), budget::sum(USAGE, USAGE), "{at}");
                assert_eq!(factory.spent().0, agent.usage(), "{at}");
                let asked = server.asked();
                assert_eq!(asked.len(), 2, "{at}");
                check_replies(api, form == "native", &asked[1].json(), &at);
                assert_eq!(asked[0].header(key_header(api).0), Some(key_header(api).1));
            }
        }
    }
}

fn key_header(api: Api) -> (&'static str, &'static str) {
    match api {
        Api::Openai => ("authorization", "Bearer sk-secret-key"),
        Api::Anthropic => ("x-api-key", KEY),
    }
}

/// Checks the second request: it has the calls, and the replies in their order.
fn check_replies(api: Api, native: bool, body: &Value, at: &str) {
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let whole = last.to_string();
    match (api, native) {
        (_, false) => {
            assert_eq!(last["role"], "user", "{at}");
            let (one, two) = (whole.find("reply one").unwrap(), whole.find("reply two").unwrap());
            assert!(one < two && whole.contains("<tool_response>"), "{at}: {whole}");
        }
        (Api::Openai, true) => {
            let roles: Vec<_> =
                messages.iter().filter_map(|message| message["role"].as_str()).collect();
            assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"], "{at}");
            assert_eq!(messages[2]["tool_calls"][1]["function"]["name"], "two", "{at}");
            let replies = [&messages[3], &messages[4]].map(|message| {
                (message["tool_call_id"].as_str().unwrap(), message["content"].as_str().unwrap())
            });
            assert_eq!(replies, [("call_0", "reply one"), ("call_1", "reply two")], "{at}");
        }
        (Api::Anthropic, true) => {
            assert_eq!(messages.len(), 3, "{at}");
            assert_eq!(messages[1]["content"][2]["input"], json!({"y": "a \"b\""}), "{at}");
            let replies = last["content"].as_array().unwrap();
            let ids: Vec<_> =
                replies.iter().filter_map(|block| block["tool_use_id"].as_str()).collect();
            assert_eq!(ids, ["call_0", "call_1"], "{at}");
            assert_eq!(replies[0].get("is_error"), None, "{at}");
            assert_eq!(replies[1]["is_error"], true, "{at}");
        }
    }
}

#[test]
fn definitions_can_be_in_the_system_text() {
    for api in APIS {
        let server = endpoint(api, vec![text("Done.")]);
        let arguments = EndpointArgs { calls: CallForm::Fenced, ..arguments(&server, api, false) };
        let factory = factory(&arguments);
        factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
        let body = server.asked()[0].json();
        assert_eq!(body.get("tools"), None);
        let system = match api {
            Api::Openai => body["messages"][0]["content"].as_str(),
            Api::Anthropic => body["system"][0]["text"].as_str(),
        };
        assert!(system.unwrap().contains("\"description\":\"The tool two.\""), "{system:?}");
        assert!(factory.prefix_tokens(SYSTEM, &tools()) > tokens::count(SYSTEM));
    }
}

#[test]
fn the_prefix_of_all_conversations_is_the_same() {
    for api in APIS {
        for calls in [CallForm::Native, CallForm::Fenced] {
            let server = endpoint(api, vec![text("A."), text("B.")]);
            let arguments = EndpointArgs { calls, ..arguments(&server, api, true) };
            let factory = factory(&arguments);
            for prompt in ["first question", "second question"] {
                factory.converse(SYSTEM, &tools(), prompt).step(&[]).unwrap();
            }
            let asked = server.asked();
            let bodies = [0, 1].map(|n| String::from_utf8(asked[n].body.clone()).unwrap());
            let same = bodies[0].bytes().zip(bodies[1].bytes()).take_while(|(a, b)| a == b).count();
            let prefix = &bodies[0][..same];
            assert!(prefix.contains(SYSTEM) && prefix.contains("The tool two."), "{prefix}");
            assert!(bodies[0][same..].starts_with("first question"), "{prefix}");
        }
    }
}

#[test]
fn an_overloaded_endpoint_is_asked_again() {
    let limited = Answer::Status {
        status: "429 Too Many Requests",
        headers: vec![("Retry-After", "0")],
        body: json!({"error": {"message": "slow down"}}),
    };
    let busy = status("529 Overloaded", json!({"error": {"type": "overloaded_error"}}));
    let unavailable = status("503 Service Unavailable", json!("no"));
    for api in APIS {
        for stream in [false, true] {
            for fault in [&limited, &busy, &unavailable, &Answer::Broken, &overloaded()] {
                let answers = vec![fault.clone(), fault.clone(), text("Done.")];
                let server = endpoint(api, answers);
                let factory = factory(&arguments(&server, api, stream));
                let mut agent = factory.converse(SYSTEM, &tools(), "q");
                let step = agent.step(&[]);
                assert!(step.is_ok(), "{api:?} {stream} {fault:?}: {:?}", step.err());
                assert_eq!(server.asked().len(), 3, "{api:?} {stream} {fault:?}");
                // Only the message that arrived counts.
                assert_eq!(agent.usage(), USAGE);
            }
        }
    }
}

#[test]
fn retries_are_bounded() {
    for api in APIS {
        let (error, asked) = failure(api, false, vec![status("529 Overloaded", json!("busy")); 10]);
        assert!(matches!(error, EndpointError::Failed { .. }), "{error}");
        assert_eq!(asked, 4);
        let long = Answer::Status {
            status: "429 Too Many Requests",
            headers: vec![("Retry-After", "3600")],
            body: json!("later"),
        };
        let (error, asked) = failure(api, false, vec![long, text("Done.")]);
        assert!(matches!(error, EndpointError::Failed { .. }), "{error}");
        assert_eq!(asked, 1);
    }
}

#[test]
fn a_retry_waits_as_long_as_the_endpoint_asks() {
    let limited = Answer::Status {
        status: "429 Too Many Requests",
        headers: vec![("retry-after-ms", "120")],
        body: json!("later"),
    };
    let server = endpoint(Api::Openai, vec![limited, text("Done.")]);
    let factory = factory(&arguments(&server, Api::Openai, false));
    let began = std::time::Instant::now();
    factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(120));
}

#[test]
fn refusals_and_full_context_windows_end_the_conversation() {
    let too_long = json!({"type": "error", "error": {
        "type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum",
    }});
    let exceeded = json!({"error": {"message": "x", "code": "context_length_exceeded"}});
    for api in APIS {
        for stream in [false, true] {
            let (error, asked) = failure(api, stream, vec![Answer::Refusal]);
            assert!(matches!(error, EndpointError::Refused { .. }), "{error}");
            assert_eq!((asked, error.ending()), (1, Ending::Refused));
            for body in [&too_long, &exceeded] {
                let answers = vec![status("400 Bad Request", body.clone())];
                let (error, asked) = failure(api, stream, answers);
                assert!(matches!(error, EndpointError::ContextOverflow { .. }), "{error}");
                assert_eq!((asked, error.ending()), (1, Ending::ContextOverflow));
            }
            let large = vec![status("413 Payload Too Large", json!("large"))];
            let (error, _) = failure(api, stream, large);
            assert!(matches!(error, EndpointError::ContextOverflow { .. }), "{error}");
        }
    }
}

#[test]
fn a_message_that_the_endpoint_cannot_parse_ends_the_conversation() {
    let error = json!({
        "code": 500, "message": "Failed to parse input at pos 12: </tool_call>",
        "type": "server_error",
    });
    for stream in [false, true] {
        let answers = [
            status("500 Internal Server Error", json!({"error": error})),
            Answer::Error(error.clone()),
        ];
        for answer in answers {
            let (error, asked) = failure(Api::Openai, stream, vec![answer, text("Done.")]);
            assert!(matches!(error, EndpointError::InvalidOutput { .. }), "{error}");
            assert_eq!((asked, error.ending()), (1, Ending::NoAnswer));
        }
    }
}

#[test]
fn a_message_at_its_limit_needs_a_complete_call() {
    for api in APIS {
        for stream in [false, true] {
            let cut = Answer::Cut { text: "I think", arguments: "" };
            let (error, asked) = failure(api, stream, vec![cut]);
            assert!(matches!(error, EndpointError::OutputLimit { .. }), "{error}");
            assert_eq!((asked, error.ending()), (1, Ending::OutputLimit));
            let whole = "```json\n{\"name\": \"one\", \"arguments\": {\"x\": 1}}\n```\nNow";
            let server = endpoint(api, vec![Answer::Cut { text: whole, arguments: "" }]);
            let factory = factory(&arguments(&server, api, stream));
            let step = factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
            assert_eq!(calls_of(step), [("one".to_owned(), json!({"x": 1}))]);
        }
    }
    let cut = Answer::Cut { text: "", arguments: "{\"x\": " };
    let (error, _) = failure(Api::Openai, false, vec![cut]);
    assert!(matches!(error, EndpointError::OutputLimit { .. }), "{error}");
    let server = endpoint(Api::Openai, vec![Answer::Cut { text: "", arguments: "{\"x\": 1}" }]);
    let factory = factory(&arguments(&server, Api::Openai, false));
    let step = factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
    assert_eq!(calls_of(step), [("one".to_owned(), json!({"x": 1}))]);
}

#[test]
fn a_stream_that_hangs_is_not_tried_again() {
    let server = endpoint(Api::Openai, vec![Answer::Hanging, text("Done.")]);
    let policy = RetryPolicy { timeout: Duration::from_millis(300), ..POLICY };
    let arguments = arguments(&server, Api::Openai, true);
    let factory = arguments.factory_with(None, &PriceTable::default(), policy).unwrap();
    let error = factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap_err();
    let error = error.downcast::<EndpointError>().unwrap();
    assert!(matches!(error, EndpointError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("the stream broke: timeout"), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_message_of_the_user_follows_the_replies() {
    for api in APIS {
        let native = Answer::Message { text: String::new(), calls: vec![("one", json!({}))] };
        let fenced = text("```json\n{\"name\": \"one\", \"arguments\": {}}\n```");
        for (first, is_native) in [(native, true), (fenced, false)] {
            let server = endpoint(api, vec![first, text(" "), text("8")]);
            let factory = factory(&arguments(&server, api, false));
            let mut agent = factory.converse(SYSTEM, &tools(), "q");
            agent.step(&[]).unwrap();
            agent.step_with(&[tool_reply("reply one", false)], "No calls are left.").unwrap();
            assert!(agent.is_meant_as_call(), "an empty message");
            agent.step_with(&[], "State the answer.").unwrap();
            assert_eq!(agent.last_text(), "8");
            assert!(!agent.is_meant_as_call());
            let body = server.asked()[2].json();
            let messages = body["messages"].as_array().unwrap();
            let last = messages.last().unwrap();
            assert_eq!(last["role"], "user");
            let text = last["content"].to_string();
            assert!(text.contains("No calls are left.\\n\\nState the answer."), "{text}");
            assert_eq!(text.contains("reply one"), !is_native, "{text}");
        }
    }
}

#[test]
fn a_wrong_key_is_not_tried_again_and_not_repeated() {
    let body = json!({"error": {"message": format!("Incorrect API key: {KEY}")}});
    let (error, asked) = failure(Api::Openai, false, vec![status("401 Unauthorized", body)]);
    assert_eq!(asked, 1);
    let message = error.to_string();
    assert!(message.contains("status 401: Incorrect API key: [key]"), "{message}");
    assert!(!message.contains(KEY));
}

#[test]
fn parameters_that_a_model_does_not_take_are_left_out() {
    let unsupported = |name: &str| {
        let error = json!({"message": "no", "code": "unsupported_value", "param": name});
        status("400 Bad Request", json!({"error": error}))
    };
    let answers =
        vec![unsupported("temperature"), unsupported("max_tokens"), text("A."), text("B.")];
    let server = endpoint(Api::Openai, answers);
    let factory = factory(&arguments(&server, Api::Openai, false));
    for _ in 0..2 {
        factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[0].json()["temperature"], 0.0);
    for request in &asked[2..] {
        let body = request.json();
        assert_eq!((body.get("temperature"), body.get("max_tokens")), (None, None));
        assert_eq!(body["max_completion_tokens"], 100);
    }
    drop(asked);
    let (error, asked) = failure(Api::Openai, false, vec![unsupported("tools")]);
    assert!(matches!(error, EndpointError::Failed { .. }), "{error}");
    assert_eq!(asked, 1);
}

#[test]
fn an_endpoint_that_does_not_stream_is_read_as_well() {
    for api in APIS {
        let server = endpoint(api, vec![Answer::Unstreamed("Done.")]);
        let mut agent = factory(&arguments(&server, api, true)).converse(SYSTEM, &[], "q");
        agent.step(&[]).unwrap();
        assert_eq!(agent.last_text(), "Done.");
    }
}

#[test]
fn the_budget_stops_the_run_before_a_request() {
    let server = endpoint(Api::Openai, vec![text("Done.")]);
    let limited = EndpointArgs { max_tokens: Some(150), ..arguments(&server, Api::Openai, false) };
    let error = factory(&limited).converse(SYSTEM, &tools(), "q").step(&[]).unwrap_err();
    let error = error.downcast::<EndpointError>().unwrap();
    assert!(matches!(error, EndpointError::SpendingLimit { .. }), "{error}");
    assert!(server.asked().is_empty());
    let unpriced = EndpointArgs { max_usd: Some(1.0), ..arguments(&server, Api::Openai, false) };
    let error = unpriced.factory(None, &PriceTable::default()).unwrap_err();
    assert!(error.to_string().contains("--max-usd needs the price of m"), "{error}");
}

#[test]
fn attempts_that_may_be_billed_count_in_full() {
    let spent = |stream: bool, fault: Answer| {
        let server = endpoint(Api::Anthropic, vec![fault, text("Done.")]);
        let factory = factory(&arguments(&server, Api::Anthropic, stream));
        factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
        let body = server.asked()[0].body.len() as u64;
        (factory.spent().0, body)
    };
    for stream in [false, true] {
        for fault in [Answer::Broken, overloaded()] {
            let (usage, body) = spent(stream, fault);
            let most = Usage { fresh_input: body, cached_input: 0, output: 100 };
            assert_eq!(usage, budget::sum(USAGE, most), "stream {stream}");
        }
        let (usage, _) = spent(stream, status("529 Overloaded", json!("busy")));
        assert_eq!(usage, USAGE, "a status costs nothing");
    }
    let server = endpoint(Api::Openai, vec![Answer::Broken, text("Done.")]);
    let limited = arguments(&server, Api::Openai, true);
    let body = {
        let probe = endpoint(Api::Openai, vec![text("Done.")]);
        factory(&arguments(&probe, Api::Openai, true))
            .converse(SYSTEM, &tools(), "q")
            .step(&[])
            .unwrap();
        let length = probe.asked()[0].body.len();
        length as u64
    };
    // Enough for one request at its most, not for two.
    let limited = EndpointArgs { max_tokens: Some(body + 150), ..limited };
    let error = factory(&limited).converse(SYSTEM, &tools(), "q").step(&[]).unwrap_err();
    let error = error.downcast::<EndpointError>().unwrap();
    assert!(matches!(error, EndpointError::SpendingLimit { .. }), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn the_settings_are_those_of_the_arguments() {
    let unsupported = json!({"error": {"message": "no", "param": "temperature"}});
    let answers = vec![status("400 Bad Request", unsupported), text("Done.")];
    let server = endpoint(Api::Openai, answers);
    let arguments =
        EndpointArgs { calls: CallForm::Fenced, ..arguments(&server, Api::Openai, false) };
    let factory = factory(&arguments);
    let expected = ModelSettings {
        calls: "fenced".to_owned(),
        stream: false,
        max_output_tokens: 100,
        max_sample_tokens: None,
        temperature: true,
    };
    assert_eq!(factory.settings(), Some(expected.clone()));
    factory.converse(SYSTEM, &tools(), "q").step(&[]).unwrap();
    assert_eq!(factory.settings(), Some(ModelSettings { temperature: false, ..expected }));
}

#[test]
fn replies_have_to_match_the_calls() {
    let server = endpoint(Api::Openai, vec![text("Done.")]);
    let mut agent =
        factory(&arguments(&server, Api::Openai, false)).converse(SYSTEM, &tools(), "q");
    assert!(agent.step(&[tool_reply("x", false)]).is_err());
}

#[test]
fn a_conversation_begins_with_a_call_in_its_form() {
    let call = ToolCall::new("one", json!({"x": 1}));
    let text = "```json\n{\"name\":\"one\",\"arguments\":{\"x\":1}}\n```";
    let response = "<tool_response>\nr\n</tool_response>";
    for (calls, tools_in_request, expected) in [
        (
            CallForm::Native,
            true,
            json!([{"id": "call_0", "type": "function",
                    "function": {"name": "one", "arguments": "{\"x\":1}"}}]),
        ),
        (CallForm::Text, true, json!(text)),
        (CallForm::Fenced, false, json!(text)),
    ] {
        let server = endpoint(Api::Openai, vec![self::text("Done.")]);
        let arguments = EndpointArgs { calls, ..arguments(&server, Api::Openai, false) };
        let mut agent = factory(&arguments).converse(SYSTEM, &tools(), "q");
        agent.begin_with(&call, &tool_reply("r", false)).unwrap();
        agent.step(&[]).unwrap();
        let request = server.asked()[0].json();
        assert_eq!(request["tools"].is_array(), tools_in_request, "{request}");
        let messages = request["messages"].as_array().unwrap();
        let [.., user, assistant, result] = messages.as_slice() else { panic!("{request}") };
        assert_eq!(user["content"], "q");
        let member = if calls == CallForm::Native { "tool_calls" } else { "content" };
        assert_eq!(assistant[member], expected);
        let reply = if calls == CallForm::Native { "r" } else { response };
        assert_eq!(result["content"], reply);
    }
}
