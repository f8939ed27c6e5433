use bytes::Bytes;
use gateway::{Action, Era, Outcome};
use vocab::{Fault, FaultKind, Rule, Stop, Violation};
use wire::{Json, Limits, rpc::Id};

use super::{Answer, Shape};

/// A shape of which nobody was shown an output schema.
struct Plain(Shape);

impl Plain {
    fn answer(&self, outcome: Outcome) -> Answer {
        self.0.answer(outcome, |_| true)
    }
}

fn shape(era: Era, action: Action) -> Plain {
    Plain(typed(era, action))
}

fn typed(era: Era, action: Action) -> Shape {
    Shape {
        era,
        action,
        params: Bytes::from_static(br#"{"name":"who","uri":"a://b","taskId":"t"}"#),
    }
}

fn refused(rule: Rule) -> Outcome {
    Outcome::Stopped(Stop::Refused(Violation::new(rule, "secret detail")))
}

fn failed(kind: FaultKind) -> Outcome {
    Outcome::Stopped(Stop::Failed(Fault::new(kind, "secret detail")))
}

/// The whole message, parsed; every rendering must be valid JSON and keep the operator's words to itself.
fn read(answer: &Answer) -> String {
    let message = answer.message(&Id::number(1));
    Json::parse(&message, Limits::default()).unwrap();
    let text = String::from_utf8(message.to_vec()).unwrap();
    assert!(!text.contains("secret detail"), "{text}");
    text
}

fn code(answer: &Answer) -> Option<i64> {
    match answer {
        Answer::Error(problem) => Some(problem.code),
        _ => None,
    }
}

#[test]
fn a_refused_tool_call_is_a_result_with_the_envelope() {
    for era in [Era::Legacy, Era::Modern] {
        let answer = shape(era, Action::CallTool).answer(refused(Rule::WouldViolateWriteDown));
        let text = read(&answer);
        let sentence = "Would violate write-down";
        assert!(text.contains(&format!(
            r#""content":[{{"type":"text","text":"{sentence}"}}],"isError":true,"structuredContent":{{"status":"error","error_code":"permission_denied","error":"{sentence}","violation":"WouldViolateWriteDown"}},"_meta":{{"portcullis/error":{{"status":"error","#
        )), "{text}");
        assert_eq!(text.contains("resultType"), era == Era::Modern);
    }
}

#[test]
fn what_the_gate_says_itself_never_breaks_an_output_schema() {
    let every = Rule::ALL.iter().map(|rule| refused(*rule));
    let faults = [
        FaultKind::Timeout,
        FaultKind::Upstream,
        FaultKind::Worker,
        FaultKind::Cancelled,
        FaultKind::DispatchTimeout,
        FaultKind::Gate,
    ];
    for outcome in every.chain(faults.into_iter().map(failed)) {
        let answer = typed(Era::Legacy, Action::CallTool).answer(outcome, |tool| tool != "who");
        if matches!(answer, Answer::Unauthenticated) {
            continue;
        }
        let text = read(&answer);
        assert!(!text.contains("structuredContent"), "{text}");
        assert!(
            code(&answer).is_some()
                || text.contains(r#""_meta":{"portcullis/error":{"status":"error","error_code":"#),
            "{text}"
        );
    }
}

#[test]
fn an_unknown_tool_is_an_error_that_names_it() {
    let answer = shape(Era::Legacy, Action::CallTool).answer(refused(Rule::ToolNotFound));
    assert_eq!(code(&answer), Some(-32602));
    let text = read(&answer);
    assert!(
        text.contains(r#""message":"Unknown tool: who""#)
            && text.contains(r#""violation":"ToolNotFound""#),
        "{text}"
    );
}

#[test]
fn codes_by_rule_and_method() {
    let rows = [
        (Era::Legacy, Action::CallTool, Rule::Malformed, Some(-32602)),
        (
            Era::Modern,
            Action::ReadResource,
            Rule::ToolNotFound,
            Some(-32602),
        ),
        (
            Era::Legacy,
            Action::ReadResource,
            Rule::ToolNotFound,
            Some(-32002),
        ),
        (
            Era::Legacy,
            Action::Subscribe,
            Rule::ToolNotFound,
            Some(-32002),
        ),
        (
            Era::Modern,
            Action::GetPrompt,
            Rule::ToolNotFound,
            Some(-32602),
        ),
        (
            Era::Modern,
            Action::TaskGet,
            Rule::ToolNotFound,
            Some(-32602),
        ),
        (
            Era::Legacy,
            Action::Complete,
            Rule::PermissionDenied,
            Some(-31001),
        ),
        (
            Era::Legacy,
            Action::GetPrompt,
            Rule::InvalidParameters,
            Some(-32602),
        ),
        (
            Era::Legacy,
            Action::GetPrompt,
            Rule::ResultTooLarge,
            Some(-31002),
        ),
        (Era::Legacy, Action::CallTool, Rule::InvalidParameters, None),
        (Era::Legacy, Action::CallTool, Rule::RateLimitExceeded, None),
    ];
    for (era, action, rule, expected) in rows {
        let answer = shape(era, action).answer(refused(rule));
        read(&answer);
        assert_eq!(code(&answer), expected, "{era:?} {action:?} {rule:?}");
    }
    assert_eq!(
        shape(Era::Legacy, Action::CallTool).answer(refused(Rule::Unauthenticated)),
        Answer::Unauthenticated
    );
}

#[test]
fn a_missing_resource_says_which() {
    let text = read(&shape(Era::Modern, Action::ReadResource).answer(refused(Rule::ToolNotFound)));
    let message = Json::parse(text.as_bytes(), Limits::default()).unwrap();
    assert_eq!(
        message
            .path(&["error", "data", "uri"])
            .unwrap()
            .as_str()
            .unwrap(),
        "a://b"
    );
}

#[test]
fn faults_have_codes_and_a_timeout_says_so() {
    let rows = [
        (FaultKind::Timeout, -31003),
        (FaultKind::Upstream, -31002),
        (FaultKind::Worker, -31002),
        (FaultKind::Cancelled, -31001),
        (FaultKind::DispatchTimeout, -31003),
        (FaultKind::Gate, -32603),
    ];
    for (kind, expected) in rows {
        let answer = shape(Era::Legacy, Action::GetPrompt).answer(failed(kind));
        assert_eq!(code(&answer), Some(expected), "{kind:?}");
        assert_eq!(
            read(&answer).contains("timeout"),
            matches!(kind, FaultKind::Timeout | FaultKind::DispatchTimeout)
        );
    }
    let text = read(&shape(Era::Legacy, Action::CallTool).answer(failed(FaultKind::Timeout)));
    assert!(
        text.contains("isError") && text.contains(r#""error_code":"timeout""#),
        "{text}"
    );
}

#[test]
fn upstream_errors_pass_verbatim_except_where_the_era_lacks_the_code() {
    let object =
        Bytes::from_static(br#"{ "code":-32002, "message":"gone","data":{"uri":"a"},"x":1.10}"#);
    let legacy = shape(Era::Legacy, Action::ReadResource).answer(Outcome::Rpc(object.clone()));
    assert!(
        matches!(&legacy, Answer::Error(problem) if problem.object == object && problem.code == -32002)
    );
    let modern = read(&shape(Era::Modern, Action::ReadResource).answer(Outcome::Rpc(object)));
    assert!(
        modern.contains(r#""message":"gone","data":{"uri":"a"},"x":1.10,"code":-32602"#),
        "{modern}"
    );
    let other = Bytes::from_static(
        br#"{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}"#,
    );
    let passed = shape(Era::Modern, Action::CallTool).answer(Outcome::Rpc(other.clone()));
    assert!(
        matches!(passed, Answer::Error(problem) if problem.object == other && problem.code == -32021)
    );
}

fn result(era: Era, action: Action, body: &'static str) -> String {
    let text = read(&shape(era, action).answer(Outcome::Result(body.into())));
    text.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#)
        .unwrap()
        .strip_suffix('}')
        .unwrap()
        .to_owned()
}

#[test]
fn results_get_or_lose_their_type() {
    let call = Action::CallTool;
    assert_eq!(
        result(Era::Modern, call, r#"{"content":[]}"#),
        r#"{"resultType":"complete","content":[]}"#
    );
    assert_eq!(
        result(Era::Modern, call, r#"{"resultType":"task","taskId":"1"}"#),
        r#"{"resultType":"task","taskId":"1"}"#
    );
    let nested = r#"{"structuredContent":{"resultType":"x"}}"#;
    assert_eq!(
        result(Era::Modern, call, nested),
        r#"{"resultType":"complete","structuredContent":{"resultType":"x"}}"#
    );
    assert_eq!(result(Era::Legacy, call, nested), nested);
    assert_eq!(
        result(Era::Legacy, call, r#"{"resultType":"complete","n":1.10}"#),
        r#"{"n":1.10}"#
    );
    assert_eq!(
        result(Era::Legacy, call, r#"{"content":[ ]}"#),
        r#"{"content":[ ]}"#
    );
}

#[test]
fn what_one_caller_reads_is_private_to_it() {
    let read = Action::ReadResource;
    let expected = r#"{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
    assert_eq!(result(Era::Modern, read, r#"{"contents":[]}"#), expected);
    let public =
        r#"{"resultType":"complete","contents":[],"ttlMs":99999999999,"cacheScope":"public"}"#;
    assert_eq!(
        result(Era::Modern, read, public),
        r#"{"contents":[],"resultType":"complete","ttlMs":3600000,"cacheScope":"private"}"#
    );
    let asks = r#"{"resultType":"input_required","inputRequests":{}}"#;
    assert_eq!(result(Era::Modern, read, asks), asks);
    assert_eq!(
        result(Era::Legacy, read, r#"{"contents":[],"ttlMs":5}"#),
        r#"{"contents":[],"ttlMs":5}"#
    );
}
