//! NATS JetStream: each event is published, and counts when the stream has said that it holds it.
//!
//! One at a time, because of two that are on their way the second may arrive alone. `Nats-Msg-Id` is the ledger's name and the position,
//! so what comes twice within the stream's window is stored once, and gates that share a stream do not shadow each other. The subject is
//! the sink's, a dot, and the family.

use std::{fs, path::PathBuf, time::Duration};

use async_nats::{
    ConnectOptions, HeaderMap,
    jetstream::{self, Context, stream},
};
use audit::Event;
use tokio::time::timeout;

use crate::{
    driver::Broken,
    settings::{Outside, Text},
};

const PUBLIC_KEY: &str = "checkpoint.pub";
/// How long a stream that we make remembers what it has.
const WINDOW: Duration = Duration::from_secs(600);

/// What a sink of this kind is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsSpec {
    /// `nats://host:port` or `tls://host:port`.
    pub url: String,
    pub subject: String,
    /// Made if it is not there; without a name it must be there already.
    pub stream: Option<String>,
    pub token: Option<Text>,
    pub user: Option<(String, Text)>,
    /// Certificate authorities to trust beside the system's.
    pub ca_files: Vec<PathBuf>,
}

pub(crate) struct Nats {
    spec: NatsSpec,
    timeout: Duration,
    ledger: PathBuf,
    outside: Outside,
    /// The stream's context and the ledger's name.
    open: Option<(Context, String)>,
}

impl std::fmt::Debug for Nats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nats")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl Nats {
    pub(crate) fn new(
        spec: NatsSpec,
        timeout: Duration,
        ledger: PathBuf,
        outside: Outside,
    ) -> Self {
        Self {
            spec,
            timeout,
            ledger,
            outside,
            open: None,
        }
    }

    pub(crate) async fn deliver(&mut self, events: &[Event]) -> Result<(), Broken> {
        for (taken, event) in events.iter().enumerate() {
            let published = match timeout(self.timeout, self.publish(event)).await {
                Ok(published) => published,
                Err(_) => Err(format!("it took more than {:?}", self.timeout)),
            };
            if let Err(why) = published {
                // A connection that failed once is not waited for; the next attempt makes its own.
                self.open = None;
                return Err(Broken { taken, why });
            }
        }
        Ok(())
    }

    async fn publish(&mut self, event: &Event) -> Result<(), String> {
        if self.open.is_none() {
            let name = ledger_name(&self.ledger)?;
            self.open = Some((self.connect().await?, name));
        }
        let Some((context, ledger)) = &self.open else {
            return Err("not connected".to_owned());
        };
        let position = event.position.to_string();
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{ledger}:{position}"));
        headers.insert("Portcullis-Position", position);
        headers.insert("Portcullis-Event", event.event.as_str());
        let subject = format!("{}.{}", self.spec.subject, event.family);
        let sent = context
            .publish_with_headers(subject, headers, event.line().into())
            .await;
        let held = sent.map_err(|error| error.to_string())?.await;
        held.map(drop)
            .map_err(|error| format!("the stream does not say that it holds the event: {error}"))
    }

    async fn connect(&self) -> Result<Context, String> {
        let reveal = async |text: &Text| match text {
            Text::Literal(value) => Ok(vocab::Redacted::new(value.clone())),
            Text::Secret(reference) => self.outside.secrets.reveal(reference).await,
        };
        let mut options = ConnectOptions::new()
            .name("portcullis")
            .connection_timeout(self.timeout)
            .max_reconnects(1);
        if let Some(token) = &self.spec.token {
            options = options.token(reveal(token).await?.expose().clone());
        }
        if let Some((user, password)) = &self.spec.user {
            options =
                options.user_and_password(user.clone(), reveal(password).await?.expose().clone());
        }
        for file in &self.spec.ca_files {
            options = options.add_root_certificates(file.clone());
        }
        let client = options
            .connect(&self.spec.url)
            .await
            .map_err(|error| format!("cannot connect: {error}"))?;
        let mut context = jetstream::new(client);
        context.set_timeout(self.timeout);
        if let Some(name) = &self.spec.stream {
            let config = stream::Config {
                name: name.clone(),
                subjects: vec![format!("{}.>", self.spec.subject)],
                duplicate_window: WINDOW,
                ..stream::Config::default()
            };
            context
                .get_or_create_stream(config)
                .await
                .map_err(|error| format!("cannot use the stream `{name}`: {error}"))?;
        }
        Ok(context)
    }
}

/// What the ledger calls itself, from its public key. It has one within a second of its first record.
fn ledger_name(ledger: &std::path::Path) -> Result<String, String> {
    let file = ledger.join(PUBLIC_KEY);
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let name = text.split('+').next().unwrap_or_default().trim();
    if name.is_empty() {
        Err(format!("{} holds no name", file.display()))
    } else {
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::ledger_name;

    #[test]
    fn a_ledger_is_named_by_its_key() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ledger_name(dir.path()).is_err());
        std::fs::write(
            dir.path().join("checkpoint.pub"),
            "portcullis/0123456789abcdef+00aabbcc+AQID\n",
        )
        .unwrap();
        assert_eq!(
            ledger_name(dir.path()).unwrap(),
            "portcullis/0123456789abcdef"
        );
    }
}
