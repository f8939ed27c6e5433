//! One face for all kinds of sinks.

use std::{path::Path, time::Duration};

use audit::Event;

use crate::{
    file::FileSink,
    nats::Nats,
    otlp::Otlp,
    settings::{Kind, Outside, Parcel, Spec, Text},
    syslog::Syslog,
    webhook::Webhook,
};

/// The most that one request carries, in bytes of events.
const PIECE: usize = 512 << 10;

/// A delivery that broke off: how many events, from the first on, the other side has taken all the same.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) taken: usize,
    pub(crate) why: String,
}

impl Broken {
    pub(crate) fn before_all(why: impl Into<String>) -> Self {
        Self {
            taken: 0,
            why: why.into(),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Driver {
    File(FileSink),
    Syslog(Syslog),
    Webhook(Webhook),
    Otlp(Otlp),
    Nats(Box<Nats>),
}

impl Driver {
    pub(crate) fn new(spec: &Spec, ledger: &Path, outside: &Outside) -> Self {
        match &spec.kind {
            Kind::File { path, rotate_bytes } => {
                Driver::File(FileSink::new(path.clone(), *rotate_bytes))
            }
            Kind::Syslog { address, facility } => {
                Driver::Syslog(Syslog::new(address.clone(), *facility, spec.timeout))
            }
            Kind::Webhook {
                url,
                headers,
                secret,
            } => {
                let post = Post {
                    url: url.clone(),
                    headers: headers.clone(),
                    timeout: spec.timeout,
                    outside: outside.clone(),
                };
                Driver::Webhook(Webhook::new(post, secret.clone()))
            }
            Kind::Otlp { url, headers } => {
                let post = Post {
                    url: url.clone(),
                    headers: headers.clone(),
                    timeout: spec.timeout,
                    outside: outside.clone(),
                };
                Driver::Otlp(Otlp::new(post))
            }
            Kind::Nats(nats) => Driver::Nats(Box::new(Nats::new(
                nats.clone(),
                spec.timeout,
                ledger.to_owned(),
                outside.clone(),
            ))),
        }
    }

    /// Hands the events over, in order.
    pub(crate) async fn deliver(&mut self, events: &[Event]) -> Result<(), Broken> {
        match self {
            Driver::File(file) => file.deliver(events).await,
            Driver::Syslog(syslog) => syslog.deliver(events).await,
            Driver::Webhook(webhook) => webhook.deliver(events).await,
            Driver::Otlp(otlp) => otlp.deliver(events).await,
            Driver::Nats(nats) => nats.deliver(events).await,
        }
    }

    /// How long a connection must live on before what was written to it counts; zero where the other side acknowledges.
    pub(crate) fn settle(&self) -> Duration {
        match self {
            Driver::Syslog(syslog) => syslog.settle(),
            _ => Duration::ZERO,
        }
    }

    /// Whether the connection that deliveries settle on is still there.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self {
            Driver::Syslog(syslog) => syslog.check(),
            _ => Ok(()),
        }
    }
}

/// What HTTP sinks share: where to, with which headers, by whom.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, Text)>,
    pub(crate) timeout: Duration,
    pub(crate) outside: Outside,
}

impl Post {
    pub(crate) async fn reveal(&self, reference: &str) -> Result<vocab::Redacted<String>, String> {
        self.outside.secrets.reveal(reference).await
    }

    /// Sends `body` and returns what came back with a status that means yes.
    pub(crate) async fn send(
        &self,
        body: String,
        more: Vec<(String, String)>,
    ) -> Result<String, String> {
        let courier = self
            .outside
            .courier
            .as_ref()
            .ok_or("no worker runs that could send it")?;
        let mut headers = vec![(
            "content-type".to_owned(),
            vocab::Redacted::new("application/json".to_owned()),
        )];
        for (name, value) in &self.headers {
            let value = match value {
                Text::Literal(value) => vocab::Redacted::new(value.clone()),
                Text::Secret(reference) => self.reveal(reference).await?,
            };
            headers.push((name.clone(), value));
        }
        headers.extend(
            more.into_iter()
                .map(|(name, value)| (name, vocab::Redacted::new(value))),
        );
        let receipt = courier(Parcel {
            url: self.url.clone(),
            headers,
            body,
            timeout: self.timeout,
        })
        .await?;
        match receipt.status {
            200..=299 => Ok(receipt.body),
            status => Err(format!("answered with status {status}")),
        }
    }
}

/// The events in pieces that are small enough for one request; never an empty one.
pub(crate) fn pieces(events: &[Event]) -> Vec<&[Event]> {
    let mut pieces = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (at, event) in events.iter().enumerate() {
        let length = event.line().len();
        if at > begin && bytes + length > PIECE {
            pieces.extend(events.get(begin..at));
            (begin, bytes) = (at, 0);
        }
        bytes += length;
    }
    pieces.extend(events.get(begin..).filter(|rest| !rest.is_empty()));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_batch_is_sent_in_pieces_that_add_up() {
        let record = audit::Record {
            kind: "change".into(),
            detail: "x".repeat(100_000),
            ..audit::Record::default()
        };
        let one = audit::project(&record);
        let events: Vec<Event> = std::iter::repeat_n(one, 25).flatten().collect();
        let pieces = pieces(&events);
        assert!(
            pieces.len() > 3
                && pieces
                    .iter()
                    .all(|piece| !piece.is_empty() && piece.len() <= 6)
        );
        assert_eq!(pieces.concat(), events);
        assert!(super::pieces(&[]).is_empty());
    }
}
