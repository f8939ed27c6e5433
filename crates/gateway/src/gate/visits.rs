//! The console's visits, as the door that serves it sees them. Who comes and goes is on record.

use crate::{Gate, NotOpened, Proof, Visitor};

/// Five bits a sign.
const SIGNS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The console's own host: cookies know no ports, so it shares its name with no other program of this machine. Made from a key of the home,
/// so that it is the same after a restart and nobody can guess it.
pub(super) fn host(key: &[u8; 32]) -> String {
    let made = blake3::derive_key("portcullis console 1", key);
    let signs = made.iter().take(10).map(|byte| {
        let sign = SIGNS.get(usize::from(byte & 31)).copied();
        char::from(sign.unwrap_or(b'a'))
    });
    format!("portcullis-{}.localhost", signs.collect::<String>())
}

impl Gate {
    /// The host on which the console is, and nothing else.
    #[must_use]
    pub fn console_host(&self) -> &str {
        &self.0.console_host
    }

    /// Begins a visit with a code, and gives its cookie.
    pub fn open_visit(
        &self,
        code: &str,
        key: Option<&[u8]>,
    ) -> Result<(vocab::Redacted<String>, Visitor), NotOpened> {
        let opened = self.0.visits.open(code, key, self.0.now_ms());
        match &opened {
            Ok((_, visitor)) => self.note_visit("console.login", visitor),
            Err(_) => self.strangers("console code"),
        }
        opened
    }

    /// Whose cookie this is, if it is one of a visit that lasts.
    #[must_use]
    pub fn visitor(&self, cookie: &str) -> Option<Visitor> {
        self.0.visits.find(cookie, self.0.now_ms())
    }

    /// Whether a visit still lasts.
    #[must_use]
    pub fn visit_lasts(&self, visitor: &Visitor) -> bool {
        self.0.visits.lasts(visitor, self.0.now_ms())
    }

    /// Whether this visitor really sent this form.
    pub fn prove_visit(&self, visitor: &Visitor, proof: Proof<'_>) -> Result<(), NotOpened> {
        self.0.visits.prove(visitor, proof, self.0.now_ms())
    }

    /// A text for a form of this visit.
    #[must_use]
    pub fn form_token(&self, visitor: &Visitor) -> Option<String> {
        visitor.form_token(self.0.visits.entropy())
    }

    /// The person logs out.
    pub fn close_visit(&self, visitor: &Visitor) {
        if let Some(ended) = self.0.visits.end(&visitor.id) {
            self.note_visit("console.logout", &ended);
        }
    }

    /// What people call a credential.
    #[must_use]
    pub fn caller_name(&self, id: &str) -> Option<String> {
        let now = self.0.now();
        let found = self.0.callers.of_id(&now.credentials, id)?;
        Some(found.name().to_owned())
    }

    /// What time it is, for pages that say as of when they are.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn note_visit(&self, action: &str, visitor: &Visitor) {
        let detail = format!("visit {} as {}", visitor.id, visitor.role.as_str());
        let change = audit::Change {
            action,
            caller: visitor.caller.id(),
            user: visitor.caller.user().unwrap_or_default(),
            detail: &detail,
            ..audit::Change::default()
        };
        if let Err(error) = self.ledger().change(&change) {
            tracing::error!(%error, action, "cannot be recorded");
        }
    }
}
