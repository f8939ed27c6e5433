//! The messages as they travel, and what is not one.

use proptest::prelude::*;

use super::*;

const CAP: usize = 1 << 20;

/// The two texts of the protocol's own page, byte for byte what an executor and a gate of others write.
#[test]
fn the_documented_messages_are_read() {
    let asked = br#"{"type":"dispatch","dispatch_id":"c7a3f1e2-84b1-4a3c-9d7e-1f2a3b4c5d6e","action":"exec","command":"cargo","args":["test","--","--test-output","immediate"]}"#;
    let ToExecutor::Dispatch(dispatch) = ToExecutor::parse(asked, CAP).unwrap() else {
        panic!("no dispatch")
    };
    assert_eq!(dispatch.command, "cargo");
    assert_eq!(dispatch.args.len(), 4);
    assert_eq!((&*dispatch.cwd, dispatch.timeout_secs), ("/workspace", 60));
    let said = br#"{"type":"dispatch_result","execution_id":"exec-3f4e29","dispatch_id":"c7a3f1e2-84b1-4a3c-9d7e-1f2a3b4c5d6e","exit_code":0,"stdout":"running 12 tests\ntest result: ok. 12 passed\n","stderr":"","duration_ms":1834,"truncated":false}"#;
    let read = FromExecutor::parse(said, CAP).unwrap();
    assert_eq!(read.write(), said, "what was read is written the same");
    let FromExecutor::Result { posted, .. } = read else {
        panic!("no result")
    };
    assert_eq!((posted.exit_code, posted.duration_ms), (0, 1834));
}

#[test]
fn a_dispatch_is_written_with_everything_an_executor_needs() {
    let dispatch = ToExecutor::Dispatch(Box::new(Dispatch {
        id: "d".into(),
        action: name::EXEC.into(),
        command: "git".into(),
        args: vec!["status".into(), "a \"b\"".into()],
        cwd: WORKSPACE.into(),
        env: vec![("A".into(), "1".into())],
        stdin: String::new(),
        timeout_secs: 5,
        max_output_bytes: 100,
    }));
    let text = String::from_utf8(dispatch.write()).unwrap();
    assert_eq!(
        text,
        r#"{"type":"dispatch","dispatch_id":"d","action":"exec","command":"git","args":["status","a \"b\""],"argv":["git","status","a \"b\""],"cwd":"/workspace","env_additions":{"A":"1"},"timeout_secs":5,"max_output_bytes":100}"#
    );
    assert_eq!(ToExecutor::parse(text.as_bytes(), CAP).unwrap(), dispatch);
}

#[test]
fn what_is_no_message_is_told_so() {
    let told = |text: &str| FromExecutor::parse(text.as_bytes(), CAP).unwrap_err();
    assert_eq!(told("[]").code(), "malformed");
    assert_eq!(told("{").code(), "malformed");
    assert_eq!(told(r#"{"execution_id":"e"}"#).code(), "malformed");
    assert_eq!(
        told(r#"{"type":"stream","execution_id":"e"}"#).code(),
        "unknown_type"
    );
    for wrong in [
        r#"{"type":"attach"}"#,
        r#"{"type":"attach","execution_id":7}"#,
        r#"{"type":"attach","execution_id":"e","protocol":2}"#,
        r#"{"type":"dispatch_result","execution_id":"e","exit_code":0}"#,
        r#"{"type":"dispatch_result","execution_id":"e","dispatch_id":"d"}"#,
        r#"{"type":"dispatch_result","execution_id":"e","dispatch_id":"d","exit_code":4294967296}"#,
        r#"{"type":"dispatch_result","execution_id":"e","dispatch_id":"d","exit_code":0,"stdout":1}"#,
        r#"{"type":"dispatch_result","execution_id":"e","execution_id":"f","dispatch_id":"d","exit_code":0}"#,
    ] {
        assert_eq!(told(wrong).code(), "malformed", "{wrong}");
    }
    let long = format!(
        r#"{{"type":"attach","execution_id":"{}"}}"#,
        "x".repeat(300)
    );
    assert_eq!(told(&long).code(), "malformed");
    let known = r#"{"type":"attach","execution_id":"e","protocol":1,"actions":["exec"],"more":{}}"#;
    assert!(FromExecutor::parse(known.as_bytes(), CAP).is_ok());
    assert!(
        FromExecutor::parse(known.as_bytes(), 10).is_err(),
        "too long"
    );
}

proptest! {
    #[test]
    fn any_result_comes_back_as_it_was(
        stdout in ".{0,200}", stderr in ".{0,200}", exit_code in any::<i32>(), duration_ms in any::<u32>(),
        truncated in any::<bool>(), counted in proptest::option::of(any::<u32>()), timed_out in any::<bool>(),
    ) {
        let said = FromExecutor::Result {
            execution: "e".into(),
            posted: Posted {
                dispatch_id: "d".into(),
                exit_code: exit_code.into(),
                stdout,
                stderr,
                duration_ms: duration_ms.into(),
                truncated,
                stdout_bytes: counted.map(Into::into),
                timed_out,
                ..Posted::default()
            },
        };
        prop_assert_eq!(FromExecutor::parse(&said.write(), CAP).unwrap(), said);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = FromExecutor::parse(&bytes, CAP);
        let _ = ToExecutor::parse(&bytes, CAP);
    }
}
