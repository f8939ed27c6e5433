//! The rule for calls of a conversation that has read a stranger's words: a call that does something passes where everything that
//! says whom and what is the person's own.
//!
//! - Every target and object was said by the person, or is an id of the one record that the person's words name.
//! - Every name was said; every amount was said, or is within one that was said with its currency.
//! - No link in a text is a stranger's.
//! - What takes something away was said to: the person used a word for it.
//! - Something was said at all, and the call has a target or an object: who says nothing vouches for nothing.
//!
//! **Invariant: what nobody looked at does not pass.** An argument of an unknown role is a target, and a call with more values than are
//! looked at is strange. Test `what_nobody_looked_at_does_not_pass`.

use std::{borrow::Cow, fmt};

use wire::{Json, Kind, letters};

use crate::{
    flaw::{Flaw, has},
    form::{self, Class, Form, Number, Reading},
    index::{Index, Origin, Read, Trust, Use},
    links,
    role::{Role, Roles, join},
    taking,
};

/// Values of one call that are looked at.
const MAX_LEAVES: usize = 256;
const MAX_DEPTH: usize = 16;
/// Words of a choice; what is longer says more than when or how.
const MAX_CHOICE: usize = 6;
/// How much of a value a person is shown.
const SHOWN: usize = 80;

/// The evidence that the person's own words vouch for a call. Only [`weigh`] and a plan make one.
#[derive(Debug)]
pub struct Vouched {
    why: String,
}

impl Vouched {
    pub(crate) fn new(why: String) -> Self {
        Self { why }
    }

    /// Why, in words.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// What stands against a call, or that nothing does.
#[derive(Debug)]
pub enum Ruling {
    Vouched(Vouched),
    /// Nobody said anything in this conversation.
    NothingSaid,
    /// These arguments are not the person's.
    Strange(Vec<Finding>),
}

/// One argument, and why it does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The argument's path.
    pub path: String,
    /// The value, shortened.
    pub value: String,
    pub role: Option<Role>,
    /// Whose it is, in words.
    pub why: String,
    /// Where it came from, in a word, and the server of the read if it was one.
    pub source: Source,
    pub server: Option<String>,
}

/// Where a value came from, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    Said,
    /// Nothing in it leads anybody anywhere: a choice, or a text without a link.
    Free,
    Record,
    Named,
    Field,
    Text,
    Unknown,
    Agent,
}

impl Source {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Free => "free",
            Self::Record => "record",
            Self::Named => "named",
            Self::Field => "field",
            Self::Text => "text",
            Self::Unknown => "unknown",
            Self::Agent => "agent",
        }
    }
}

impl Finding {
    /// What stands against a call as a whole.
    #[must_use]
    pub fn of_all(why: &str) -> Self {
        Self {
            path: String::new(),
            value: String::new(),
            role: None,
            why: why.to_owned(),
            source: Source::Unknown,
            server: None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.as_str(), self.value.as_str()) {
            ("", _) => write!(f, "{}", self.why),
            (path, "") => write!(f, "`{path}` {}", self.why),
            (path, value) => write!(f, "`{path}` = `{value}` {}", self.why),
        }
    }
}

/// A call, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The server that it would go to.
    pub server: &'a str,
    /// The tool, by the server's own name for it.
    pub tool: &'a str,
    /// What its arguments are for.
    pub roles: &'a Roles,
    /// Everything that would be sent.
    pub sent: Json<'a>,
}

/// Holds a call against what its conversation knows.
#[must_use]
pub fn weigh(index: &Index, call: Call<'_>) -> Ruling {
    if !index.has_words() {
        return Ruling::NothingSaid;
    }
    let mut look = Look::new(index, call);
    look.walk();
    if !taking::is_said(index, call.tool) {
        look.strange.push(Finding::of_all(
            "its name says that it deletes, removes or cancels, and you did not say so",
        ));
    }
    look.ruling()
}

/// The same for some of the arguments; the others are somebody else's to look at.
pub(crate) fn weigh_some(index: &Index, call: Call<'_>, which: impl Fn(&str) -> bool) -> Ruling {
    let mut look = Look::new(index, call);
    look.has_aim = true;
    let mut leaves = Vec::new();
    look.is_cut = !collect(call.sent, &mut leaves);
    for (path, value) in leaves.into_iter().filter(|(path, _)| which(path)) {
        look.leaf(&path, value);
    }
    look.ruling()
}

/// Whether this text alone would pass as whom or what, or as a name that was said.
pub(crate) fn may_aim(index: &Index, call: Call<'_>, path: &str, role: Role, text: &str) -> bool {
    let mut look = Look::new(index, call);
    if role == Role::Name {
        look.named(path, text);
        if look.strange.is_empty() {
            return true;
        }
        look.strange.clear();
    }
    look.aim(path, role, text);
    look.strange.is_empty()
}

/// Where a value came from, and the server whose read brought it.
type Place = (Source, Option<String>);

/// One value of a call with everything that is known of where it came from, for policies. An argument that is a list has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    pub path: String,
    pub role: Role,
    pub source: Source,
    pub server: Option<String>,
}

/// Where every argument of a call came from. `None`: there are too many to look at.
#[must_use]
pub fn trace(index: &Index, call: Call<'_>) -> Option<Vec<Traced>> {
    let mut look = Look::new(index, call);
    look.walk();
    (!look.is_cut).then_some(look.traced)
}

/// Whether a number that says whom, what or how much was taken from what a stranger may have written. Of what is sealed nothing else was
/// shown that could say so. What there are too many of is taken for such. Where nobody said anything nothing is known of reads.
pub(crate) fn is_strangers(index: &Index, call: Call<'_>) -> bool {
    let mut leaves = Vec::new();
    if !collect(call.sent, &mut leaves) {
        return true;
    }
    leaves.into_iter().any(|(path, value)| {
        let role = role_at(call.roles, &path);
        let text = text_of(value).filter(|_| {
            matches!(
                role,
                Role::Target | Role::Object | Role::Amount | Role::Name
            )
        });
        let forms = match text.as_deref().map(form::read) {
            Some(Reading::Values(forms)) => forms,
            Some(Reading::Odd | Reading::Empty) | None => return false,
        };
        let numbers = forms.iter().filter(|form| form.class == Class::Number);
        numbers.into_iter().any(|form| {
            let used = Use {
                server: call.server,
                argument: &path,
            };
            match index.origin(form, used) {
                Origin::Field(read) | Origin::Text(read) => read.trust == Trust::Untrusted,
                Origin::InTheNamedRecord(_) => true,
                Origin::Forgotten => index.has_words(),
                Origin::Said | Origin::OfTheNamedRecord(_) | Origin::Made => false,
            }
        })
    })
}

/// A walk over everything that would be sent.
pub(crate) struct Look<'a> {
    index: &'a Index,
    call: Call<'a>,
    strange: Vec<Finding>,
    traced: Vec<Traced>,
    leaves: usize,
    is_cut: bool,
    /// Whether anything says whom or what.
    has_aim: bool,
}

impl<'a> Look<'a> {
    fn new(index: &'a Index, call: Call<'a>) -> Self {
        Self {
            index,
            call,
            strange: Vec::new(),
            traced: Vec::new(),
            leaves: 0,
            is_cut: false,
            has_aim: false,
        }
    }

    fn walk(&mut self) {
        let mut leaves = Vec::new();
        self.is_cut = !collect(self.call.sent, &mut leaves);
        for (path, value) in leaves {
            self.leaf(&path, value);
        }
    }

    fn ruling(mut self) -> Ruling {
        if self.is_cut {
            self.strange.push(Finding::of_all(
                "it has more values than are looked at, or names of fields that are no names",
            ));
        }
        if self.strange.is_empty() && !self.has_aim {
            self.strange.push(Finding::of_all(
                "nothing in it says whom or what it is for, so your words cannot vouch for it",
            ));
        }
        if self.strange.is_empty() {
            Ruling::Vouched(Vouched::new(
                "everything it names is in your own words".to_owned(),
            ))
        } else {
            Ruling::Strange(self.strange)
        }
    }

    fn origin(&self, form: &Form, argument: &str) -> Origin<'a> {
        let server = self.call.server;
        self.index.origin(form, Use { server, argument })
    }

    fn leaf(&mut self, path: &str, value: Json<'_>) {
        self.leaves += 1;
        let role = role_at(self.call.roles, path);
        let Some(text) = text_of(value) else {
            return;
        };
        let before = self.strange.len();
        let mut places = match role {
            Role::Target | Role::Object => self.aim(path, role, &text),
            Role::Amount => self.amount(path, &text),
            Role::Name => self.named(path, &text),
            Role::Value => self.choice(path, &text),
            Role::Content => self.links(path, role, &text),
        };
        if has(Flaw::UnknownRolesPass) && is_unknown(self.call.roles, path) {
            self.strange.truncate(before);
        }
        if places.is_empty() {
            places.push((Source::Free, None));
        }
        // Each place once: policies ask which there are, not how many values came from them.
        places.sort_unstable();
        places.dedup();
        let traced = places.into_iter().map(|(source, server)| Traced {
            path: path.to_owned(),
            role,
            source,
            server,
        });
        self.traced.extend(traced);
    }

    /// Whom or what: said, or an id of the one record that was named.
    fn aim(&mut self, path: &str, role: Role, text: &str) -> Vec<Place> {
        let mut forms = match form::read(text) {
            // Nothing is nobody's choice, and nobody's aim either.
            Reading::Empty => return vec![(Source::Said, None)],
            Reading::Odd => {
                self.strange(path, role, text, "holds what cannot be compared: it is too long, goes up in a path, or has characters that nobody sees".to_owned(), (Source::Unknown, None));
                return vec![(Source::Unknown, None)];
            }
            Reading::Values(forms) => forms,
        };
        self.has_aim = true;
        if has(Flaw::OnlyTheFirstOfAList) {
            forms.truncate(1);
        }
        let mut places = Vec::new();
        for form in forms {
            let origin = self.origin(&form, path);
            let place = place_of(origin);
            if !is_own(origin, role) {
                let why = self.whose(&form, origin);
                self.strange(path, role, text, why, place.clone());
            }
            places.push(place);
        }
        places
    }

    fn amount(&mut self, path: &str, text: &str) -> Vec<Place> {
        let Some(number) = Number::read(text) else {
            return self.aim(path, Role::Amount, text);
        };
        let form = Form::new(Class::Number, number.text());
        let said = self.index.said();
        if said.has(self.index.key(), &form) || said.is_within(number) {
            return vec![(Source::Said, None)];
        }
        let place = place_of(self.origin(&form, path));
        let why = "is an amount that you did not say, and not within one that you did".to_owned();
        self.strange(path, Role::Amount, text, why, place.clone());
        vec![place]
    }

    fn named(&mut self, path: &str, text: &str) -> Vec<Place> {
        let places: Vec<Place> = match form::read(text) {
            Reading::Empty => return vec![(Source::Said, None)],
            Reading::Odd => vec![(Source::Unknown, None)],
            Reading::Values(forms) => {
                let places = forms.iter().map(|form| {
                    // Names may be common words; that they were said is enough.
                    let is_phrase = form.class == Class::Phrase
                        && self
                            .index
                            .said()
                            .span(self.index.key(), &form::name(&form.text).text)
                            .is_some();
                    let is_number = form.class == Class::Number
                        && self.index.said().has(self.index.key(), form);
                    if is_phrase || is_number {
                        return (Source::Said, None);
                    }
                    place_of(self.origin(form, path))
                });
                places.collect()
            }
        };
        let worst = places.iter().max().cloned();
        if let Some(place) = worst.filter(|place| place.0 != Source::Said) {
            let why = "is a name that you did not say".to_owned();
            self.strange(path, Role::Name, text, why, place);
        }
        places
    }

    /// When or how. What is an address or a path says more than that.
    fn choice(&mut self, path: &str, text: &str) -> Vec<Place> {
        let is_free = match form::read(text) {
            Reading::Empty => true,
            Reading::Odd => false,
            Reading::Values(forms) => forms.iter().all(|form| {
                matches!(form.class, Class::Number | Class::Moment)
                    || form.class == Class::Phrase && form.text.split(' ').count() <= MAX_CHOICE
            }),
        };
        if is_free {
            return self.links(path, Role::Value, text);
        }
        self.aim(path, Role::Value, text)
    }

    /// A text is the agent's own making; only a link in it leads anybody anywhere.
    fn links(&mut self, path: &str, role: Role, text: &str) -> Vec<Place> {
        let mut places = Vec::new();
        if has(Flaw::LinksPass) {
            return places;
        }
        let links = links::links(text);
        if links.is_cut {
            let why = format!("holds more than {} links", links::MAX_LINKS);
            places.push((Source::Unknown, None));
            self.strange(path, role, "", why, (Source::Unknown, None));
        }
        for link in links.into_forms() {
            let origin = self.origin(&link, path);
            let is_own = match origin {
                Origin::Said => true,
                Origin::OfTheNamedRecord(read)
                | Origin::InTheNamedRecord(read)
                | Origin::Field(read)
                | Origin::Text(read) => read.trust == Trust::Trusted,
                Origin::Forgotten | Origin::Made => false,
            };
            if !is_own {
                let place = place_of(origin);
                let why = format!(
                    "holds the link `{}`, which {}",
                    shown(&link.text),
                    self.whose(&link, origin)
                );
                self.strange(path, role, "", why, place.clone());
                places.push(place);
            }
        }
        places
    }

    fn strange(
        &mut self,
        path: &str,
        role: Role,
        text: &str,
        why: String,
        (source, server): Place,
    ) {
        // The first few say enough; nobody reads a hundred.
        if self.strange.len() < 16 {
            self.strange.push(Finding {
                path: shown(path),
                value: shown(text),
                role: Some(role),
                why,
                source,
                server,
            });
        }
    }

    /// Whose a value is, in words.
    fn whose(&self, form: &Form, origin: Origin<'_>) -> String {
        let by = |read: &Read| {
            format!(
                "`{}` of server `{}` (call {})",
                shown(&read.tool),
                read.server,
                read.call
            )
        };
        if !matches!(origin, Origin::Said)
            && self.index.said().looks_like_one(self.index.key(), form)
        {
            return "looks like one that you said and is written with other characters".to_owned();
        }
        match origin {
            Origin::Said => "is yours".to_owned(),
            Origin::OfTheNamedRecord(read) => format!(
                "is of a record read by {}, which a stranger may have written",
                by(read)
            ),
            Origin::InTheNamedRecord(read) => format!(
                "is an address in a record read by {}, which a stranger may have written",
                by(read)
            ),
            Origin::Field(read) => format!(
                "came from a field of what was read by {}, not from you",
                by(read)
            ),
            Origin::Text(read) => format!("came from a text read by {}, not from you", by(read)),
            Origin::Forgotten => "came from somewhere that is forgotten, not from you".to_owned(),
            Origin::Made if form.class == Class::Number => {
                "is a number that you did not give as the name of anything".to_owned()
            }
            Origin::Made => "is not in your words, and no read brought it".to_owned(),
        }
    }
}

/// Whether this is the person's own. An id of the named record says what, and not whom, where a stranger may have named the record.
fn is_own(origin: Origin<'_>, role: Role) -> bool {
    match origin {
        Origin::Said => true,
        Origin::OfTheNamedRecord(read) => read.trust == Trust::Trusted || role == Role::Object,
        Origin::InTheNamedRecord(_)
        | Origin::Field(_)
        | Origin::Text(_)
        | Origin::Forgotten
        | Origin::Made => false,
    }
}

fn place_of(origin: Origin<'_>) -> Place {
    let server = |read: &Read| Some(read.server.to_string());
    match origin {
        Origin::Said => (Source::Said, None),
        Origin::OfTheNamedRecord(read) => (Source::Record, server(read)),
        Origin::InTheNamedRecord(read) => (Source::Named, server(read)),
        Origin::Field(read) => (Source::Field, server(read)),
        Origin::Text(read) => (Source::Text, server(read)),
        Origin::Forgotten => (Source::Unknown, None),
        Origin::Made => (Source::Agent, None),
    }
}

/// What goes beside the arguments. A client writes its `_meta`; the rest is answers, of which nobody knows what they are for.
const META: &str = "_params._meta";

pub(crate) fn role_at(roles: &Roles, path: &str) -> Role {
    let is_meta = path
        .strip_prefix(META)
        .is_some_and(|rest| rest.starts_with('.'));
    if is_meta {
        Role::Content
    } else {
        roles.of(path).role
    }
}

/// The text of a value that can hold anything but yes, no and nothing.
pub(crate) fn text_of(value: Json<'_>) -> Option<Cow<'_, str>> {
    match value.kind() {
        Kind::String => value.as_str(),
        Kind::Number => Some(Cow::Borrowed(value.text())),
        _ => None,
    }
}

fn is_unknown(roles: &Roles, path: &str) -> bool {
    matches!(roles.of(path).decided, crate::role::Decided::Guessed(why) if why.starts_with("nobody"))
}

/// The values of a call with their paths; false if there are too many.
pub(crate) fn collect<'j>(sent: Json<'j>, leaves: &mut Vec<(String, Json<'j>)>) -> bool {
    fn walk<'j>(
        path: &str,
        value: Json<'j>,
        depth: usize,
        leaves: &mut Vec<(String, Json<'j>)>,
    ) -> bool {
        if depth > MAX_DEPTH || leaves.len() >= MAX_LEAVES {
            return false;
        }
        match value.kind() {
            Kind::Object => value.fields().all(|(name, inner)| {
                let inside = join(path, &name);
                // A name that holds a value of its own is no name of an argument.
                let is_plain = inside.starts_with(META)
                    || name.len() <= 64
                        && name
                            .chars()
                            .all(|c| c.is_alphanumeric() || "_-$ ".contains(c));
                is_plain && walk(&inside, inner, depth + 1, leaves)
            }),
            Kind::Array => {
                let path = format!("{path}[]");
                value
                    .items()
                    .all(|inner| walk(&path, inner, depth + 1, leaves))
            }
            _ => {
                leaves.push((path.to_owned(), value));
                true
            }
        }
    }
    walk("", sent, 0, leaves)
}

/// As much of a text as a person is shown, on one line.
pub(crate) fn shown(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(SHOWN)
        .map(|c| {
            if c.is_control() || letters::is_invisible(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push('…');
    }
    out
}
