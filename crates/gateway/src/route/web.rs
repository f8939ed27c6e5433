//! The route to the web: `web.fetch` and `web.search`.
//!
//! The worker makes one request and follows nothing. Where a redirect leads is judged here as if it had been asked for, from Admit to
//! Judge, and is on record before it is followed. What comes back is nobody's word but a stranger's: PUBLIC, and untrusted.
//!
//! **Invariant: no address is asked for that was not judged.** Tests `a_redirect_is_judged_like_an_address_that_was_asked_for`,
//! `a_redirect_out_of_the_list_is_refused_at_the_hop`.
//!
//! **Invariant: what is fetched is untrusted, and only who has seen nothing above PUBLIC fetches.** Test
//! `what_is_fetched_taints_and_who_has_seen_secrets_fetches_nothing`.

mod asked;
mod fetch;
mod search;
mod told;

use std::time::{Duration, Instant};

use policy::{BESIDE, context::WebAddress};
use upstreams::web::{Asked, Fetched, NoAnswer};
use vocab::{Fault, FaultKind, Integrity, Label, Level, Mark, Rule, ServerId, Stop, Violation};
use wire::{Json, write::replace_fields};

use super::{CallerSide, Carried, Raw, command::given_up};
use crate::{
    call::{Case, Decide, Order, left},
    settings::WebTerms,
    web::manners,
};
use asked::Asks;

/// How long a page is waited for if nothing is said, and at most.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server that says to come back, and not when.
const COME_BACK: Duration = Duration::from_secs(60);

pub(super) async fn carry(order: Order, side: CallerSide<'_>) -> Result<Carried, Stop> {
    let CallerSide {
        case,
        wires,
        decide,
        ..
    } = side;
    let Some(terms) = case.now.web.clone() else {
        let detail = "the tools for the web were switched off meanwhile";
        return Err(Fault::new(FaultKind::Gate, detail).into());
    };
    let asks = Asks::read(&order)?;
    let wanted = asks.time().unwrap_or(PATIENCE).min(order.budget().time);
    let time = left(case, wanted)?;
    let errand = Errand {
        case,
        order: &order,
        decide,
        terms: &terms,
        deadline: Instant::now() + time,
    };
    let work = async {
        match &asks {
            Asks::Fetch(asks) => fetch::run(&errand, asks).await,
            Asks::Search(asks) => search::run(&errand, asks).await,
        }
    };
    let done = tokio::select! {
        biased;
        done = tokio::time::timeout(time, work) => done.unwrap_or_else(|_| Err(late().into())),
        stop = given_up(case, wires, "the request was given up") => Err(Ended::Stop(stop)),
    };
    let raw = match done {
        Ok(result) => Raw::Result(case.request.caller.counted(result).into()),
        Err(Ended::Stop(stop)) => Raw::Stopped(stop),
        Err(Ended::Said(said)) => Raw::Result(case.request.caller.counted(said.result()).into()),
    };
    Ok(Carried {
        raw,
        label: Label::of(STRANGERS, ServerId::built_in()),
    })
}

/// What everything carries that comes from the web.
const STRANGERS: Mark = Mark {
    secrecy: Level::Public,
    integrity: Integrity::Untrusted,
};

/// One call under way.
struct Errand<'a> {
    case: Case<'a>,
    order: &'a Order,
    decide: Decide,
    terms: &'a WebTerms,
    deadline: Instant,
}

/// Why there is no result.
#[derive(Debug)]
enum Ended {
    /// A rule of the gate, or something of ours.
    Stop(Stop),
    /// Something that an agent can act on.
    Said(told::Trouble),
}

impl From<Violation> for Ended {
    fn from(violation: Violation) -> Self {
        Self::Stop(violation.into())
    }
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Stop(fault.into())
    }
}

fn late() -> Fault {
    Fault::new(FaultKind::Timeout, "the request took longer than it may")
}

/// The most polite way to ask for an address.
struct Request<'a> {
    address: &'a WebAddress,
    headers: Vec<(&'static str, String)>,
    form: Option<String>,
    /// Wherever the host is.
    is_own: bool,
}

impl Errand<'_> {
    /// The parameters of the call as it was judged, with another address where one is said.
    fn params(&self, address: Option<&str>) -> Vec<u8> {
        let judged = self.order.judged();
        let arguments = Json::checked_before(if judged.is_empty() { b"{}" } else { judged });
        let drop: &[&str] = if address.is_some() {
            &["url", BESIDE]
        } else {
            &[BESIDE]
        };
        let arguments = replace_fields(arguments, drop, |out| {
            if let Some(address) = address {
                out.str("url", address);
            }
        });
        let params = Json::checked_before(&self.case.request.params);
        replace_fields(params, &["arguments"], |out| {
            out.raw("arguments", &arguments);
        })
    }

    /// Asks one address, which was judged.
    async fn open(&self, request: Request<'_>) -> Result<Fetched, Ended> {
        const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];
        let (host, port) = (request.address.host(), request.address.port());
        let everywhere = EVERYWHERE.map(str::to_owned);
        let also = match (request.is_own, self.terms.opened(host, port)) {
            (true, _) => &everywhere[..],
            (false, Some(also)) => also,
            (false, None) => return Err(closed(host, port).into()),
        };
        let web = &self.case.gate.web;
        let asked = web.manners.ask(host, self.terms.per_minute, Instant::now());
        let places = asked.map_err(|wait| too_often(host, wait))?;
        let _place = manners::place(places).await;
        let time = self.deadline.saturating_duration_since(Instant::now());
        let mut headers = request.headers;
        let version = self.case.now.terms.door.version;
        headers.push(("user-agent", format!("Portcullis/{version}")));
        let asked = Asked {
            url: request.address.as_str(),
            headers,
            form: request.form,
            also,
            max_bytes: self.terms.max_bytes,
            time,
        };
        let fetched = web.programs.open(&asked).await.map_err(|none| match none {
            NoAnswer::Inside(why) => inside(host, why).into(),
            NoAnswer::Late(why) => Fault::new(FaultKind::Timeout, why).into(),
            NoAnswer::Worker(why) => Fault::new(FaultKind::Worker, why).into(),
            NoAnswer::TooLarge(why) => Ended::Said(told::too_large(request.address, &why)),
            NoAnswer::Unreachable(why) => Ended::Said(told::unreachable(&why)),
        })?;
        if fetched.status == 429 {
            let said = fetched
                .retry_after
                .as_deref()
                .and_then(|text| text.trim().parse().ok());
            let wait = said.map_or(COME_BACK, Duration::from_secs);
            web.manners.sent_away(host, wait, Instant::now());
            return Err(too_often(host, wait).into());
        }
        Ok(fetched)
    }
}

fn too_often(host: &str, wait: Duration) -> Violation {
    let hint = format!(
        "`{host}` can be asked again in {} seconds",
        wait.as_secs().max(1)
    );
    let detail = format!("requests to `{host}` from this gate; {hint}");
    Violation::new(Rule::RateLimitExceeded, detail)
        .with_hint(hint)
        .with_retry_after(wait)
}

fn closed(host: &str, port: u16) -> Violation {
    let hint = format!("only ports 80 and 443 are asked, and this is `{host}:{port}`");
    let detail = format!("{hint}; `{host}:{port}` among `web.allow_hosts` would be allowed");
    Violation::new(Rule::DomainNotAllowed, detail).with_hint(hint)
}

fn inside(host: &str, why: String) -> Violation {
    let detail = format!(
        "{why}; `{host}` among `web.allow_hosts` and its addresses in `web.allow_networks` would be allowed"
    );
    Violation::new(Rule::DomainNotAllowed, detail)
        .with_hint(format!("`{host}` is not an address of the open web"))
}

fn invalid(says: impl Into<String>) -> Violation {
    let says = says.into();
    Violation::new(Rule::InvalidArguments, says.clone()).with_hint(says)
}
