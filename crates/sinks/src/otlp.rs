//! Log records for an OpenTelemetry collector: OTLP over HTTP, in its JSON encoding.
//!
//! The body of a record is the event's line, so nothing is lost whatever the collector does with attributes; what people search for is
//! an attribute too.

use audit::Event;
use serde_json::{Value, json};

use crate::driver::{Broken, Post, pieces};

#[derive(Debug)]
pub(crate) struct Otlp(Post);

impl Otlp {
    pub(crate) fn new(post: Post) -> Self {
        Self(post)
    }

    pub(crate) async fn deliver(&mut self, events: &[Event]) -> Result<(), Broken> {
        let mut taken = 0;
        for piece in pieces(events) {
            self.send(piece)
                .await
                .map_err(|why| Broken { taken, why })?;
            taken += piece.len();
        }
        Ok(())
    }

    async fn send(&self, events: &[Event]) -> Result<(), String> {
        let now_ms = (self.0.outside.clock)().unix_ms;
        let body = request(events, now_ms, self.0.outside.version).to_string();
        let answer = self.0.send(body, Vec::new()).await?;
        // A collector that takes a part must not be asked again: it would have that part twice, and refuse the rest again.
        let rejected = rejected(&answer);
        if rejected > 0 {
            tracing::error!(rejected, "the collector rejected events that it was sent");
        }
        Ok(())
    }
}

fn request(events: &[Event], now_ms: u64, version: &str) -> Value {
    let records: Vec<Value> = events.iter().map(|event| record(event, now_ms)).collect();
    json!({ "resourceLogs": [{
        "resource": { "attributes": [text("service.name", "portcullis"), text("service.version", version)] },
        "scopeLogs": [{ "scope": { "name": "portcullis.events", "version": version }, "logRecords": records }],
    }] })
}

fn record(event: &Event, now_ms: u64) -> Value {
    let attributes = [
        ("event.name", event.event.as_str()),
        ("portcullis.position", &event.position.to_string()),
        ("portcullis.family", &event.family),
        ("portcullis.call", &event.call),
        ("portcullis.caller", &event.caller),
        ("portcullis.session", &event.session),
        ("portcullis.tenant", &event.tenant),
        ("portcullis.server", &event.server),
        ("portcullis.tool", &event.tool),
        ("portcullis.verdict", &event.verdict),
    ];
    let attributes: Vec<Value> = attributes
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| text(key, value))
        .collect();
    json!({
        "timeUnixNano": nanoseconds(event.ms),
        "observedTimeUnixNano": nanoseconds(now_ms),
        "severityNumber": event.severity.otlp(),
        "severityText": event.severity.as_str(),
        "eventName": event.event,
        "body": { "stringValue": event.line() },
        "attributes": attributes,
    })
}

/// Numbers of 64 bits are texts in this encoding.
fn nanoseconds(ms: u64) -> String {
    format!("{ms}000000")
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// How many records the collector says it did not take.
fn rejected(answer: &str) -> u64 {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let count = answer.pointer("/partialSuccess/rejectedLogRecords");
    count
        .and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_shape_of_the_standard() {
        let record = audit::Record {
            seq: 7,
            ms: 1_794_739_625_123,
            kind: "refusal".into(),
            tool: "t".into(),
            ..Default::default()
        };
        let request = request(&audit::project(&record), 1, "1.0");
        let one = request
            .pointer("/resourceLogs/0/scopeLogs/0/logRecords/0")
            .unwrap();
        assert_eq!(one["timeUnixNano"], "1794739625123000000");
        assert_eq!(one["severityNumber"], 13);
        assert_eq!(one["eventName"], "MCPToolEvent::ToolPolicyViolation");
        let body: Value =
            serde_json::from_str(one["body"]["stringValue"].as_str().unwrap()).unwrap();
        assert_eq!(body["position"], "7.0");
        assert!(
            one["attributes"]
                .as_array()
                .unwrap()
                .contains(&text("portcullis.position", "7.0"))
        );
        assert_eq!(
            rejected("{\"partialSuccess\":{\"rejectedLogRecords\":\"3\"}}"),
            3
        );
        assert_eq!(rejected("{\"partialSuccess\":null}"), 0);
        assert_eq!(rejected(""), 0);
    }
}
